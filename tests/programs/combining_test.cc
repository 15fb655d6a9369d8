// SPDX-License-Identifier: Apache-2.0
// Collectives that are combined: the same elements as those that are not.

#include <gmock/gmock.h>

#include <string>
#include <tuple>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::line_mesh;
using test::square_mesh;
using test::waves;

template <class F, class... Args>
std::size_t num_collectives(const F& function, const Args&... args) {
  return function.lower(args...).communication().size();
}

std::vector<double> numbers(const Array& x) {
  if (info(x.dtype()).kind != DTypeKind::kComplex) return astype(x, float64).to_host<double>();
  std::vector<double> all = numbers(real(x)), imaginary = numbers(imag(x));
  all.insert(all.end(), imaginary.begin(), imaginary.end());
  return all;
}

/// Compares a function over the mesh with and without combining; returns its numbers of collectives.
template <class F, class... Args>
std::pair<std::size_t, std::size_t> expect_same(const F& function, const Args&... args) {
  auto one = jit(function), each = jit(function, {.combine_threshold_bytes = 0});
  const auto got = tree::flatten(one(args...)).first, expected = tree::flatten(each(args...)).first;
  EXPECT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].dtype(), expected[i].dtype());
    EXPECT_EQ(got[i].shape(), expected[i].shape());
    EXPECT_THAT(numbers(got[i]), ::testing::Pointwise(::testing::DoubleNear(1e-5), numbers(expected[i])))
        << i;
  }
  return {num_collectives(one, args...), num_collectives(each, args...)};
}

TEST(CombinedCollectives, InADataParallelStep_EqualSeparateOnes) {
  struct Parameters {
    Array w1, b1, w2, b2;
  };
  const Parameters parameters = {waves({8, 16}), waves({16}, 2), waves({16, 4}, 3), waves({4}, 4)};
  const Array batch = device_put(waves({32, 8}, 5), NamedSharding(line_mesh(), P("x")));
  auto step = [](Parameters p, Array x) {
    const auto loss = [&](Parameters p) {
      const Array h = tanh(matmul(x, p.w1) + p.b1);
      return mean(square(matmul(h, p.w2) + p.b2));
    };
    return value_and_grad(loss)(p);
  };
  EXPECT_EQ(expect_same(step, parameters, batch), std::pair(std::size_t{1}, std::size_t{5}));
}

TEST(CombinedCollectives, OfEveryKindAndManyDTypes_EqualSeparateOnes) {
  const Mesh mesh = square_mesh();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI8, DType::kU32, DType::kC64}) {
    SCOPED_TRACE(info(dtype).name);
    const bool is_real = info(dtype).kind != DTypeKind::kComplex;
    auto f = shard_map(
        [&](Array a, Array b) {
          std::vector<Array> out;
          const Array c = sum(a);
          for (const char* axis : {"x", "y"}) {
            for (const Array& part : {a, b, c}) {
              out.push_back(psum(part, axis));
              if (is_real) out.push_back(pmax(part, axis));
              if (is_real) out.push_back(pmin(part, axis));
              // These need the results of the first ones.
              out.push_back(psum(sum(out.back()) * c, {"x", "y"}));
            }
            for (const Array& part : {a, b}) {
              for (int d = 0; d < part.ndim(); ++d) {
                out.push_back(all_gather(part, axis, {.axis = d, .tiled = true}));
                out.push_back(psum_scatter(part, axis, {.scatter_dimension = d, .tiled = true}));
              }
            }
          }
          for (Array& array : out) array = reshape(pvary(array, {"x", "y"}), {1, 1, -1});
          return out;
        },
        {.mesh = mesh, .in_specs = {P("x", "y"), P("x", none, "y")}, .out_specs = {P("x", "y")}});
    const Array a = astype(waves({4, 8}) * 9, dtype), b = astype(waves({4, 2, 4}, 2) * 9, dtype);
    const auto [one, each] = expect_same(f, a, b);
    EXPECT_LE(2 * one, each);
  }
}

/// Bits, and not numbers, are put one behind the other: a NaN keeps its own.
TEST(CombinedCollectives, GathersOfSeveralDTypes_EqualSeparateOnes) {
  auto f = shard_map(
      [](Array x) {
        std::vector<Array> out;
        for (const DType dtype :
             {DType::kF32, DType::kI32, DType::kU32, DType::kBF16, DType::kF16, DType::kI16, DType::kF64,
              DType::kI64, DType::kI8, DType::kU8, DType::kBool, DType::kC64}) {
          Array y = astype(x, dtype);
          if (dtype == DType::kF32) y = where(x > 0, y, std::numeric_limits<float>::quiet_NaN());
          for (const int d : {0, 1}) {
            const Array all = all_gather(y, "x", {.axis = d, .tiled = true});
            out.push_back(dtype == DType::kF32 ? nan_to_num(all, {.nan = 17.}) : all);
          }
        }
        for (Array& array : out) array = reshape(array, {1, -1});
        return out;
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  const auto [one, each] = expect_same(f, waves({8, 3}) * 9);
  EXPECT_EQ(each, 24u);
  EXPECT_EQ(one, 6u);
}

TEST(CombinedCollectives, WithinLoopsAndBranches_EqualSeparateOnes) {
  auto f = shard_map(
      [](Array a, Array b) {
        auto step = [&](std::pair<Array, Array> carry, Array x) {
          const Array s = psum(carry.first * x, "x"), t = psum(carry.second + x, "x");
          const Array u = cond(
              sum(s) > 0, [](Array y) { return psum(sin(y), "x") + psum(cos(y), "x"); },
              [](Array y) { return psum(y, "x"); }, carry.first);
          return std::pair(std::pair(pvary(tanh(s), "x"), carry.second), pvary(mean(t) + sum(u), "x"));
        };
        auto [carry, stacked] = scan(step, std::pair(a, b), b);
        return std::tuple(carry.first, stacked, psum(carry.first, "x"), psum(stacked, "x"));
      },
      {.mesh = line_mesh(), .in_specs = {P("x"), P("x")}, .out_specs = {P("x"), P("x"), P(), P()}});
  const auto [one, each] = expect_same(f, waves({12}), waves({20}, 3));
  EXPECT_EQ(one, 4u);
  EXPECT_EQ(each, 7u);
}

}  // namespace
}  // namespace lockstep
