// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/combining.h"
#include "lockstep/sharding/communication.h"
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

const ir::AxisEnv& axes() {
  static const ir::AxisEnv env({{"x", 4}, {"y", 2}});
  return env;
}

/// The collectives of what comes out: "all-reduce 512 B over x".
std::vector<std::string> combined(const ir::Program& program, std::int64_t threshold = kCombineThresholdBytes,
                                  std::int64_t gathered = kKeptGatheredBytes) {
  std::vector<std::string> all;
  for (const CommunicationLine& line :
       communication(combine_collectives(program, axes(), {threshold, gathered}), axes())) {
    std::string over;
    for (const std::string& axis : line.axes) over += (over.empty() ? "" : ",") + axis;
    all.push_back(line.kind + " " + bytes_text(line.bytes) + " over " + over);
  }
  return all;
}

/// A program of inputs of these shapes.
template <class Body>
ir::Program program_of(const std::vector<Shape>& shapes, const Body& body) {
  const ir::AxisEnvScope scope(axes());
  ir::Builder b("f");
  std::vector<ir::Value> inputs;
  for (const Shape& shape : shapes) inputs.push_back(b.input({DType::kF32, shape}));
  const std::vector<ir::Value> outputs = body(inputs);
  return b.finish(outputs);
}

TEST(CombineCollectives, CollectivesOfTheSameKindAndAxes_BecomeOne) {
  const ir::Program program = program_of({{64}, {8, 4}, {}, {16}}, [](const std::vector<ir::Value>& in) {
    return std::vector<ir::Value>{ir::lax::psum(in[0], {"x"}), ir::lax::psum(in[1], {"x"}),
                                  ir::lax::pmax(in[2], {"x"}), ir::lax::psum(in[2], {"x"}),
                                  ir::lax::psum(in[3], {"y"})};
  });
  EXPECT_THAT(combined(program),
              ElementsAre("all-reduce 388 B over x", "all-reduce 4 B over x", "all-reduce 64 B over y"));
}

TEST(CombineCollectives, CollectivesThatNeedAnothersResult_AreCombinedAfterIt) {
  // The second round needs the first; what stands between them in the text does not hold it up.
  const ir::Program program = program_of({{8}, {16}}, [](const std::vector<ir::Value>& in) {
    const ir::Value a = ir::lax::psum(in[0], {"x"}), a2 = ir::lax::psum(ir::lax::neg(a), {"x"});
    const ir::Value b = ir::lax::psum(in[1], {"x"}), b2 = ir::lax::psum(ir::lax::neg(b), {"x"});
    return std::vector<ir::Value>{a2, b2};
  });
  EXPECT_THAT(combined(program), ElementsAre("all-reduce 96 B over x", "all-reduce 96 B over x"));
}

TEST(CombineCollectives, GathersAndReduceScattersOfDifferentDimensions_AreCombined) {
  const ir::Program program = program_of({{4, 8}, {8, 2}, {8}}, [](const std::vector<ir::Value>& in) {
    return std::vector<ir::Value>{ir::lax::all_gather(in[0], {"x"}, 0), ir::lax::all_gather(in[1], {"x"}, 1),
                                  ir::lax::psum_scatter(in[1], {"x"}, 0),
                                  ir::lax::psum_scatter(in[0], {"x"}, 1)};
  });
  EXPECT_THAT(combined(program), ElementsAre("all-gather 768 B over x", "reduce-scatter 192 B over x"));
}

TEST(CombineCollectives, GathersOfDifferentDTypesOfOneSize_AreCombined) {
  const ir::Program program = program_of({{8}, {4}, {16}}, [](const std::vector<ir::Value>& in) {
    const ir::Value whole = ir::lax::convert_element_type(in[1], DType::kI32);
    return std::vector<ir::Value>{
        ir::lax::all_gather(in[0], {"x"}, 0), ir::lax::all_gather(whole, {"x"}, 0),
        ir::lax::all_gather(ir::lax::convert_element_type(in[2], DType::kBF16), {"x"}, 0),
        ir::lax::psum(in[0], {"x"}), ir::lax::psum(whole, {"x"})};
  });
  EXPECT_THAT(combined(program), ElementsAre("all-gather 192 B over x", "all-gather 128 B over x",
                                             "all-reduce 32 B over x", "all-reduce 16 B over x"));
}

TEST(CombineCollectives, CollectivesUpToTheThreshold_AreCombined) {
  const ir::Program program = program_of({{64}, {64}, {64}, {256}}, [](const std::vector<ir::Value>& in) {
    std::vector<ir::Value> out;
    for (const ir::Value& x : in) out.push_back(ir::lax::psum(x, {"x"}));
    return out;
  });
  EXPECT_THAT(combined(program, 512),
              ElementsAre("all-reduce 512 B over x", "all-reduce 1.0 KiB over x", "all-reduce 256 B over x"));
  EXPECT_EQ(combined(program, 0).size(), 4u);
  EXPECT_EQ(combined(program, 100).size(), 4u);
}

TEST(CombineCollectives, LargeGathers_AreNotMovedBeforeTheirLayer) {
  // Each layer has a small weight and a large one: only the small ones are there before their turn, and of
  // these no more than the options say.
  const ir::Program program =
      program_of({{1024}, {64}, {64}, {64}, {1024}, {1024}}, [](const std::vector<ir::Value>& in) {
        ir::Value h = ir::lax::pvary(ir::lax::neg(in[0]), {"x"});
        for (const std::size_t i : {1U, 2U, 3U}) {
          const ir::Value small = ir::lax::reduce_sum(ir::lax::all_gather(in[i], {"x"}, 0), {0});
          h = ir::lax::mul(h, ir::lax::broadcast_in_dim(small, {1024}, {}));
          if (i == 3) break;
          h = ir::lax::add(h, ir::lax::slice(ir::lax::all_gather(in[3 + i], {"x"}, 0), {0}, {1024}));
        }
        return std::vector<ir::Value>{h};
      });
  const std::string small = "all-gather 1.0 KiB over x", large = "all-gather 16.0 KiB over x";
  EXPECT_THAT(combined(program, 8 << 10), ElementsAre("all-gather 3.0 KiB over x", large, large));
  EXPECT_THAT(combined(program, 8 << 10, 2 << 10),
              ElementsAre("all-gather 2.0 KiB over x", large, large, small));
  EXPECT_THAT(combined(program, 8 << 10, 0), ElementsAre(small, large, small, large, small));
}

TEST(CombineCollectives, TheReason_NamesEachCombinedCollective) {
  ir::Program program = program_of({{64}, {8, 4}}, [](const std::vector<ir::Value>& in) {
    return std::vector<ir::Value>{ir::lax::psum(in[0], {"x"}), ir::lax::psum(in[1], {"x"})};
  });
  program.equations[1].reason = "because of the batch";
  const std::vector<CommunicationLine> lines =
      communication(combine_collectives(program, axes(), {}), axes());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0].reason, HasSubstr("2 in one:\n    f32[64] at "));
  EXPECT_THAT(lines[0].reason, HasSubstr("\n    f32[8,4] at "));
  EXPECT_THAT(lines[0].reason, HasSubstr("\n      because of the batch"));
}

}  // namespace
}  // namespace lockstep::sharding
