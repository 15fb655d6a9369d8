// SPDX-License-Identifier: Apache-2.0
// Layers of one structure that are stacked, and computed by a scan.

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/nn/nn.h"
#include "lockstep/random/random.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using ::testing::HasSubstr;

struct Block {
  nn::LayerNorm norm;
  nn::Linear up, down;

  Array operator()(const Array& x) const { return x + down(nn::gelu(up(norm(x)))); }
};

std::vector<Block> blocks(int count) {
  std::vector<Block> all;
  for (int i = 0; i < count; ++i) {
    const Block block{{.features = 4},
                      {.in_features = 4, .out_features = 8},
                      {.in_features = 8, .out_features = 4, .use_bias = false}};
    all.push_back(nn::init(block, random::key(i)));
  }
  return all;
}

Array one_by_one(const std::vector<Block>& all, Array x) {
  for (const Block& block : all) x = block(x);
  return x;
}

Array by_scan(const Block& stacked, const Array& x) {
  return scan([](Array x, const Block& block) { return std::pair(block(x), std::tuple<>()); }, x, stacked)
      .first;
}

TEST(StackLayers, InAScan_ComputesWhatTheLayersDo_AndTheirGradients) {
  const std::vector<Block> all = blocks(3);
  const Block stacked = nn::stack_layers(all);
  EXPECT_EQ(stacked.up.kernel.shape(), (Shape{3, 4, 8}));
  EXPECT_FALSE(stacked.down.bias);
  const Array x = test::waves({2, 4});
  expect_equal(jit(by_scan)(stacked, x), one_by_one(all, x));

  const Block gradient =
      grad([](const Block& stacked, const Array& x) { return sum(sin(by_scan(stacked, x))); })(stacked, x);
  const std::vector<Block> gradients = grad(
      [](const std::vector<Block>& all, const Array& x) { return sum(sin(one_by_one(all, x))); })(all, x);
  const std::vector<Block> parts = nn::unstack_layers(gradient);
  ASSERT_EQ(parts.size(), gradients.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    expect_equal(parts[i].up.kernel, gradients[i].up.kernel);
    expect_equal(*parts[i].up.bias, *gradients[i].up.bias);
    expect_equal(parts[i].norm.scale.value(), gradients[i].norm.scale.value());
  }
}

TEST(StackLayers, OfOtherSizesOrNone_IsAnErrorThatNamesTheArray) {
  std::vector<Block> all = blocks(2);
  all[1].down.kernel = zeros({6, 4});
  EXPECT_THAT(error_of<ShapeError>([&] { nn::stack_layers(all); }),
              HasSubstr("down.kernel of layer 1 is f32[6,4], but of layer 0 f32[8,4]"));
  EXPECT_THAT(error_of<ShapeError>([] { nn::stack_layers(std::vector<Block>()); }),
              HasSubstr("expected at least one layer, got none"));
  Block stacked = nn::stack_layers(blocks(2));
  stacked.down.kernel = zeros({3, 8, 4});
  EXPECT_THAT(error_of<ShapeError>([&] { nn::unstack_layers(stacked); }),
              HasSubstr("down.kernel has 3 layers, but norm.scale has 2"));
  all = blocks(2);
  all[1].up.bias.reset();
  EXPECT_THAT(error_of<ShapeError>([&] { nn::stack_layers(all); }), HasSubstr("up.bias"));
}

}  // namespace
}  // namespace lockstep
