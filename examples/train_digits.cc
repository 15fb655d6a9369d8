// Trains a classifier of handwritten digits on all devices of all processes.
//
//   $ lockstep run -n 4 -- build/release/examples/train_digits
//   ...
//   [0] test accuracy 0.9xx
//
// Each process reads its own rows of each batch; the batch is one array over all devices; the parameters are
// on every device. What jit compiles is the step of one device: the gradients are summed over all devices
// inside of it.

#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <optional>

namespace ls = lockstep;
using ls::Array, ls::P;

struct Layer {
  Array w, b;
};
struct Mlp {
  std::vector<Layer> layers;
};
struct Batch {
  Array images, labels;
};

Mlp init(std::vector<int> sizes, Array key) {
  Mlp mlp;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    key = ls::random::fold_in(key, static_cast<int>(i));
    Array w = ls::random::normal(key, {sizes[i], sizes[i + 1]}) * std::sqrt(2.0 / sizes[i]);
    mlp.layers.push_back({w, ls::zeros({sizes[i + 1]})});
  }
  return mlp;
}

Array logits(const Mlp& mlp, Array x) {
  for (std::size_t i = 0; i < mlp.layers.size(); ++i) {
    x = ls::matmul(x, mlp.layers[i].w) + mlp.layers[i].b;
    if (i + 1 < mlp.layers.size()) x = ls::nn::relu(x);
  }
  return x;
}

Array loss(const Mlp& mlp, const Batch& batch) {
  return ls::mean(ls::nn::softmax_cross_entropy_with_integer_labels(logits(mlp, batch.images), batch.labels));
}

/// Some rows of the table: 64 pixels of 0 to 16, and the digit.
struct Rows {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  Rows(const ls::data::Table& table, std::span<const std::int64_t> which) {
    for (std::int64_t i : which) {
      const float* row = table.row(i);
      for (int pixel = 0; pixel < 64; ++pixel) images.push_back(row[pixel] / 16);
      labels.push_back(static_cast<std::int32_t>(row[64]));
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

/// Trains on 1,438 of the digits and says how many of the other 359 are then classified right.
template <class Optimizer>
void train(const Optimizer& optimizer, const ls::data::Table& digits, int epochs, int batch_size,
           bool print_losses, const std::string& checkpoint_dir, int checkpoint_every) {
  const std::vector<std::int64_t> order = ls::data::shuffled(digits.rows, /*seed=*/0);
  const std::span training = std::span(order).first(1438), test = std::span(order).subspan(1438);

  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());

  auto [mlp, state] = ls::jit(
      [&] {
        Mlp mlp = init({64, 128, 64, 10}, ls::random::key(1));
        return std::pair(mlp, optimizer.init(mlp));
      },
      {.out_shardings = {replicated, replicated}, .name = "init"})();

  auto step = ls::jit(
      [&](Mlp mlp, decltype(state) state, Batch batch) {
        auto [value, grads] = ls::value_and_grad(loss)(mlp, batch);
        auto [updates, next] = optimizer.update(grads, state, mlp);
        return std::tuple(ls::optim::apply_updates(mlp, updates), next, value);
      },
      {.donate_argnums = {0, 1}, .name = "step"});

  if (batch_size < 1 || batch_size % ls::process_count() != 0)
    throw ls::ShardingError("a batch of " + std::to_string(batch_size) + " rows cannot be split over " +
                            std::to_string(ls::process_count()) + " processes: choose a multiple");
  const std::size_t mine = batch_size / ls::process_count(), batches = training.size() / batch_size;
  const bool speaker = ls::process_index() == 0;

  // A step's batch follows from its number, so a run that goes on needs to know nothing else.
  std::optional<ls::checkpoint::Checkpointer> checkpoints;
  std::int64_t first = 0;
  if (!checkpoint_dir.empty()) {
    checkpoints.emplace(checkpoint_dir,
                        ls::checkpoint::CheckpointerOptions{.keep = {.last = 2}, .every = checkpoint_every});
    if (auto found = checkpoints->restore_latest(std::pair(mlp, state))) {
      first = found->first;
      std::tie(mlp, state) = found->second;
    }
  }
  ls::ProgressBar progress("training", epochs * batches, speaker && !print_losses);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::vector<std::int64_t> shuffled = ls::data::shuffled(training.size(), /*seed=*/epoch + 1);
    for (std::int64_t& row : shuffled) row = training[row];
    for (std::size_t i = 0; i < batches; ++i) {
      const std::int64_t step_number = epoch * batches + i + 1;
      if (step_number <= first) continue;
      Rows rows(digits, std::span(shuffled).subspan(i * batch_size + ls::process_index() * mine, mine));
      const std::int64_t local = rows.size(), global = batch_size;
      Batch batch{ls::make_array_from_process_local_data(by_rows, rows.images, {local, 64}, {{global, 64}}),
                  ls::make_array_from_process_local_data(by_rows, rows.labels, {local}, {{global}})};
      Array value;
      std::tie(mlp, state, value) = step(mlp, state, batch);
      if (print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
      progress.update(step_number, "loss " + std::to_string(value.item<float>()));
      if (!checkpoints) continue;
      const bool stop = ls::preemption_point(step_number);
      if (stop || checkpoints->due(step_number)) checkpoints->save(step_number, std::pair(mlp, state));
      if (stop) {
        checkpoints->wait();
        if (speaker) std::printf("told to stop: step %ld is saved\n", static_cast<long>(step_number));
        return;
      }
    }
  }

  if (checkpoints) checkpoints->wait();

  Rows held_out(digits, test);
  auto accuracy = ls::jit([](const Mlp& mlp, Array images, Array labels) {
    return ls::mean(ls::argmax(logits(mlp, images), -1) == labels);
  });
  Array score = accuracy(mlp, ls::array(held_out.images, {held_out.size(), 64}), ls::array(held_out.labels));
  if (speaker) std::printf("test accuracy %.3f\n", score.item<float>());
}

int main(int argc, char** argv) {
  CLI::App app{"Trains a classifier of handwritten digits on all devices of all processes."};
  std::string data = LOCKSTEP_DATA_DIR "/digits.csv.gz", optimizer = "adam";
  std::string checkpoint_dir;
  int epochs = 40, batch_size = 128, checkpoint_every = 100;
  bool print_losses = false;
  app.add_option("--data", data, "digits.csv.gz, as scripts/setup fetches it")->capture_default_str();
  app.add_option("--epochs", epochs, "times through the training set")->capture_default_str();
  app.add_option("--batch-size", batch_size, "rows of a batch, over all devices")->capture_default_str();
  app.add_option("--optimizer", optimizer, "adam or sgd")
      ->check(CLI::IsMember({"adam", "sgd"}))
      ->capture_default_str();
  app.add_flag("--print-losses", print_losses, "print the loss of each step");
  app.add_option("--checkpoint-dir", checkpoint_dir,
                 "save here, and go on from the newest step there; a folder or s3://bucket/prefix");
  app.add_option("--checkpoint-every", checkpoint_every, "steps from one save to the next")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  try {
    ls::initialize();
    ls::data::Table digits = ls::data::read_csv(data);
    if (digits.rows != 1797 || digits.columns != 65)
      throw ls::DataError(data + " is not the digits: run scripts/setup");
    if (optimizer == "adam")
      train(ls::optim::adam(2e-3), digits, epochs, batch_size, print_losses, checkpoint_dir,
            checkpoint_every);
    else
      train(ls::optim::sgd(0.1), digits, epochs, batch_size, print_losses, checkpoint_dir, checkpoint_every);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
