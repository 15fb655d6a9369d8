// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/nn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/array/computation.h"
#include "lockstep/array/host.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/error.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/transforms/vjp.h"

// Every expected value is what JAX 0.10.2 and optax 0.2.8 give.
namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Function = std::function<Array(const Array&)>;

void expect_close(const Array& x, const std::vector<float>& expected) {
  const std::vector<float> found = x.to_host<float>();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << "element " << i;
  }
}

/// The derivative at x of the sum of f(x).
Array gradient(const Function& f, const Array& x) {
  Trace trace("f");
  Array input = trace.input(x.aval());
  Array total = sum(f(input));
  std::vector<bool> wrt(1 + trace.captures().size());
  wrt[0] = true;
  ir::Program derived = transforms::vjp(trace.finish({&total, 1}), wrt);
  std::vector<Array> arguments = {x};
  arguments.insert(arguments.end(), trace.captures().begin(), trace.captures().end());
  arguments.push_back(lockstep::internal::array_from_host(std::vector<float>{1}.data(), float32, {}));
  std::vector<const lockstep::internal::ArrayType*> types;
  std::vector<const Array*> pointers;
  for (const Array& array : arguments) {
    types.push_back(lockstep::internal::concrete(array, "gradient").type);
    pointers.push_back(&array);
  }
  return lockstep::internal::Computation::compile(std::move(derived), types, {})->run(pointers)[1];
}

Array points() { return array({-3.f, -1.f, -0.5f, 0.f, 0.5f, 2.f, 30.f}); }
Array logits() { return array({{1.f, 2.f, 4.f}, {0.5f, -1.f, 3.f}}); }

struct Activation {
  const char* name;
  Function function;
  std::vector<float> values, derivatives;
};

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = {
      {"relu", [](const Array& x) { return relu(x); }, {0, 0, 0, 0, 0.5, 2, 30}, {0, 0, 0, 0, 1, 1, 1}},
      {"softplus",
       [](const Array& x) { return softplus(x); },
       {0.04858735203742981f, 0.3132616877555847f, 0.4740769863128662f, 0.6931471824645996f,
        0.9740769863128662f, 2.1269280910491943f, 30.f},
       {0.04742587357759476f, 0.26894140243530273f, 0.3775406777858734f, 0.5f, 0.622459352016449f,
        0.8807970285415649f, 1.f}},
      {"silu",
       [](const Array& x) { return silu(x); },
       {-0.14227762818336487f, -0.2689414322376251f, -0.1887703388929367f, 0.f, 0.3112296760082245f,
        1.7615940570831299f, 30.f},
       {-0.08810410648584366f, 0.07232949137687683f, 0.260038822889328f, 0.5f, 0.7399612069129944f,
        1.0907843112945557f, 1.f}},
      {"gelu",
       [](const Array& x) { return gelu(x); },
       {-0.003637343645095825f, -0.15880796313285828f, -0.1542859971523285f, 0.f, 0.3457140028476715f,
        1.9545977115631104f, 30.f},
       {-0.011583905667066574f, -0.08296407014131546f, 0.1326301097869873f, 0.5f, 0.8673699498176575f,
        1.08609938621521f, 1.f}},
      {"elu",
       [](const Array& x) { return elu(x); },
       {-0.9502129554748535f, -0.6321205496788025f, -0.39346933364868164f, 0.f, 0.5f, 2.f, 30.f},
       {0.049787044525146484f, 0.3678794503211975f, 0.6065306663513184f, 1.f, 1.f, 1.f, 1.f}},
      {"leaky_relu",
       [](const Array& x) { return leaky_relu(x); },
       {-0.03f, -0.01f, -0.005f, 0.f, 0.5f, 2.f, 30.f},
       {0.01f, 0.01f, 0.01f, 1.f, 1.f, 1.f, 1.f}},
  };
  return all;
}

TEST(Activations, ValuesAndDerivatives_EqualJaxs) {
  for (const Activation& each : activations()) {
    SCOPED_TRACE(each.name);
    expect_close(each.function(points()), each.values);
    expect_close(gradient(each.function, points()), each.derivatives);
  }
}

TEST(Activations, Elu_HasADerivativeWhereExpOverflows) {
  expect_close(gradient([](const Array& x) { return elu(x); }, array({500.f})), {1.f});
}

TEST(Activations, Relu_KeepsTheDType) {
  EXPECT_THAT(relu(array({-2, 3})).to_host<std::int32_t>(), ElementsAre(0, 3));
  EXPECT_EQ(relu(zeros({2}, bfloat16)).dtype(), bfloat16);
}

TEST(Activations, Softmax_GivesJaxsValues) {
  expect_close(softmax(logits()), {0.04201006516814232f, 0.11419519037008286f, 0.8437947034835815f,
                                   0.07459555566310883f, 0.016644518822431564f, 0.9087598919868469f});
  expect_close(softmax(logits(), 0), {0.622459352016449f, 0.9525741338729858f, 0.7310585975646973f,
                                      0.3775406777858734f, 0.04742587357759476f, 0.2689414322376251f});
  expect_close(log_softmax(logits()), {-3.1698460578918457f, -2.1698460578918457f, -0.1698460429906845f,
                                       -2.5956742763519287f, -4.095674514770508f, -0.09567437320947647f});
  expect_close(softmax(array({1000.f, 1000.f})), {0.5f, 0.5f});
  EXPECT_THROW(softmax(logits(), 2), ShapeError);
}

TEST(Losses, CrossEntropies_GiveOptaxsValues) {
  Array labels = array({2, 0}), probabilities = array({{0.2f, 0.3f, 0.5f}, {1.f, 0.f, 0.f}});
  expect_close(softmax_cross_entropy_with_integer_labels(logits(), labels),
               {0.1698460578918457f, 2.5956742763519287f});
  expect_close(softmax_cross_entropy(logits(), probabilities), {1.3698461055755615f, 2.5956742763519287f});
  expect_close(softmax_cross_entropy(logits(), one_hot(labels, 3)),
               {0.1698460578918457f, 2.5956742763519287f});
  expect_close(sigmoid_binary_cross_entropy(logits(), probabilities),
               {1.1132618188858032f, 1.5269280672073364f, 2.0181498527526855f, 0.4740769863128662f,
                0.3132616877555847f, 3.0485873222351074f});
  expect_close(squared_error(logits(), probabilities),
               {0.64000004529953f, 2.890000104904175f, 12.25f, 0.25f, 1.f, 9.f});
  expect_close(l2_loss(logits()), {0.5f, 2.f, 8.f, 0.125f, 0.5f, 4.5f});
}

TEST(Losses, TheDerivativeOfTheCrossEntropy_EqualsOptaxs) {
  Array labels = array({2, 0});
  auto loss = [&](const Array& x) { return mean(softmax_cross_entropy_with_integer_labels(x, labels)); };
  expect_close(gradient(loss, logits()), {0.02100503258407116f, 0.05709759518504143f, -0.07810264825820923f,
                                          -0.462702214717865f, 0.008322259411215782f, 0.45437994599342346f});
}

TEST(Losses, WrongLabels_AreErrorsAtTheUsersLine) {
  try {
    softmax_cross_entropy_with_integer_labels(logits(), array({0, 1, 2}));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("i32[3] and i32[2] do not broadcast"));
    EXPECT_THAT(error.what(), HasSubstr("nn_test.cc:"));
  }
  EXPECT_THROW(softmax_cross_entropy_with_integer_labels(logits(), array({0.f, 1.f})), DTypeError);
  EXPECT_THROW(softmax_cross_entropy_with_integer_labels(1.0, 1), ShapeError);
}

}  // namespace
}  // namespace lockstep::nn
