// SPDX-License-Identifier: Apache-2.0
// Programs that leave their job by shutdown() and join another one by initialize().

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lockstep/coordination/server/server.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/lockstep.h"
#include "lockstep/runtime/preemption.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep {
namespace {

using test::job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ProcessResult;
using testing::run_processes;
using testing::say;

/// The sum of the processes' numbers plus 1, once for each of their devices.
float sum_of_numbers() {
  return pmap([](Array x) { return psum(x, "i"); })(
             full({local_device_count()}, static_cast<float>(process_index() + 1)))
      .to_host<float>()[0];
}

/// What the call throws; empty if it throws nothing.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_all_is_left(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
    EXPECT_THAT(result.log, HasSubstr("all is left"));
  }
}

/// A job whose coordinator is at this address, or which process 0 holds there.
InitializeOptions at(const std::string& address, int process_id, int num_processes) {
  return {.coordinator_address = address, .num_processes = num_processes, .process_id = process_id};
}

std::string free_address() {
  coordination::CoordinationServer probe;  // a port that the kernel picks, let go again
  probe.start({.num_processes = 1});
  std::string address = "127.0.0.1:" + std::to_string(probe.port());
  probe.stop();
  return address;
}

LOCKSTEP_CHILD(takes_turns) {
  const std::string address = testing::child_arguments().at(0);
  const int number = testing::child_index();
  const auto constant = jit([] { return arange(4) * 2.0F; });
  const auto twice = jit([](Array x) { return x * 2.0F + 1.0F; });
  for (int round = 0; round < 4; ++round) {
    // The order of the processes changes, and in the third round only one is there.
    if (round == 2 && number == 1) continue;
    const int id = round == 2 ? 0 : (number + round) % 2, count = round == 2 ? 1 : 2;
    initialize(at(count == 1 ? "" : address, id, count));
    EXPECT_EQ(process_index(), id);
    EXPECT_EQ(process_count(), count);
    EXPECT_EQ(device_count(), 2 * count);
    EXPECT_EQ(sum_of_numbers(), count == 1 ? 2 : 6);
    EXPECT_EQ(constant().to_host<float>(), (std::vector<float>{0, 2, 4, 6}));
    EXPECT_EQ(twice(full({2}, 1.0F * static_cast<float>(round))).to_host<float>()[1], 2 * round + 1);
    const Mesh mesh(devices(), {device_count()}, {"data"});
    const Array spread = device_put(arange(8), NamedSharding(mesh, P("data")));
    EXPECT_EQ(multihost::process_allgather(spread).to_host<std::int32_t>()[7], 7);
    checkpoint::save(testing::child_arguments().at(1) + "/" + std::to_string(round), spread);
    shutdown();
    EXPECT_FALSE(is_initialized());
  }
  say("all is left");
}

TEST(InitializeAgain, ProcessesThatTakeOtherPlaces_ComputeTogetherInEachJob) {
  const testing::TemporaryFolder folder;
  expect_all_is_left(run_processes({.count = 2,
                                    .child = "takes_turns",
                                    .arguments = {free_address(), folder.path()},
                                    .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}}}));
}

LOCKSTEP_CHILD(keeps_what_it_made) {
  initialize();
  const Mesh mesh(devices(), {2}, {"data"});
  const NamedSharding sharding(mesh, P("data"));
  const Array kept = arange(4), spread = device_put(arange(4), sharding);
  const auto f = jit([](Array x) { return x + 1; });
  const auto captures = jit([kept](Array x) { return x + kept; });
  captures(kept);
  const auto compiled = jit([] { return arange(4) + 1; }).lower().compile();
  checkpoint::Checkpointer checkpointer("run");
  EXPECT_EQ((kept + 3).to_host<std::int32_t>()[1], 4);
  shutdown();
  EXPECT_EQ(kept.to_host<std::int32_t>()[3], 3) << "arrays can be read after shutdown()";
  initialize();
  constexpr const char* kOfBefore = "of a job that this process has left by shutdown()";
  EXPECT_THAT(error_of([&] { kept.to_host<std::int32_t>(); }),
              AllOf(HasSubstr(kOfBefore), HasSubstr("join_again_test.cc")));
  EXPECT_THAT(error_of([&] { f(kept); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { kept + 1; }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { spread.addressable_shards(); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { spread.block_until_ready(); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { device_put(kept, NamedSharding(Mesh(devices(), {2}, {"data"}), P())); }),
              HasSubstr(kOfBefore));
  const Array fresh = arange(4);
  EXPECT_THAT(error_of([&] { device_put(fresh, sharding); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { make_array_from_process_local_data(sharding, std::vector<float>(4), {4}); }),
              HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { captures(fresh); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { compiled(); }), HasSubstr(kOfBefore));
  EXPECT_THAT(error_of([&] { checkpointer.save(1, fresh), checkpointer.wait(); }), HasSubstr(kOfBefore));
  EXPECT_EQ((fresh + 3).to_host<std::int32_t>()[1], 4) << "the number 3 is an array of this job";
  EXPECT_EQ(f(fresh).to_host<std::int32_t>()[3], 4);
  Array number = 2.5F;
  EXPECT_EQ((number * 2.0F).to_host<float>()[0], 5);
  say("all is left");
}

TEST(InitializeAgain, ArraysMeshesAndComputationsOfTheJobBefore_AreRefused) {
  expect_all_is_left(
      run_processes({.child = "keeps_what_it_made", .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}}}));
}

LOCKSTEP_CHILD(wants_other_devices) {
  for (const int devices : {1, 3, 2, 2}) {
    initialize({.num_cpu_devices = devices});
    EXPECT_EQ(device_count(), devices);
    EXPECT_EQ(sum_of_numbers(), devices);
    shutdown();
  }
  say("all is left");
}

TEST(InitializeAgain, WithAnotherNumberOfDevices_HasThem) {
  expect_all_is_left(run_processes({.child = "wants_other_devices"}));
}

LOCKSTEP_CHILD(joins_three_times) {
  for (int round = 0; round < 3; ++round) {
    initialize();
    EXPECT_EQ(process_count(), 2);
    EXPECT_EQ(sum_of_numbers(), 3);
    shutdown();
  }
  say("all is left");
}

TEST(InitializeAgain, AtALaunchersCoordinator_BeginsTheJobAnew) {
  expect_all_is_left(run_processes(job("joins_three_times", 2, 1)));
}

/// Threads, open descriptors and memory mappings of this process.
std::array<std::ptrdiff_t, 3> held() {
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  std::ifstream maps("/proc/self/maps");
  return {entries("/proc/self/task"), entries("/proc/self/fd"),
          std::count(std::istreambuf_iterator<char>(maps), {}, '\n')};
}

LOCKSTEP_CHILD(joins_many_times) {
  std::array<std::ptrdiff_t, 3> before = {};
  for (int round = 0; round < 24; ++round) {
    initialize(at(testing::child_arguments().at(0), testing::child_index(), 2));
    EXPECT_EQ(sum_of_numbers(), 3);
    shutdown();
    if (round == 8) before = held();
  }
  const auto after = held();
  EXPECT_LE(after[0], before[0] + 2) << "threads";
  EXPECT_LE(after[1], before[1] + 2) << "descriptors";
  EXPECT_LE(after[2], before[2] + 15) << "mappings";
  say("all is left");
}

TEST(InitializeAgain, ManyTimes_KeepsNoThreadsDescriptorsAndMappings) {
  expect_all_is_left(run_processes({.count = 2, .child = "joins_many_times", .arguments = {free_address()}}));
}

LOCKSTEP_CHILD(is_told_to_stop) {
  initialize();
  for (int step = 0; step < 3; ++step) EXPECT_FALSE(preemption_point(step));
  shutdown();
  initialize();
  EXPECT_FALSE(preemption_point(0));
  if (process_index() == 1) raise(SIGTERM);
  std::int64_t step = 1;
  while (!preemption_point(step)) ++step;
  EXPECT_EQ(sum_of_numbers(), 3);
  say("all is left");
}

TEST(InitializeAgain, ASignalInTheSecondJob_StopsAllAtTheSameStep) {
  expect_all_is_left(run_processes(job("is_told_to_stop", 2, 1)));
}

LOCKSTEP_CHILD(cannot_join) {
  initialize();
  const Array kept = arange(4);
  shutdown();
  InitializeOptions absent = at(free_address(), 1, 2);
  absent.initialization_timeout = std::chrono::seconds(1);
  const std::string refused = error_of([&] { initialize(absent); });
  EXPECT_THAT(refused, HasSubstr("cannot join the job"));
  EXPECT_THAT(error_of([] { arange(4) + 1; }), HasSubstr("cannot join the job"));
  EXPECT_EQ(kept.to_host<std::int32_t>()[3], 3);
  EXPECT_FALSE(is_initialized());
  initialize();
  EXPECT_EQ(sum_of_numbers(), 1);
  say("all is left");
}

TEST(InitializeAgain, AfterACallThatFailed_Succeeds) {
  expect_all_is_left(run_processes({.child = "cannot_join"}));
}

LOCKSTEP_CHILD(loses_a_peer) {
  initialize();
  if (process_index() == 1) {
    sum_of_numbers();
    std::_Exit(5);
  }
  EXPECT_THROW(while (true) sum_of_numbers(), PeerFailure);
  EXPECT_THROW(shutdown(), PeerFailure);
  EXPECT_THAT(error_of([] { initialize(); }),
              AllOf(HasSubstr("after shutdown(), but the job has failed (process 1"),
                    HasSubstr("start another process")));
  say("all is left");
}

TEST(InitializeAgain, AfterAFailureOfTheJob_IsAnErrorThatNamesItsCause) {
  const auto results = run_processes(job("loses_a_peer", 2, 1));
  EXPECT_THAT(results[0].log, HasSubstr("all is left"));
  EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
}

}  // namespace
}  // namespace lockstep
