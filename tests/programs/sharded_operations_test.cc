// SPDX-License-Identifier: Apache-2.0
// Each class of operations over meshes of four devices, its operands split in many ways.

#include <random>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/random/random.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::line_mesh;
using test::square_mesh;
using test::waves;

using Operands = std::vector<Array>;

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Operands(Operands)> function;
};

class ShardedOperations : public ::testing::TestWithParam<Case> {};

/// A random spec for the shape: each axis of the mesh splits one of the dimensions that it divides, or none.
P random_spec(const Mesh& mesh, const Shape& shape, std::mt19937& random) {
  std::vector<std::vector<std::string>> entries(shape.size());
  Shape left = shape;
  for (const std::string& axis : mesh.axis_names()) {
    const std::size_t d = random() % (shape.size() + 1);
    if (d == shape.size() || left[d] % mesh.axis_size(axis) != 0) continue;
    left[d] /= mesh.axis_size(axis);
    entries[d].push_back(axis);
  }
  return P::from_entries(std::move(entries));
}

TEST_P(ShardedOperations, OverAnySplit_EqualOneDevice) {
  const Case& test = GetParam();
  auto function = jit([&](Operands operands) { return test.function(std::move(operands)); });
  Operands alone;
  for (std::size_t i = 0; i < test.shapes.size(); ++i)
    alone.push_back(waves(test.shapes[i], static_cast<int>(i) + 2));
  const Operands expected = function(alone);
  std::mt19937 random(7);
  for (const Mesh& mesh : {line_mesh(), square_mesh()}) {
    for (int round = 0; round < 4; ++round) {
      Operands split;
      std::string trace = mesh.to_string();
      for (const Array& operand : alone) {
        P spec = random_spec(mesh, operand.shape(), random);
        trace += " " + spec.to_string();
        split.push_back(device_put(operand, NamedSharding(mesh, spec)));
      }
      SCOPED_TRACE(trace);
      const Operands actual = function(split);
      ASSERT_EQ(actual.size(), expected.size());
      for (std::size_t i = 0; i < actual.size(); ++i) expect_equal(actual[i], expected[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    OverMeshes, ShardedOperations,
    ::testing::Values(
        Case{"Elementwise",
             {{8, 4}, {8, 4}, {4}},
             [](Operands x) {
               return Operands{exp(x[0]) * x[1] + x[2], where(x[0] > x[1], x[0], x[1])};
             }},
        Case{"Sums",
             {{8, 4}},
             [](Operands x) {
               return Operands{sum(x[0]), sum(x[0], 0), mean(x[0], 1), prod(x[0], 1)};
             }},
        Case{"Extremes",
             {{8, 4}},
             [](Operands x) {
               return Operands{max(x[0]), min(x[0], 0), argmax(x[0], 0), argmax(x[0], 1), argmin(x[0])};
             }},
        Case{"Matmul", {{8, 4}, {4, 8}}, [](Operands x) { return Operands{matmul(x[0], x[1])}; }},
        Case{
            "BatchedMatmul", {{4, 8, 4}, {4, 4, 2}}, [](Operands x) { return Operands{matmul(x[0], x[1])}; }},
        Case{"Reshape",
             {{8, 4}},
             [](Operands x) {
               return Operands{reshape(x[0], {4, 8}), reshape(x[0], {2, 4, 4}), ravel(x[0])};
             }},
        Case{"Transpose",
             {{4, 8, 4}},
             [](Operands x) {
               return Operands{transpose(x[0]), swapaxes(x[0], 0, 1)};
             }},
        Case{"Slice",
             {{8, 8}},
             [](Operands x) {
               return Operands{slice(x[0], {1, 0}, {7, 8}, {2, 1}), slice(x[0], {0, 4}, {8, 8})};
             }},
        Case{"Pad",
             {{8, 4}},
             [](Operands x) {
               return Operands{pad(x[0], {{1, 3}, {0, 0}}, 2.5), pad(x[0], {{0, 0}, {2, 2}})};
             }},
        Case{"Concatenate",
             {{8, 4}, {4, 4}, {8, 4}},
             [](Operands x) {
               return Operands{concatenate({x[0], x[1]}, 0), concatenate({x[0], x[2]}, 1),
                               stack({x[0], x[2]})};
             }},
        Case{"DynamicSlice",
             {{8, 4}, {4, 2}},
             [](Operands x) {
               Array start = astype(sum(x[1]) * 0 + 3, int32);
               return Operands{dynamic_slice(x[0], {start, 0}, {4, 4}),
                               dynamic_update_slice(x[0], x[1], {2, start})};
             }},
        Case{"Indexing",
             {{8, 4}, {4, 4}},
             [](Operands x) {
               const Array rows = astype(x[1][{slice(), 0}] * 7, int32);
               return Operands{x[0][rows], x[0][{slice(1, none, 2), newaxis, 1}], x[0].at(rows).add(x[1]),
                               x[0].at({slice(2, 6)}).set(x[1]),
                               take_along_axis(x[0], abs(astype(x[1], int32)), 0)};
             }},
        Case{"Order",
             {{8, 4}},
             [](Operands x) {
               return Operands{sort(x[0]),
                               sort(x[0], 0),
                               cumsum(x[0], 0),
                               top_k(x[0], 2).first,
                               searchsorted(sort(ravel(x[0])), x[0]),
                               median(x[0], 1)};
             }},
        Case{"Windows",
             {{4, 8, 8, 4}, {3, 3, 4, 4}},
             [](Operands x) {
               return Operands{
                   nn::conv(x[0], x[1]), nn::max_pool(x[0], {2, 2}, {.strides = {2, 2}}),
                   nn::conv(x[0], x[1][{slice(), slice(), slice(0, 2)}], {.feature_group_count = 2})};
             }},
        Case{"IndexGradients",
             {{8, 4}, {4, 4, 4, 2}},
             [](Operands x) {
               const Array ids = remainder(reshape(arange(16), {4, 4}) * 5, 8);
               auto loss = [&](Array table) {
                 return sum(square(nn::embedding(table, ids)) * ids[{slice(), slice(), newaxis}]);
               };
               auto pooled = [&](Array image) {
                 return sum(square(nn::max_pool(nn::conv(image, ones({3, 3, 2, 2})), {2, 2})));
               };
               return Operands{grad(loss)(x[0]), grad(pooled)(x[1])};
             }},
        Case{"Random",
             {{8, 4}},
             [](Operands x) {
               return Operands{x[0] + random::uniform(random::key(3), {8, 4}),
                               x[0] * random::normal(random::fold_in(random::key(3), 1), {8, 4})};
             }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep
