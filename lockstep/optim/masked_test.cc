// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/masked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/optim/adam.h"

namespace lockstep::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Layer {
  Array w, b;
};
struct Net {
  std::vector<Layer> layers;
  Array head;
};
Net net() { return {{{ones({2, 2}), ones({2})}, {ones({2, 2}), ones({2})}}, ones({3})}; }

TEST(Masked, ItsState_HasTheSelectedArraysOnly_WithTheirPaths) {
  const tree::Rules<bool> biases{{"*.b", true}, {"*", false}};
  const auto state = masked(adam(0.1), biases).init(net());
  EXPECT_THAT(tree::paths(state),
              ElementsAre("inner_state.count", "inner_state.mu.layers[0].b", "inner_state.mu.layers[1].b",
                          "inner_state.nu.layers[0].b", "inner_state.nu.layers[1].b"));
  // The root may be a container or an array.
  EXPECT_THAT(tree::paths(masked(trace(0.9), biases).init(net().layers)),
              ElementsAre("inner_state[0].b", "inner_state[1].b"));
  const tree::Rules<bool> all{{"*", true}};
  EXPECT_THAT(tree::paths(masked(trace(0.9), all).init(ones({2}))), ElementsAre("inner_state"));
}

TEST(Masked, WithoutASelectedArray_ChangesNothing) {
  const auto none = masked(adam(0.1), tree::Rules<bool>{{"*", false}});
  const Net params = net();
  auto [updates, state] = none.update(params, none.init(params), params);
  EXPECT_THAT(updates.head.to_host<float>(), ElementsAre(1, 1, 1));
  EXPECT_EQ(state.inner_state.count.item<std::int32_t>(), 1);
}

TEST(Masked, GradientsOfAnotherTree_AreAnError) {
  const auto all = masked(adam(0.1), tree::Rules<bool>{{"*", true}});
  const Net params = net();
  Net fewer = params;
  fewer.layers.pop_back();
  const auto state = all.init(params);
  EXPECT_THROW(all.update(fewer, state, params), ShapeError);
}

TEST(MultiTransform, FrozenParameters_HaveNoState_AndStay) {
  const auto optimizer = multi_transform(tree::Rules<std::string>{{"head", "trained"}, {"*", "frozen"}},
                                         std::pair("trained", adam(0.1)), std::pair("frozen", set_to_zero()));
  Net params = net();
  auto state = optimizer.init(params);
  EXPECT_THAT(tree::paths(state),
              ElementsAre("inner_states[0].count", "inner_states[0].mu.head", "inner_states[0].nu.head"));
  auto [updates, next] = optimizer.update(params, state, params);
  params = apply_updates(params, updates);
  EXPECT_THAT(params.layers[1].b.to_host<float>(), ElementsAre(1, 1));
  EXPECT_NEAR(params.head.to_host<float>()[0], 0.9, 1e-6);
  EXPECT_EQ(std::get<0>(next.inner_states).count.item<std::int32_t>(), 1);
}

TEST(MultiTransform, ALabelWithoutATransformation_IsAnError) {
  const auto optimizer = multi_transform(tree::Rules<std::string>{{"head", "trained"}, {"*", "frosen"}},
                                         std::pair("trained", adam(0.1)), std::pair("frozen", set_to_zero()));
  try {
    optimizer.init(net());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("[multi_transform] expected one of the labels trained, frozen for "
                                        "layers[0].w, got \"frosen\" (at masked_test.cc:"));
  }
}

}  // namespace
}  // namespace lockstep::optim
