// SPDX-License-Identifier: Apache-2.0
// Generates text with a language model from a folder in Hugging Face's format, of the families Llama,
// Mistral, Mixtral and Qwen 2: config.json, model.safetensors (or several, and their index), and
// tokenizer.json for text.
//
//   $ lockstep run -n 2 -- build/release/examples/llm --model FOLDER --prompt "Once upon a time" --stop 2
//
// Without --prompt, tokens are given and printed as numbers:
//
//   $ folder=tests/models/hf/llama
//   $ lockstep run -n 2 -- build/release/examples/llm --model $folder --tokens "5 17 42; 50 2" --new 6
//   [0] row 0: 24 0 4 54 54 45
//   [0] row 1: 18 17 18 0 8 4
//   [0] prompt: 5 tokens in 0.004 s, 1250.0 tokens/s; new: 10 tokens in 0.005 s, 2000.0 tokens/s
//
// The rows are read at once, though they differ in length. Each device has some of the heads, of the hidden
// units and of the cache. With --logits the program prints the logits after each token instead.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/llm.h"
#include "examples/llm_lora.h"
#include "examples/support/command_line.h"
#include "examples/support/new_folder.h"
#include "examples/tokenizer.h"

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using llm::Caches, llm::Model, ls::Array, ls::P;

using Rows = std::vector<std::vector<std::int32_t>>;

/// "1 2 3; 4 5": two rows.
Rows rows_of(const std::string& text) {
  Rows rows;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ';');) {
    std::istringstream numbers(one);
    rows.emplace_back(std::istream_iterator<std::int32_t>(numbers), std::istream_iterator<std::int32_t>());
    if (rows.back().empty() || !numbers.eof())
      throw ls::Error("'" + one + "' is no list of tokens: give numbers, as in \"1 2 3; 4 5\"");
  }
  return rows;
}

/// The token ids of each line of a text.
Rows rows_of_text(const ls::tokenizers::Tokenizer& tokenizer, const std::string& text, std::int64_t known) {
  Rows rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(token_ids(tokenizer, line, known));
  return rows;
}

struct Options {
  std::string folder, prompt, tokens, stop;
  std::int64_t new_tokens = 20, seed = 0;
  double temperature = 0, top_p = 1;
  bool logits = false;
  llm::Training training;
};

void run(const Options& o) {
  const hf::Config file = hf::Config::read(o.folder);
  const auto config = file.as<llm::Config>();
  const nn::RotaryOptions rotary = llm::rotary_of(file);

  const ls::Mesh mesh = ls::make_mesh({{"tensor", ls::device_count()}});
  const ls::NamedSharding replicated(mesh, P());
  const Model model = llm::read(o.folder, config, mesh);

  // The prompts, padded on the right.
  std::optional<ls::tokenizers::Tokenizer> tokenizer;
  if (!o.prompt.empty()) tokenizer = ls::tokenizers::Tokenizer::from_file(o.folder + "/tokenizer.json");
  Rows rows = tokenizer ? rows_of_text(*tokenizer, o.prompt, config.vocab_size) : rows_of(o.tokens);
  std::vector<std::int32_t> all, lengths;
  for (const auto& row : rows) lengths.push_back(static_cast<std::int32_t>(row.size()));
  const std::int64_t batch = std::ssize(rows), places = *std::ranges::max_element(lengths);
  for (auto& row : rows) {
    row.resize(static_cast<std::size_t>(places));
    all.insert(all.end(), row.begin(), row.end());
  }
  const Array prompt = ls::device_put(ls::array(all, {batch, places}), replicated);
  const Array prompt_lengths = ls::device_put(ls::array(lengths), replicated);
  const ls::tree::Rules<ls::Sharding> by_heads{{"*length", replicated},
                                               {"*", ls::NamedSharding(mesh, P(nullptr, "tensor"))}};
  auto make_caches = [&] {
    Caches caches;
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
      caches.push_back(nn::KvCache::make(batch, places + o.new_tokens, config.key_heads(), config.head_size(),
                                         {.window = config.window(i)}));
    return caches;
  };
  const Caches caches = ls::jit(make_caches, {.out_shardings = {by_heads}})();

  const bool speaker = ls::process_index() == 0;
  auto print = [&](std::size_t row, const auto& numbers, std::size_t count, const char* format) {
    if (!speaker) return;
    std::printf("row %zu:", row);
    for (std::size_t i = 0; i < count; ++i) std::printf(format, numbers[i]);
    std::printf("\n");
  };
  if (o.logits) {
    auto of_all = [&](const Model& model, const Caches& caches) {
      return llm::logits(model, llm::features(model, prompt, prompt_lengths, caches, rotary).first);
    };
    const Array numbers = ls::jit(of_all, {.out_shardings = {replicated}})(model, caches);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::int32_t place = 0; place < lengths[i]; ++place)
        print(i, numbers[{i, place}].to_host<float>(), static_cast<std::size_t>(config.vocab_size), " %.8g");
    }
    return;
  }
  auto step = [rotary](const Model& model, const Array& tokens, const Array& lengths, const Caches& before) {
    auto [x, caches] = llm::features(model, tokens, lengths, before, rotary);
    return std::pair(llm::logits(model, nn::last_rows(x, lengths)), caches);
  };
  nn::GenerationOptions options{.max_new_tokens = o.new_tokens};
  if (o.temperature > 0)
    options.sampling = {.do_sample = true, .temperature = o.temperature, .top_p = o.top_p};
  if (!o.stop.empty()) {
    const std::vector<std::int32_t> stop = rows_of(o.stop)[0];
    options.eos_token_id.assign(stop.begin(), stop.end());
  }
  const nn::Generated found =
      nn::generate(step, model, caches, prompt, prompt_lengths, options, ls::random::key(o.seed));
  const auto counts = found.lengths.to_host<std::int32_t>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::int32_t> tokens = found.tokens[i].to_host<std::int32_t>();
    tokens.resize(static_cast<std::size_t>(counts[i]));
    if (!tokenizer) print(i, tokens, tokens.size(), " %d");
    if (tokenizer && speaker) std::printf("row %zu: %s\n", i, tokenizer->decode(tokens).c_str());
  }
  if (speaker) std::printf("%s\n", found.speed().c_str());
}

int main(int argc, char** argv) {
  Options options;
  CommandLine app{
      "Generates text with a Llama, Mistral, Mixtral or Qwen 2 model in Hugging Face's format, or fine-tunes "
      "one."};
  app.option("--model", options.folder, "the folder of config.json and the safetensors files");
  app.option("--prompt", options.prompt,
             "the prompts as text, one on each line; needs the folder's tokenizer.json");
  app.option("--tokens", options.tokens, "the prompts as token ids, as in \"1 2 3; 4 5\" for two rows");
  app.option("--new", options.new_tokens, "the tokens to generate for each row");
  app.option("--stop", options.stop, "tokens that end a row, as in \"2 7\"");
  app.option("--temperature", options.temperature, "0: the likeliest token");
  app.option("--top-p", options.top_p,
             "draw only from the likeliest tokens that have this probability together");
  app.option("--seed", options.seed);
  app.flag("--logits", options.logits, "print the logits after each token of the prompts");
  options.training.add_to(app);
  return app.run(argc, argv, [&] {
    if (options.training.lora > 0) check_new_folder(options.training.out);
    ls::initialize();
    options.training.lora > 0 ? llm::train(options.folder, options.training) : run(options);
  });
}
