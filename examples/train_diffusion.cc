// SPDX-License-Identifier: Apache-2.0
// Trains a diffusion model on handwritten digits, on all devices of all processes, and lets it write digits
// of its own into a picture.
//
//   $ lockstep run -n 4 -- build/release/examples/train_diffusion --picture digits.png
//   ...
//   [0] digits.png has 8 rows of the digits from 0 to 9
//
// The model sees a picture that is mixed with noise, how much of it that is, and which digit the picture
// shows; it learns to tell the two apart (Ho and others, "Denoising Diffusion Probabilistic Models", 2020).
// At time 0 a picture has no noise and at time 1 it is nothing else: noisy = cos(a) clean + sin(a) noise,
// with the angle a = time * pi / 2. What the model gives is the direction v = cos(a) noise - sin(a) clean
// (Salimans and Ho, "Progressive Distillation", 2022), from which both follow.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "examples/digits.h"
#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"
#include "examples/support/png.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
using ls::Array, ls::P;

struct Options {
  std::string data = LOCKSTEP_DATA_DIR "/digits.csv.gz", picture = "digits.png";
  std::int64_t width = 32, steps = 3000, batch = 64, rows = 8, denoising_steps = 50;
  double rate = 2e-3;
  bool print_losses = false;
  CheckpointOptions checkpoints{.every = 500};
};

/// Two convolutions, which are told the time and the digit between them.
struct Block {
  nn::LayerNorm norm1;
  nn::Conv conv1;
  nn::Linear told;
  nn::LayerNorm norm2;
  nn::Conv conv2;

  Array operator()(const Array& x, const Array& about) const {
    const Array y = conv1(nn::silu(norm1(x))) + told(about)[{ls::slice(), ls::newaxis, ls::newaxis}];
    return x + conv2(nn::silu(norm2(y)));
  }
};

/// A U-Net (Ronneberger and others, 2015) of two sizes: 8 x 8 pixels, and 4 x 4.
struct UNet {
  nn::Linear time1, time2;
  nn::Embedding digits;
  nn::Conv first;
  Block down;
  nn::Conv half;
  Block middle;
  nn::Conv whole;
  Block up;
  nn::LayerNorm norm;
  nn::Conv last;

  /// The direction v for f32[batch,8,8,1], at the times f32[batch], of the digits i32[batch].
  Array operator()(const Array& noisy, const Array& time, const Array& digit) const {
    // Waves of 16 lengths tell the time.
    const Array rates = ls::exp(ls::arange(16.0) * (std::log(100.0) / 16));
    const Array angles = ls::expand_dims(time, 1) * rates;
    const Array waves = ls::concatenate({ls::sin(angles), ls::cos(angles)}, 1);
    const Array about = nn::silu(time2(nn::silu(time1(waves))) + digits(digit));

    const Array large = down(first(noisy), about);
    const Array small = middle(half(large), about);
    const Array again = ls::repeat(ls::repeat(small, 2, 1), 2, 2);
    return last(nn::silu(norm(up(whole(again) + large, about))));
  }
};

/// The model's layers. nn::init makes their arrays.
UNet layers(const Options& o) {
  const std::int64_t wide = 2 * o.width;
  auto conv = [](std::int64_t from, std::int64_t to) {
    return nn::Conv{.in_features = from, .out_features = to, .kernel_size = {3, 3}};
  };
  auto block = [&](std::int64_t features) {
    return Block{.norm1 = {.features = features},
                 .conv1 = conv(features, features),
                 .told = {.in_features = wide, .out_features = features},
                 .norm2 = {.features = features},
                 .conv2 = conv(features, features)};
  };
  UNet unet{.time1 = {.in_features = 32, .out_features = wide},
            .time2 = {.in_features = wide, .out_features = wide},
            .digits = {.num_embeddings = 10, .features = wide},
            .first = conv(1, o.width),
            .down = block(o.width),
            .half = conv(o.width, wide),
            .middle = block(wide),
            .whole = conv(wide, o.width),
            .up = block(o.width),
            .norm = {.features = o.width},
            .last = conv(o.width, 1)};
  unet.half.options.window_strides = {2, 2};
  unet.last.kernel_init = nn::initializers::zeros;
  return unet;
}

/// How much of a picture at this time is clean, and how much is noise.
std::pair<Array, Array> shares(const Array& time) {
  const Array angle = time * (std::numbers::pi / 2);
  return {ls::cos(angle), ls::sin(angle)};
}

Array loss(const UNet& unet, const ls::data::Batch& batch, const ls::random::Key& key) {
  const Array clean = 2 * batch["image"] - 1;  // pixels from -1 to 1
  const auto [time_key, noise_key] = ls::random::split<2>(key);
  const Array time = ls::random::uniform(time_key, {clean.shape()[0]});
  const Array noise = ls::random::normal(noise_key, clean.shape());
  const auto [signal, sigma] = shares(ls::reshape(time, {-1, 1, 1, 1}));
  const Array direction = unet(signal * clean + sigma * noise, time, batch["label"]);
  return ls::mean(ls::square(direction - (signal * noise - sigma * clean)));
}

/// Pictures of these digits, f32[count,8,8,1] of -1 to 1: noise, from which the model takes the noise away in
/// small steps (Song and others, "Denoising Diffusion Implicit Models", 2020).
Array draw(const UNet& unet, const Array& digit, const ls::random::Key& key, std::int64_t steps) {
  const std::int64_t count = digit.shape()[0];
  const Array start = ls::random::normal(key, {count, 8, 8, 1});
  return ls::fori_loop(
      0, steps,
      [&](const Array& i, const Array& noisy) {
        const Array time = 1 - i / static_cast<double>(steps), next = time - 1 / static_cast<double>(steps);
        const auto [signal, sigma] = shares(time);
        const Array direction = unet(noisy, ls::broadcast_to(time, {count}), digit);
        const Array clean = ls::clip(signal * noisy - sigma * direction, -1.0, 1.0);
        const Array noise = sigma * noisy + signal * direction;
        const auto [next_signal, next_sigma] = shares(next);
        return next_signal * clean + next_sigma * noise;
      },
      start);
}

/// One picture of all of them, ten in a row, each pixel 4 x 4 times: u8[40 rows, 400].
Array grid(const Array& pictures) {
  const std::int64_t rows = pictures.shape()[0] / 10;
  Array x = ls::pad(ls::reshape(pictures, {rows, 10, 8, 8}), {{0, 0}, {0, 0}, {1, 1}, {1, 1}}, -1.0);
  x = ls::reshape(ls::transpose(x, {0, 2, 1, 3}), {10 * rows, 100});
  x = ls::repeat(ls::repeat(x, 4, 0), 4, 1);
  return ls::astype(ls::round(127.5 * (x + 1)), ls::uint8);
}

void train(const Options& o) {
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());
  const auto rate =
      ls::optim::warmup_cosine_decay_schedule({.init_value = 0,
                                               .peak_value = o.rate,
                                               .warmup_steps = std::max<std::int64_t>(1, o.steps / 20),
                                               .decay_steps = o.steps});
  const auto optimizer = ls::optim::adam(rate);
  auto [unet, state] = ls::jit(
      [&] {
        UNet unet = nn::init(layers(o), ls::random::key(0));
        return std::pair(unet, optimizer.init(unet));
      },
      {.out_shardings = {replicated, replicated}, .name = "init"})();

  auto step = ls::jit(
      [&](UNet unet, decltype(state) state, const ls::data::Batch& batch, const Array& i) {
        const ls::random::Key key = ls::random::fold_in(ls::random::key(1), i);  // another one for each step
        auto [value, grads] = ls::value_and_grad(loss)(unet, batch, key);
        auto [updates, next] = optimizer.update(grads, state, unet);
        return std::tuple(ls::optim::apply_updates(unet, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  ls::data::Loader loader(
      digits(o.data),
      {.batch = {o.batch}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1, .workers = 1});
  auto checkpoints = o.checkpoints.open();
  const std::int64_t first = restore_newest(checkpoints, loader, unet, state);

  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", o.steps, speaker && !o.print_losses);
  double average = 1;  // of the last hundred losses or so: a single one depends on its noise
  for (std::int64_t i = first; i < o.steps; ++i) {
    Array value;
    std::tie(unet, state, value) = step(unet, state, *loader.next(), i);
    if (o.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    average += 0.01 * (static_cast<double>(value.item<float>()) - average);
    progress.update(i + 1, "loss " + std::to_string(average));
    if (save_or_stop(checkpoints, i + 1, i + 1 == o.steps, std::tuple(unet, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  auto picture = ls::jit(
      [&](const UNet& unet) {
        const Array digit = ls::tile(ls::arange(10), o.rows);
        return grid(draw(unet, digit, ls::random::key(2), o.denoising_steps));
      },
      {.out_shardings = {replicated}, .name = "picture"})(unet);
  if (!speaker) return;
  write_png(o.picture, picture.to_host<std::uint8_t>(), picture.shape()[1], picture.shape()[0]);
  std::printf("%s has %d rows of the digits from 0 to 9\n", o.picture.c_str(), static_cast<int>(o.rows));
}

int main(int argc, char** argv) {
  Options options;
  CommandLine app{"Trains a diffusion model on handwritten digits and lets it write some of its own."};
  app.option("--data", options.data, "digits.csv.gz, as scripts/setup fetches it");
  app.option("--picture", options.picture, "the PNG file to write, by process 0");
  app.option("--rows", options.rows, "of the picture, each with the ten digits");
  app.option("--denoising-steps", options.denoising_steps, "from noise to a picture");
  app.option("--width", options.width, "features of a pixel");
  app.option("--steps", options.steps);
  app.option("--batch-size", options.batch, "rows of a batch, over all devices");
  app.option("--rate", options.rate, "the learning rate at its peak");
  app.flag("--print-losses", options.print_losses, "print the loss of each step");
  options.checkpoints.add_to(app);
  return app.run(argc, argv, [&] {
    ls::initialize();
    train(options);
  });
}
