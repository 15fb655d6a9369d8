// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fine-tunes a language model by low-rank adapters: llm.cc with --lora.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/llm.h"
#include "examples/support/checkpoints.h"
#include "examples/support/command_line.h"
#include "examples/tokenizer.h"

namespace llm {

struct Training {
  std::int64_t lora = 0;  ///< the rank; 0: no training
  std::string data, out;
  std::int64_t tensor = 1, context = 128, batch = 8, steps = 100;
  double alpha = 16, rate = 2e-4;
  bool fsdp = false, print_losses = false;
  CheckpointOptions checkpoints;

  void add_to(CommandLine& app) {
    app.option("--lora", lora, "fine-tune the model by adapters of this rank, instead of generating");
    app.option("--data", data, "the text to train on");
    app.option("--out", out, "the folder to write, which must not exist");
    app.option("--tensor", tensor,
               "devices that share each layer in the training; the others split the rows");
    app.flag("--fsdp", fsdp, "split the model's arrays over the devices that split the rows, as FSDP does");
    app.option("--context", context, "tokens of a row");
    app.option("--batch-size", batch, "rows of a step, over all devices");
    app.option("--steps", steps, "steps of the training; 0: only print the loss of the text");
    app.option("--alpha", alpha, "the adapters' product is scaled by this, divided by the rank");
    app.option("--rate", rate, "the learning rate at the beginning, which falls to 0");
    app.flag("--print-losses", print_losses, "print the loss of each step");
    checkpoints.add_to(app);
  }
};

/// Rows of the text's tokens, "tokens", i32[length]; each begins `stride` tokens after the previous one.
inline ls::data::SourcePtr rows_of(const std::vector<std::int32_t>& ids, std::int64_t length,
                                   std::int64_t stride) {
  const std::string name =
      "rows of " + ls::digest({reinterpret_cast<const char*>(ids.data()), 4 * ids.size()});
  const auto count = static_cast<std::uint64_t>((std::ssize(ids) - length) / stride + 1);
  return ls::data::from_function(count, name + " by " + std::to_string(length), [=](std::uint64_t i) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(i) * stride;
    return ls::data::Record{{"tokens", ls::data::Field::of(std::vector(first, first + length))}};
  });
}

/// The mean over the rows that are no filling of -log(probability of each next token).
inline Array loss(const Model& model, const ls::data::Batch& batch, const Config& config,
                  const nn::RotaryOptions& rotary) {
  const Array& tokens = batch["tokens"];
  const Array x = features(model, tokens[{ls::slice(), ls::slice(0, -1)}], config, rotary);
  const Array losses = nn::softmax_cross_entropy_with_integer_labels(
      logits(model, x), tokens[{ls::slice(), ls::slice(1, ls::none)}]);
  return ls::sum(ls::where(batch.valid, ls::mean(losses, 1), 0.0)) / ls::sum(batch.valid);
}

/// Trains adapters of the attention's four matrices in each layer, and writes the model with them merged. The
/// optimizer and the checkpoints have the adapters alone, which are on every device.
inline void train(const std::string& folder, const Training& t) {
  const hf::Config file = hf::Config::read(folder);
  const auto config = file.as<Config>();
  const nn::RotaryOptions rotary = rotary_of(file);
  const auto tokenizer = ls::tokenizers::Tokenizer::from_file(folder + "/tokenizer.json");
  const std::vector<std::int32_t> ids = token_ids(tokenizer, ls::data::read_text(t.data), config.vocab_size);
  if (std::ssize(ids) <= t.context)
    throw ls::DataError(t.data + " has " + std::to_string(ids.size()) + " tokens: --context " +
                        std::to_string(t.context) + " needs one more than that");

  const ls::Mesh mesh = ls::make_mesh({{"data", -1}, {"tensor", t.tensor}});
  const ls::NamedSharding by_rows(mesh, P("data")), replicated(mesh, P());
  const Model model = read(folder, config, mesh, t.fsdp);
  const ls::tree::Rules<int> inputs{{"*attention.out.kernel", 2}, {"*attention.*.kernel", 1}, {"*", 0}};
  const auto optimizer =
      ls::optim::adam(ls::optim::linear_schedule(t.rate, 0, std::max<std::int64_t>(1, t.steps)));
  auto [lora, state] = ls::jit(
      [&](const Model& model) {
        nn::Lora lora =
            nn::lora(model, ls::random::key(0), {.rank = t.lora, .alpha = t.alpha, .inputs = inputs});
        return std::pair(lora, optimizer.init(lora));
      },
      {.out_shardings = {replicated, replicated}, .name = "init"})(model);
  auto adapted_loss = [&](const nn::Lora& lora, const Model& model, const ls::data::Batch& batch) {
    return loss(lora.merged(model), batch, config, rotary);
  };
  auto step = ls::jit(
      [&](nn::Lora lora, decltype(state) state, const Model& model, const ls::data::Batch& batch) {
        auto [value, grads] = ls::value_and_grad(adapted_loss)(lora, model, batch);
        auto [updates, next] = optimizer.update(grads, state, lora);
        return std::tuple(ls::optim::apply_updates(lora, updates), next, value);
      },
      {.out_shardings = {replicated, replicated, replicated}, .donate_argnums = {0, 1}, .name = "step"});

  ls::data::Loader loader(rows_of(ids, t.context + 1, 1),
                          {.batch = {t.batch}, .sharding = by_rows, .epochs = std::nullopt, .seed = 1});
  auto checkpoints = t.checkpoints.open();
  const std::int64_t first = restore_newest(checkpoints, loader, lora, state);
  const bool speaker = ls::process_index() == 0;
  ls::ProgressBar progress("training", t.steps, speaker && !t.print_losses);
  for (std::int64_t i = first + 1; i <= t.steps; ++i) {
    Array value;
    std::tie(lora, state, value) = step(lora, state, model, *loader.next());
    if (t.print_losses && speaker) std::printf("loss %.9g\n", value.item<float>());
    progress.update(i, "loss " + std::to_string(value.item<float>()));
    if (save_or_stop(checkpoints, i, i == t.steps, std::tuple(lora, state, loader.state()))) return;
  }
  if (checkpoints) checkpoints->wait();

  auto merge = ls::jit([](const nn::Lora& lora, const Model& model) { return lora.merged(model); });
  const Model adapted = merge(lora, model);
  // The whole text, in rows that do not overlap.
  auto text_loss = ls::jit([&](const Model& model, const ls::data::Batch& batch) {
    return std::pair(loss(model, batch, config, rotary), ls::sum(batch.valid));
  });
  double sum = 0, rows = 0;
  ls::data::Loader all(rows_of(ids, t.context + 1, t.context),
                       {.batch = {t.batch}, .sharding = by_rows, .seed = std::nullopt});
  while (const auto batch = all.next()) {
    const auto [value, count] = text_loss(adapted, *batch);
    sum += value.item<float>() * count.item<std::int32_t>();
    rows += count.item<std::int32_t>();
  }
  if (speaker) std::printf("loss of the text %.6f\n", sum / rows);
  hf::SaveOptions options{.config = file.text()};
  const std::string old = file.get<std::string>("torch_dtype", "float32");
  const std::string dtype = file.get<std::string>("dtype", old);
  if (dtype == "bfloat16") options.dtype = ls::bfloat16;
  if (dtype == "float16") options.dtype = ls::float16;
  hf::save(t.out, adapted, rules(), options);
  copy_tokenizer(folder, t.out);
  if (speaker) std::printf("%s has the model\n", t.out.c_str());
}

}  // namespace llm
