// SPDX-License-Identifier: Apache-2.0
// Trains a classifier of handwritten digits on all devices of all processes.
//
//   $ lockstep run -n 4 -- build/release/examples/train_digits
//   ...
//   [0] test accuracy 0.9…
//
// A data::Loader returns the batches: each process reads its own rows of a batch, which is one array over all
// devices; the parameters are on every device. jit compiles the step into a program for each device, which
// sums the gradients over all devices.

#include <lockstep/lockstep.h>

#include <cstdio>

#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"

namespace ls = lockstep;
using ls::Array, ls::P;

struct Mlp {
  std::vector<ls::nn::Linear> layers;
};

Mlp init(const std::vector<int>& sizes, const ls::random::Key& key) {
  Mlp mlp;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    mlp.layers.push_back({.in_features = sizes[i],
                          .out_features = sizes[i + 1],
                          .kernel_init = ls::nn::initializers::he_normal()});
  }
  return ls::nn::init(mlp, key);
}

Array logits(const Mlp& mlp, Array x) {
  for (std::size_t i = 0; i < mlp.layers.size(); ++i) {
    x = mlp.layers[i](x);
    if (i + 1 < mlp.layers.size()) x = ls::nn::relu(x);
  }
  return x;
}

Array loss(const Mlp& mlp, const ls::data::Batch& batch) {
  return ls::mean(
      ls::nn::softmax_cross_entropy_with_integer_labels(logits(mlp, batch["image"]), batch["label"]));
}

/// The rows of the table, shuffled: 64 pixels of 0 to 16, and the digit.
ls::data::SourcePtr records(const ls::data::Table& table) {
  std::vector<ls::data::Record> records;
  for (std::int64_t i : ls::data::shuffled(table.rows, /*seed=*/0)) {
    std::vector<float> image(table.row(i), table.row(i) + 64);
    for (float& pixel : image) pixel /= 16;
    records.push_back({{"image", ls::data::Field::of(image)},
                       {"label", ls::data::Field::scalar(static_cast<std::int32_t>(table.row(i)[64]))}});
  }
  return ls::data::in_memory(std::move(records));
}

/// Trains on 1,438 of the digits and prints the share of the other 359 that are classified correctly.
template <class Optimizer>
void train(const Optimizer& optimizer, const ls::data::Table& digits, int epochs, int batch_size,
           bool print_losses, const CheckpointOptions& saving) {
  const ls::data::SourcePtr all = records(digits);
  const ls::data::SourcePtr training = ls::data::slice(all, 0, 1438);
  const ls::data::SourcePtr test = ls::data::slice(all, 1438, all->size());

  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());

  auto [mlp, state] = ls::jit(
      [&] {
        Mlp mlp = init({64, 128, 64, 10}, ls::random::key(1));
        return std::pair(mlp, optimizer.init(mlp));
      },
      {.out_shardings = {replicated, replicated}, .name = "init"})();

  auto step = ls::jit(
      [&](Mlp mlp, decltype(state) state, const ls::data::Batch& batch) {
        auto [value, grads] = ls::value_and_grad(loss)(mlp, batch);
        auto [updates, next] = optimizer.update(grads, state, mlp);
        return std::tuple(ls::optim::apply_updates(mlp, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  ls::data::Loader loader(
      training,
      {.batch = {batch_size}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1, .workers = 1});
  const std::int64_t steps = std::int64_t{epochs} * 1438 / batch_size;
  const bool speaker = ls::process_index() == 0;

  auto checkpoints = saving.open();
  const std::int64_t first = restore_newest(checkpoints, loader, mlp, state);
  ls::ProgressBar progress("training", steps, speaker && !print_losses);
  for (std::int64_t i = first + 1; i <= steps; ++i) {
    Array value;
    std::tie(mlp, state, value) = step(mlp, state, *loader.next());
    if (print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    progress.update(i, "loss " + std::to_string(value.item<float>()));
    if (save_or_stop(checkpoints, i, false, std::tuple(mlp, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  auto accuracy = ls::jit([](const Mlp& mlp, const ls::data::Batch& batch) {
    return ls::mean(ls::argmax(logits(mlp, batch["image"]), -1) == batch["label"]);
  });
  ls::data::Loader held_out(test, {.batch = {359}, .sharding = replicated});
  Array score = accuracy(mlp, *held_out.next());
  if (speaker) std::printf("test accuracy %.3f\n", score.item<float>());
}

int main(int argc, char** argv) {
  CommandLine app{"Trains a classifier of handwritten digits on all devices of all processes."};
  std::string data = LOCKSTEP_DATA_DIR "/digits.csv.gz", optimizer = "adam";
  CheckpointOptions saving;
  int epochs = 40, batch_size = 128;
  bool print_losses = false;
  app.option("--data", data, "digits.csv.gz, as scripts/setup fetches it");
  app.option("--epochs", epochs, "times through the training set");
  app.option("--batch-size", batch_size, "rows of a batch, over all devices");
  app.option("--optimizer", optimizer, {"adam", "sgd"}, "adam or sgd");
  app.flag("--print-losses", print_losses, "print the loss of each step");
  saving.add_to(app);
  return app.run(argc, argv, [&] {
    ls::initialize();
    ls::data::Table digits = ls::data::read_csv(data);
    if (digits.rows != 1797 || digits.columns != 65)
      throw ls::DataError(data + " is not the digits: run scripts/setup");
    if (optimizer == "adam")
      train(ls::optim::adam(2e-3), digits, epochs, batch_size, print_losses, saving);
    else
      train(ls::optim::sgd(0.1), digits, epochs, batch_size, print_losses, saving);
  });
}
