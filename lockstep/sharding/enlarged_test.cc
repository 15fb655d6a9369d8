// SPDX-License-Identifier: Apache-2.0
// Values that are made from less data than they have: what they are made from moves, not they.
#include "lockstep/sharding/enlarged.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/program/primitives/reduction.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/reference_evaluator_test.h"
#include "lockstep/sharding/test_devices_test.h"

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;
using testing::Index;
using testing::Tensor;

const ir::AxisEnv kOfFour({{"data", 4}});

using Function = std::function<ir::Value(const std::vector<ir::Value>&)>;

ir::Program program_of(const std::vector<Aval>& inputs, const Function& function) {
  ir::Builder builder("f");
  std::vector<ir::Value> values;
  for (const Aval& aval : inputs) values.push_back(builder.input(aval));
  const ir::Value outputs[] = {function(values)};
  return builder.finish(outputs);
}

std::vector<std::string> exchanges(const Partitioned& partitioned, const ir::AxisEnv& axes = kOfFour) {
  std::vector<std::string> all;
  for (const CommunicationLine& line : communication(partitioned.program, axes))
    all.push_back(line.kind + " of " + std::to_string(line.bytes) + " B");
  return all;
}

ir::Value over_features(const ir::Value& w, const ir::Value& x) {
  return ir::lax::broadcast_in_dim(w, x.aval().shape, {x.aval().rank() - 1});
}

const Aval kRows{DType::kF32, {8, 16, 32}, false, {}}, kScale{DType::kF32, {32}, false, {}};

TEST(Enlarged, SplitScaleOfSplitRows_IsGatheredBeforeItIsBroadcast) {
  const ir::Program program =
      program_of({kRows, kScale}, [](auto in) { return ir::lax::mul(in[0], over_features(in[1], in[0])); });
  const Partitioned partitioned = partition(program, {kOfFour, {P("data"), P("data")}, {std::nullopt}});
  EXPECT_EQ(to_string(partitioned.program),
            "f(a:f32[2,16,32], b:f32[8])\n"
            "  c:f32[32] = all_gather[axes=(data) axis_size=4 dimension=0] b\n"
            "  d:f32[2,16,32] = broadcast_in_dim[shape=[2,16,32] broadcast_dimensions=[2]] c\n"
            "  e:f32[2,16,32] = mul a d\n"
            "  return e\n");
  EXPECT_EQ(partitioned.out_specs[0], P("data"));
}

TEST(Enlarged, TheChosenWay_IsExplainedWithTheOthersCosts) {
  const ir::Program program =
      program_of({kRows, kScale}, [](auto in) { return ir::lax::mul(in[0], over_features(in[1], in[0])); });
  const PartitionOptions options{kOfFour, {P("data"), P("data")}, {std::nullopt}};
  const Partitioned partitioned = partition(program, options);
  const auto lines = communication(partitioned.program, kOfFour);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(
      lines[0].reason,
      "operand 0 of broadcast_in_dim, f32[32], goes from P('data') to P(), and what is made of it is "
      "computed again instead of moved: operand 1 of mul, f32[8,16,32], goes from P(None, None, 'data') to "
      "P('data'); this way a device receives 96 B; not taken: operand 0 from P('data') to P(None, None, "
      "'data') (3.0 KiB), result 0 from P(None, None, 'data') to P('data') (3.0 KiB); or operand 1 from "
      "P(None, None, 'data') to P('data') (3.0 KiB)");
}

TEST(Enlarged, ScaleOfManyUses_IsGatheredOnce) {
  const ir::Program program = program_of({kRows, kScale}, [](auto in) {
    const ir::Value scale = over_features(in[1], in[0]);
    const ir::Value once = ir::lax::tanh(ir::lax::mul(in[0], scale));
    return ir::lax::mul(ir::lax::add(once, scale), over_features(ir::lax::neg(in[1]), in[0]));
  });
  const PartitionOptions options{kOfFour, {P("data"), P("data")}, {std::nullopt}};
  EXPECT_THAT(exchanges(partition(program, options)), ElementsAre("all-gather of 128 B"));
}

/// The smallest value is of bf16, half as large as what it becomes.
TEST(Enlarged, AChainOfOperations_MovesItsSmallestValue) {
  const Aval scale{DType::kBF16, {4, 8}, false, {}};
  const ir::Program program = program_of({kRows, scale}, [](auto in) {
    const ir::Value wide = ir::lax::convert_element_type(in[1], DType::kF32);
    const ir::Value w = ir::lax::reshape(ir::lax::mul(wide, wide), {32});
    return ir::lax::sub(ir::lax::exp(over_features(w, in[0])), in[0]);
  });
  const PartitionOptions options{kOfFour, {P("data"), P("data")}, {std::nullopt}};
  EXPECT_THAT(exchanges(partition(program, options)), ElementsAre("all-gather of 64 B"));
}

TEST(Enlarged, ConversionToAWiderType_IsDoneAfterTheMove) {
  const Aval half{DType::kBF16, {64, 64}, false, {}};
  const ir::Program program =
      program_of({half}, [](auto in) { return ir::lax::convert_element_type(in[0], DType::kF32); });
  EXPECT_THAT(exchanges(partition(program, {kOfFour, {P("data")}, {P()}})),
              ElementsAre("all-gather of 8192 B"));
  const ir::Program narrows =
      program_of({kRows}, [](auto in) { return ir::lax::convert_element_type(in[0], DType::kBF16); });
  EXPECT_THAT(exchanges(partition(narrows, {kOfFour, {P("data")}, {P()}})),
              ElementsAre("all-gather of 8192 B"));
}

/// The sum over the devices' rows is one of the small value, and each device keeps its part.
TEST(Enlarged, SumOfTheRows_IsScattered) {
  const ir::Program program = program_of({kRows, kRows}, [](auto in) {
    return ir::lax::reduce_sum(ir::lax::mul(in[0], in[1]), {0, 1});
  });
  EXPECT_THAT(exchanges(partition(program, {kOfFour, {P("data"), P("data")}, {P("data")}})),
              ElementsAre("reduce-scatter of 128 B"));
}

/// A partial value is put together before it is broadcast.
TEST(Enlarged, APartialStatistic_IsSummedBeforeItIsBroadcast) {
  const ir::Program program = program_of({kRows, kRows}, [](auto in) {
    const ir::Value sum = ir::lax::reduce_sum(in[0], {0, 1});
    return ir::lax::mul(over_features(sum, in[1]), ir::lax::exp(in[1]));
  });
  for (const PartitionSpec& spec : {P("data"), P(none, "data")}) {
    EXPECT_THAT(exchanges(partition(program, {kOfFour, {P("data"), spec}, {std::nullopt}})),
                ElementsAre("all-reduce of 128 B"));
  }
}

/// A large value that is as large as what it is made from stays where it is.
TEST(Enlarged, AValueOfLargeOperands_IsMovedItself) {
  const ir::Program program = program_of(
      {kRows, kRows}, [](auto in) { return ir::lax::exp(ir::lax::mul(in[0], ir::lax::neg(in[1]))); });
  EXPECT_THAT(exchanges(partition(program, {kOfFour, {P("data"), P("data")}, {P(none, "data")}})),
              ElementsAre("all-to-all of 4096 B"));
}

// The generated walk: ways to enlarge × where the small value's elements are in the large one × its split ×
// the split of what it meets × how it is used.

struct Enlarging {
  std::string name;
  std::function<ir::Value(const ir::Value& small, const Shape& to, std::int64_t d)> of;
};

ir::Value along(const ir::Value& x, const Shape& to, std::int64_t d) {
  return ir::lax::broadcast_in_dim(x, to, {d});
}

std::vector<Enlarging> enlargings() {
  return {
      {"broadcast", along},
      {"broadcast of a reshape",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         Shape ones(to.size(), 1);
         ones[static_cast<std::size_t>(d)] = x.aval().shape[0];
         return ir::lax::broadcast_in_dim(ir::lax::reshape(x, ones), to, {0, 1, 2});
       }},
      {"broadcast twice",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         const std::int64_t e = d == 2 ? 1 : 2;
         const Shape between = {to[static_cast<std::size_t>(std::min(d, e))],
                                to[static_cast<std::size_t>(std::max(d, e))]};
         const ir::Value once = ir::lax::broadcast_in_dim(x, between, {d < e ? 0 : 1});
         return ir::lax::broadcast_in_dim(ir::lax::neg(once), to, {std::min(d, e), std::max(d, e)});
       }},
      {"reshape of a broadcast",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         Shape two(to.begin(), to.end());
         two.insert(two.begin() + d + 1, 2);
         two[static_cast<std::size_t>(d)] /= 2;
         ir::Value pairs = ir::lax::reshape(x, {x.aval().shape[0] / 2, 2});
         return ir::lax::reshape(ir::lax::broadcast_in_dim(pairs, two, {d, d + 1}), to);
       }},
      {"transposed broadcast",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         const std::vector<std::int64_t> back = {2, 1, 0};
         return ir::lax::transpose(along(x, {to[2], to[1], to[0]}, 2 - d), back);
       }},
      {"functions of a broadcast",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         const ir::Value large = along(x, to, d);
         return ir::lax::max(ir::lax::mul(large, large),
                             ir::lax::sub(along(ir::lax::neg(x), to, d), ir::lax::full_like(large, 1)));
       }},
      {"conversion of a broadcast",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         const ir::Value narrow = ir::lax::convert_element_type(ir::lax::sign(x), DType::kI8);
         return ir::lax::convert_element_type(along(narrow, to, d), DType::kF32);
       }},
      {"positions that are compared",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         const ir::Value places = ir::lax::iota(x, DType::kF32, to, (d + 1) % 3);
         return ir::lax::select(ir::lax::lt(places, along(x, to, d)), places, ir::lax::neg(places));
       }},
      {"pad of a broadcast",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         Shape less = to;
         const auto e = static_cast<std::size_t>((d + 1) % 3);
         less[e] -= 2;
         std::vector<std::int64_t> low(3), high(3), none(3);
         low[e] = high[e] = 1;
         return ir::lax::pad(along(x, less, d), ir::lax::full(x, ir::Scalar::of(2), DType::kF32, {}), low,
                             high, none);
       }},
      {"concatenation of two broadcasts",
       [](const ir::Value& x, const Shape& to, std::int64_t d) {
         Shape half = to;
         const std::int64_t e = (d + 2) % 3;
         half[static_cast<std::size_t>(e)] /= 2;
         const ir::Value both[] = {along(x, half, d), along(ir::lax::neg(x), half, d)};
         return ir::lax::concatenate(std::span<const ir::Value>(both), e);
       }},
  };
}

struct Using {
  std::string name;
  std::function<ir::Value(const ir::Value& large, const ir::Value& x)> of;
};

std::vector<Using> usings() {
  return {
      {"product", [](const ir::Value& large, const ir::Value& x) { return ir::lax::mul(large, x); }},
      {"second operand", [](const ir::Value& large, const ir::Value& x) { return ir::lax::sub(x, large); }},
      {"choice", [](const ir::Value& large,
                    const ir::Value& x) { return ir::lax::select(ir::lax::gt(x, large), x, large); }},
      {"two uses",
       [](const ir::Value& large, const ir::Value& x) {
         return ir::lax::add(ir::lax::mul(large, x), ir::lax::mul(x, ir::lax::abs(large)));
       }},
      {"maximum of products",
       [](const ir::Value& large, const ir::Value& x) {
         return ir::lax::reduce_max(ir::lax::mul(large, x), {2});
       }},
  };
}

class EnlargedOnMesh : public ::testing::TestWithParam<Shape> {};

TEST_P(EnlargedOnMesh, ABroadcastValue_MovesOnlyTheSmallValuesBytes) {
  static const std::vector<std::string> kNames = {"a", "b"};
  const Mesh mesh = testing::test_mesh(GetParam(), {kNames.begin(), kNames.begin() + GetParam().size()});
  const ir::AxisEnv& axes = mesh.axis_env();
  const ir::AxisEnvScope scope(axes);
  const Shape to = {4, 4, 8};
  const Tensor x =
      testing::make(to, [](const Index& i) { return double((i[0] * 5 + i[1] * 3 + i[2]) % 7) - 3; });
  std::vector<std::vector<std::string>> splits = {{"a"}};
  if (axes.axes().size() == 2) splits = {{"a"}, {"b"}, {"a", "b"}, {"b", "a"}};
  int programs = 0;
  for (const Enlarging& enlarging : enlargings()) {
    for (std::int64_t d = 0; d < 3; ++d) {
      const Shape small = {to[static_cast<std::size_t>(d)]};
      const Tensor w = testing::make(small, [](const Index& i) { return double(i[0] * 3 % 5) - 2; });
      for (const Using& use : usings()) {
        const ir::Program program =
            program_of({{DType::kF32, small, false, {}}, {DType::kF32, to, false, {}}},
                       [&](auto in) { return use.of(enlarging.of(in[0], to, d), in[1]); });
        for (const std::vector<std::string>& of_small : splits) {
          for (std::size_t e = 0; e < 3; ++e) {
            std::vector<std::vector<std::string>> entries(3);
            entries[e] = splits.back();
            const PartitionSpec small_spec = PartitionSpec::from_entries({of_small}),
                                x_spec = PartitionSpec::from_entries(entries);
            const Partitioned partitioned = partition(program, {axes, {small_spec, x_spec}, {std::nullopt}});
            const std::string what = enlarging.name + " along " + std::to_string(d) + ", " + use.name +
                                     ", of " + small_spec.to_string() + " and " + x_spec.to_string() + "\n" +
                                     to_string(program) + to_string(partitioned.program);
            // A maximum over a split dimension is one of the results. A reshape may need a part of the axes
            // gathered, and the rest later.
            const bool reduces = e == 2 && use.name == "maximum of products";
            std::int64_t bytes = 0, largest = 0;
            for (const CommunicationLine& line : communication(partitioned.program, axes)) {
              if (reduces && line.kind == "all-reduce") continue;
              bytes += line.bytes;
              largest = std::max(largest, line.bytes);
            }
            ASSERT_LE(largest, num_elements(small) * 4) << what;
            ASSERT_LT(bytes, num_elements(small) * 8) << what;
            const auto copies = static_cast<std::size_t>(mesh.size());
            const auto expected = testing::evaluate(
                program, axes, {std::vector<Tensor>(copies, w), std::vector<Tensor>(copies, x)});
            const auto found =
                testing::evaluate(partitioned.program, axes,
                                  {testing::parts(w, mesh, small_spec), testing::parts(x, mesh, x_spec)});
            ASSERT_TRUE(found[0] == testing::parts(expected[0][0], mesh, partitioned.out_specs[0])) << what;
            ++programs;
          }
        }
      }
    }
  }
  EXPECT_EQ(programs, static_cast<int>(enlargings().size() * 3 * usings().size() * splits.size() * 3));
}

INSTANTIATE_TEST_SUITE_P(Meshes, EnlargedOnMesh, ::testing::Values(Shape{4}, Shape{2, 2}));

}  // namespace
}  // namespace lockstep::sharding
