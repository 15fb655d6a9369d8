// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/watch/memory.h"
#include "lockstep/watch/phase.h"
#include "lockstep/watch/proc_state.h"
#include "lockstep/watch/reader.h"
#include "lockstep/watch/recorder.h"
#include "lockstep/watch/writer_test.h"

// Names from outside: in the recorder, in reports, and of threads and processes as the kernel gives them.

namespace lockstep::watch {
namespace {

using testing::outside_texts;
using ::testing::SizeIs;

ThreadReport own(const ProcessReport& report) {
  for (const ThreadReport& thread : report.threads)
    if (thread.tid == gettid()) return thread;
  return {};
}

TEST(OutsideText, AsAPhase_IsReadEscaped_AndKeptByJson) {
  Reader reader(*memory());
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    {
      const Phase phase(text);
      const ProcessReport report = reader.read(false);
      ASSERT_THAT(own(report).doing, SizeIs(1));
      EXPECT_EQ(own(report).doing[0].what, shown(text, kLongestShown));
      EXPECT_EQ(own(report).doing[0].number, 0u);
    }
    EXPECT_EQ(own(reader.read(false)).last.what, shown(text, kLongestShown));
    TickClock clock(machine_clock());
    EXPECT_EQ(reader.events(clock).back().what, shown(text, kLongestShown));
  }
}

TEST(OutsideText, InAReport_IsUtf8InItsJson) {
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    ProcessReport report{.host = text, .ended = text, .metrics = text};
    report.threads.push_back({.doing = {{.kind = Kind::kPhase, .what = text, .site = text}}});
    report.threads[0].last = {Kind::kPhase, text, text};
    report.meshes.push_back({.processes = text, .log = {{.site = text, .what = text, .text = text}}});
    report.evidence = {.call = text, .thread_name = text};
    const std::string json = to_json(report).dump();
    EXPECT_TRUE(is_utf8(json));
    const ProcessReport back = from_json(nlohmann::json::parse(json));
    const std::string expected = is_utf8(text) ? text : shown_lines(text);
    for (const std::string* each :
         {&back.host, &back.ended, &back.metrics, &back.threads[0].doing[0].what, &back.threads[0].last.site,
          &back.meshes[0].processes, &back.meshes[0].log[0].text, &back.evidence.call,
          &back.evidence.thread_name})
      EXPECT_EQ(*each, expected);
  }
}

TEST(OutsideText, NamesThatDifferOnlyInANumber_AreStoredOnce) {
  Reader reader(*memory());
  const std::uint32_t before = memory()->header.texts;
  for (int step = 0; step < 300000; ++step) const Phase phase("step " + std::to_string(step));
  const Doing waiting(Kind::kInput, "batch 7");
  EXPECT_LT(memory()->header.texts - before, 400u);
  EXPECT_EQ(own(reader.read(false)).last.what, "step 299999");
  EXPECT_EQ(own(reader.read(false)).doing[0].what, "batch 7");
  for (const std::string name : {"0", "7", "007", "step 0", "step 00", "step 999999999999999999",
                                 "step 18446744073709551616", "a1b2", "-1", "1.50"}) {
    const Phase phase(name);
    EXPECT_EQ(own(reader.read(false)).doing.back().what, name);
  }
}

// In a process of its own, because its room for names is full afterwards.
TEST(OutsideText, NamesBeyondTheRoom_AreReportedAsNotKept) {
  const int descriptor = create_memory();
  Memory* const shared = map_memory(descriptor);
  int status = 0;
  waitpid(start_writer(descriptor, "OutsideTextWriter"), &status, 0);
  EXPECT_EQ(status, 0);
  Reader reader(*shared);
  TickClock clock(machine_clock());
  const auto events = reader.events(clock);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().what.substr(0, 5), "known");
  EXPECT_EQ(events.back().what, "(one of more names than are kept)");
  EXPECT_EQ(events[events.size() - 2].what, "known");
  unmap_memory(shared);
  close(descriptor);
}

TEST(OutsideTextWriter, DISABLED_FillsTheRoomForNames) {
  if (std::getenv(kDescriptorVariable) == nullptr) GTEST_SKIP() << "only as a child";
  const TextId known = text("known");
  EXPECT_NE(text_of_lines(std::string(kTextBytes / 4, 'x')), 0u);
  EXPECT_EQ(text_of_lines(std::string(kTextBytes / 4, 'y')), 0u);  // half of the room is for names
  for (std::size_t i = 0; i < kTextBytes / 1000; ++i) text("x" + std::to_string(i) + std::string(1000, 'x'));
  for (std::size_t i = 0; i < 1000; ++i) text("y" + std::to_string(i) + "y");
  const TextId unknown = text("new");
  EXPECT_EQ(text("known"), known);
  for (std::size_t i = 1; i <= kEvents; ++i)
    const Doing doing(Kind::kLaunch, i == kEvents ? unknown : known, 0);
}

TEST(OutsideText, AsTheNameOfAThread_IsCutAtACharacter) {
  // The kernel keeps 15 bytes of it.
  for (const auto& [name, expected] :
       std::vector<std::pair<std::string, std::string>>{{"apprentissage-équilibre", "apprentissage-"},
                                                        {"donn\xe9"
                                                         "es",
                                                         "donn\\xe9es"},
                                                        {"a\nb", "a\\nb"},
                                                        {"中文中文中文", "中文中文中"}}) {
    std::promise<int> tid;
    std::promise<void> over;
    std::thread thread([&, name = name] {
      prctl(PR_SET_NAME, name.c_str());
      tid.set_value(gettid());
      over.get_future().wait();
    });
    const int of_thread = tid.get_future().get();
    bool found = false;
    for (const ThreadState& state : read_process_state(getpid()).threads) {
      if (state.tid != of_thread) continue;
      found = true;
      EXPECT_EQ(state.name, expected);
    }
    EXPECT_TRUE(found);
    over.set_value();
    thread.join();
  }
}

}  // namespace
}  // namespace lockstep::watch
