// SPDX-License-Identifier: Apache-2.0
// Layers of vision and language models against what flax and JAX give for them (model_layers.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/testing/errors.h"
#include "tests/golden/family.h"

namespace lockstep {
namespace {

using golden::compared;
using golden::numbers;
using golden::Tolerance;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

using Names = std::vector<std::pair<std::string, std::string>>;

void expect_jaxs(const std::string& name, const Array& found, const Tolerance& tolerance = {1e-5, 1e-5}) {
  golden::expect_named(name, found, tolerance);
}

/// The value, and the derivative of its sum times numbers by x and by each array of the layer, whose paths
/// are paired with the names of model_layers.py.
template <class Layer, class F>
void expect_layer(const std::string& name, const Layer& layer, F call, const Array& x, const Names& names,
                  const Tolerance& tolerance = {1e-5, 1e-5}) {
  auto loss = [&](const Layer& layer, const Array& x) {
    Array y = call(layer, x);
    return std::pair(sum(y * numbers(y.shape(), 9)), y);
  };
  auto [value, grads] =
      jit([&](const Layer& layer, const Array& x) { return value_and_grad<0, 1>(loss)(layer, x); })(layer, x);
  expect_jaxs(name, value.second, tolerance);
  expect_jaxs(name + ": by x", std::get<1>(grads), tolerance);
  std::map<std::string, Array> found;
  for (const auto& [path, leaf] : tree::leaves_with_path(std::get<0>(grads))) found[path] = leaf;
  for (const auto& [path, flaxs] : names) expect_jaxs(name + ": by " + flaxs, found.at(path), tolerance);
}

template <class Layer>
void expect_layer(const std::string& name, const Layer& layer, const Array& x, const Names& names) {
  expect_layer(
      name, layer, [](const Layer& layer, const Array& x) { return layer(x); }, x, names);
}

const Names kScaleAndBias = {{"scale", "scale"}, {"bias", "bias"}};
const Names kKernelAndBias = {{"kernel", "kernel"}, {"bias", "bias"}};

TEST(GroupNorm, GivesWhatFlaxGives) {
  const Array image = numbers({4, 3, 2, 6}, 1), scale = numbers({6}, 2), bias = numbers({6}, 3);
  for (int groups : {1, 2, 6}) {
    const nn::GroupNorm norm{.features = 6, .num_groups = groups, .scale = scale, .bias = bias};
    expect_layer("GroupNorm(" + std::to_string(groups) + ")", norm, image, kScaleAndBias);
  }
  expect_layer("GroupNorm(rows)", nn::GroupNorm{.features = 6, .num_groups = 3, .scale = scale, .bias = bias},
               numbers({4, 6}, 1), kScaleAndBias);
  // f16 with squares that overflow.
  const Array large = astype(image * 4000, float16);
  EXPECT_NEAR(max(astype(nn::group_norm(large, 2), float32)).item<float>(),
              max(nn::group_norm(astype(large, float32), 2)).item<float>(), 2e-3);

  const nn::GroupNorm made = nn::init(nn::GroupNorm{.features = 6, .num_groups = 2}, random::key(0));
  EXPECT_THAT(made.scale->to_host<float>(), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(
      error_of<ShapeError>([] { nn::init(nn::GroupNorm{.features = 6, .num_groups = 4}, random::key(0)); }),
      HasSubstr("[nn::GroupNorm] expected features that num_groups divides, got 6 and 4"));
  EXPECT_THAT(
      error_of<ShapeError>([&] { nn::group_norm(image, 4); }),
      HasSubstr("[group_norm] expected [batch, spatial..., features] with a number of features that the "
                "groups divide, got f32[4,3,2,6] and 4 groups (at model_layers_test.cc:"));
}

struct Normalized {
  Array y;
  nn::BatchStats stats;
};

TEST(BatchNorm, InTrainingAndOutside_GivesWhatFlaxGives) {
  const Array image = numbers({4, 3, 2, 6}, 1);
  const nn::BatchNorm norm{.features = 6, .momentum = 0.9, .scale = numbers({6}, 2), .bias = numbers({6}, 3)};
  const nn::BatchStats before{.features = 6, .mean = numbers({6}, 4), .var = numbers({6}, 5) + 1};
  for (bool training : {true, false}) {
    auto call = [&](const nn::BatchNorm& norm, const Array& x) {
      nn::BatchStats stats = before;
      return norm(x, stats, training);
    };
    expect_layer(training ? "BatchNorm(training)" : "BatchNorm", norm, call, image, kScaleAndBias);
  }
  nn::BatchStats after = before;
  norm(image, after, true);
  expect_jaxs("BatchNorm(training): mean", after.mean);
  expect_jaxs("BatchNorm(training): var", after.var);
  nn::BatchNorm as_torch = norm;
  as_torch.unbiased_var = true;
  after = before;
  as_torch(image, after, true);
  expect_jaxs("BatchNorm(unbiased): var", after.var);
  norm(image, after, false);
  expect_jaxs("BatchNorm(unbiased): var", after.var);  // which a use outside of training leaves
}

TEST(BatchNorm, OverAMesh_NormalizesByTheWholeBatch) {
  const Mesh mesh = make_mesh({{"data", 2}});
  const Array image = device_put(numbers({4, 3, 2, 6}, 1), NamedSharding(mesh, P("data")));
  nn::BatchNorm norm{.features = 6, .momentum = 0.9, .scale = numbers({6}, 2), .bias = numbers({6}, 3)};
  const nn::BatchStats before{.features = 6, .mean = numbers({6}, 4), .var = numbers({6}, 5) + 1};
  auto train = [&](const Array& x) {
    Normalized out{{}, before};
    out.y = norm(x, out.stats, true);
    return out;
  };
  auto expect_whole = [](const Normalized& found) {
    expect_jaxs("BatchNorm(training)", found.y);
    expect_jaxs("BatchNorm(training): var", found.stats.var);
  };
  expect_whole(jit(train)(image));
  norm.axis_name = {"data"};
  const tree::Rules<P> specs{{"y", P("data")}, {"*", P()}};
  expect_whole(jit(shard_map(train, {mesh, {P("data")}, {specs}}))(image));
  norm.unbiased_var = true;
  expect_jaxs("BatchNorm(unbiased): var",
              jit(shard_map(train, {mesh, {P("data")}, {specs}}))(image).stats.var);
}

TEST(BatchNorm, ItsStatistics_AreMadeByInit_AndKeepTheirDType) {
  struct Stats {
    std::vector<nn::BatchStats> norms{{.features = 2}, {.features = 3}};
  };
  const Stats stats = nn::init(Stats(), random::key(0));
  EXPECT_THAT(stats.norms[1].mean.to_host<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(stats.norms[0].var.to_host<float>(), ElementsAre(1, 1));
  const nn::BatchNorm norm = nn::init(nn::BatchNorm{.features = 2}, random::key(0));
  nn::BatchStats after = stats.norms[0];
  EXPECT_EQ(norm(full({4, 2}, 300, float16), after, true).dtype(), float32);  // that of scale and bias
  const nn::BatchNorm half = nn::init(nn::BatchNorm{.features = 2, .dtype = float16}, random::key(0));
  EXPECT_EQ(half(full({4, 2}, 300, float16), after, false).dtype(), float16);
  EXPECT_EQ(after.mean.dtype(), float32);
  EXPECT_NEAR(after.mean.to_host<float>()[0], 3, 1e-5);
  EXPECT_THAT(error_of<ShapeError>([&] {
                norm(ones({4, 3}), after, true);
              }),
              HasSubstr("[nn::BatchNorm] expected an array whose last dimensions are [2], got f32[4,3]"));
  nn::BatchStats none;
  EXPECT_THAT(error_of<Error>([&] {
                norm(ones({4, 2}), none, true);
              }),
              HasSubstr("[nn::BatchStats] expected a layer with its arrays"));
}

TEST(ConvTranspose, GivesWhatFlaxGives) {
  const Array image = numbers({2, 3, 4, 3}, 1);
  nn::ConvTranspose conv{
      .in_features = 3, .out_features = 5, .kernel_size = {3, 2}, .options = {.strides = {2, 1}}};
  conv.kernel = numbers({3, 2, 3, 5}, 2);
  conv.bias = numbers({5}, 3);
  expect_layer("ConvTranspose", conv, image, kKernelAndBias);
  conv.options = {.strides = {2, 3}, .padding = "VALID", .transpose_kernel = true};
  conv.kernel = numbers({3, 2, 5, 3}, 2);
  expect_layer("ConvTranspose(transposed kernel)", conv, image, kKernelAndBias);

  conv.axes = P("height", "width", "out", "in");
  EXPECT_EQ(nn::partition_rules(conv, {{"out", "tensor"}})("bias"), P("tensor"));
  EXPECT_EQ(nn::init(conv, random::key(0)).kernel.shape(), (Shape{3, 2, 5, 3}));
  EXPECT_THAT(error_of<ShapeError>(
                  [] { nn::init(nn::ConvTranspose{.in_features = 3, .out_features = 5}, random::key(0)); }),
              HasSubstr("[nn::ConvTranspose] expected kernel_size above 0, got []"));
}

TEST(Pooling, OfImagesWithTheFeaturesFirst_PoolsTheSpatialDimensions) {
  const Array image = numbers({2, 3, 6, 5}, 1);
  const nn::PoolOptions options{.strides = {2, 1}, .padding = "SAME", .dimension_numbers = "NCHW"};
  using Pool = Array (*)(const Operand&, const std::vector<std::int64_t>&, nn::PoolOptions);
  const std::vector<std::pair<std::string, Pool>> pools = {
      {"max_pool", nn::max_pool}, {"min_pool", nn::min_pool}, {"avg_pool", nn::avg_pool}};
  for (const auto& [name, pool] : pools) {
    auto call = [&options, pool = pool](const nn::Dropout&, const Array& x) {
      return pool(x, {2, 3}, options);
    };
    expect_layer(name + "(NCHW)", nn::Dropout(), call, image, {});
  }
  expect_jaxs("avg_pool(NCHW, count_include_pad=False)", nn::avg_pool(image, {3, 2},
                                                                      {.strides = {2, 2},
                                                                       .padding = {{1, 1}, {1, 0}},
                                                                       .count_include_pad = false,
                                                                       .dimension_numbers = "NCHW"}));
  for (const char* wrong : {"NCH", "NCHH", "NXHW", "NCHWD"}) {
    EXPECT_THAT(
        error_of<ShapeError>([&] {
          nn::max_pool(image, {2, 3}, {.dimension_numbers = wrong});
        }),
        HasSubstr("\" do not name the dimensions of f32[2,3,6,5]: expected N, C and another letter for each "
                  "spatial dimension, each once (at model_layers_test.cc:"));
  }
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep
