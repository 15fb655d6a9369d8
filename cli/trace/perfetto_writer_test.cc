// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/perfetto_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "cli/testing/opened_trace.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using watch::EventReport;
using watch::Kind;

OpenedTrace open(const TraceRecord& record) {
  std::ostringstream out;
  const TraceSummary summary = write_perfetto(record, out);
  EXPECT_EQ(summary.bytes, out.str().size());
  EXPECT_EQ(summary.events, record.events());
  return OpenedTrace(out.str());
}

EventReport event(Kind kind, const std::string& what, std::int64_t since, std::int64_t until, int depth = 0) {
  return {.kind = kind, .what = what, .since_ns = since, .until_ns = until, .depth = depth, .tid = 100};
}

EventReport launch(const std::string& what, std::int64_t since, std::int64_t until, std::uint64_t number) {
  EventReport launch = event(Kind::kLaunch, what, since, until);
  launch.number = number;
  launch.mesh = 42;
  launch.site = "train.cc:7";
  return launch;
}

EventReport psum(std::int64_t since, std::int64_t arrived, std::int64_t until, int depth = 1) {
  EventReport psum =
      event(Kind::kCollective, "psum f32[4] at train.cc:7 (program step)", since, until, depth);
  psum.arrived_ns = arrived;
  return psum;
}

auto is(const std::string& name, std::int64_t begin, std::int64_t end, int depth) {
  return AllOf(Field("name", &TraceSlice::name, name), Field("begin", &TraceSlice::begin, begin),
               Field("end", &TraceSlice::end, end), Field("depth", &TraceSlice::depth, depth));
}

TEST(PerfettoWriter, NestsAnEventInTheOneThatItIsPartOf) {
  TraceRecord record(1);
  EventReport step = launch("step", 200, 270, 1);
  step.depth = 1;
  // As a recorder gives them: by their ends.
  record.add({.process = 0,
              .pid = 100,
              .events = {event(Kind::kTrace, "step", 110, 120, 1), event(Kind::kCompile, "step", 120, 180, 1),
                         psum(200, 250, 260, 2), step, event(Kind::kPhase, "load", 100, 300),
                         event(Kind::kInput, "batch 3", 300, 310)}});
  const OpenedTrace trace = open(record);
  EXPECT_THAT(
      trace.on("100/main thread"),
      ElementsAre(is("load", 100, 300, 0), is("trace step", 110, 120, 1), is("compile step", 120, 180, 1),
                  is("step", 200, 270, 1), is("wait: psum f32[4]", 200, 250, 2),
                  is("transfer: psum f32[4]", 250, 260, 2), is("input", 300, 310, 0)));
}

TEST(PerfettoWriter, ACollectiveOnAnyThread_NamesItsLaunch) {
  TraceRecord record(1);
  EventReport elsewhere = psum(220, 230, 240, 0);
  elsewhere.thread = 3;
  elsewhere.tid = 103;
  elsewhere.operation = 5;
  record.add(
      {.process = 0, .pid = 100, .events = {elsewhere, launch("step", 200, 270, 9), psum(300, 310, 320)}});
  const OpenedTrace trace = open(record);
  const std::vector<TraceSlice> there = trace.on("100/thread 3 (tid 103)");
  ASSERT_EQ(there.size(), 2u);
  EXPECT_THAT(there[0].categories, ElementsAre("collective", "wait"));
  EXPECT_THAT(there[1].categories, ElementsAre("collective", "transfer"));
  EXPECT_EQ(there[1].arguments.at("what"), "psum f32[4] at train.cc:7 (program step)");
  EXPECT_EQ(there[1].arguments.at("launch"), "9");
  EXPECT_EQ(there[1].arguments.at("mesh"), "000000000000002a");
  EXPECT_EQ(there[1].arguments.at("call_site"), "train.cc:7");
  EXPECT_EQ(there[1].arguments.at("operation"), "5");
  EXPECT_FALSE(there[1].arguments.contains("named_scope"));
  EXPECT_FALSE(trace.on("100/main thread").back().arguments.contains("launch"));  // of no launch
}

TEST(PerfettoWriter, ACollective_NamesItsNamedScope) {
  TraceRecord record(1);
  EventReport scoped = psum(220, 230, 240, 1);
  scoped.what = "psum f32[4] at layers.cc:12 in encoder/attention (program step)";
  record.add({.process = 0, .pid = 100, .events = {scoped, launch("step", 200, 270, 9)}});
  const std::vector<TraceSlice> slices = open(record).on("100/main thread");
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].name, "wait: psum f32[4]");
  EXPECT_EQ(slices[1].arguments.at("call_site"), "layers.cc:12");
  EXPECT_EQ(slices[1].arguments.at("named_scope"), "encoder/attention");
  EXPECT_EQ(slices[0].arguments.at("call_site"), "train.cc:7");
}

TEST(PerfettoWriter, ACollectiveWithoutAnArrivalTime_WritesOneSlice) {
  TraceRecord record(1);
  EventReport goes_on = psum(50, 0, 60, 0);
  goes_on.finished = false;
  record.add({.process = 0, .pid = 100, .events = {psum(10, 0, 20, 0), goes_on}});
  const std::vector<TraceSlice> slices = open(record).on("100/main thread");
  EXPECT_THAT(slices, ElementsAre(is("psum f32[4]", 10, 20, 0), is("wait: psum f32[4]", 50, 60, 0)));
  EXPECT_FALSE(slices[0].arguments.contains("finished"));
  EXPECT_EQ(slices[1].arguments.at("finished"), "no");
}

TEST(PerfettoWriter, LinksTheSameLaunchOfAllProcesses) {
  TraceRecord record(3);
  for (int p = 0; p < 3; ++p)
    record.add({.process = p,
                .pid = 100 + p,
                .events = {launch("step", 10, 20, 1), launch("step", 30, 40, 2),
                           event(Kind::kLaunch, "own", 50, 60)}});
  const OpenedTrace trace = open(record);
  std::map<std::vector<std::uint64_t>, int> flows;
  for (const TraceSlice& slice : trace.slices) ++flows[slice.flows];
  ASSERT_EQ(flows.size(), 3u);
  for (const auto& [flow, slices] : flows) EXPECT_EQ(slices, flow.empty() ? 3 + 1 : 3);
}

TEST(PerfettoWriter, PutsTimesOfAllHostsOnOneClock) {
  TraceRecord record(2);
  record.several_hosts = true;
  record.processes[0].host = "a";
  record.processes[1] = {.host = "b", .clock = 1};
  const std::int64_t ahead = 5'000'000'000;
  record.clocks.push_back(
      HostClock({{.asked = 1000, .heard = 1200, .received = ahead + 1100, .replied = ahead + 1100}}));
  record.begin = 900;
  record.end = 2000;
  record.add({.process = 0, .pid = 7, .events = {launch("step", 1000, 1300, 1)}});
  record.add({.process = 1, .pid = 7, .events = {launch("step", ahead + 1100, ahead + 1250, 1)}});
  std::ostringstream out;
  const TraceSummary summary = write_perfetto(record, out);
  EXPECT_EQ(summary.clock_error_ns, 101);  // half of the round trip, and what may drift in 150 ns
  EXPECT_EQ(summary.clock_error_of, 1u);
  const OpenedTrace trace(out.str());
  // Both have the same pid, on their hosts, so that Perfetto would take them for one.
  EXPECT_THAT(trace.pids, ElementsAre(std::pair("process 0 (host a, pid 7)", 1),
                                      std::pair("process 1 (host b, pid 7)", 2)));
  EXPECT_THAT(trace.on("2/thread 0 (tid 100)"), ElementsAre(is("step", 1100, 1250, 0)));
  const TraceSlice itself = trace.on("lockstep trace").at(0);
  EXPECT_EQ(itself.begin, 900);
  EXPECT_EQ(itself.end, 2000);
  EXPECT_EQ(itself.arguments.at("clock_error_us"), "0.101000");
}

TEST(PerfettoWriter, LostEvents_AreCountedPerProcess) {
  TraceRecord record(2);
  record.add({.process = 1, .pid = 5, .lost = 77});
  record.remarks.push_back("not all hosts have sent the last of it");
  const OpenedTrace trace = open(record);
  const TraceSlice itself = trace.on("lockstep trace").at(0);
  EXPECT_EQ(itself.name, "trace of 2 processes, 77 events lost");
  EXPECT_EQ(itself.arguments.at("lost_events"), "77");
  EXPECT_EQ(itself.arguments.at("lost_events_of_process_1"), "77");
  EXPECT_EQ(itself.arguments.at("remark"), "not all hosts have sent the last of it");
  EXPECT_EQ(trace.pids.begin()->first, "process 0 (not started)");
}

}  // namespace
}  // namespace lockstep::cli
