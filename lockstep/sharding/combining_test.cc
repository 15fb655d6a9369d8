#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

// That the elements are those of the program as it was: partitioned_values_test.cc, and the jitted
// combining_test.cc with loops and more dtypes.

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const AxisEnv& axes() {
  static const AxisEnv env({{"x", 4}, {"y", 2}});
  return env;
}

/// The collectives of what comes out: "all-reduce 512 B over x".
std::vector<std::string> combined(const Program& program, std::int64_t threshold = kCombineThresholdBytes) {
  CommunicationReasons reasons;
  std::vector<std::string> all;
  for (const CommunicationLine& line :
       communication(combine_collectives(program, axes(), threshold, reasons), axes())) {
    std::string over;
    for (const std::string& axis : line.axes) over += (over.empty() ? "" : ",") + axis;
    all.push_back(line.kind + " " + bytes_text(line.bytes) + " over " + over);
  }
  return all;
}

/// A program of inputs of these shapes.
template <class Body>
Program program_of(const std::vector<Shape>& shapes, const Body& body) {
  const AxisEnvScope scope(axes());
  Builder b("f");
  std::vector<Value> inputs;
  for (const Shape& shape : shapes) inputs.push_back(b.input({DType::kF32, shape}));
  const std::vector<Value> outputs = body(inputs);
  return b.finish(outputs);
}

TEST(CombineCollectives, ThoseThatAreAlikeBecomeOne) {
  const Program program = program_of({{64}, {8, 4}, {}, {16}}, [](const std::vector<Value>& in) {
    return std::vector<Value>{lax::psum(in[0], {"x"}), lax::psum(in[1], {"x"}), lax::pmax(in[2], {"x"}),
                              lax::psum(in[2], {"x"}), lax::psum(in[3], {"y"})};
  });
  EXPECT_THAT(combined(program),
              ElementsAre("all-reduce 388 B over x", "all-reduce 4 B over x", "all-reduce 64 B over y"));
}

TEST(CombineCollectives, WhatNeedsAResultWaits_AndIsCombinedBehindIt) {
  // The second round needs the first; what stands between them in the text does not hold it up.
  const Program program = program_of({{8}, {16}}, [](const std::vector<Value>& in) {
    const Value a = lax::psum(in[0], {"x"}), a2 = lax::psum(lax::neg(a), {"x"});
    const Value b = lax::psum(in[1], {"x"}), b2 = lax::psum(lax::neg(b), {"x"});
    return std::vector<Value>{a2, b2};
  });
  EXPECT_THAT(combined(program), ElementsAre("all-reduce 96 B over x", "all-reduce 96 B over x"));
}

TEST(CombineCollectives, OfGathersAndReduceScatters_TheDimensionsMayDiffer) {
  const Program program = program_of({{4, 8}, {8, 2}, {8}}, [](const std::vector<Value>& in) {
    return std::vector<Value>{lax::all_gather(in[0], {"x"}, 0), lax::all_gather(in[1], {"x"}, 1),
                              lax::psum_scatter(in[1], {"x"}, 0), lax::psum_scatter(in[0], {"x"}, 1)};
  });
  EXPECT_THAT(combined(program), ElementsAre("all-gather 768 B over x", "reduce-scatter 192 B over x"));
}

TEST(CombineCollectives, UpToTheThreshold) {
  const Program program = program_of({{64}, {64}, {64}, {256}}, [](const std::vector<Value>& in) {
    std::vector<Value> out;
    for (const Value& x : in) out.push_back(lax::psum(x, {"x"}));
    return out;
  });
  EXPECT_THAT(combined(program, 512),
              ElementsAre("all-reduce 512 B over x", "all-reduce 1.0 KiB over x", "all-reduce 256 B over x"));
  EXPECT_EQ(combined(program, 0).size(), 4u);
  EXPECT_EQ(combined(program, 100).size(), 4u);
}

TEST(CombineCollectives, TheReasonNamesEach) {
  Program program = program_of({{64}, {8, 4}}, [](const std::vector<Value>& in) {
    return std::vector<Value>{lax::psum(in[0], {"x"}), lax::psum(in[1], {"x"})};
  });
  CommunicationReasons reasons = {{{nullptr, 1}, "because of the batch"}};
  const Program one = combine_collectives(program, axes(), kCombineThresholdBytes, reasons);
  const std::vector<CommunicationLine> lines = communication(one, axes(), reasons);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0].reason, HasSubstr("2 in one:\n    f32[64] at "));
  EXPECT_THAT(lines[0].reason, HasSubstr("\n    f32[8,4] at "));
  EXPECT_THAT(lines[0].reason, HasSubstr("\n      because of the batch"));
}

}  // namespace
}  // namespace lockstep::sharding
