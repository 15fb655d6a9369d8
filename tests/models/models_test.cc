// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "examples/transformer.h"

// Whole models, from keys to 50 steps of an optimizer: the losses are those that JAX and optax give
// (generate.py, which has the same models).
namespace lockstep {
namespace {

constexpr int kSteps = 50;
constexpr double kTolerance = 1e-4;

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kTwoDevices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

/// One step of the optimizer.
template <class Loss, class Optimizer>
auto step_of(Loss loss, Optimizer optimizer) {
  return jit(
      [=](auto model, auto state, auto batch) {
        auto [value, grads] = value_and_grad(loss)(model, batch);
        auto [updates, next] = optimizer.update(grads, state, model);
        return std::tuple(optim::apply_updates(model, updates), next, value);
      },
      {.donate_argnums = {0, 1}});
}

/// Trains on batch(0), batch(1), ... and compares each step's loss.
template <class Step, class Model, class State, class Batches>
void expect_jaxs_losses(const std::string& name, const Step& step, Model model, State state,
                        const Batches& batch) {
  std::ifstream in(LOCKSTEP_LOSSES_FILE);
  const std::vector<double> expected = nlohmann::json::parse(in)[name];
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSteps));
  for (int i = 0; i < kSteps; ++i) {
    Array value;
    std::tie(model, state, value) = step(model, state, batch(i));
    ASSERT_NEAR(value.item<float>(), expected[static_cast<std::size_t>(i)], kTolerance)
        << name << ", step " << i;
  }
}

struct Batch {
  Array images, labels;
};

/// 32 digits: images of 64 numbers from 0 to 1.
Batch digits(int step) {
  static const data::Table table = data::read_csv(LOCKSTEP_DATA_DIR "/digits.csv.gz");
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  for (int i = 32 * step; i < 32 * (step + 1); ++i) {
    for (int pixel = 0; pixel < 64; ++pixel) images.push_back(table.row(i)[pixel] / 16);
    labels.push_back(static_cast<std::int32_t>(table.row(i)[64]));
  }
  return {array(images, {32, 64}), array(labels)};
}

struct Dense {
  Array w, b;
};

Dense dense(const random::Key& key, std::int64_t inputs, std::int64_t outputs) {
  return {std::sqrt(2.0 / static_cast<double>(inputs)) * random::normal(key, {inputs, outputs}),
          zeros({outputs})};
}

Array apply(const Dense& layer, const Array& x) { return matmul(x, layer.w) + layer.b; }

Array cross_entropy(const Array& logits, const Array& labels) {
  return mean(nn::softmax_cross_entropy_with_integer_labels(logits, labels));
}

TEST(Models, APerceptron_TrainsAsInJax) {
  auto loss = [](const std::vector<Dense>& layers, const Batch& batch) {
    Array x = batch.images;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) x = tanh(apply(layers[i], x));
    return cross_entropy(apply(layers.back(), x), batch.labels);
  };
  auto [k1, k2, k3] = random::split<3>(random::key(1));
  const std::vector<Dense> model{dense(k1, 64, 128), dense(k2, 128, 64), dense(k3, 64, 10)};
  const auto optimizer = optim::adam(2e-3);
  expect_jaxs_losses("mlp", step_of(loss, optimizer), model, optimizer.init(model), digits);
}

struct Convolutional {
  Array first, second;
  Dense last;
};

TEST(Models, AConvolutionalNet_TrainsAsInJax) {
  auto loss = [](const Convolutional& model, const Batch& batch) {
    Array x = nn::relu(nn::conv(reshape(batch.images, {-1, 8, 8, 1}), model.first));
    x = nn::max_pool(x, {2, 2}, {.strides = {2, 2}});
    x = nn::avg_pool(nn::relu(nn::conv(x, model.second)), {2, 2}, {.strides = {2, 2}});
    return cross_entropy(apply(model.last, reshape(x, {batch.labels.shape()[0], -1})), batch.labels);
  };
  auto [k1, k2, k3] = random::split<3>(random::key(2));
  const Convolutional model{std::sqrt(2.0 / 9) * random::normal(k1, {3, 3, 1, 16}),
                            std::sqrt(2.0 / 144) * random::normal(k2, {3, 3, 16, 32}), dense(k3, 128, 10)};
  const auto optimizer = optim::sgd({.learning_rate = 0.05, .momentum = 0.9});
  expect_jaxs_losses("convolutional", step_of(loss, optimizer), model, optimizer.init(model), digits);
}

/// Rows that count modulo 32 from any number in steps of 1 to 4.
Array counting(int step) {
  auto [first, stride] = random::split<2>(random::fold_in(random::key(4), step));
  Array start = random::randint(first, {8, 1}, 0, 32);
  return (start + random::randint(stride, {8, 1}, 1, 5) * arange(17)) % 32;
}

/// The transformer of the examples, over the mesh's `data` and `tensor`.
void expect_the_transformer_trains(std::int64_t data, std::int64_t tensor, bool remat) {
  const std::vector<Device> some(devices().begin(), devices().begin() + data * tensor);
  const Mesh mesh = make_mesh({{"data", data}, {"tensor", tensor}}, some);
  const transformer::Config config{
      .vocabulary = 32, .context = 16, .width = 32, .heads = 4, .layers = 2, .remat = remat};
  const auto optimizer = transformer::optimizer({.peak_rate = 1e-2, .warmup = 10, .steps = kSteps});
  auto loss = [config](const transformer::Model& model, const Array& tokens) {
    return transformer::loss(config, model, tokens);
  };
  static const transformer::Model initial = jit([&] { return transformer::init(config, random::key(3)); })();
  const transformer::Model model = transformer::place(config, initial, mesh);
  const auto state = transformer::place(config, optimizer.init(initial), mesh);
  const NamedSharding rows(mesh, P("data"));
  expect_jaxs_losses("language", step_of(loss, optimizer), model, state,
                     [&](int step) { return device_put(counting(step), rows); });
}

TEST(Models, ATransformer_TrainsAsInJax) { expect_the_transformer_trains(1, 1, false); }
TEST(Models, ATransformer_WithRematerialisation_TrainsAsInJax) { expect_the_transformer_trains(1, 1, true); }
TEST(Models, ATransformer_SplitByData_TrainsAsInJax) { expect_the_transformer_trains(2, 1, false); }
TEST(Models, ATransformer_SplitByTensor_TrainsAsInJax) { expect_the_transformer_trains(1, 2, false); }

}  // namespace
}  // namespace lockstep
