// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/watch/memory.h"
#include "lockstep/watch/phase.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/writer_test.h"

namespace lockstep::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const ThreadReport& own_report(const ProcessReport& report) {
  for (const ThreadReport& thread : report.threads)
    if (thread.tid == gettid()) return thread;
  static const ThreadReport none;
  return none;
}

TEST(Recorder, ReportsTheProgressOfGroups_AndTheWaitsOfLinks) {
  Reader reader(*memory());
  std::atomic<std::uint64_t>*const first = begun_place(71, 0), *const second = begun_place(71, 1);
  ASSERT_NE(first, nullptr);
  first->store(5);
  second->store(4);
  EXPECT_EQ(begun_place(71, 0), first) << "a new start of the same group";
  first->store(5);
  const auto now = [] {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  Link* const quiet = link_place(3);
  Link* const waits = link_place(3);
  Link* const old = link_place(4);
  for (Link* link : {quiet, waits}) link->looked = now();
  waits->unanswered = now() - 7'000'000'000;
  old->looked = now() - 60'000'000'000;
  old->unanswered = now() - 90'000'000'000;
  {
    const Doing launching(Kind::kLaunch, text("step"), text("train.cc:3"), 7);
    const Doing waiting(Kind::kCollective, text("psum"), 0);
    waits_for(std::vector<int>{3}, 99, 71, 5);
    const ProcessReport report = from_json(to_json(reader.read(false)));
    EXPECT_EQ(own_report(report).doing.back().group, 71u);
    EXPECT_EQ(own_report(report).doing.back().count, 5u);
    const auto group = std::ranges::find(report.groups, 71u, &GroupReport::group);
    ASSERT_NE(group, report.groups.end());
    EXPECT_EQ(group->begun, 4u) << "with all its devices";
    ASSERT_THAT(report.links, SizeIs(1)) << "what is old says nothing";
    EXPECT_EQ(report.links[0].process, 3);
    EXPECT_NEAR(report.links[0].unanswered_seconds, 7, 5);
  }
  for (Link* link : {quiet, waits, old}) link->used = 0;
}

TEST(Recorder, ReportsWhatAThreadDoes_AndDidLast) {
  Reader reader(*memory());
  {
    const Phase phase("load");
    const Doing launching(Kind::kLaunch, text("step"), text("train.cc:3"), 7);
    const Doing waiting(Kind::kCollective, text("psum"), 0);
    const std::vector<int> missing = {2, 5};
    waits_for(missing, 99);
    const ProcessReport report = reader.read(false);
    EXPECT_EQ(report.pid, getpid());
    const ThreadReport& thread = own_report(report);
    ASSERT_THAT(thread.doing, SizeIs(3));
    EXPECT_EQ(thread.doing[0].kind, Kind::kPhase);
    EXPECT_EQ(thread.doing[0].what, "load");
    EXPECT_EQ(thread.doing[1].what, "step");
    EXPECT_EQ(thread.doing[1].site, "train.cc:3");
    EXPECT_EQ(thread.doing[1].number, 7u);
    EXPECT_EQ(thread.doing[2].operation, 99u);
    EXPECT_FALSE(thread.doing[2].arrived);
    EXPECT_THAT(thread.missing, ElementsAre(2, 5));
    waits_no_more();
    EXPECT_THAT(own_report(reader.read(false)).missing, IsEmpty());
    EXPECT_EQ(own_report(reader.read(false)).doing[2].operation, 99u);
    waits_for(missing, 99);
    all_arrived();
    EXPECT_TRUE(own_report(reader.read(false)).doing[2].arrived);
    EXPECT_EQ(own_report(reader.read(false)).missing_count, 0) << "it waits for nobody, and works";
  }
  const ThreadReport thread = own_report(reader.read(false));
  EXPECT_THAT(thread.doing, IsEmpty());
  EXPECT_EQ(thread.last.what, "load");
  EXPECT_EQ(thread.missing_count, 0);
}

TEST(Recorder, KeepsEventsInOrder_AndCountsLostOnes) {
  Reader reader(*memory());
  TickClock clock(machine_clock());
  reader.events(clock);
  const TextId names[] = {text("a"), text("b")};
  for (int i = 0; i < 10; ++i)
    const Doing doing(Kind::kLaunch, names[i % 2], 0, static_cast<std::uint64_t>(i));
  std::uint64_t lost = 0;
  const auto events = reader.events(clock, &lost);
  ASSERT_THAT(events, SizeIs(10));
  EXPECT_EQ(lost, 0u);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number, i);
    EXPECT_EQ(events[i].what, i % 2 == 0 ? "a" : "b");
    EXPECT_LE(events[i].since_ns, events[i].until_ns);
    if (i > 0) {
      EXPECT_LE(events[i - 1].until_ns, events[i].since_ns + 1000);
    }
  }
  for (std::size_t i = 0; i < kEvents + 100; ++i) const Doing doing(Kind::kLaunch, names[0], 0);
  const auto kept = reader.events(clock, &lost);
  EXPECT_EQ(kept.size() + lost, kEvents + 100);
  EXPECT_LT(lost, 200u);
}

TEST(Recorder, ReportsUnfinishedEvents_FromTheOutermost) {
  Reader reader(*memory());
  TickClock clock(machine_clock());
  MeshPlace* const mesh = mesh_place(77, "0-1");
  ASSERT_NE(mesh, nullptr);
  const Doing launching(Kind::kLaunch, text("step"), text("train.cc:3"), 7, index_of(*mesh));
  const Doing waiting(Kind::kCollective, text("psum"), 0);
  std::vector<EventReport> own = reader.unfinished(clock);
  std::erase_if(own, [](const EventReport& event) { return event.tid != gettid(); });
  ASSERT_THAT(own, SizeIs(2));
  EXPECT_EQ(own[0].what, "step");
  EXPECT_EQ(own[0].mesh, 77u);
  EXPECT_EQ(own[0].number, 7u);
  EXPECT_EQ(own[1].what, "psum");
  EXPECT_EQ(own[1].depth, 1);
  EXPECT_EQ(own[1].arrived_ns, 0);
  EXPECT_FALSE(own[1].finished);
  EXPECT_LE(own[0].since_ns, own[1].since_ns);
  EXPECT_LE(own[1].since_ns, own[1].until_ns);
}

TEST(Recorder, EventsBeyondTheKeptDepth_AreNotReported) {
  Reader reader(*memory());
  {
    std::vector<std::unique_ptr<Doing>> all;
    for (std::size_t i = 0; i < kDepth + 3; ++i)
      all.push_back(std::make_unique<Doing>(Kind::kPhase, text("p"), 0));
    EXPECT_THAT(own_report(reader.read(false)).doing, SizeIs(kDepth));
    while (!all.empty()) all.pop_back();
  }
  EXPECT_THAT(own_report(reader.read(false)).doing, IsEmpty());
}

TEST(Recorder, CountsLaunchesOfAMesh_WithTheSameHashForTheSamePrograms) {
  MeshPlace* const a = mesh_place(11, "0-3");
  MeshPlace* const b = mesh_place(12, "0-3");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(mesh_place(11, "0-3"), a);
  for (const Fingerprint program : {5u, 6u, 5u}) {
    count_launch(*a, {program, text("f"), text("body")}, text("x.cc:1"));
    count_launch(*b, {program, text("f"), text("body")}, text("x.cc:2"));
  }
  EXPECT_EQ(count_launch(*b, {7, text("g"), 0}, 0), 4u);
  const ProcessReport report = Reader(*memory()).read(true);
  const auto mesh = [&](std::uint64_t id) {
    return *std::ranges::find(report.meshes, id, &MeshReport::mesh);
  };
  EXPECT_EQ(mesh(11).launches, 3u);
  EXPECT_EQ(mesh(11).processes, "0-3");
  ASSERT_THAT(mesh(12).log, SizeIs(4));
  EXPECT_EQ(mesh(11).hash, mesh(12).log[2].hash);
  EXPECT_NE(mesh(11).hash, mesh(12).hash);
  EXPECT_EQ(mesh(12).log[3].what, "g");
  EXPECT_FALSE(mesh(11).unordered);
  std::thread([&] { count_launch(*a, {5, 0, 0}, 0); }).join();
  const ProcessReport after = Reader(*memory()).read(false);
  EXPECT_TRUE(std::ranges::find(after.meshes, 11u, &MeshReport::mesh)->unordered);
}

TEST(Recorder, IsReadWhileManyThreadsWrite) {
  std::atomic<bool> stop = false;
  std::vector<std::jthread> writers;
  const TextId name = text("work"), other = text("other");
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&, t] {
      while (!stop) {
        const Doing outer(Kind::kLaunch, name, 0, static_cast<std::uint64_t>(t));
        const Doing inner(Kind::kCollective, other, 0);
        const std::vector<int> missing(static_cast<std::size_t>(t + 1), t);
        waits_for(missing, static_cast<std::uint64_t>(t));
      }
    });
  }
  Reader reader(*memory());
  TickClock clock(machine_clock());
  for (int i = 0; i < 300; ++i) {
    const ProcessReport report = reader.read(true);
    for (const ThreadReport& thread : report.threads) {
      if (thread.doing.empty()) continue;
      EXPECT_EQ(thread.doing[0].what, "work");
      if (thread.doing.size() < 2) continue;
      EXPECT_EQ(thread.doing[1].what, "other");
      for (const int missing : thread.missing) EXPECT_EQ(missing, static_cast<int>(thread.doing[0].number));
    }
    reader.events(clock);
  }
  stop = true;
}

// A process that is killed at any moment leaves what can be read.
TEST(Recorder, IsReadAfterItsWriterWasKilled) {
  for (int round = 0; round < 20; ++round) {
    const int descriptor = create_memory();
    ASSERT_GE(descriptor, 0);
    Memory* const shared = map_memory(descriptor);
    ASSERT_NE(shared, nullptr);
    const pid_t child = start_writer(descriptor, "RecorderWriter");
    Reader reader(*shared);
    while (reader.pid() == 0 && waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const ProcessReport report = reader.read(true);
    EXPECT_EQ(report.pid, child);
    TickClock clock(machine_clock());
    for (const EventReport& event : reader.events(clock)) {
      EXPECT_TRUE(event.what == "written" || event.what == "again") << event.what;
      EXPECT_LE(event.since_ns, event.until_ns);
    }
    unmap_memory(shared);
    close(descriptor);
  }
}

TEST(RecorderWriter, DISABLED_WritesUntilItIsKilled) {
  if (std::getenv(kDescriptorVariable) == nullptr) GTEST_SKIP() << "only as a child";
  const TextId names[] = {text("written"), text("again")};
  for (std::uint64_t i = 0;; ++i) const Doing doing(Kind::kLaunch, names[i % 2], 0, i);
}

TEST(Report, IsReadBackFromJsonUnchanged) {
  ProcessReport report{.process = 3, .host = "b", .pid = 12, .came = true, .joined = true};
  report.threads.push_back(
      {.tid = 12,
       .doing = {{.kind = Kind::kCollective, .what = "psum", .seconds = 2.5, .operation = ~std::uint64_t{0}}},
       .missing = {1, 2},
       .missing_count = 2});
  report.meshes.push_back(
      {.mesh = 5, .processes = "0-3", .launches = 9, .log = {{.number = 9, .hash = 4, .what = "f"}}});
  report.evidence = {.state = 'D', .call = "read"};
  report.metrics = R"({"loss": 1})";
  const ProcessReport back = from_json(nlohmann::json::parse(to_json(report).dump()));
  EXPECT_EQ(to_json(back), to_json(report));
  EXPECT_EQ(back.threads[0].doing[0].operation, ~std::uint64_t{0});
  EXPECT_EQ(back.evidence.state, 'D');
  EXPECT_THROW(from_json(nlohmann::json::parse(R"({"threads": 3})")), Error);
}

}  // namespace
}  // namespace lockstep::watch
