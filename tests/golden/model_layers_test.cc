// SPDX-License-Identifier: Apache-2.0
// Layers of vision and language models against what flax and JAX give for them (model_layers.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "lockstep/random/random.h"
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

struct KeysAndValues {
  Array key, value;
};

TEST(Attention, WindowsAndLengths_GiveWhatJaxGives) {
  const Array x = numbers({2, 5, 4, 3}, 1), queries = array({5, 3}), keys = array({4, 6});
  const Array mask = reshape(arange(30) % 7 != 3, {5, 6});
  const KeysAndValues given{numbers({2, 6, 2, 3}, 2), numbers({2, 6, 2, 3}, 3)};
  const std::vector<std::pair<std::string, nn::AttentionOptions>> cases = {
      {"window", {.local_window_size = {2, 1}}},
      {"window, causal", {.is_causal = true, .local_window_size = 1}},
      {"key lengths", {.key_value_seq_lengths = keys}},
      {"query lengths", {.query_seq_lengths = queries}},
      {"everything",
       {.is_causal = true,
        .mask = mask,
        .bias = numbers({4, 5, 6}, 4),
        .local_window_size = {3, 1},
        .query_seq_lengths = queries,
        .key_value_seq_lengths = keys}}};
  for (const auto& [name, given_options] : cases) {
    for (int block : {0, 4}) {
      nn::AttentionOptions options = given_options;
      options.block_size = block;
      auto call = [&](const KeysAndValues& keys, const Array& x) {
        return nn::dot_product_attention(x, keys.key, keys.value, options);
      };
      expect_layer("attention(" + name + ")", given, call, x, {{"key", "key"}, {"value", "value"}});
    }
  }
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        nn::dot_product_attention(x, given.key, given.value, {.key_value_seq_lengths = array({1, 2, 3})});
      }),
      HasSubstr("[dot_product_attention] expected key_value_seq_lengths of each example, [2], got i32[3] "
                "(at model_layers_test.cc:"));
  EXPECT_THAT(error_of<DTypeError>([&] {
                nn::dot_product_attention(x, given.key, given.value, {.query_seq_lengths = ones({2})});
              }),
              HasSubstr("expected query_seq_lengths of whole numbers, got f32[2]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                nn::dot_product_attention(x, given.key, given.value, {.local_window_size = {-1, 0}});
              }),
              HasSubstr("expected a local_window_size of 0 or more, got -1 and 0"));
}

TEST(RingAttention, WithAWindowAndLengths_EqualsPlainAttention) {
  const Mesh mesh = make_mesh({{"seq", 2}});
  const Array query = numbers({2, 8, 2, 3}, 1), key = numbers({2, 8, 2, 3}, 2),
              value = numbers({2, 8, 2, 3}, 3);
  for (bool causal : {false, true}) {
    const nn::AttentionOptions options{.is_causal = causal,
                                       .local_window_size = {3, 2},
                                       .query_seq_lengths = array({8, 5}),
                                       .key_value_seq_lengths = array({6, 7})};
    auto ring = [&](const Array& q, const Array& k, const Array& v) {
      return nn::ring_attention(q, k, v, "seq", options);
    };
    auto split = shard_map(ring, {mesh, {P(nullptr, "seq")}, {P(nullptr, "seq")}});
    auto plain = [&](const Array& q, const Array& k, const Array& v) {
      return nn::dot_product_attention(q, k, v, options);
    };
    auto by_key = [&](auto attention) {
      return jit([=](const Array& q, const Array& k, const Array& v) {
        auto loss = [&](const Array& k) {
          const Array y = attention(q, k, v);
          return std::pair(sum(y * numbers(y.shape(), 9)), y);
        };
        return value_and_grad(loss)(k);
      })(query, key, value);
    };
    const auto [found, found_grad] = by_key(split);
    const auto [expected, expected_grad] = by_key(plain);
    EXPECT_LT(max(abs(found.second - expected.second)).template item<float>(), 1e-5);
    EXPECT_LT(max(abs(found_grad - expected_grad)).template item<float>(), 1e-5);
  }
}

TEST(RotaryEmbedding, OfEveryKind_EqualsTransformersFormulas) {
  const Array positions = array({0, 1, 7, 30, 61, 5, 6, 7, 100, 300}, {2, 5});
  const std::vector<std::pair<std::string, nn::RotaryOptions>> cases = {
      {"partial", {.positions = positions, .features = 8}},
      {"interleaved", {.positions = positions, .interleaved = true}},
      {"partial, interleaved", {.positions = positions, .features = 4, .interleaved = true}},
      {"linear", {.positions = positions, .scaling = nn::LinearRotaryScaling{4}}},
      {"llama3",
       {.positions = positions,
        .scaling = nn::Llama3RotaryScaling{.factor = 8, .original_max_position_embeddings = 256}}},
      {"yarn",
       {.positions = positions,
        .scaling = nn::YarnRotaryScaling{.factor = 4, .original_max_position_embeddings = 512}}},
      {"yarn, mscale",
       {.positions = positions,
        .scaling = nn::YarnRotaryScaling{.factor = 40,
                                         .original_max_position_embeddings = 4096,
                                         .mscale = 0.707,
                                         .mscale_all_dim = 1.5,
                                         .truncate = false}}},
      {"yarn, attention_factor",
       {.positions = positions,
        .scaling = nn::YarnRotaryScaling{
            .factor = 0.5, .original_max_position_embeddings = 512, .attention_factor = 1.25}}}};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const Array x = astype(numbers({2, 5, 3, 16}, 1), dtype);
    // Angles of hundreds of radians have few digits in f32.
    const Tolerance tolerance = dtype == float64 ? Tolerance(1e-12, 1e-12) : Tolerance(1e-4, 1e-4);
    for (const auto& [name, options] : cases) {
      const Array turned = nn::rotary_embedding(x, options);
      EXPECT_EQ(turned.dtype(), dtype);
      expect_jaxs("rotary(" + name + ")", astype(turned, float64), tolerance);
      const nn::RotaryTables tables = nn::rotary_tables(5, 16, options, dtype);
      expect_jaxs("rotary(" + name + ")", astype(nn::rotary_embedding(x, tables), float64), tolerance);
    }
  }
  const Array x = numbers({2, 5, 3, 16}, 1);
  const nn::RotaryTables tables = nn::rotary_tables(5, 16);
  EXPECT_EQ(tables.cosines.shape(), (Shape{5, 8}));
  EXPECT_TRUE(array_equal(nn::rotary_embedding(x, tables), nn::rotary_embedding(x)).item<bool>());
  EXPECT_EQ(nn::rotary_embedding(astype(x, bfloat16), tables).dtype(), bfloat16);

  EXPECT_THAT(
      error_of<ShapeError>([&] {
        nn::rotary_embedding(numbers({2, 4, 3, 16}, 1), tables);
      }),
      HasSubstr("[rotary_embedding] expected tables of the rows of f32[2,4,3,16], [rows, features / 2] or "
                "[batch, rows, features / 2], got f32[5,8] and f32[5,8] (at model_layers_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>([&] { nn::rotary_embedding(x, {.features = 18}); }),
              HasSubstr("expected an even number of features, and of those that are turned, got 16 and 18"));
  EXPECT_THAT(error_of<ShapeError>([&] { nn::rotary_tables(4, 16, {.positions = positions}); }),
              HasSubstr("[rotary_tables] expected positions of 4 rows, [4] or [batch, 4], got i32[2,5]"));
  EXPECT_THAT(
      error_of<Error>([&] { nn::rotary_embedding(x, {.scaling = nn::YarnRotaryScaling{.factor = 4}}); }),
      HasSubstr("expected a factor and an original length above 0"));
}

TEST(RelativePositionBias, EqualsT5s) {
  nn::RelativePositionBias relative{.num_heads = 3, .embedding = numbers({32, 3}, 1)};
  expect_jaxs("relative position bias", relative(5, 7));
  auto weighed = [](const nn::RelativePositionBias& relative) {
    return sum(relative(5, 7) * numbers({1, 3, 5, 7}, 9));
  };
  expect_jaxs("relative position bias: by embedding", jit(grad(weighed))(relative).embedding);
  // Rows beyond the 128 of the last bucket, of one head.
  nn::RelativePositionBias one{.num_heads = 1, .embedding = numbers({32, 3}, 1)[{slice(), slice(0, 1)}]};
  expect_jaxs("relative position bias(far)", one(3, 300, 150));
  one.bidirectional = false;
  expect_jaxs("relative position bias(decoder)", one(200, 200)[{slice(), slice(), slice(0, none, 29)}]);
  one.bidirectional = true;
  one.num_buckets = 8;
  one.max_distance = 20;
  expect_jaxs("relative position bias(few buckets)", one(40, 40)[{slice(), slice(), slice(0, none, 13)}]);

  EXPECT_EQ(nn::init(nn::RelativePositionBias{.num_heads = 3}, random::key(0)).embedding.shape(),
            (Shape{32, 3}));
  EXPECT_THAT(
      error_of<ShapeError>(
          [] { nn::init(nn::RelativePositionBias{.num_heads = 3, .max_distance = 8}, random::key(0)); }),
      HasSubstr("[nn::RelativePositionBias] expected at least 4 buckets and a max_distance above half of "
                "those of a direction, got 32 and 8"));
}

TEST(MultiHeadAttention, WithACache_GivesTheRowsOfTheWholeSequence) {
  const Array x = numbers({2, 7, 8}, 1);
  for (bool tables : {false, true}) {
    nn::MultiHeadAttention attention{
        .num_heads = 4, .in_features = 8, .num_key_heads = 2, .rotary_base = 100};
    attention = nn::init(attention, random::key(1));
    const nn::RotaryOptions turn{.base = 50, .interleaved = true};
    const nn::AttentionOptions window{.local_window_size = {3, 0}};
    auto whole = [&](const Array& x) {
      nn::AttentionOptions options = window;
      options.is_causal = true;
      return tables ? attention(x, nn::rotary_tables(7, 2, turn), options) : attention(x, options);
    };
    auto next_rows = [&](nn::KvCache& cache, const Array& rows) {
      if (!tables) return attention(rows, cache, window);
      nn::RotaryOptions at = turn;
      at.positions = cache.next_positions(rows.shape()[1]);
      return attention(rows, cache, nn::rotary_tables(rows.shape()[1], 2, at), window);
    };
    // Four rows at once, then one at a time, in a cache that is larger than the sequence.
    auto generated = [&](const Array& x) {
      nn::KvCache cache = attention.make_cache(2, 9);
      const Array prompt = next_rows(cache, slice(x, {0, 0, 0}, {2, 4, 8}));
      auto step = [&](const nn::KvCache& before, const Array& row) {
        nn::KvCache cache = before;
        const Array y = next_rows(cache, expand_dims(row, 1));
        return std::pair(cache, squeeze(y, 1));
      };
      auto [last, rest] = scan(step, cache, moveaxis(slice(x, {0, 4, 0}, {2, 7, 8}), 1, 0));
      return std::pair(concatenate({prompt, moveaxis(rest, 0, 1)}, 1), last);
    };
    const Array expected = jit(whole)(x);
    auto [found, cache] = jit(generated)(x);
    EXPECT_LT(max(abs(found - expected)).item<float>(), 1e-5);
    EXPECT_EQ(cache.length.to_host<std::int32_t>(), (std::vector<std::int32_t>{7, 7}));
    EXPECT_EQ(cache.key.shape(), (Shape{2, 2, 9, 2}));
    // Rows beyond the capacity.
    const Array rows = slice(x, {0, 0, 0}, {2, 3, 8});
    EXPECT_TRUE(all(isnan(next_rows(cache, rows))).item<bool>());
    nn::KvCache other = attention.make_cache(2, 2);
    EXPECT_THAT(
        error_of<ShapeError>([&] { next_rows(other, rows); }),
        HasSubstr(
            "[nn::KvCache] expected rows [batch, rows, key heads, features] that fit into a cache [batch, "
            "key heads, capacity, features] of f32[2,2,2,2], got f32[2,3,2,2]"));
  }
}

TEST(MultiHeadAttention, HasOneChoiceOfABiasForEachProjection) {
  const nn::MultiHeadAttention attention{
      .num_heads = 2, .in_features = 4, .key_bias = false, .out_bias = false, .axes = P("embed", "heads")};
  const nn::MultiHeadAttention made = nn::init(attention, random::key(0));
  EXPECT_THAT(tree::paths(made), ElementsAre("query.kernel", "query.bias", "key.kernel", "value.kernel",
                                             "value.bias", "out.kernel"));
  EXPECT_EQ(made(ones({1, 3, 4})).shape(), (Shape{1, 3, 4}));
  std::vector<std::string> axes;
  for (const auto& each : attention.logical_axes()) axes.push_back(each.path);
  EXPECT_THAT(axes, ElementsAre("out.kernel", "query.kernel", "query.bias", "key.kernel", "value.kernel",
                                "value.bias"));
}

struct Adapted {
  std::vector<nn::MultiHeadAttention> layers{{.num_heads = 2, .in_features = 4}};
  nn::Linear head{.in_features = 4, .out_features = 3};
};

TEST(Lora, OfATree_TrainsTheSelectedArraysAlone) {
  const Adapted model = nn::init(Adapted(), random::key(0));
  const tree::Rules<int> inputs{{"*query.kernel", 1}, {"*out.kernel", 2}, {"head.kernel", 1}, {"*", 0}};
  nn::Lora lora = nn::lora(model, random::key(1), {.rank = 2, .alpha = 8, .inputs = inputs});
  EXPECT_THAT(tree::paths(lora),
              ElementsAre("layers[0].query.kernel.a", "layers[0].query.kernel.b", "layers[0].out.kernel.a",
                          "layers[0].out.kernel.b", "head.kernel.a", "head.kernel.b"));
  EXPECT_EQ(lora.adapters[0].a.shape(), (Shape{4, 2}));
  EXPECT_EQ(lora.adapters[0].b.shape(), (Shape{2, 4}));
  EXPECT_LE(max(abs(lora.adapters[0].a)).item<float>(), 0.5f);

  // At first the model is as before; then it is that of w + 4 a b.
  auto loss = [](const nn::Lora& lora, const Adapted& model, const Array& x) {
    const Adapted adapted = lora.merged(model);
    return sum(square(adapted.head(adapted.layers[0](x))));
  };
  const Array x = numbers({2, 3, 4}, 1);
  EXPECT_EQ(jit(loss)(lora, model, x).item<float>(), jit([](const Adapted& m, const Array& x) {
                                                       return sum(square(m.head(m.layers[0](x))));
                                                     })(model, x)
                                                         .item<float>());
  lora.adapters[2].b = numbers({2, 3}, 5);
  const Array expected = model.head.kernel + 4.0 * matmul(lora.adapters[2].a, lora.adapters[2].b);
  EXPECT_LT(max(abs(lora.merged(model).head.kernel - expected)).item<float>(), 1e-6);
  // The product rule: the derivative by b is scale * aᵀ (the derivative by the kernel).
  const nn::Lora by_lora = jit(grad(loss))(lora, model, x);
  auto of_model = [](const Adapted& m, const Array& x) { return sum(square(m.head(m.layers[0](x)))); };
  const Adapted by_model = jit(grad(of_model))(lora.merged(model), x);
  const Array by_b = 4.0 * matmul(transpose(lora.adapters[2].a), by_model.head.kernel);
  EXPECT_LT(max(abs(by_lora.adapters[2].b - by_b)).item<float>(), 1e-4);

  EXPECT_THAT(error_of<ShapeError>([&] {
                nn::lora(model, random::key(1), {.inputs = tree::Rules<int>{{"head.bias", 1}, {"*", 0}}});
              }),
              HasSubstr("[nn::lora] expected fewer input dimensions than head.bias has, f32[3], got 1 (at "
                        "model_layers_test.cc:"));
  EXPECT_THAT(error_of<Error>([&] {
                nn::lora(model, random::key(1), {.inputs = tree::Rules<int>{{"*", 0}}});
              }),
              HasSubstr("[nn::lora] expected an array that options.inputs select, got none"));
  EXPECT_THAT(error_of<Error>([&] { lora.merged(model.head); }),
              HasSubstr("[nn::Lora] expected a model with an array at head.kernel, got none"));
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

/// What each token's experts give, from what every expert gives to every token.
Array mixed_by_hand(const nn::MixtureOfExperts& moe, const Array& x) {
  const Array p = nn::softmax(matmul(x, moe.router));
  const Array bound = expand_dims(top_k(p, moe.experts_per_token).first[{slice(), -1}], 1);
  const Array chosen = where(p >= bound, p, 0.0), weights = chosen / expand_dims(sum(chosen, 1), 1);
  const Array hidden = nn::silu(einsum("tf,efh->teh", {x, moe.gate})) * einsum("tf,efh->teh", {x, moe.up});
  return einsum("te,teh,ehf->tf", {weights, hidden, moe.down});
}

TEST(MixtureOfExperts, GivesTheWeightedMeanOfEachTokensExperts_AlsoOverAMesh) {
  // So many elements that CPUs call oneDNN.
  const nn::MixtureOfExperts moe = nn::init(nn::MixtureOfExperts{.features = 32,
                                                                 .hidden_features = 48,
                                                                 .num_experts = 6,
                                                                 .experts_per_token = 3,
                                                                 .axes = P(nullptr, "hidden")},
                                            random::key(0));
  const Array x = random::normal(random::key(1), {100, 32}), y = random::normal(random::key(2), {100, 32});
  const auto loss = [&](const auto& f) {
    return [&](const nn::MixtureOfExperts& moe, const Array& x) { return sum(f(moe, x) * y); };
  };
  const auto layer = [](const nn::MixtureOfExperts& moe, const Array& x) { return moe(x); };
  const auto far = [](const Array& a, const Array& b) { return max(abs(a - b)).item<float>(); };
  const auto [want_moe, want_x] = jit(grad<0, 1>(loss(mixed_by_hand)))(moe, x);
  const Array want = mixed_by_hand(moe, x);
  std::vector<std::pair<nn::MixtureOfExperts, Array>> cases = {{moe, x}};
  for (const int data : {1, 2}) {
    const Mesh mesh = make_mesh({{"data", data}, {"tensor", 2 / data}});
    const auto shardings = nn::named_shardings(mesh, nn::partition_rules(moe, {{"hidden", "tensor"}}));
    auto place = jit([](const nn::MixtureOfExperts& moe) { return moe; }, {.out_shardings = {shardings}});
    cases.emplace_back(place(moe), device_put(x, NamedSharding(mesh, P("data"))));
  }
  for (const auto& [model, tokens] : cases) {
    EXPECT_LT(far(jit(layer)(model, tokens), want), 1e-4);
    const auto [of_moe, of_x] = jit(grad<0, 1>(loss(layer)))(model, tokens);
    EXPECT_LT(far(of_x, want_x), 1e-4);
    EXPECT_LT(far(of_moe.router, want_moe.router), 1e-4);
    EXPECT_LT(far(of_moe.gate, want_moe.gate), 1e-4);
    EXPECT_LT(far(of_moe.up, want_moe.up), 1e-4);
    EXPECT_LT(far(of_moe.down, want_moe.down), 1e-4);
  }
  EXPECT_THAT(error_of<ShapeError>([&] {
                nn::init(
                    nn::MixtureOfExperts{
                        .features = 2, .hidden_features = 2, .num_experts = 2, .experts_per_token = 3},
                    random::key(0));
              }),
              HasSubstr("experts_per_token is 3: expected 1 to 2"));
}

}  // namespace
}  // namespace lockstep
