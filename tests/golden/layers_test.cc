// SPDX-License-Identifier: Apache-2.0
// Initializers and layers against what JAX and flax give for them (layers.py), and what models of layers do:
// keys by path, shardings by logical axes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optim.h"
#include "lockstep/random/binomial.h"
#include "lockstep/random/distributions.h"
#include "lockstep/random/matrices.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/errors.h"
#include "tests/golden/family.h"

namespace lockstep {
namespace {

using golden::compared;
using golden::expect_stored;
using golden::numbers;
using golden::Stored;
using golden::Tolerance;
using testing::error_of;
using ::testing::HasSubstr;

void expect_jaxs(const std::string& name, const Array& found, const Tolerance& tolerance = {1e-5, 1e-5}) {
  golden::expect_named(name, found, tolerance);
}

const Tolerance kEqual(0, 0), kNormal(3e-6, 1e-7);  // normal numbers go through another erf_inv than JAX's

TEST(Initializers, GiveJaxsNumbers) {
  using namespace nn::initializers;
  const random::Key key = random::key(7);
  const Shape shape = {4, 6};
  const FanAxes window{.in_axis = {0, 1}, .out_axis = {-1}, .batch_axis = {2}};
  const std::map<std::string, std::pair<nn::Initializer, Tolerance>> all = {
      {"zeros", {nn::initializers::zeros, kEqual}},
      {"ones", {nn::initializers::ones, kEqual}},
      {"constant", {constant(0.3), kEqual}},
      {"uniform", {uniform(0.7), kEqual}},
      {"normal", {normal(0.7), kNormal}},
      {"truncated_normal", {truncated_normal(0.7, -1, 1.5), kNormal}},
      {"lecun_normal", {lecun_normal(), kNormal}},
      {"lecun_uniform", {lecun_uniform(), kEqual}},
      {"he_normal", {he_normal(), kNormal}},
      {"he_uniform", {he_uniform(), kEqual}},
      {"glorot_normal", {glorot_normal(), kNormal}},
      {"glorot_uniform", {glorot_uniform(), kEqual}},
      {"variance_scaling(fan_out)", {variance_scaling(0.5, Fan::kOut, Distribution::kNormal), kNormal}}};
  for (const auto& [name, each] : all) expect_jaxs(name, each.first(key, shape), each.second);
  expect_jaxs("he_uniform(bf16)", he_uniform()(key, shape, bfloat16), kEqual);
  expect_jaxs("glorot_uniform(window)", glorot_uniform()(key, {2, 3, 4, 2}), kEqual);
  expect_jaxs("variance_scaling(axes)",
              variance_scaling(1.5, Fan::kGeoAvg, Distribution::kUniform, window)(key, {2, 3, 4, 2}), kEqual);
  expect_jaxs("orthogonal(tall)", orthogonal(2)(key, {6, 3}));
  expect_jaxs("orthogonal(wide)", orthogonal()(key, {3, 6}));
  expect_jaxs("orthogonal(column_axis)", orthogonal(1, 0)(key, {3, 2, 4}));

  EXPECT_THAT(error_of<ShapeError>([&] { he_normal()(key, {4}); }),
              HasSubstr("[initializers::variance_scaling] expected a shape with a dimension -2, got [4] (at "
                        "layers_test.cc:"));
  EXPECT_THAT(error_of<DTypeError>([&] {
                glorot_uniform()(key, {4, 4}, int32);
              }),
              HasSubstr("expected a floating dtype, got i32"));
  EXPECT_THAT(error_of<ShapeError>([&] { orthogonal()(key, {4}); }),
              HasSubstr("[initializers::orthogonal] expected a shape of two dimensions or more"));
  EXPECT_THAT(error_of<Error>([&] { nn::Initializer()(key, {4}); }),
              HasSubstr("[nn::Initializer] expected a function, got none (at layers_test.cc:"));
}

TEST(RandomMatrices, EqualJaxs) {
  const random::Key key = random::key(5);
  const Array mean = numbers({2, 3}, 1), root = numbers({3, 3}, 2);
  const Array covariance = matmul(root, transpose(root)) + 0.5 * eye(3);
  expect_jaxs("random::orthogonal", random::orthogonal(key, 3, {2}));
  expect_jaxs("random::orthogonal(wide)", random::orthogonal(key, 2, {}, float32, 4));
  expect_jaxs("random::multivariate_normal", random::multivariate_normal(key, mean, covariance));
  expect_jaxs("random::multivariate_normal(shape)",
              random::multivariate_normal(key, index(mean, 0), covariance, Shape{4}));
  const Array counts = array({{3.f}, {40.f}, {1000.f}}), chances = array({0.05f, 0.3f, 0.5f, 0.9f});
  expect_jaxs("random::binomial", random::binomial(key, counts, chances), kEqual);
  const float infinity = std::numeric_limits<float>::infinity(), nan = infinity - infinity;
  expect_jaxs(
      "random::binomial(of none)",
      random::binomial(key, array({-1.f, infinity, nan, 5.f, 5.f}), array({0.5f, 0.5f, 0.5f, nan, 1.f})),
      kEqual);
  EXPECT_THAT(error_of<ShapeError>([&] { random::binomial(key, counts, chances, {4}); }),
              HasSubstr("[random::binomial] expected a shape that [3,4] broadcasts to, got [4]"));
  EXPECT_EQ(random::orthogonal(key, 0).shape(), (Shape{0, 0}));
  EXPECT_THAT(error_of<ShapeError>([&] { random::multivariate_normal(key, mean, eye(2)); }),
              HasSubstr("expected a mean of [..., n] and a covariance of [..., n, n], got f32[2,3] and "
                        "f32[2,2]"));
  EXPECT_THAT(error_of<ShapeError>([&] { random::multivariate_normal(key, mean, eye(3), Shape{3}); }),
              HasSubstr("expected a shape that mean and covariance broadcast to, [2], got [3]"));
}

/// The value, and the derivative of its sum times numbers by x and by each array of the layer, whose paths
/// are paired with the names of layers.py.
template <class Layer, class F>
void expect_flaxs(const std::string& name, const Layer& layer, F call, const Array& x,
                  const std::vector<std::pair<std::string, std::string>>& names) {
  auto loss = [&](const Layer& layer, const Array& x) {
    Array y = call(layer, x);
    return std::pair(sum(y * numbers(y.shape(), 9)), y);
  };
  auto [value, grads] =
      jit([&](const Layer& layer, const Array& x) { return value_and_grad<0, 1>(loss)(layer, x); })(layer, x);
  expect_jaxs(name, value.second);
  expect_jaxs(name + ": by x", std::get<1>(grads));
  std::map<std::string, Array> found;
  for (const auto& [path, leaf] : tree::leaves_with_path(std::get<0>(grads))) found[path] = leaf;
  for (const auto& [path, flaxs] : names) expect_jaxs(name + ": by " + flaxs, found.at(path));
}

template <class Layer>
void expect_flaxs(const std::string& name, const Layer& layer, const Array& x,
                  const std::vector<std::pair<std::string, std::string>>& names) {
  expect_flaxs(
      name, layer, [](const Layer& layer, const Array& x) { return layer(x); }, x, names);
}

TEST(Layers, GiveWhatFlaxGives) {
  const Array x = numbers({2, 5, 4}, 1), image = numbers({2, 5, 6, 4}, 1);
  const std::pair<std::string, std::string> kernel{"kernel", "kernel"}, bias{"bias", "bias"};

  nn::Linear linear{.in_features = 4, .out_features = 3};
  linear.kernel = numbers({4, 3}, 2);
  linear.bias = numbers({3}, 3);
  expect_flaxs("Linear", linear, x, {kernel, bias});

  nn::Linear several{.in_features = {5, 4}, .out_features = {2, 3}};
  several.kernel = numbers({5, 4, 2, 3}, 2);
  several.bias = numbers({2, 3}, 3);
  expect_flaxs("Linear(of several dimensions)", several, x, {kernel, bias});

  nn::Embedding table{.num_embeddings = 7, .features = 4};
  table.embedding = numbers({7, 4}, 2);
  expect_jaxs("Embedding", table(array({1, 6, 0, 3}, {2, 2})));
  expect_flaxs("Embedding.attend", table,
               [](const nn::Embedding& table, const Array& x) { return table.attend(x); }, x,
               {{"embedding", "embedding"}});

  nn::LayerNorm norm{.features = 4};
  norm.scale = numbers({4}, 2);
  norm.bias = numbers({4}, 3);
  expect_flaxs("LayerNorm", norm, x, {{"scale", "scale"}, bias});

  nn::RMSNorm rms{.features = 4};
  rms.scale = numbers({4}, 2);
  expect_flaxs("RMSNorm", rms, x, {{"scale", "scale"}});

  nn::Conv conv{.in_features = 4,
                .out_features = 3,
                .kernel_size = {3, 2},
                .options = {.window_strides = {2, 1}, .padding = "SAME"}};
  conv.kernel = numbers({3, 2, 4, 3}, 2);
  conv.bias = numbers({3}, 3);
  expect_flaxs("Conv", conv, image, {kernel, bias});

  nn::Conv dilated{.in_features = 4,
                   .out_features = 6,
                   .kernel_size = {3, 3},
                   .options = {.rhs_dilation = {2, 1}, .feature_group_count = 2},
                   .use_bias = false};
  dilated.kernel = numbers({3, 3, 2, 6}, 2);
  expect_flaxs("Conv(dilated, in groups)", dilated, image, {kernel});
}

TEST(Halves, NormsAndLosses_TakeTheirStatisticsInF32) {
  for (const auto& [dtype, type] : {std::pair(float16, "float16"), std::pair(bfloat16, "bfloat16")}) {
    const double ulp = finfo(dtype).eps;
    const Tolerance rounded(ulp, ulp / 2);
    auto half = [&](const Array& x) { return astype(x, dtype); };
    auto name = [&](const std::string& function, const std::string& rows = "") {
      return function + "(" + type + (rows.empty() ? "" : ", " + rows) + ")";
    };
    const Array scale = half(numbers({16}, 2) + 1), bias = half(numbers({16}, 3));
    const Array plain = numbers({4, 16}, 1);
    const std::map<std::string, Array> all = {
        {"plain", plain},
        {"shifted", plain + 20},
        {"large", plain * 4000},
        {"constant", broadcast_to(numbers({4, 1}, 1) * 8 + 9, {4, 16})}};
    for (const auto& [rows, values] : all) {
      const Array x = half(values);
      expect_jaxs(name("layer_norm", rows), nn::layer_norm(x, scale, bias, 1e-12), rounded);
      auto rms_norm = [&](const Array& x) { return nn::rms_norm(x, scale, 1e-12); };
      expect_jaxs(name("rms_norm", rows), jit(rms_norm)(x), rounded);
      auto weighed = [&](const Array& x) { return sum(rms_norm(x) * half(numbers({4, 16}, 9))); };
      expect_jaxs(name("rms_norm", rows) + ": by x", jit(grad(weighed))(x), {2 * ulp, ulp});
      expect_jaxs(name("standardize", rows), nn::standardize(x, -1, 1e-12), rounded);
    }
    const Array x = half(plain * 30), y = half(numbers({4, 16}, 2) * 7);
    const Array wide = astype(x, float32), other = astype(y, float32);
    const Array chances = half(nn::softmax(other));
    expect_jaxs(name("softmax_cross_entropy_with_integer_labels"),
                nn::softmax_cross_entropy_with_integer_labels(x, array({3, 0, 15, 7})), rounded);
    expect_jaxs(name("softmax_cross_entropy"), nn::softmax_cross_entropy(x, chances), rounded);
    expect_jaxs(name("kl_divergence"), nn::kl_divergence(half(nn::log_softmax(wide / 32)), chances),
                {ulp, 4 * ulp});
    expect_jaxs(name("cosine_similarity"), nn::cosine_similarity(half(wide * 200), half(other * 100)),
                rounded);
    expect_jaxs(name("log_cosh"), nn::log_cosh(half(wide / 32), half(other / 8)), rounded);
    expect_jaxs(name("sigmoid_binary_cross_entropy"),
                nn::sigmoid_binary_cross_entropy(half(wide / 8), chances), rounded);
  }
}

TEST(IntegerLabels, OutOfRangeOnes_FollowOptax_AndIgnoredOnes_PyTorch) {
  const Array logits = numbers({6, 5}, 1);
  const Array outside = array({-1, -5, -6, 4, 5, -100});
  for (DType dtype : {int8, int16, int32, int64}) {
    expect_jaxs("integer labels(out of range)",
                nn::softmax_cross_entropy_with_integer_labels(logits, astype(outside, dtype)));
  }
  const Array ids = array({2, -100, 0, 4, -100, 1});
  auto loss = [&](const Array& x) {
    return nn::softmax_cross_entropy_with_integer_labels(x, ids, {.ignore_index = -100});
  };
  expect_jaxs("integer labels(ignored)", loss(logits));
  auto mean_of_others = [&](const Array& x) { return sum(loss(x)) / sum(ids != -100); };
  expect_jaxs("integer labels(ignored): by logits", jit(grad(mean_of_others))(logits));
}

TEST(Layers, AttentionAndRecurrentCells_GiveWhatFlaxGives) {
  const Array x = numbers({2, 5, 4}, 1);
  auto attention =
      nn::MultiHeadAttention{.num_heads = 2, .in_features = 4, .qkv_features = 6, .out_features = 5}.init(
          random::key(0));
  attention.query.kernel = numbers({4, 2, 3}, 1);
  attention.query.bias = numbers({2, 3}, 4);
  attention.key.kernel = numbers({4, 2, 3}, 2);
  attention.key.bias = numbers({2, 3}, 5);
  attention.value.kernel = numbers({4, 2, 3}, 3);
  attention.value.bias = numbers({2, 3}, 6);
  attention.out.kernel = numbers({2, 3, 5}, 8);
  attention.out.bias = numbers({5}, 7);
  expect_flaxs(
      "MultiHeadAttention", attention, x,
      {{"query.kernel", "query"}, {"key.kernel", "key"}, {"value.kernel", "value"}, {"out.kernel", "out"}});
  expect_jaxs("MultiHeadAttention(causal)", attention(x, {.is_causal = true}));

  auto turned =
      nn::MultiHeadAttention{
          .num_heads = 2, .in_features = 4, .qkv_features = 8, .use_bias = false, .rotary_base = 10000}
          .init(random::key(0));
  turned.query.kernel = numbers({4, 2, 4}, 1);
  turned.key.kernel = numbers({4, 2, 4}, 2);
  turned.value.kernel = numbers({4, 2, 4}, 3);
  turned.out.kernel = numbers({2, 4, 4}, 8);
  expect_flaxs(
      "MultiHeadAttention(rotary)", turned,
      [](const nn::MultiHeadAttention& attention, const Array& x) {
        return attention(x, {.is_causal = true});
      },
      x,
      {{"query.kernel", "query"}, {"key.kernel", "key"}, {"value.kernel", "value"}, {"out.kernel", "out"}});

  auto lstm = nn::LSTMCell{.in_features = 4, .features = 3}.init(random::key(0));
  lstm.input.kernel = numbers({4, 4, 3}, 1);
  lstm.recurrent.kernel = numbers({3, 4, 3}, 2);
  lstm.recurrent.bias = numbers({4, 3}, 3);
  expect_flaxs("LSTMCell", lstm,
               [](const nn::LSTMCell& cell, const Array& xs) {
                 return scan(cell, nn::LSTMState{numbers({5, 3}, 4), numbers({5, 3}, 5)}, xs).second;
               },
               x, {{"input.kernel", "input"}, {"recurrent.kernel", "recurrent"}, {"recurrent.bias", "bias"}});

  auto gru = nn::GRUCell{.in_features = 4, .features = 3}.init(random::key(0));
  gru.input.kernel = numbers({4, 3, 3}, 1);
  gru.input.bias = numbers({3, 3}, 2);
  gru.recurrent.kernel = numbers({3, 3, 3}, 3);
  gru.bias = numbers({3}, 6);
  expect_flaxs("GRUCell", gru,
               [](const nn::GRUCell& cell, const Array& xs) {
                 return scan(cell, numbers({5, 3}, 4), xs).second;
               },
               x,
               {{"input.kernel", "input"},
                {"input.bias", "input_bias"},
                {"recurrent.kernel", "recurrent"},
                {"bias", "bias"}});
}

TEST(RotaryEmbedding, EqualsRotationsByComplexNumbersInJax) {
  const Array x = numbers({2, 5, 3, 4}, 1);
  const nn::RotaryOptions own{.base = 100, .positions = array({7, 0, 1, 2, 3, 4, 5, 6, 9, 8}, {2, 5})};
  const std::vector<std::pair<std::string, nn::RotaryOptions>> cases = {
      {"rotary_embedding", {}}, {"rotary_embedding(positions, base)", own}};
  for (const auto& [name, options] : cases) {
    auto turned = [&options = options](const Array& x) { return nn::rotary_embedding(x, options); };
    expect_jaxs(name, turned(x));
    expect_jaxs(name + ": by x",
                grad([&](const Array& x) { return sum(turned(x) * numbers(x.shape(), 9)); })(x));
  }
  EXPECT_EQ(nn::rotary_embedding(astype(x, bfloat16)).dtype(), bfloat16);

  EXPECT_THAT(error_of<ShapeError>([&] {
                nn::rotary_embedding(numbers({2, 5, 3, 3}, 1));
              }),
              HasSubstr("[rotary_embedding] expected [batch, rows, heads, features] with an even number of "
                        "features, got f32[2,5,3,3] (at layers_test.cc:"));
  EXPECT_THAT(error_of<ShapeError>([&] { nn::rotary_embedding(x, {.positions = arange(4)}); }),
              HasSubstr("expected positions of the rows of f32[2,5,3,4], [5] or [2, 5], got i32[4]"));
  EXPECT_THAT(error_of<DTypeError>([&] { nn::rotary_embedding(astype(x, int32)); }),
              HasSubstr("expected an array of a floating dtype, got i32[2,5,3,4]"));
  EXPECT_THAT(error_of<Error>([&] { nn::rotary_embedding(x, {.base = 0}); }),
              HasSubstr("expected a base above 0, got 0"));
}

/// Layers in structs in vectors in a struct, with settings of their own here and there.
struct Block {
  nn::MultiHeadAttention attention{
      .num_heads = 2, .in_features = 4, .qkv_features = 6, .axes = P("embed", "heads", nullptr)};
  std::vector<nn::Linear> mlp{{.in_features = 4, .out_features = 8, .axes = P("embed", "mlp")},
                              {.in_features = 8,
                               .out_features = 4,
                               .kernel_init = nn::initializers::he_uniform(),
                               .bias_init = nn::initializers::uniform(0.5),
                               .axes = P("mlp", "embed")}};
};
struct Model {
  nn::Embedding table{.num_embeddings = 7, .features = 4, .axes = P("vocabulary", "embed")};
  std::vector<Block> blocks{2};
  nn::LSTMCell cell{.in_features = 4, .features = 3};
  nn::Conv conv{.in_features = 4, .out_features = 2, .kernel_size = {3, 3}};
  nn::LayerNorm norm{.features = 4};
  nn::Dropout dropout{.rate = 0.5};
};

TEST(NnInit, KeysOfLayers_DependOnTheirPathsOnly) {
  const Model model = jit([] { return nn::init(Model(), random::key(3)); })();
  expect_jaxs("model: blocks[1].attention.query.kernel", model.blocks[1].attention.query.kernel, kNormal);
  expect_jaxs("model: blocks[0].mlp[1].kernel", model.blocks[0].mlp[1].kernel, kEqual);
  expect_jaxs("model: blocks[0].mlp[1].bias", *model.blocks[0].mlp[1].bias, kEqual);
  expect_jaxs("model: table.embedding", model.table.embedding, kNormal);
  expect_jaxs("model: cell.recurrent.kernel", model.cell.recurrent.kernel);
  expect_jaxs("model: conv.kernel", model.conv.kernel, kNormal);

  // A further block changes none of the numbers of the others.
  Model longer;
  longer.blocks.resize(3);
  longer = jit([&] { return nn::init(longer, random::key(3)); })();
  EXPECT_TRUE(array_equal(longer.blocks[1].mlp[0].kernel, model.blocks[1].mlp[0].kernel).item<bool>());
}

TEST(NnInit, ACustomLayer_IsMadeByItsInit_AndOtherArraysStay) {
  struct Scale {
    Array factor;
    Scale init(const random::Key& key) const { return {random::uniform(key, {3})}; }
  };
  struct Own {
    Scale scale;
    Array step;
  };
  const Own own = nn::init(Own{.step = numbers({2}, 1)}, random::key(1));
  EXPECT_TRUE(
      array_equal(own.scale.factor, random::uniform(nn::key_at(random::key(1), "scale"), {3})).item<bool>());
  EXPECT_TRUE(array_equal(own.step, numbers({2}, 1)).item<bool>());
  EXPECT_THAT(error_of<TraceError>([] { nn::init(Own(), random::key(1)); }),
              HasSubstr("[nn::init] expected an array at step, which is in no layer, got none (at "
                        "layers_test.cc:"));
}

TEST(NnInit, InvalidSettings_AreErrors) {
  const random::Key key = random::key(0);
  const Array x = numbers({2, 4}, 1);
  EXPECT_THAT(error_of<ShapeError>([&] { nn::Linear{.in_features = 4}.init(key); }),
              HasSubstr("[nn::Linear] expected out_features above 0, got [] (at layers_test.cc:"));
  EXPECT_THAT(
      error_of<ShapeError>([&] { nn::MultiHeadAttention{.num_heads = 3, .in_features = 4}.init(key); }),
      HasSubstr("got 4 features, 3 heads and 3 key heads"));
  EXPECT_THAT(
      error_of<ShapeError>([&] {
        nn::Conv{
            .in_features = 3, .out_features = 4, .kernel_size = {3}, .options = {.feature_group_count = 2}}
            .init(key);
      }),
      HasSubstr("[nn::Conv] expected in_features that feature_group_count divides, got 3 and 2"));
  EXPECT_THAT(error_of<Error>([&] { nn::Linear{.in_features = 4, .out_features = 3}(x); }),
              HasSubstr("[nn::Linear] expected a layer with its arrays, got one without (at "
                        "layers_test.cc:"));
  EXPECT_THAT(
      error_of<ShapeError>([&] { nn::init(nn::Linear{.in_features = 3, .out_features = 3}, key)(x); }),
      HasSubstr("expected an array whose last dimensions are [3], got f32[2,4]"));
  EXPECT_THAT(error_of<Error>([&] { nn::Dropout{.rate = 1}(x, key); }),
              HasSubstr("[nn::Dropout] expected a rate in [0, 1), got 1"));
}

TEST(Dropout, WithAKey_IsRandomDropout_AndWithoutOne_TheIdentity) {
  const Array x = numbers({8, 8}, 1);
  const random::Key key = random::key(2);
  const nn::Dropout dropout{.rate = 0.25};
  EXPECT_TRUE(array_equal(dropout(x, key), random::dropout(key, x, 0.25)).item<bool>());
  EXPECT_TRUE(array_equal(dropout(x, std::nullopt), x).item<bool>());

  // Keys by path for several of them, or none.
  const std::optional<random::Key> some = key, none;
  EXPECT_TRUE(array_equal(nn::key_at(some, "mlp")->data(), nn::key_at(key, "mlp").data()).item<bool>());
  EXPECT_FALSE(nn::key_at(none, "mlp").has_value());
}

TEST(PartitionRules, OfAModel_GiveTheMeshAxesOfItsAndTheOptimizersArrays) {
  const nn::LogicalRules logical = {{"vocabulary", "tensor"},
                                    {"heads", "tensor"},
                                    {"mlp", "tensor"},
                                    {"embed", "data"},
                                    {"embed", nullptr}};
  const tree::Rules<P> rules = nn::partition_rules(Model(), logical);
  EXPECT_EQ(rules("table.embedding"), P("tensor", "data"));
  EXPECT_EQ(rules("blocks[0].attention.query.kernel"), P("data", "tensor"));
  EXPECT_EQ(rules("blocks[0].attention.out.kernel"), P("tensor", nullptr, "data"));
  EXPECT_EQ(rules("blocks[1].mlp[0].bias"), P("tensor"));
  EXPECT_EQ(rules("1.mu.blocks[1].mlp[1].kernel"), P("tensor", "data"));
  EXPECT_EQ(rules("norm.scale"), P());
  // The first rule whose axes are free.
  EXPECT_EQ(nn::logical_to_mesh_axes(P("embed", "mlp", "batch"),
                                     {{"mlp", "tensor"}, {"embed", "tensor"}, {"embed", {"data", "fsdp"}}}),
            P({"data", "fsdp"}, "tensor"));

  const Mesh mesh = make_mesh({{"data", 1}, {"tensor", 2}});
  const auto by_tensor = nn::partition_rules(Model(), {{"heads", "tensor"}, {"mlp", "tensor"}});
  const auto optimizer = optim::adam(1e-3);
  auto make = [&] {
    Model model = nn::init(Model(), random::key(0));
    return std::pair(model, optimizer.init(model));
  };
  auto [model, state] = jit(make, {.out_shardings = nn::named_shardings(mesh, by_tensor)})();
  EXPECT_THAT(model.blocks[0].mlp[0].kernel.sharding().to_string(), HasSubstr("P(None, 'tensor')"));
  EXPECT_THAT(state.nu.blocks[0].mlp[0].kernel.sharding().to_string(), HasSubstr("P(None, 'tensor')"));
}

TEST(TheFile, EveryArray_WasCompared) {
  for (const auto& [name, entry] : golden::file().items()) EXPECT_TRUE(compared().contains(name)) << name;
}

}  // namespace
}  // namespace lockstep
