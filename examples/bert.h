// SPDX-License-Identifier: Apache-2.0
#pragma once

// BERT with a classifier, from and to Hugging Face's folders: the model of bert_classify.cc, transformers'
// BertForSequenceClassification.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "examples/labeled_texts.h"

namespace bert {

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using ls::Array;

/// Entries of config.json.
struct Config {
  std::string model_type, hidden_act;
  std::int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
      max_position_embeddings, type_vocab_size;
  double layer_norm_eps, hidden_dropout_prob;
  std::optional<double> classifier_dropout;
  std::optional<std::int64_t> pad_token_id;
  std::optional<std::string> position_embedding_type;
};

struct Layer {
  nn::MultiHeadAttention attention;
  nn::LayerNorm attention_norm;
  nn::Linear up, down;
  nn::LayerNorm norm;
};

struct Classifier {
  nn::Embedding words, positions, types;
  nn::LayerNorm norm;
  std::vector<Layer> layers;
  std::optional<nn::Linear> pooler, classifier;  // which a folder may lack
  nn::Dropout dropout, last_dropout;

  /// Logits, [batch,labels], of ids, i32[batch,places], of which each row has `lengths`. Without a key, as
  /// when the model is used, nothing is dropped.
  Array operator()(const Array& ids, const Array& lengths, const std::optional<ls::random::Key>& key) const {
    Array x = words(ids) + positions.embedding[ls::slice(0, ids.shape()[1])] + types.embedding[0];
    x = dropout(norm(x), nn::key_at(key, "embeddings"));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      const auto own = nn::key_at(key, "layers[" + std::to_string(i) + "]");
      const Array y = layer.attention(x, {.key_value_seq_lengths = lengths});
      x = layer.attention_norm(x + dropout(y, nn::key_at(own, "attention")));
      const Array z = layer.down(nn::gelu(layer.up(x), /*approximate=*/false));
      x = layer.norm(x + dropout(z, nn::key_at(own, "down")));
    }
    const Array first = ls::tanh((*pooler)(x[{ls::slice(), 0}]));
    return (*classifier)(last_dropout(first, nn::key_at(key, "pooler")));
  }
};

/// The model before its arrays are made.
inline Classifier layers(const Config& c, std::int64_t labels) {
  const std::string positions = c.position_embedding_type.value_or("absolute");
  if (c.model_type != "bert" || c.hidden_act != "gelu" || positions != "absolute") {
    throw ls::Error("config.json: model_type is " + c.model_type + ", hidden_act " + c.hidden_act +
                    " and position_embedding_type " + positions +
                    "; this program runs bert with gelu and absolute positions");
  }
  const auto normal = nn::initializers::normal(0.02);
  const nn::LayerNorm norm{.features = c.hidden_size, .epsilon = c.layer_norm_eps};
  auto linear = [&](std::int64_t in, std::int64_t out) {
    return nn::Linear{.in_features = in, .out_features = out, .kernel_init = normal};
  };
  const Layer layer{{.num_heads = c.num_attention_heads, .in_features = c.hidden_size},
                    norm,
                    linear(c.hidden_size, c.intermediate_size),
                    linear(c.intermediate_size, c.hidden_size),
                    norm};
  return {.words = {c.vocab_size, c.hidden_size},
          .positions = {c.max_position_embeddings, c.hidden_size},
          .types = {c.type_vocab_size, c.hidden_size},
          .norm = norm,
          .layers = std::vector(static_cast<std::size_t>(c.num_hidden_layers), layer),
          .pooler = linear(c.hidden_size, c.hidden_size),
          .classifier = linear(c.hidden_size, labels),
          .dropout = {c.hidden_dropout_prob},
          .last_dropout = {c.classifier_dropout.value_or(c.hidden_dropout_prob)}};
}

/// Where the arrays are in the files. Models without a task have no "bert." before the names, and old ones
/// call LayerNorm's weight and bias gamma and beta.
inline hf::Rules rules(const std::string& prefix = "bert.", const std::string& scale = "weight") {
  const std::string own = "layers.{}.", theirs = prefix + "encoder.layer.{}.";
  const std::string shift = scale == "gamma" ? "beta" : "bias";
  std::vector<hf::Rule> all = {
      {"words.embedding", prefix + "embeddings.word_embeddings.weight"},
      {"positions.embedding", prefix + "embeddings.position_embeddings.weight"},
      {"types.embedding", prefix + "embeddings.token_type_embeddings.weight"},
      {own + "attention.out.kernel", theirs + "attention.output.dense.weight", "o (h d) -> h d o"},
      {own + "attention.out.bias", theirs + "attention.output.dense.bias"},
      {own + "attention.{}.kernel", theirs + "attention.self.{}.weight", "(h d) i -> i h d"},
      {own + "attention.{}.bias", theirs + "attention.self.{}.bias", "(h d) -> h d"},
      {own + "up.kernel", theirs + "intermediate.dense.weight", "o i -> i o"},
      {own + "up.bias", theirs + "intermediate.dense.bias"},
      {own + "down.kernel", theirs + "output.dense.weight", "o i -> i o"},
      {own + "down.bias", theirs + "output.dense.bias"},
      {"pooler.kernel", prefix + "pooler.dense.weight", "o i -> i o"},
      {"pooler.bias", prefix + "pooler.dense.bias"},
      {"classifier.kernel", "classifier.weight", "o i -> i o"}};
  for (const auto& [norm, name] : {std::pair(own + "attention_norm.", theirs + "attention.output."),
                                   std::pair(own + "norm.", theirs + "output."),
                                   std::pair(std::string("norm."), prefix + "embeddings.")}) {
    all.push_back({norm + "scale", name + "LayerNorm." + scale});
    all.push_back({norm + "bias", name + "LayerNorm." + shift});
  }
  return hf::Rules(all).ignore("{*}.position_ids").ignore("cls.{*}");
}

/// The model in the folder, with this sharding of all arrays. With `new_classifier` the classifier is new,
/// and so is the pooler, if the folder has none.
inline Classifier read(const std::string& folder, const Config& config, std::int64_t labels,
                       bool new_classifier, const ls::Sharding& sharding) {
  std::set<std::string> names;
  ls::checkpoint::restore_numbers(folder, [&](const std::string& name) {
    names.insert(name);
    return false;
  });
  const std::string prefix = names.contains("embeddings.word_embeddings.weight") ? "" : "bert.";
  const std::string scale = names.contains(prefix + "embeddings.LayerNorm.gamma") ? "gamma" : "weight";
  auto make = [&] { return nn::init(layers(config, labels), ls::random::key(0)); };
  Classifier like = ls::jit(make).eval_shape();
  hf::Rules places = rules(prefix, scale);
  if (new_classifier) {
    if (!names.contains(prefix + "pooler.dense.weight")) like.pooler.reset();
    like.classifier.reset();
    places.ignore("classifier.{*}");
  }
  Classifier model =
      hf::restore(folder, like, places, {.sharding = [&](const std::string&) { return sharding; }});
  if (!new_classifier) return model;
  auto make_last = [&] {
    const Classifier made = make();
    return std::pair(*made.pooler, *made.classifier);
  };
  const auto [pooler, classifier] = ls::jit(make_last, {.out_shardings = {sharding, sharding}})();
  if (!model.pooler) model.pooler = pooler;
  model.classifier = classifier;
  return model;
}

/// What is in a folder beside the arrays, and where those and the batches are placed.
struct Folder {
  hf::Config file;
  ls::tokenizers::Tokenizer tokenizer;
  Config config = file.as<Config>();
  ls::Mesh mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding by_rows{mesh, ls::P("data")}, replicated{mesh, ls::P()};

  explicit Folder(const std::string& path)
      : file(hf::Config::read(path)),
        tokenizer(ls::tokenizers::Tokenizer::from_file(path + "/tokenizer.json")) {}

  /// config.json's id2label.
  std::vector<std::string> labels() const {
    std::vector<std::string> all;
    for (std::string at = "id2label.0"; file.has(at); at = "id2label." + std::to_string(all.size()))
      all.push_back(file.get<std::string>(at));
    return all;
  }

  ls::data::SourcePtr records(const std::vector<labeled::Text>& texts, const std::vector<std::string>& labels,
                              std::int64_t max_length) const {
    return labeled::records(texts, labels, tokenizer,
                            {config.vocab_size, std::min(max_length, config.max_position_embeddings),
                             static_cast<std::int32_t>(config.pad_token_id.value_or(0))});
  }
};

/// The logits of each record.
inline std::vector<std::vector<float>> logits_of(const Classifier& model, const ls::data::SourcePtr& source,
                                                 const Folder& folder, std::int64_t batch) {
  auto apply = [](const Classifier& model, const ls::data::Batch& batch) {
    return model(batch["ids"], batch["length"], std::nullopt);
  };
  auto compiled = ls::jit(apply, {.out_shardings = {folder.replicated}, .name = "apply"});
  std::vector<std::vector<float>> all;
  ls::data::Loader loader(source, {.batch = {batch}, .sharding = folder.by_rows, .seed = std::nullopt});
  while (const auto rows = loader.next()) {
    const Array logits = compiled(model, *rows);
    const std::vector<float> numbers = logits.to_host<float>();
    const auto labels = static_cast<std::ptrdiff_t>(logits.shape()[1]);
    for (auto at = numbers.begin(); at != numbers.end() && all.size() < source->size(); at += labels)
      all.emplace_back(at, at + labels);
  }
  return all;
}

}  // namespace bert
