// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"

// That the elements are those of the program as it was, with loops and every collective: the jitted
// overlap_test.cc, and the fuzzer.

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;

const ir::AxisEnv& axes() {
  static const ir::AxisEnv env({{"x", 4}, {"one", 1}});
  return env;
}

template <class Body>
ir::Program program_of(const Body& body) {
  const ir::AxisEnvScope scope(axes());
  ir::Builder b("f");
  const std::vector<ir::Value> outputs = body(b.input({DType::kF32, {8, 8}}));
  return b.finish(outputs);
}

ir::Value dot(const ir::Value& a, const ir::Value& b) {
  return ir::lax::dot_general(a, b, {{1}, {0}, {}, {}});
}

constexpr std::int64_t kBytes = 8 * 8 * 4;

std::vector<std::string> names(const ir::Program& program) {
  std::vector<std::string> names;
  for (const ir::Equation& equation : program.equations) {
    names.push_back(equation.primitive->name);
    if (equation.inputs.size() > 1 && equation.primitive == &ir::collective_done_p())
      names.back() += " after " + std::to_string(equation.inputs.size() - 1);
  }
  return names;
}

std::vector<std::string> overlapped(const ir::Program& program, const OverlapOptions& options) {
  return names(overlap_collectives(program, axes(), options));
}

/// A step of training as the partitioner gives it: the sums come last, where they are used.
TEST(OverlapCollectives, StartWhenTheirOperandsAreReady_AndAreAwaitedLast) {
  const ir::Program program = program_of([](const ir::Value& x) {
    const ir::Value first = dot(x, x), second = dot(first, x), third = dot(second, x);
    std::vector<ir::Value> updated;
    for (const ir::Value& term : {first, second, third})
      updated.push_back(ir::lax::sub(x, ir::lax::psum(term, {"x"})));
    return updated;
  });
  ASSERT_THAT(names(program), ElementsAre("dot_general", "dot_general", "dot_general", "psum", "sub", "psum",
                                          "sub", "psum", "sub"));
  EXPECT_THAT(overlapped(program, {.threshold_bytes = kBytes, .operations_per_byte = 1}),
              ElementsAre("dot_general", "psum", "dot_general", "psum", "dot_general", "psum",
                          "collective_done after 2", "sub", "collective_done after 1", "sub",
                          "collective_done", "sub"));
}

/// Such as the product with a learning rate, or the parts of several that were put together.
TEST(OverlapCollectives, LightOperationsBeforeACollective_MoveWithIt) {
  const ir::Program program = program_of([](const ir::Value& x) {
    const ir::Value first = dot(x, x), second = dot(first, x), scaled = ir::lax::mul(ir::lax::neg(first), x);
    return std::vector<ir::Value>{ir::lax::psum(scaled, {"x"}), second};
  });
  ASSERT_THAT(names(program), ElementsAre("dot_general", "dot_general", "neg", "mul", "psum"));
  EXPECT_THAT(overlapped(program, {.threshold_bytes = kBytes, .operations_per_byte = 1}),
              ElementsAre("dot_general", "neg", "mul", "psum", "dot_general", "collective_done after 1"));
}

TEST(OverlapCollectives, WithoutComputationsToOverlap_AreUnchanged) {
  const ir::Program program = program_of([](const ir::Value& x) {
    const ir::Value sum = ir::lax::psum(dot(x, x), {"x"}), other = ir::lax::psum(dot(sum, x), {"x"});
    return std::vector<ir::Value>{ir::lax::sub(x, other)};
  });
  EXPECT_EQ(overlapped(program, {.threshold_bytes = kBytes, .operations_per_byte = 0}), names(program));
}

/// Parameters that are gathered layer by layer: the next ones while one is used.
TEST(OverlapCollectives, GathersOfLaterLayers_StartAhead_UpToTheBound) {
  const ir::Program program = program_of([](const ir::Value& x) {
    ir::Value h = x;
    for (int i = 0; i < 3; ++i) {
      const ir::Value part = ir::lax::slice(x, {2 * i, 0}, {2 * i + 2, 8});
      h = dot(h, ir::lax::all_gather(part, {"x"}, 0));
    }
    return std::vector<ir::Value>{h};
  });
  // Part and whole of each: 64 and 256 bytes.
  EXPECT_THAT(
      overlapped(program, {.threshold_bytes = kBytes, .operations_per_byte = 1, .in_flight_bytes = 640}),
      ElementsAre("slice", "all_gather", "slice", "all_gather", "slice", "pvary", "collective_done",
                  "all_gather", "dot_general", "collective_done after 1", "dot_general",
                  "collective_done after 2", "dot_general"));
}

TEST(OverlapCollectives, ThatAreSmallOrOverOneDevice_AreUnchanged) {
  const auto of = [](const std::vector<std::string>& axes) {
    return program_of([&](const ir::Value& x) {
      const ir::Value sum = ir::lax::psum(x, axes);
      return std::vector<ir::Value>{ir::lax::sub(x, sum), dot(x, x)};
    });
  };
  const std::vector<std::string> started = {"psum", "dot_general", "collective_done after 1", "sub"};
  EXPECT_EQ(overlapped(of({"x"}), {.threshold_bytes = kBytes, .operations_per_byte = 0}), started);
  EXPECT_EQ(overlapped(of({"x"}), {.threshold_bytes = kBytes + 1, .operations_per_byte = 0}),
            names(of({"x"})));
  EXPECT_EQ(overlapped(of({"x"}), {.threshold_bytes = 0, .operations_per_byte = 0}), names(of({"x"})));
  EXPECT_EQ(overlapped(of({"one"}), {.threshold_bytes = kBytes, .operations_per_byte = 0}),
            names(of({"one"})));
}

/// 2 * 8 * 8 * 8 operations for 256 bytes.
TEST(OverlapCollectives, WithTooFewOperationsPerByte_AreUnchanged) {
  const ir::Program program = program_of([](const ir::Value& x) {
    return std::vector<ir::Value>{ir::lax::psum(x, {"x"}), dot(x, x)};
  });
  EXPECT_THAT(overlapped(program, {.threshold_bytes = 1, .operations_per_byte = 4}),
              ElementsAre("psum", "dot_general", "collective_done after 1"));
  EXPECT_EQ(overlapped(program, {.threshold_bytes = 1, .operations_per_byte = 4.1}), names(program));
}

/// A collective that is not started waits for those in flight.
TEST(OverlapCollectives, OnlyOperationsBeforeTheNextBlockingCollective_Count) {
  const ir::Program program = program_of([](const ir::Value& x) {
    const ir::Value small = ir::lax::slice(x, {0, 0}, {1, 8});
    const ir::Value sum = ir::lax::psum(x, {"x"}), other = ir::lax::psum(small, {"x"});
    return std::vector<ir::Value>{sum, other, dot(x, x)};
  });
  EXPECT_EQ(overlapped(program, {.threshold_bytes = kBytes, .operations_per_byte = 0}), names(program));
}

TEST(OverlapCollectives, InFlight_StayBelowTheBound) {
  const ir::Program program = program_of([](const ir::Value& x) {
    std::vector<ir::Value> outputs;
    ir::Value term = x;
    for (int i = 0; i < 3; ++i) {
      outputs.push_back(ir::lax::sub(x, ir::lax::psum(term, {"x"})));
      term = dot(term, x);
    }
    outputs.push_back(term);
    return outputs;
  });
  const OverlapOptions one = {.threshold_bytes = 1, .operations_per_byte = 0, .in_flight_bytes = 1},
                       two = {.threshold_bytes = 1, .operations_per_byte = 0, .in_flight_bytes = 4 * kBytes};
  EXPECT_THAT(overlapped(program, one),
              ElementsAre("psum", "dot_general", "dot_general", "dot_general", "collective_done after 3",
                          "psum", "sub", "collective_done", "psum", "sub", "collective_done", "sub"));
  EXPECT_THAT(
      overlapped(program, two),
      ElementsAre("psum", "dot_general", "psum", "dot_general", "dot_general", "collective_done after 3",
                  "psum", "sub", "collective_done after 2", "sub", "collective_done", "sub"));
}

TEST(OverlapCollectives, KeepTheirReasons) {
  ir::Program program = program_of([](const ir::Value& x) {
    const ir::Value sum = ir::lax::psum(x, {"x"}), updated = ir::lax::sub(x, sum);
    return std::vector<ir::Value>{updated, ir::lax::psum(dot(x, x), {"x"})};
  });
  ASSERT_THAT(names(program), ElementsAre("psum", "sub", "dot_general", "psum"));
  program.equations[0].reason = "the first";
  program.equations[3].reason = "the second";
  const ir::Program result =
      overlap_collectives(program, axes(), {.threshold_bytes = 1, .operations_per_byte = 0});
  EXPECT_THAT(names(result), ElementsAre("psum", "dot_general", "psum", "collective_done after 1", "sub",
                                         "collective_done"));
  EXPECT_EQ(result.equations[0].reason, "the first");
  EXPECT_EQ(result.equations[2].reason, "the second");
}

}  // namespace
}  // namespace lockstep::sharding
