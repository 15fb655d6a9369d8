// SPDX-License-Identifier: Apache-2.0
// Trains a ResNet on a folder of pictures, on all devices of all processes, and writes the model to a folder.
//
//   $ lockstep run -n 2 -- build/release/examples/train_resnet --data PICTURES --out MODEL --width 64
//
// PICTURES has train_images.npy, train_labels.npy, test_images.npy and test_labels.npy, as NumPy writes them:
// images [pictures,rows,columns,channels] of u8, or of floating numbers, which stay as they are, and labels,
// integers from 0. Without --data the pictures are the handwritten digits that scripts/setup fetches:
//
//   $ lockstep run -n 2 -- build/release/examples/train_resnet --out digits
//   ...
//   [0] test loss 0.25…, accuracy 0.94…
//   [0] digits has the model
//
// MODEL/model.safetensors has the names of torchvision: with --width 64 and --large, resnet18 loads it.
// --model MODEL goes on from there. BatchNorm's running statistics are a second tree beside the parameters,
// and the batch's are those of the whole batch: the devices sum them.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "examples/pictures.h"
#include "examples/resnet.h"
#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"
#include "examples/support/new_folder.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using ls::Array, ls::P, resnet::Model, resnet::ResNet, resnet::Stats;

struct Options {
  std::string data, model, out;
  std::int64_t width = 16, blocks = 2, epochs = 10, batch = 128;
  double rate = 0.1, weight_decay = 5e-4;
  bool large = false, print_losses = false;
  CheckpointOptions checkpoints;
};

std::pair<Array, Stats> loss(const ResNet& net, Stats stats, const ls::data::Batch& batch) {
  const Array logits = net(pixels(batch), stats, /*training=*/true);
  return {ls::mean(nn::softmax_cross_entropy_with_integer_labels(logits, batch["label"])), stats};
}

/// The sum of the losses of the rows that are no filling, and how many of those are classified as they
/// should.
std::pair<Array, Array> score(const Model& model, const ls::data::Batch& batch) {
  Stats stats = model.stats;
  const Array logits = model.net(pixels(batch), stats, /*training=*/false);
  const Array losses = nn::softmax_cross_entropy_with_integer_labels(logits, batch["label"]);
  return {ls::sum(ls::where(batch.valid, losses, 0.0)),
          ls::sum(batch.valid & (ls::argmax(logits, -1) == batch["label"]))};
}

void train(const Options& o) {
  const ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  const ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());
  const Pictures pictures = read_pictures(o.data, replicated);
  const resnet::Size size{pictures.channels, pictures.classes, o.width, o.blocks, o.large};
  const auto count = static_cast<std::int64_t>(pictures.training->size());
  const std::int64_t steps = std::max<std::int64_t>(1, o.epochs * count / o.batch);

  auto make = ls::jit([&] { return nn::init(resnet::layers(size), ls::random::key(0)); },
                      {.out_shardings = {replicated}, .name = "make"});
  auto everywhere = [&](const std::string&) { return ls::Sharding(replicated); };
  Model model = o.model.empty()
                    ? make()
                    : hf::restore(o.model, make.eval_shape(), resnet::rules(size), {.sharding = everywhere});
  // Kernels decay, biases and BatchNorm's scales do not.
  const auto optimizer = ls::optim::chain(
      ls::optim::add_decayed_weights(o.weight_decay, ls::tree::Rules<bool>{{"*kernel", true}, {"*", false}}),
      ls::optim::sgd({.learning_rate = ls::optim::cosine_decay_schedule(o.rate, steps),
                      .momentum = 0.9,
                      .nesterov = true}));
  auto state = ls::jit([&](const ResNet& net) { return optimizer.init(net); },
                       {.out_shardings = {replicated}, .name = "init"})(model.net);
  auto step = ls::jit(
      [&](Model model, decltype(state) state, const ls::data::Batch& batch) {
        auto [value, grads] = ls::value_and_grad(loss)(model.net, model.stats, batch);
        auto [updates, next] = optimizer.update(grads, state, model.net);
        return std::tuple(Model{ls::optim::apply_updates(model.net, updates), value.second}, next,
                          value.first);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  ls::data::Loader loader(pictures.training,
                          {.batch = {o.batch}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1});
  auto checkpoints = o.checkpoints.open();
  const std::int64_t first = restore_newest(checkpoints, loader, model, state);
  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", steps, speaker && !o.print_losses);
  for (std::int64_t i = first + 1; o.epochs > 0 && i <= steps; ++i) {
    Array value;
    std::tie(model, state, value) = step(model, state, *loader.next());
    if (o.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    progress.update(i, "loss " + std::to_string(value.item<float>()));
    if (save_or_stop(checkpoints, i, i == steps, std::tuple(model, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  double sum = 0, right = 0;
  auto scored = ls::jit(score, {.out_shardings = {replicated, replicated}});
  ls::data::Loader test(pictures.test, {.batch = {o.batch}, .sharding = by_rows, .seed = std::nullopt});
  while (const auto batch = test.next()) {
    const auto [losses, correct] = scored(model, *batch);
    sum += losses.item<float>();
    right += correct.item<std::int32_t>();
  }
  const auto tests = static_cast<double>(pictures.test->size());
  if (speaker) std::printf("test loss %.6g, accuracy %.3f\n", sum / tests, right / tests);
  if (o.out.empty()) return;
  hf::save(o.out, model, resnet::rules(size));
  if (speaker) std::printf("%s has the model\n", o.out.c_str());
}

int main(int argc, char** argv) {
  Options o;
  CommandLine app{"Trains a ResNet on a folder of pictures, on all devices of all processes."};
  app.option("--data", o.data, "the folder of pictures; by default the digits that scripts/setup fetches");
  app.option("--model", o.model, "a folder with the model to begin with");
  app.option("--out", o.out, "the folder to write, which must not exist");
  app.option("--width", o.width, "features of the first stage");
  app.option("--blocks", o.blocks, "in each of the four stages");
  app.flag("--large", o.large, "for large pictures: the first layers make them four times smaller");
  app.option("--epochs", o.epochs, "times through the training set; 0: test only");
  app.option("--batch-size", o.batch, "rows of a batch, over all devices");
  app.option("--rate", o.rate, "the learning rate at the beginning, which falls to 0");
  app.option("--weight-decay", o.weight_decay);
  app.flag("--print-losses", o.print_losses, "print the loss of each step");
  o.checkpoints.add_to(app);
  return app.run(argc, argv, [&] {
    if (!o.out.empty()) check_new_folder(o.out);
    ls::initialize();
    train(o);
  });
}
