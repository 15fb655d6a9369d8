// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A plan of two computations, of which the second has a loop, and does not fit.
const char* const kPlan = R"json({
  "version": 1, "topology": "v5e:4x4", "platform": "tpu", "device_kind": "TPU v5 lite", "devices": 16, "hosts": 4,
  "memory_bytes": 17179869184, "peak_flops": 197e12, "operations_outside_of_jit": 3, "tried_mesh": false,
  "ended_at": "train.cc:90",
  "computations": [
    {"name": "init", "site": "train.cc:10", "mesh": "Mesh(data=16)", "devices": 16, "calls": 1,
     "memory": {"arguments": 1024, "outputs": 2048, "aliased": 0, "temporary": 512, "generated_code": 0,
                "peak": 3584},
     "cost": {"optimal_seconds": 2e-6, "flops": 100, "bytes accessed": 4096},
     "has_loops": false, "counted_flops": 120, "compile_seconds": 0.5, "collectives": [], "largest": [],
     "does_not_fit": ""},
    {"name": "step", "site": "train.cc:20", "mesh": "Mesh(data=16)", "devices": 16, "calls": 2,
     "memory": {"arguments": 1024, "outputs": 1024, "aliased": 1024, "temporary": 0, "generated_code": 0,
                "peak": 25769803776},
     "cost": {"optimal_seconds": 1e-3, "flops": 1e9, "bytes accessed": 1e6},
     "has_loops": true, "counted_flops": 1e10, "compile_seconds": 1.25,
     "collectives": [
       {"kind": "all-reduce", "axes": ["data"], "devices": 16, "bytes": 1048576, "times": 10,
        "crosses_hosts": true, "crosses_slices": false, "site": "train.cc:30"},
       {"kind": "all-reduce", "axes": ["data"], "devices": 16, "bytes": 4, "times": null,
        "crosses_hosts": true, "crosses_slices": false, "site": "train.cc:31"}],
     "largest": [{"bytes": 17179869184, "type": "f32[65536,65536]", "operation": "dot_general",
                  "site": "train.cc:40"}],
     "does_not_fit": "it is too large"}]})json";

TEST(PlanReport, LoopBodies_CountOncePerIteration) {
  const PlanReport plan = read_plan(kPlan);
  ASSERT_EQ(plan.computations.size(), 2u);
  EXPECT_DOUBLE_EQ(plan.computations[0].estimate, 2e-6) << "it has no loop";
  EXPECT_DOUBLE_EQ(plan.computations[1].optimal, 1e-3);
  EXPECT_DOUBLE_EQ(plan.computations[1].estimate, 1e-2);
  EXPECT_DOUBLE_EQ(plan.computations[1].utilization, 1e10 / 1e-2 / 197e12);
  EXPECT_EQ(plan.computations[1].sent(), 10 * 1048576 + 4);
  EXPECT_EQ(plan.peak(), 25769803776);
  EXPECT_FALSE(plan.fits());
}

TEST(PlanReport, WithoutTheCompilersTime_ThereIsNoEstimate) {
  std::string text = kPlan;
  text.replace(text.find("\"optimal_seconds\": 2e-6"), 23, "\"optimal_seconds\": -0.9");
  const PlanReport plan = read_plan(text);
  EXPECT_EQ(plan.computations[0].estimate, 0);
  EXPECT_EQ(plan.computations[0].utilization, 0);
  EXPECT_GT(plan.computations[1].estimate, 0);
  EXPECT_EQ(plan.estimate(), 0);
}

TEST(PlanReport, TheText_NamesTopologyCollectivesAndLargeValues) {
  const std::string text = plan_text(read_plan(kPlan));
  EXPECT_THAT(text, AllOf(HasSubstr("plan for v5e:4x4: 16 x TPU v5 lite on 4 hosts, 16.0 GiB of memory each"),
                          HasSubstr("one call of each"), HasSubstr("10.0 GFLOP"), HasSubstr("10.00 ms"),
                          HasSubstr("3 operations outside of jit"), HasSubstr("it ends at train.cc:90")));
  EXPECT_THAT(text, AllOf(HasSubstr("collectives of step (train.cc:20)"), HasSubstr("other hosts"),
                          HasSubstr("11+"), HasSubstr("train.cc:30"), Not(HasSubstr("train.cc:31"))));
  EXPECT_THAT(text,
              HasSubstr("step does not fit: it needs 24.0 GiB of each device's 16.0 GiB, 8.0 GiB too much"));
  EXPECT_THAT(text, HasSubstr("16.0 GiB  f32[65536,65536]  dot_general  train.cc:40"));
}

TEST(PlanReport, ThePicture_IsAnSvgWithNamesAndTimes) {
  PlanReport plan = read_plan(kPlan);
  plan.computations[0].name = "a<b&c";
  const std::string svg = plan_svg(plan);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg "), HasSubstr("a&lt;b&amp;c"), HasSubstr("does not fit"),
                         HasSubstr("10.00 ms"), HasSubstr("</svg>")));
}

TEST(PlanReport, TextThatIsNoPlan_IsRefused) {
  EXPECT_THROW(read_plan("{"), Error);
  EXPECT_THROW(read_plan("{}"), Error);
}

TEST(PlanReport, TimesAndFlops_AreShownInReadableUnits) {
  EXPECT_EQ(seconds_text(0), "");
  EXPECT_EQ(seconds_text(12e-6), "12.0 us");
  EXPECT_EQ(seconds_text(0.0125), "12.50 ms");
  EXPECT_EQ(seconds_text(2), "2.00 s");
  EXPECT_EQ(flops_text(12), "12 FLOP");
  EXPECT_EQ(flops_text(98.76e12), "98.8 TFLOP");
}

}  // namespace
}  // namespace lockstep::cli
