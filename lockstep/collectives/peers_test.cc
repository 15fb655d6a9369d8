// SPDX-License-Identifier: Apache-2.0
// How processes find each other, and what they say to each other, where something is short: descriptors,
// time, room in a queue.

#include "lockstep/collectives/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/collectives/handouts.h"
#include "lockstep/collectives/job.h"
#include "lockstep/collectives/peer_messages.h"
#include "lockstep/collectives/segment.h"
#include "lockstep/collectives/test_descriptors.h"
#include "lockstep/collectives/test_world.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/processor_time.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

void sum(Communicator& communicator, int rank) {
  float value = 1;
  communicator.run(sum_call(1, communicator.size()), rank, &value, &value);
  EXPECT_EQ(value, static_cast<float>(communicator.size()));
}

/// The children's processes, in step.
void meet(const std::string& place) {
  const auto file = [&](int process) { return shared_folder() / (place + std::to_string(process)); };
  std::ofstream(file(testing::child_index())) << "here";
  for (int process = 0; process < testing::child_count(); ++process) {
    while (!exists(file(process))) std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(Address, WithAnyHostName_IsReadAsItWasWritten) {
  for (const auto& [what, text] : testing::outside_texts()) {
    if (text.empty()) continue;  // host_name() has a name for those without
    SCOPED_TRACE(what);
    const Address address{
        .name = "n", .token = "t", .host = text, .place = "p", .control = "1.2.3.4:5", .lanes = {{3, text}}};
    const Address read = Address::decode(address.encode());
    EXPECT_EQ(read.host, text);
    EXPECT_EQ(read.place, "p");
    EXPECT_EQ(read.control, "1.2.3.4:5");
    EXPECT_EQ(read.lanes, address.lanes);
  }
}

TEST(Call, WithAnyNames_HasAOneLineText) {
  for (const auto& [what, text] : testing::outside_texts()) {
    SCOPED_TRACE(what);
    Collective collective{.kind = Kind::kAllReduce, .count = 1, .description = "psum over " + text};
    const std::string line = make_call(collective, 2, 7, text, 3).text;
    EXPECT_TRUE(is_utf8(line));
    EXPECT_EQ(line.find_first_of("\n\r"), line.npos);
    EXPECT_LE(line.size(), 4096u);
    EXPECT_THAT(line, AllOf(::testing::StartsWith("psum over "),
                            HasSubstr(std::string(first_bytes(shown(text), 50)))));
    if (!text.empty()) {
      EXPECT_THAT(line, ::testing::EndsWith(", call 3)"));
    }
  }
}

TEST(MemberWords, CutALongText_AtACharacter) {
  const auto words = std::make_unique<MemberWords>();
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'x');
    while (text.size() < 2 * kTextBytes) text += "\xe2\x82\xac";  // the sign of the euro
    set_text(*words, text);
    const std::string read = text_of(*words);
    EXPECT_TRUE(is_utf8(read)) << before;
    EXPECT_TRUE(text.starts_with(read)) << before;
    EXPECT_GE(read.size(), kTextBytes - 3) << before;
  }
  set_text(*words, "short");
  EXPECT_EQ(text_of(*words), "short");
}

TEST(World, ACommunicator_HoldsNoDescriptor) {
  auto world = local_world(4);
  const auto count = [] {
    const std::filesystem::directory_iterator open("/proc/self/fd");
    return std::distance(begin(open), end(open));
  };
  const auto before = count();
  world->communicator({0, 1});
  world->communicator({0, 1, 2});
  world->communicator({0, 1, 2, 3});
  EXPECT_EQ(count(), before);
}

LOCKSTEP_CHILD(comes_late_to_its_first_sums) {
  FolderKeyValueStore store(shared_folder());
  WorldOptions options = child_options(store);
  options.timeout = milliseconds(800);
  const int process = options.process_index;
  auto world = World::create(options);
  // The process of a group's first device makes its memory.
  if (process == 0) std::this_thread::sleep_for(milliseconds(1200));
  sum(world->communicator({0, 1}), process);
  if (process == 0) std::this_thread::sleep_for(milliseconds(1200));
  sum(world->communicator({1, 0}), 1 - process);
}

TEST(FirstMeetingOfAGroup, AllowsALongPreparation) {
  for (const auto& result : testing::run_processes({.count = 2, .child = "comes_late_to_its_first_sums"})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

LOCKSTEP_CHILD(cannot_take_the_memory_of_a_group) {
  ChildWorld world(2);
  const int process = world.process();
  sum(world->communicator({0, 2}), process);
  // A folder says that process 1 has none left: to make one takes none. Before, it could take the memory.
  const auto has_none = shared_folder() / "has none";
  if (process == 1) {
    const NoMoreDescriptors none;
    std::filesystem::create_directory(has_none);
    testing::say("said: " + message_of<Error>([&] { world->communicator({1, 3}); }));
  } else {
    while (!std::filesystem::exists(has_none)) std::this_thread::sleep_for(milliseconds(1));
    world->communicator({1, 3});
  }
  meet("afterwards");
}

TEST(ProcessWithoutDescriptors, SaysThatItCannotTakeMemory) {
  const auto results = testing::run_processes({.count = 2, .child = "cannot_take_the_memory_of_a_group"});
  EXPECT_THAT(results[1].log,
              AllOf(HasSubstr("said: process 1 of 2 cannot take the memory that process 0 of 2 "),
                    HasSubstr("as many open files as it may have (ulimit -n)")));
}

TEST(Segment, WithMoreMembersThanPartsOfAChunk_IsRefused) {
  EXPECT_THROW(Segment::create(Segment::kMostMembers + 1), Error);
}

class CountingStore : public FolderKeyValueStore {
 public:
  using FolderKeyValueStore::FolderKeyValueStore;
  std::string get(const std::string& key, milliseconds timeout) override {
    ++gets;
    return FolderKeyValueStore::get(key, timeout);
  }
  std::atomic<int> gets = 0;
};

LOCKSTEP_CHILD(meets_without_the_store) {
  CountingStore store(shared_folder());
  WorldOptions options = child_options(store);
  options.meeting = "known to the job's processes";
  std::vector<int> all;
  for (int process = 0; process < options.process_count; ++process) {
    if (process == options.process_index) break;
    meet("world of " + std::to_string(process) + " ");  // those with a lower number listen
  }
  auto world = World::create(options);
  for (int process = options.process_index; process + 1 < options.process_count; ++process)
    meet("world of " + std::to_string(process) + " ");
  for (int process = 0; process < options.process_count; ++process) all.push_back(process);
  sum(world->communicator(all), options.process_index);
  EXPECT_EQ(store.gets, 0);
}

TEST(ProcessesOfAHost, ThatKnowTheMeeting_DoNotAskTheStore) {
  for (const auto& result : testing::run_processes({.count = 3, .child = "meets_without_the_store"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

LOCKSTEP_CHILD(takes_what_the_first_gives) {
  const int hosts = std::stoi(testing::child_arguments().at(0));
  ChildWorld world(1, {}, hosts);
  Handouts& handouts = world->handouts();
  const std::string bytes(3 * Handouts::kWindow + 17, 'x');
  if (world.process() == 0) {
    handouts.begin("key");
    handouts.give("key", SealedBytes::copy_of(bytes), {1});
    while (handouts.held().first != 0) std::this_thread::sleep_for(milliseconds(1));
  } else {
    const Taken taken = handouts.take(0, "key", {std::chrono::seconds(60), std::chrono::seconds(60)});
    EXPECT_EQ(taken.outcome, TakeOutcome::kTaken);
    EXPECT_TRUE(taken.bytes != nullptr && taken.bytes->view() == bytes);
  }
  meet("taken");
}

TEST(Handouts, ArriveFromAnotherProcess_WithinAHostAndBetweenHosts) {
  for (const char* hosts : {"1", "2"}) {
    for (const auto& result :
         testing::run_processes({.count = 2, .child = "takes_what_the_first_gives", .arguments = {hosts}}))
      EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

/// A store after whose first answer this process can have no more descriptors.
class LastWords : public FolderKeyValueStore {
 public:
  using FolderKeyValueStore::FolderKeyValueStore;
  std::string get(const std::string& key, milliseconds timeout) override {
    std::string value = FolderKeyValueStore::get(key, timeout);
    none_.emplace();
    return value;
  }

 private:
  std::optional<NoMoreDescriptors> none_;
};

LOCKSTEP_CHILD(cannot_open_a_socket_to_its_peer) {
  LastWords store(shared_folder());
  auto world = World::create(child_options(store));
  if (world->options().process_index == 1)
    testing::say("said: " + message_of<Error>([&] { world->communicator({0, 1}); }));
}

TEST(ProcessWithoutDescriptors, SaysThatItCannotConnect) {
  const auto results = testing::run_processes({.count = 2, .child = "cannot_open_a_socket_to_its_peer"});
  EXPECT_THAT(results[1].log,
              AllOf(HasSubstr("said: process 1 of 2 can no longer talk to the other processes: "),
                    HasSubstr("Too many open files")));
}

LOCKSTEP_CHILD(is_connected_to_when_it_has_no_descriptors) {
  if (testing::child_index() == 0) {
    ChildWorld world;
    {
      const NoMoreDescriptors none;
      mkdir((shared_folder() / "short").c_str(), 0700);
      const auto before = testing::processor_time();
      std::this_thread::sleep_for(milliseconds(1000));
      EXPECT_LT(testing::processor_time() - before, milliseconds(400));
    }
    sum(world->communicator({0, 1}), 0);
  } else {
    while (!exists(shared_folder() / "short")) std::this_thread::sleep_for(milliseconds(5));
    ChildWorld world;
    sum(world->communicator({0, 1}), 1);
  }
}

TEST(ProcessWithoutDescriptors, WaitsWithoutSpinning_AndConnectsWhenTheyAreFree) {
  for (const auto& result :
       testing::run_processes({.count = 2, .child = "is_connected_to_when_it_has_no_descriptors"})) {
    EXPECT_EQ(result.exit_code, 0) << result.log;
  }
}

/// The socket at which processes of this host find process 0 of a test's job, which takes as few connections
/// as it can without being asked.
FileDescriptor listen_as_first(const std::string& meeting) {
  FileDescriptor listening = open_socket();
  auto [address, size] = socket_address(name_at(meeting, 0));
  EXPECT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listening.get(), 0), 0);
  return listening;
}

FileDescriptor connect_to_first(const std::string& meeting) {
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto [address, size] = socket_address(name_at(meeting, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  return fd;
}

/// The options of this process as one of two; the tests play the other one.
WorldOptions one_of_two(int process, coordination::KeyValueStore& store) {
  WorldOptions options;
  options.process_index = process;
  options.process_count = 2;
  options.device_process = {0, 1};
  options.store = &store;
  options.meeting = "meeting of process " + std::to_string(getpid());
  return options;
}

// As a stopped process does not.
TEST(ProcessThatAcceptsNoConnection, IsWaitedForUntilItDoes_WithoutDelayingTheJobsEnd) {
  const testing::TemporaryFolder folder;
  CountingStore store(folder.path());
  WorldOptions options = one_of_two(1, store);
  const FileDescriptor listening = listen_as_first(options.meeting);
  std::vector<FileDescriptor> queue;
  for (FileDescriptor one; (one = connect_to_first(options.meeting));) queue.push_back(std::move(one));
  std::atomic<int> lost = 0;
  options.on_loss = [&](int, bool, const std::string&) { ++lost; };
  store.set(
      "lockstep/collectives//0",
      Address{.name = name_at(options.meeting, 0), .token = "t", .host = "h", .place = place()}.encode(),
      true);
  auto job = std::make_unique<Job>(options, [] {});
  while (store.gets == 0) std::this_thread::sleep_for(milliseconds(1));
  std::vector<FileDescriptor> accepted;
  while (accepted.size() <= queue.size())
    accepted.emplace_back(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string hello(1000, ' ');
  EXPECT_GT(recv(accepted.back().get(), hello.data(), hello.size(), 0), 0) << "it says who it is";
  EXPECT_EQ(lost, 0);
  job.reset();

  queue.clear();
  for (FileDescriptor one; (one = connect_to_first(options.meeting));) queue.push_back(std::move(one));
  store.gets = 0;
  auto another = std::make_unique<Job>(options, [] {});
  while (store.gets == 0) std::this_thread::sleep_for(milliseconds(1));
  auto ends = std::async(std::launch::async, [&] { another.reset(); });
  EXPECT_EQ(ends.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  shutdown(listening.get(), SHUT_RDWR);  // ends a connect() that blocks
  EXPECT_EQ(lost, 0);
}

TEST(ConnectionsThatDoNotSayWhoTheyAre, BeyondTheLimit_AreClosed_AndAPeerStillConnects) {
  const testing::TemporaryFolder folder;
  FolderKeyValueStore store(folder.path());
  const WorldOptions options = one_of_two(0, store);
  Job job(options, [] {});
  std::vector<FileDescriptor> strangers;
  while (strangers.size() < kMostStrangers + 2 + 10) {
    FileDescriptor one = connect_to_first(options.meeting);
    if (one) strangers.push_back(std::move(one));
  }
  const auto is_closed = [](const FileDescriptor& one) {
    char byte;
    return recv(one.get(), &byte, 1, MSG_DONTWAIT) == 0;
  };
  while (!is_closed(strangers[9])) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(std::ranges::none_of(strangers.begin() + 10, strangers.end(), is_closed));
  const FileDescriptor peer = connect_to_first(options.meeting);
  const Message hello{{MessageType::kHello, 1, getpid(), {}}, token_at(options.meeting, 0)};
  std::string bytes(reinterpret_cast<const char*>(&hello.header), sizeof hello.header);
  bytes += hello.text;
  ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_NO_THROW(job.peers().wait_connected(1, [] {}));
}

LOCKSTEP_CHILD(waits_in_a_ring_with_many_groups) {
  FolderKeyValueStore store(shared_folder());
  const WorldOptions options = child_options(store);
  const int process = options.process_index, other = 1 - process;
  Job job(options, [] {});
  job.peers().wait_connected(other, [] {});
  constexpr std::uint64_t kGroups = 1500, kFirst = 1'000'000'000'000'000'000;
  for (std::uint64_t group = 0; group < kGroups; ++group) *job.waits().count_of(process, kFirst + group) = 7;
  // Each is in an operation to which the other one has not come.
  const auto number = static_cast<std::uint64_t>(process) + 1;
  LongWait wait(
      job, process, {number, number, 3}, [&] { return "process " + std::to_string(process); },
      [] { return "psum"; });
  const auto look = [&] {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
         std::chrono::steady_clock::now() < end;) {
      job.check();
      wait.look({other});
      std::this_thread::sleep_for(milliseconds(20));
    }
  };
  EXPECT_THAT(message_of<DivergenceError>(look), HasSubstr("process 0 waits for process 1 in psum"));
}

TEST(ProcessesOfManyGroups, ThatWaitInARing_FindIt) {
  for (const auto& result : testing::run_processes({.count = 2, .child = "waits_in_a_ring_with_many_groups"}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

// A wait that the launcher sees must still last: the process may work for long in the same operation.
TEST(LongWait, ThatHasEnded_IsNotReportedAnyMore) {
  const testing::TemporaryFolder folder;
  FolderKeyValueStore store(folder.path());
  Job job(one_of_two(0, store), [] {});
  watch::Reader reader(*watch::memory());
  const auto waits = [&] {
    const auto is_waiting = [](const watch::ThreadReport& thread) { return thread.missing_count > 0; };
    return std::ranges::any_of(reader.read(false).threads, is_waiting);
  };
  const watch::Doing doing(watch::Kind::kCollective, "psum");
  {
    LongWait wait(
        job, 0, {5, 6, 7}, [] { return "process 0"; }, [] { return "psum"; });
    wait.look({1});
    EXPECT_TRUE(waits());
  }
  EXPECT_FALSE(waits());
}

TEST(SplitText, TextOfAnyLength_IsJoinedAgain) {
  for (const std::size_t length : {0, 1, 9, 10, 18, 19, 1000}) {
    std::string text;
    while (text.size() < length) text += static_cast<char>('a' + text.size() % 23);
    const std::vector<std::string> messages = split_text(text, 10);
    SplitText together;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      EXPECT_LE(messages[i].size(), 10u);
      const auto whole = together.take(messages[i]);
      ASSERT_EQ(whole.has_value(), i + 1 == messages.size()) << length;
      EXPECT_EQ(whole.value_or(text), text);
    }
  }
  SplitText together;
  EXPECT_FALSE(together.take("+begun"));
  EXPECT_FALSE(together.take(""));
  EXPECT_EQ(together.take(".whole"), "whole") << "what came before a message of no part is dropped";
}

LOCKSTEP_CHILD(runs_ever_new_programs) {
  ChildWorld world;
  Communicator& communicator = world->communicator({0, 1});
  const std::string name(2000, 'f');
  std::int64_t index = 0;
  const auto run = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      float value = 1;
      communicator.run(sum_call(1, 2, name, ++index), world.process(), &value, &value);
    }
    return mallinfo2().uordblks;
  };
  const std::size_t before = run(2100), after = run(4200);
  EXPECT_LT(after, before + (4 << 20)) << "bytes";
}

TEST(ProcessOnSeveralHosts, ThatRunsEverNewPrograms_DoesNotGrow) {
  for (const auto& result : testing::run_processes(
           {.count = 2, .child = "runs_ever_new_programs", .env = {{kHostsVariable, "2"}}}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

/// A peer that has done its part leaves during Job::check_peer: a window of a few instructions in a real job.
LOCKSTEP_CHILD(sees_a_peer_leave_that_has_done_its_part) {
  FolderKeyValueStore store(shared_folder());
  WorldOptions options = child_options(store);
  if (options.process_index == 1) {
    Job job(options, [] {});
    job.peers().wait_connected(0, [] {});
    meet("both are there");
    return;  // Leaves.
  }
  std::atomic<int> reported = 0;
  options.on_loss = [&](int, bool, const std::string& doing) { reported += !doing.empty(); };
  Job job(options, [] {});
  job.peers().wait_connected(1, [] {});
  meet("both are there");
  while (job.peers().state(1) == PeerState::kConnected) std::this_thread::sleep_for(milliseconds(5));
  job.check_peer(1, "process 0 waited for it in psum", [] { return false; });
  EXPECT_EQ(reported, 0);
  EXPECT_THAT(message_of<PeerFailure>(
                  [&] { job.check_peer(1, "process 0 waited for it in psum", [] { return true; }); }),
              HasSubstr("has left the job while process 0 waited for it in psum"));
  EXPECT_EQ(reported, 1);
}

TEST(ProcessThatLeaves, AfterDoingItsPart_IsNotReported) {
  const auto results =
      testing::run_processes({.count = 2, .child = "sees_a_peer_leave_that_has_done_its_part"});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].log;
}

}  // namespace
}  // namespace lockstep::collectives
