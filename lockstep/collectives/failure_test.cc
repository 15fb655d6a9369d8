// SPDX-License-Identifier: Apache-2.0
// Tests of what other processes see when one dies, leaves, stops or diverges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/collectives/segment.h"
#include "lockstep/collectives/stall.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/processes.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::ProcessesOptions;

std::vector<int> all_devices(World& world) {
  std::vector<int> devices(world.options().device_process.size());
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i] = static_cast<int>(i);
  return devices;
}

void run(Communicator& communicator, int rank, const Call& call) {
  std::vector<float> data(call.input_bytes / sizeof(float), 1.0f);
  communicator.run(call, rank, data.data(), data.data());
  for (float x : data) ASSERT_EQ(x, static_cast<float>(communicator.size()));
}

TEST(Divergence, BetweenThreads_IsAnErrorOnBothThatShowsBothCalls) {
  auto world = local_world(2);
  std::mutex mutex;
  std::vector<std::string> messages;
  for_each_local_device(*world, [&](int device) {
    Communicator& communicator = world->communicator({0, 1});
    run(communicator, device, sum_call(4, 2));
    const Call call = device == 0 ? sum_call(4, 2, "f", 3, 10) : sum_call(8, 2, "f", 3, 12);
    const auto message = message_of<DivergenceError>([&] { run(communicator, device, call); });
    const auto again = message_of<DivergenceError>([&] { run(communicator, device, sum_call(4, 2)); });
    EXPECT_EQ(message, again);
    std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_THAT(
      messages[0],
      HasSubstr(
          "device 0 of process 0 of 1 is in psum f32[4] over i at train.cc:10 (program f, call 3) but device "
          "1 of process 0 of 1 in psum f32[8] over i at train.cc:12 (program f, call 3)"));
}

TEST(Divergence, TwoThreadsThatDriveOneDevice_AreAnErrorOfBothAndOfThePeers) {
  auto world = local_world(3);
  Communicator& communicator = world->communicator({0, 1, 2});
  std::mutex mutex;
  std::vector<std::string> messages;
  auto drive = [&](int device, const Call& call) {
    const std::string message = message_of<Error>([&] { run(communicator, device, call); });
    std::lock_guard lock(mutex);
    messages.push_back(message);
  };
  std::thread other([&] { drive(1, sum_call(4, 3)); }), first([&] { drive(0, sum_call(4, 3)); });
  drive(0, sum_call(4, 3));
  first.join();
  other.join();
  ASSERT_EQ(messages.size(), 3u);
  for (const std::string& message : messages)
    EXPECT_THAT(message, HasSubstr("the device is in another collective of this group at the same time"));
}

LOCKSTEP_CHILD(diverges) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  const int n = communicator.size(), process = world.process();
  for (int i = 0; i < 3; ++i) run(communicator, process, sum_call(100'000, n));
  const std::string how = testing::child_arguments().at(0);
  // The last process does something else than the others.
  const bool other = process == n - 1;
  Call call = sum_call(5, n);
  if (other && how == "count") call = sum_call(6, n);
  if (other && how == "size") call = sum_call(1'000'000, n, "f", 3, 99);
  if (other && how == "program") call = sum_call(5, n, "g", 0, 20);
  if (other && how == "kind") {
    Collective c;
    c.description = "all_gather f32[5] over i";
    c.kind = Kind::kAllGather;
    c.count = 5;
    call = make_call(c, n, 1, "f", 3);
  }
  if (other && how == "fingerprint") {
    Collective c = call.collective;
    call = make_call(c, n, fingerprint("another"), "f", 3);
  }
  std::vector<float> out(call.output_bytes / 4), in(call.input_bytes / 4);
  testing::say("said: " +
               message_of<DivergenceError>([&] { communicator.run(call, process, in.data(), out.data()); }));
}

TEST(Divergence, BetweenProcesses_IsAnErrorOnAllThatShowsBothCalls) {
  const std::string usual = "psum f32[5] over i at train.cc:10 (program f, call 3)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"count", "psum f32[6] over i at train.cc:10 (program f, call 3)"},
      {"size", "psum f32[1000000] over i at train.cc:99 (program f, call 3)"},
      {"program", "psum f32[5] over i at train.cc:20 (program g, call 0)"},
      {"kind", "all_gather f32[5] over i (program f, call 3)"},
      {"fingerprint", usual + " of a program that differs elsewhere"}};
  for (const auto& [how, other] : cases) {
    const int count = how == "count" || how == "size" ? 4 : 2;
    const auto results = testing::run_processes({.count = count, .child = "diverges", .arguments = {how}});
    for (const auto& result : results) {
      EXPECT_THAT(result.log, HasSubstr("said: process 0 of " + std::to_string(count) + " is in " + usual +
                                        " but process " + std::to_string(count - 1) + " of " +
                                        std::to_string(count) + " in " + other));
    }
  }
}

LOCKSTEP_CHILD(meets_the_others_in_different_groups) {
  ChildWorld world;
  const int n = world->options().process_count, process = world.process();
  if (testing::child_arguments().at(0) == "after all have met") {
    run(world->communicator(all_devices(*world)), process, sum_call(4, n));
    for (int i = 0; i < n; ++i) {
      const std::vector<int> pair = {i, (i + 1) % n};
      if (pair[0] == process || pair[1] == process)
        run(world->communicator(pair), pair[1] == process, sum_call(4, 2));
    }
  }
  const Call call = sum_call(4, 2, "f", process, 10 + process);
  testing::say("said: " + message_of<DivergenceError>([&] {
                 std::vector<int> pair = {process, (process + 1) % n};
                 if (testing::child_arguments().at(0) == "as guests") std::swap(pair[0], pair[1]);
                 Communicator& communicator = world->communicator(pair, call.text);
                 run(communicator, communicator.rank_of(process), call);
               }));
}

TEST(Divergence, BetweenGroups_IsAnErrorOnAllThatWait) {
  for (const char* when : {"at once", "as guests", "after all have met"}) {
    for (int count : {2, 3}) {
      // Two processes list the same devices in different orders, which is said as such where both are new.
      const bool other_order = count == 2 && when != std::string("after all have met");
      const std::string of = " of " + std::to_string(count),
                        last = "process " + std::to_string(count - 1) + of;
      const auto results = testing::run_processes(
          {.count = count, .child = "meets_the_others_in_different_groups", .arguments = {when}});
      for (const auto& result : results) {
        EXPECT_THAT(result.log,
                    HasSubstr("said: process 0" + of + (other_order ? " is" : " waits for process 1" + of) +
                              " in psum f32[4] over i at train.cc:10 (program f, call 0)"));
        EXPECT_THAT(result.log, HasSubstr(" but " + last + (other_order ? "" : " waits for process 0" + of) +
                                          " in psum f32[4]"));
      }
    }
  }
}

LOCKSTEP_CHILD(meets_a_group_that_waits_for_a_slow_one) {
  ChildWorld world;
  const int process = world.process();
  if (process == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  if (process != 0) run(world->communicator({1, 2}), process - 1, sum_call(4, 2));
  if (process != 2) run(world->communicator({0, 1}), process, sum_call(4, 2));
}

TEST(Divergence, ASlowProcess_IsNoDivergence) {
  for (const auto& result :
       testing::run_processes({.count = 3, .child = "meets_a_group_that_waits_for_a_slow_one"})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

TEST(FindRing, FindsProcessesThatWaitForEachOther) {
  const Wait a{0, 1, {}, 1, "A", "x", {1, 2}}, b{1, 1, {}, 1, "B", "y", {3}}, c{2, 5, {}, 1, "C", "z", {0}};
  EXPECT_EQ(find_ring({a, b, c}, 2), (std::vector<Wait>{a, c}));
  EXPECT_EQ(find_ring({a, b, c}, 0), (std::vector<Wait>{a, c}));
  EXPECT_TRUE(find_ring({a, b, c}, 1).empty());
  EXPECT_TRUE(find_ring({a, b}, 0).empty());
  EXPECT_TRUE(find_ring({a, b, c, Wait{2, 6, {}, 1, "C", "w", {3}}}, 0).empty()) << "C has two threads";
  EXPECT_EQ(describe_ring({a, c}).find("A waits for C in x but C waits for A in z: "), 0u);
  Wait d{0, 1, {7, 100, 3}, 1, "A", "x", {2}}, e{2, 5, {7, 100, 3}, 1, "C", "x", {0}};
  EXPECT_TRUE(find_ring({d, e}, 0).empty()) << "both have come to operation 7";
  e.operation = {8, 100, 3};
  e.begun = {{100, 3}};
  EXPECT_EQ(find_ring({d, e}, 0), (std::vector<Wait>{d, e})) << "at the same place, with another call";
  e.operation = {8, 200, 5};
  e.begun = {{100, 2}, {200, 5}};
  EXPECT_EQ(find_ring({d, e}, 0), (std::vector<Wait>{d, e})) << "in another group, and has not come to 7";
  const Wait f{1, 2, {7, 100, 3}, 1, "B", "x", {0}};
  e.missing = {1};
  EXPECT_EQ(find_ring({d, e, f}, 0), (std::vector<Wait>{d, e, f})) << "C waits for B, which is in 7 with A";
  EXPECT_TRUE(find_ring({d, f}, 0).empty()) << "C, which both need, has not said for whom it waits";
  const Wait g{0, 1, {7, 100, 3}, 1, "A", "x", {3}};
  EXPECT_TRUE(find_ring({g, e, f}, 0).empty()) << "nobody has said that C is in 7";
  EXPECT_EQ(find_ring({g, e, f}, 0, {{0, 0}, {1, 1}, {2, 2}, {3, 2}}), (std::vector<Wait>{g, e, f}))
      << "C is a member of 7, and has not come there";
  const auto decoded = decode(encode({a, b}));
  EXPECT_EQ(decoded, (std::vector<Wait>{a, b}));
  EXPECT_EQ(decoded.at(0).missing, a.missing);
  EXPECT_EQ(decoded.at(1).text, "y");
  EXPECT_EQ(decode(encode({e})).at(0).operation.number, 8u);
  EXPECT_EQ(decode(encode({e})).at(0).operation.group, 200u);
  EXPECT_EQ(decode(encode({e})).at(0).operation.count, 5u);
  EXPECT_EQ(decode(encode({e})).at(0).begun, e.begun);
  EXPECT_EQ(decode(encode({e})).at(0).looks, 1u);
  EXPECT_TRUE(decode("nonsense").empty());
}

/// C has sent all that A waits for: the network has yet to bring it.
TEST(FindRing, LeavesOutProcessesThatHaveGoneOn) {
  const Wait a{0, 1, {7, 100, 3}, 1, "A", "x", {2}};
  Wait c{2, 5, {9, 100, 4}, 1, "C", "x", {0}, {{100, 4}}};
  EXPECT_TRUE(find_ring({a, c}, 0).empty()) << "to the next operation of the group";
  EXPECT_TRUE(find_ring({a, c}, 2).empty());
  c.operation = {9, 200, 1};
  c.begun = {{100, 3}, {200, 1}};
  EXPECT_TRUE(find_ring({a, c}, 0).empty()) << "to another group";
  c.operation = {};
  EXPECT_TRUE(find_ring({a, c}, 0).empty()) << "to set up a communicator";
}

LOCKSTEP_CHILD(sums_until_an_error) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  const Call call = sum_call(std::stoi(testing::child_arguments().at(0)), communicator.size());
  const bool in_arena = testing::child_arguments().at(1) == "in arenas";
  testing::say("summing");
  testing::say("said: " + message_of<PeerFailure>([&] {
                 for (;;) {
                   if (!in_arena) {
                     run(communicator, world.process(), call);
                     continue;
                   }
                   auto* data = static_cast<float*>(test_arena()->allocate(call.input_bytes));
                   std::fill_n(data, call.input_bytes / sizeof(float), 1.0f);
                   communicator.run(call, world.process(), data, data);
                   EXPECT_EQ(data[7], static_cast<float>(communicator.size()));
                   test_arena()->free(data);
                 }
               }));
}

/// The memory that this process shares with the others of its one communicator, as segment.h lays it out.
std::byte* shared_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:lockstep ") != line.npos)
      return reinterpret_cast<std::byte*>(std::stoull(line.substr(0, line.find('-')), nullptr, 16));
  }
  throw Error("no shared memory is mapped");
}

LOCKSTEP_CHILD(dies_between_its_word_and_the_wake_up) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  const Call call = sum_call(10, communicator.size());
  for (int i = 0; i < 10; ++i) run(communicator, world.process(), call);
  if (world.process() == 3) {
    constexpr std::size_t kPage = 4096, kWords = (sizeof(MemberWords) + kPage - 1) / kPage * kPage;
    auto& words = *reinterpret_cast<MemberWords*>(shared_memory() + kPage + 3 * kWords);
    const std::uint32_t number =
        std::max(words.posts[0].operation.load(), words.posts[1].operation.load()) + 1;
    ASSERT_EQ(number, 11u);
    words.posts[number % 2].signature = call.signature;
    words.posts[number % 2].operation = number;
    ::kill(::getpid(), SIGKILL);
  }
  testing::say("said: " + message_of<PeerFailure>([&] {
                 for (;;) run(communicator, world.process(), call);
               }));
}

TEST(KilledProcess, KilledBeforeItWakesTheOthers_IsNamed) {
  testing::Processes processes(
      {.count = 4, .child = "dies_between_its_word_and_the_wake_up", .deadline = std::chrono::seconds(20)});
  for (int i = 0; i < 3; ++i) {
    processes.wait_for_line(i, "said: ");
    EXPECT_THAT(processes.log(i), HasSubstr("said: process 3 of 4 (pid "));
  }
}

void expect_that_the_survivors_name_the_killed(int count, int elements,
                                               const std::string& where = "anywhere") {
  testing::Processes processes(
      {.count = count, .child = "sums_until_an_error", .arguments = {std::to_string(elements), where}});
  for (int i = 0; i < count; ++i) processes.wait_for_line(i, "summing");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // To be in the middle of it.
  const int victim = count - 1;
  const pid_t pid = processes.pid(victim);
  const auto killed_at = steady_clock::now();
  processes.kill(victim, SIGKILL);
  for (int i = 0; i < victim; ++i) processes.wait_for_line(i, "said: ");
  EXPECT_LT(steady_clock::now() - killed_at, std::chrono::seconds(10))
      << "it takes some milliseconds on a quiet machine";
  for (int i = 0; i < victim; ++i) {
    EXPECT_THAT(
        processes.log(i),
        HasSubstr("said: process " + std::to_string(victim) + " of " + std::to_string(count) + " (pid " +
                  std::to_string(pid) + ") died while process " + std::to_string(i) +
                  " waited for it in psum f32[" + std::to_string(elements) + "] over i at train.cc:10"));
  }
}

TEST(KilledProcess, IsNamedByTheOtherOfTwo) { expect_that_the_survivors_name_the_killed(2, 10); }
TEST(KilledProcess, IsNamedByTheOtherOfTwoInLargeSums) {
  expect_that_the_survivors_name_the_killed(2, 3'000'000);
}
TEST(KilledProcess, IsNamedByTheOtherOfTwo_InSumsReadWhereTheyAre) {
  expect_that_the_survivors_name_the_killed(2, 3'000'000, "in arenas");
}
TEST(KilledProcess, IsNamedByAllThreeOthers_InSumsReadWhereTheyAre) {
  for (int round = 0; round < 3; ++round)
    expect_that_the_survivors_name_the_killed(4, 3'000'000, "in arenas");
}
TEST(KilledProcess, IsNamedByAllThreeOthers) { expect_that_the_survivors_name_the_killed(4, 10); }
TEST(KilledProcess, IsNamedByAllThreeOthersInLargeSums) {
  expect_that_the_survivors_name_the_killed(4, 3'000'000);
}

LOCKSTEP_CHILD(waits_for_one_that_dies_early) {
  ChildWorld world;
  if (world.process() == 1) raise(SIGKILL);
  testing::say("said: " + message_of<PeerFailure>([&] {
                 run(world->communicator({0, 1}), 0,
                     sum_call(10, 2));  // It may die before or after the first is there.
               }));
}

TEST(KilledProcess, KilledBeforeItsFirstCollective_IsNamed) {
  testing::Processes processes({.count = 2, .child = "waits_for_one_that_dies_early"});
  EXPECT_THAT(processes.wait(0).log,
              ContainsRegex("said: process 1 of 2.* died while process 0 (set up|waited)"));
}

LOCKSTEP_CHILD(may_be_in_a_network_of_its_own) {
  ChildWorld world(1, [](int process) {
    if (process == 1 && unshare(CLONE_NEWNET) != 0) testing::say("not permitted");
  });
  testing::say("said: " + message_of<Error>([&] { world->communicator({0, 1}); }));
}

TEST(ProcessOnAnotherHost, IsAnErrorThatNamesBoth) {
  const auto results = testing::run_processes({.count = 2, .child = "may_be_in_a_network_of_its_own"});
  if (results[1].log.find("not permitted") != std::string::npos)
    GTEST_SKIP() << "needs the right to unshare networks";
  for (const auto& result : results) {
    EXPECT_THAT(result.log,
                ContainsRegex("said: process . of 2 \\(host .*\\) and process . of 2 \\(host .*\\) were "
                              "expected to share memory, but they run on different hosts"));
  }
}

LOCKSTEP_CHILD(sums_many_times) {
#ifdef __SANITIZE_THREAD__
  constexpr int kTimes = 200;
#else
  constexpr int kTimes = 1000;
#endif
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  for (int i = 0; i < kTimes; ++i) {
    run(communicator, world.process(), sum_call(i % 2 == 0 ? 10 : 50'000, communicator.size()));
    if (i == 10) testing::say("summing");
  }
}

TEST(StoppedProcess, IsWaitedForAndGoesOn) {
  testing::Processes processes({.count = 3, .child = "sums_many_times"});
  processes.wait_for_line(1, "summing");
  processes.kill(1, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  processes.kill(1, SIGCONT);
  for (const auto& result : processes.wait()) EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(leaves_early) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  const Call call = sum_call(10, communicator.size());
  run(communicator, world.process(), call);
  if (world.process() == 1) {
    world->leave();
    testing::say("left");
    std::this_thread::sleep_for(std::chrono::seconds(3));  // It need not end to have left.
    return;
  }
  testing::say("said: " + message_of<PeerFailure>([&] { run(communicator, world.process(), call); }));
}

TEST(ProcessThatLeaves, IsNamedByThoseWhoWaitForIt) {
  const auto results = testing::run_processes({.count = 3, .child = "leaves_early"});
  for (int i : {0, 2}) {
    EXPECT_THAT(results[i].log,
                AllOf(HasSubstr("said: process 1 of 3 (pid "), HasSubstr(") has left the job while process "),
                      HasSubstr("psum f32[10] over i at train.cc:10")));
    EXPECT_LT(results[i].ended_after, results[1].ended_after);
  }
}

LOCKSTEP_CHILD(ends_after_its_last_sum) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  for (int i = 0; i < 20; ++i) run(communicator, world.process(), sum_call(200'000, communicator.size()));
}

TEST(ProcessThatLeaves, AfterItsLastCollective_DisturbsNobody) {
  for (int round = 0; round < 5; ++round) {
    for (const auto& result : testing::run_processes({.count = 4, .child = "ends_after_its_last_sum"})) {
      EXPECT_EQ(result.exit_code, 0) << result.log;
    }
  }
}

TEST(Abort, IsThrownByTheWaitingAndByLaterCalls) {
  auto world = local_world(2);
  Communicator& communicator = world->communicator({0, 1});
  std::string message;
  std::thread waiter(
      [&] { message = message_of<PeerFailure>([&] { run(communicator, 0, sum_call(10, 2)); }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  world->abort(std::make_exception_ptr(PeerFailure("process 3 was killed by signal 9")));
  world->abort(std::make_exception_ptr(Error("a later cause")));
  waiter.join();
  EXPECT_EQ(message, "process 3 was killed by signal 9");
  EXPECT_EQ(message_of<PeerFailure>([&] { run(communicator, 1, sum_call(10, 2)); }), message);
  EXPECT_EQ(message_of<PeerFailure>([&] { run(world->communicator({0}), 0, sum_call(10, 1)); }), message);
}

LOCKSTEP_CHILD(is_told_how_the_peer_died) {
  ChildWorld world;
  Communicator& communicator = world->communicator({0, 1});
  run(communicator, world.process(), sum_call(10, 2));
  if (world.process() == 1) raise(SIGKILL);
  std::jthread teller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    world->abort(std::make_exception_ptr(PeerFailure("told by the coordinator")));
  });
  testing::say("said: " + message_of<PeerFailure>([&] { run(communicator, 0, sum_call(10, 2)); }));
}

TEST(Abort, AfterADeathWasSeen_ItsMessageIsTheOneThrown) {
  const auto results = testing::run_processes({.count = 2, .child = "is_told_how_the_peer_died"});
  EXPECT_THAT(results[0].log, HasSubstr("said: told by the coordinator"));
}

/// The children's job as it is on as many hosts.
ProcessesOptions on_hosts(int hosts, int count, const char* child, std::vector<std::string> arguments) {
  return {.count = count,
          .child = child,
          .arguments = std::move(arguments),
          .env = {{kHostsVariable, std::to_string(hosts)}}};
}

TEST(OverHosts, Divergence_IsAnErrorOnAllThatShowsBothCalls) {
  for (const char* how : {"count", "size", "program"}) {
    for (int count : {2, 4}) {
      const std::string of = " of " + std::to_string(count), last = std::to_string(count - 1);
      // In a group of two hosts with two processes each, the two that differ are on one of them.
      const std::string first = count == 2 ? "0" : "2";
      for (const auto& result : testing::run_processes(on_hosts(2, count, "diverges", {how}))) {
        EXPECT_THAT(result.log, HasSubstr("process " + first + of +
                                          " is in psum f32[5] over i at train.cc:10 (program f, call 3)"));
        EXPECT_THAT(result.log, HasSubstr(" but process " + last + of + " in psum f32["));
      }
    }
  }
}

TEST(OverHosts, DivergenceBetweenGroups_IsAnErrorOnAllThatWait) {
  for (const char* when : {"at once", "after all have met"}) {
    for (int count : {2, 3}) {
      for (const auto& result :
           testing::run_processes(on_hosts(count, count, "meets_the_others_in_different_groups", {when}))) {
        const bool other_order = count == 2 && when == std::string("at once");
        EXPECT_THAT(result.log,
                    HasSubstr("said: process 0 of " + std::to_string(count) +
                              (other_order ? " is" : " waits for process 1 of " + std::to_string(count)) +
                              " in psum f32[4] over i at train.cc:10 (program f, call 0)"));
      }
    }
  }
}

LOCKSTEP_CHILD(sums_on_after_the_first) {
  ChildWorld world;
  Communicator& communicator = world->communicator(all_devices(*world));
  const Call call = sum_call(std::stoi(testing::child_arguments().at(0)), communicator.size());
  for (int i = 0; i < 3; ++i) run(communicator, world.process(), call);
  testing::say("summing");
  testing::say("said: " + message_of<PeerFailure>([&] {
                 for (;;) run(communicator, world.process(), call);
               }));
}

class OverEachNetwork : public ::testing::TestWithParam<const char*> {};

TEST_P(OverEachNetwork, KilledProcessIsNamedByAll) {
  for (int victim : {2, 3}) {  // The first process of its host, and one that only the first talks to.
    for (const char* elements : {"10", "3000000"}) {
      ProcessesOptions options = on_hosts(2, 4, "sums_on_after_the_first", {elements});
      options.env[kNetworkVariable] = GetParam();
      testing::Processes processes(std::move(options));
      for (int i = 0; i < 4; ++i) processes.wait_for_line(i, "summing");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::string pid = std::to_string(processes.pid(victim));
      processes.kill(victim, SIGKILL);
      for (int i = 0; i < 4; ++i) {
        if (i == victim) continue;
        processes.wait_for_line(i, "said: ");
        processes.wait(i);
        EXPECT_THAT(processes.log(i),
                    ContainsRegex("said: process " + std::to_string(victim) + " of 4 .*pid " + pid +
                                  "\\) died while process . waited for it in psum"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, OverEachNetwork, ::testing::Values("tcp", "tcp:4", "tls", "ucx"),
                         [](const auto& info) {
                           std::string name = info.param;
                           name[0] = static_cast<char>(std::toupper(name[0]));
                           return name == "Tcp:4" ? "TcpBy4" : name;
                         });

TEST(OverHosts, AProcessThatLeaves_IsNamedByThoseWhoWaitForIt) {
  const auto results = testing::run_processes(on_hosts(3, 3, "leaves_early", {}));
  for (int i : {0, 2}) EXPECT_THAT(results[i].log, ContainsRegex("said: process 1 of 3 .*has left the job"));
}

TEST(OverHosts, AProcessThatEndsAfterItsLastCollective_DisturbsNobody) {
  for (const auto& result : testing::run_processes(on_hosts(2, 4, "ends_after_its_last_sum", {}))) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

std::size_t count_shared_memory_files() {
  std::error_code none;
  std::filesystem::directory_iterator files("/dev/shm", none);
  return none ? 0 : std::distance(begin(files), end(files));
}

TEST(KilledJob, LeavesNoSharedMemoryOrProcess) {
  const std::size_t before = count_shared_memory_files();
  testing::Processes processes(
      {.count = 4, .child = "sums_until_an_error", .arguments = {"1000000", "anywhere"}});
  for (int i = 0; i < 4; ++i) processes.wait_for_line(i, "summing");
  for (int i = 0; i < 4; ++i) processes.kill(i, SIGKILL);
  for (const auto& result : processes.wait()) EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(count_shared_memory_files(), before);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(processes.running(i));
}

}  // namespace
}  // namespace lockstep::collectives
