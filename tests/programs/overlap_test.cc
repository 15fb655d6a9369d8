// SPDX-License-Identifier: Apache-2.0
// Collectives that run beside computations: the same elements as those that are done in their places.

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/jit/callback.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"

namespace lockstep {
namespace {

using test::count;
using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::HasSubstr;
using ::testing::Not;

/// Compares a function over the mesh with overlap and without; returns how many collectives start early.
template <class F, class... Args>
std::size_t expect_same(const F& function, const Args&... args) {
  const auto beside = jit(function, {.combine_threshold_bytes = 0, .overlap_threshold_bytes = 1}),
             in_place = jit(function, {.combine_threshold_bytes = 0, .overlap_threshold_bytes = 0});
  const auto expected = tree::flatten(in_place(args...)).first;
  // Several times: what is started in one call must not reach into the next.
  for (int round = 0; round < 3; ++round) {
    const auto got = tree::flatten(beside(args...)).first;
    EXPECT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), expected[i].dtype());
      EXPECT_EQ(got[i].shape(), expected[i].shape());
      EXPECT_THAT(astype(got[i], float64).template to_host<double>(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-5),
                                       astype(expected[i], float64).template to_host<double>()))
          << i;
    }
  }
  const std::string text = beside.lower(args...).stablehlo;
  EXPECT_EQ(count(text, "lockstep_collective_start"), count(text, "lockstep_collective_done"));
  EXPECT_THAT(in_place.lower(args...).stablehlo, Not(HasSubstr("lockstep_collective_start")));
  return count(text, "lockstep_collective_start");
}

TEST(OverlappedCollectives, InGradients_EqualThoseWithoutOverlap) {
  struct Layer {
    Array w, b;
  };
  std::vector<Layer> layers;
  for (int i = 0; i < 4; ++i) layers.push_back({waves({16, 16}, i) * 0.3, waves({16}, i + 9)});
  const Array batch = device_put(waves({32, 16}, 5), NamedSharding(line_mesh(), P("x")));
  auto step = [](std::vector<Layer> layers, Array x) {
    const auto loss = [&](std::vector<Layer> layers) {
      Array h = x;
      for (const Layer& layer : layers) h = tanh(matmul(h, layer.w) + layer.b);
      return mean(square(h));
    };
    std::vector<Layer> gradients = grad(loss)(layers);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      gradients[i].w = layers[i].w - 0.1 * gradients[i].w;
      gradients[i].b = layers[i].b - 0.1 * gradients[i].b;
    }
    return gradients;
  };
  EXPECT_GE(expect_same(step, layers, batch), 6u) << "all but the last of the backward pass";
}

TEST(OverlappedCollectives, OfEveryKind_EqualThoseWithoutOverlap) {
  const Mesh mesh = square_mesh();
  auto f = shard_map(
      [&](Array a, Array b) {
        std::vector<Array> out;
        Array work = a;
        for (const char* axis : {"x", "y"}) {
          for (const Array& part : {a, b}) {
            const auto meanwhile = [&] { work = tanh(matmul(work, matmul(transpose(work), a))); };
            out.push_back(psum(part, axis));
            meanwhile();
            out.push_back(pmax(part * 2, axis));
            meanwhile();
            out.push_back(all_gather(part, axis, {.axis = 0, .tiled = true}));
            meanwhile();
            out.push_back(all_gather(part, axis, {.axis = 1, .tiled = true}));
            out.push_back(psum_scatter(part, axis, {.scatter_dimension = 1, .tiled = true}));
            meanwhile();
            out.push_back(ppermute(part, axis, {{0, 1}}));
            out.push_back(all_to_all(part, axis, 0, 1));
            // This one needs the result of one of them.
            out.push_back(psum(matmul(out.back(), transpose(out.back())), axis));
          }
        }
        out.push_back(work);
        for (Array& array : out) array = reshape(pvary(array, {"x", "y"}), {1, 1, -1});
        return out;
      },
      {.mesh = mesh, .in_specs = {P("x", "y"), P("x", "y")}, .out_specs = {P("x", "y")}});
  EXPECT_GE(expect_same(f, waves({8, 8}), waves({8, 8}, 2)), 10u);
}

/// In a loop the same collective is started in each step.
TEST(OverlappedCollectives, WithinLoopsAndBranches_EqualThoseWithoutOverlap) {
  auto f = shard_map(
      [](Array a, Array b) {
        auto step = [&](Array carry, Array x) {
          const Array s = psum(carry * x, "x");
          Array meanwhile = matmul(transpose(carry), carry);
          const Array u = cond(
              psum(sum(meanwhile), "x") > 0,
              [](Array y) {
                const Array t = psum(y, "x");
                return pvary(t, "x") + matmul(y, matmul(transpose(y), y));
              },
              [](Array y) { return sin(y); }, carry);
          return std::pair(tanh(u + matmul(s, meanwhile)), sum(s));
        };
        auto [carry, sums] = scan(step, a, b);
        return std::pair(carry, sums);
      },
      {.mesh = line_mesh(), .in_specs = {P("x"), P()}, .out_specs = {P("x"), P()}});
  EXPECT_GE(expect_same(f, waves({16, 4}), waves({5}, 3)), 2u);
}

TEST(OverlappedCollectives, AboveTheThreshold_AreSplitIntoStartAndDone) {
  auto f = shard_map(
      [](Array x) {
        const Array s = psum(x, "x");
        return pvary(s, "x") + matmul(x, matmul(transpose(x), x));
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  const Array x = waves({16, 4});
  EXPECT_THAT(jit(f, {.overlap_threshold_bytes = 1}).lower(x).partitioned,
              ::testing::ContainsRegex("psum[^\n]*\n[^\n]*transpose[^\n]*\n[^\n]*dot_general[^\n]*\n"
                                       "[^\n]*dot_general[^\n]*\n[^\n]*collective_done"));
  // On one host only if asked for.
  EXPECT_THAT(jit(f).lower(x).partitioned, Not(HasSubstr("collective_done")));
  // Larger than it.
  EXPECT_THAT(jit(f, {.overlap_threshold_bytes = 65}).lower(x).partitioned,
              Not(HasSubstr("collective_done")));
}

/// If the host's function failed, XLA would free what is in flight.
TEST(OverlappedCollectives, BesideHostFunctions_AreNotOverlapped) {
  auto f = shard_map(
      [](Array x) {
        const Array s = psum(x, "x");
        const Array y = pure_callback([](const HostArray& each) { return each; }, ResultType(x.shape()),
                                      matmul(x, matmul(transpose(x), x)));
        return pvary(s, "x") + y;
      },
      {.mesh = line_mesh(), .in_specs = {P("x")}, .out_specs = {P("x")}});
  EXPECT_THAT(jit(f, {.overlap_threshold_bytes = 1}).lower(waves({16, 4})).partitioned,
              Not(HasSubstr("collective_done")));
}

}  // namespace
}  // namespace lockstep
