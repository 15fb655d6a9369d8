// SPDX-License-Identifier: Apache-2.0
#pragma once

// ResNets of two convolutions in a block (He and others, "Deep Residual Learning for Image Recognition",
// 2015), with the arrays of torchvision's resnet18 and resnet34: the model of train_resnet.cc.

#include <lockstep/lockstep.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace resnet {

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using ls::Array;

struct Downsample {
  nn::Conv conv;
  nn::BatchNorm norm;
};
struct Block {
  nn::Conv conv1;
  nn::BatchNorm bn1;
  nn::Conv conv2;
  nn::BatchNorm bn2;
  std::optional<Downsample> downsample;  // where the size changes
};

/// The running statistics, which are no parameters: a tree of their own.
struct BlockStats {
  nn::BatchStats bn1, bn2;
  std::optional<nn::BatchStats> downsample;
};
struct Stats {
  nn::BatchStats bn1;
  std::vector<BlockStats> blocks;
};

struct ResNet {
  nn::Conv conv1;
  nn::BatchNorm bn1;
  std::vector<Block> blocks;
  nn::Linear fc;

  /// Logits, [batch,classes], of images, [batch,rows,columns,channels]. In training the statistics follow the
  /// batch; else they are used and stay.
  Array operator()(const Array& images, Stats& stats, bool training) const {
    Array x = nn::relu(bn1(conv1(images), stats.bn1, training));
    if (conv1.kernel_size[0] == 7)
      x = nn::max_pool(x, {3, 3}, {.strides = {2, 2}, .padding = {{1, 1}, {1, 1}}});
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Block& block = blocks[i];
      BlockStats& own = stats.blocks[i];
      Array y = nn::relu(block.bn1(block.conv1(x), own.bn1, training));
      y = block.bn2(block.conv2(y), own.bn2, training);
      if (block.downsample) x = block.downsample->norm(block.downsample->conv(x), *own.downsample, training);
      x = nn::relu(x + y);
    }
    return fc(ls::mean(x, {.axis = {1, 2}}));
  }
};

/// The whole model: its parameters and its statistics.
struct Model {
  ResNet net;
  Stats stats;
};

struct Size {
  std::int64_t channels = 3, classes = 10;
  std::int64_t width = 64;  ///< features of the first of the four stages; each next one has twice as many
  std::int64_t blocks = 2;  ///< in each stage: 2 as in resnet18
  bool large = false;       ///< the first layers make pictures four times smaller, as torchvision's
};

/// The model before its arrays are made.
inline Model layers(const Size& size) {
  auto conv = [](std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride) {
    const std::int64_t around = window / 2;
    return nn::Conv{
        .in_features = in,
        .out_features = out,
        .kernel_size = {window, window},
        .options = {.window_strides = {stride, stride}, .padding = {{around, around}, {around, around}}},
        .use_bias = false,
        .kernel_init = nn::initializers::he_normal()};
  };
  auto norm = [](std::int64_t features) {
    return nn::BatchNorm{.features = features, .momentum = 0.9, .epsilon = 1e-5, .unbiased_var = true};
  };
  Model model{.net = {.conv1 = size.large ? conv(size.channels, size.width, 7, 2)
                                          : conv(size.channels, size.width, 3, 1),
                      .bn1 = norm(size.width)},
              .stats = {.bn1 = {size.width}}};
  std::int64_t in = size.width;
  for (std::int64_t i = 0; i < 4 * size.blocks; ++i) {
    const std::int64_t out = size.width << (i / size.blocks);
    const std::int64_t stride = out == in ? 1 : 2;
    Block block{conv(in, out, 3, stride), norm(out), conv(out, out, 3, 1), norm(out), {}};
    BlockStats stats{{out}, {out}, {}};
    if (out != in) block.downsample = Downsample{conv(in, out, 1, 2), norm(out)};
    if (out != in) stats.downsample = nn::BatchStats{out};
    model.net.blocks.push_back(block);
    model.stats.blocks.push_back(stats);
    in = out;
  }
  model.net.fc = {.in_features = in, .out_features = size.classes};
  return model;
}

/// Where the arrays are in torchvision's files.
inline hf::Rules rules(const Size& size) {
  std::vector<hf::Rule> all = {{"net.fc.kernel", "fc.weight", "o i -> i o"}, {"net.fc.bias", "fc.bias"}};
  auto conv = [&](const std::string& own, const std::string& theirs) {
    all.push_back({"net." + own + ".kernel", theirs + ".weight", "o i h w -> h w i o"});
  };
  auto norm = [&](const std::string& own, const std::string& statistics, const std::string& theirs) {
    all.push_back({"net." + own + ".scale", theirs + ".weight"});
    all.push_back({"net." + own + ".bias", theirs + ".bias"});
    all.push_back({"stats." + statistics + ".mean", theirs + ".running_mean"});
    all.push_back({"stats." + statistics + ".var", theirs + ".running_var"});
  };
  conv("conv1", "conv1");
  norm("bn1", "bn1", "bn1");
  for (std::int64_t i = 0; i < 4 * size.blocks; ++i) {
    const std::string own = "blocks." + std::to_string(i) + ".";
    const std::string theirs =
        "layer" + std::to_string(i / size.blocks + 1) + "." + std::to_string(i % size.blocks) + ".";
    conv(own + "downsample.conv", theirs + "downsample.0");
    norm(own + "downsample.norm", own + "downsample", theirs + "downsample.1");
    conv(own + "{}", theirs + "{}");
    norm(own + "{}", own + "{}", theirs + "{}");
  }
  return hf::Rules(all).ignore("{*}.num_batches_tracked");
}

}  // namespace resnet
