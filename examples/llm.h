// SPDX-License-Identifier: Apache-2.0
#pragma once

// The language models of the families Llama, Mistral, Mixtral and Qwen 2, from Hugging Face's folders: the
// model of llm.cc and llm_lora.h.

#include <lockstep/lockstep.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace llm {

namespace ls = lockstep;
namespace nn = lockstep::nn;
namespace hf = lockstep::checkpoint::hf;
using ls::Array, ls::P;

/// Entries of config.json.
struct Config {
  std::string model_type, hidden_act;
  std::int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, vocab_size;
  std::optional<std::int64_t> num_key_value_heads, head_dim, sliding_window, max_window_layers,
      num_local_experts, num_experts_per_tok;
  std::optional<bool> attention_bias, mlp_bias, tie_word_embeddings, use_sliding_window;
  double rms_norm_eps;

  std::int64_t key_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  std::int64_t head_size() const { return head_dim.value_or(hidden_size / num_attention_heads); }

  /// The number of keys that a query of this layer sees; 0: all.
  std::int64_t window(std::int64_t layer) const {
    const bool limited = model_type != "qwen2" || (use_sliding_window.value_or(false) &&
                                                   layer >= max_window_layers.value_or(num_hidden_layers));
    return limited ? sliding_window.value_or(0) : 0;
  }
};

struct Mlp {
  nn::Linear gate, up, down;
  Array operator()(const Array& x) const { return down(nn::silu(gate(x)) * up(x)); }
};

struct Block {
  nn::RMSNorm input_layernorm;
  nn::MultiHeadAttention attention;
  nn::RMSNorm post_attention_layernorm;
  std::optional<Mlp> mlp;
  std::optional<nn::MixtureOfExperts> experts;  // instead
};

struct Model {
  nn::Embedding embed;
  std::vector<Block> layers;
  nn::RMSNorm norm;
  std::optional<nn::Linear> head;  // if it is not embed
};

/// Where the model's arrays are in the files.
inline hf::Rules rules() {
  const std::string own = "layers.{}.attention.", theirs = "model.layers.{}.self_attn.";
  std::vector<hf::Rule> all = {{"embed.embedding", "model.embed_tokens.weight"},
                               {own + "out.kernel", theirs + "o_proj.weight", "o (h d) -> h d o"},
                               {own + "out.bias", theirs + "o_proj.bias"}};
  for (const std::string name : {"query", "key", "value"}) {
    all.push_back({own + name + ".kernel", theirs + name[0] + "_proj.weight", "(h d) i -> i h d"});
    all.push_back({own + name + ".bias", theirs + name[0] + "_proj.bias", "(h d) -> h d"});
  }
  all.push_back({"layers.{}.mlp.{}.kernel", "model.layers.{}.mlp.{}_proj.weight", "o i -> i o"});
  const std::string moe = "model.layers.{}.block_sparse_moe.";
  all.push_back({"layers.{}.experts.router", moe + "gate.weight", "o i -> i o"});
  all.push_back({"layers.{}.experts.gate", moe + "experts.{e}.w1.weight", "o i -> e i o"});
  all.push_back({"layers.{}.experts.down", moe + "experts.{e}.w2.weight", "o i -> e i o"});
  all.push_back({"layers.{}.experts.up", moe + "experts.{e}.w3.weight", "o i -> e i o"});
  all.push_back({"{*}.scale", "model.{*}.weight"});
  all.push_back({"head.kernel", "lm_head.weight", "o i -> i o"});
  return hf::Rules(all).ignore("{*}.rotary_emb.inv_freq");
}

/// The model before its arrays are made, with names for the axes that may be split over devices.
inline Model layers(const Config& c) {
  if (c.hidden_act != "silu" || c.mlp_bias.value_or(false)) {
    throw ls::Error("config.json: hidden_act is " + c.hidden_act + " and mlp_bias is " +
                    (c.mlp_bias.value_or(false) ? "true" : "false") +
                    "; this program runs models with silu and without mlp_bias");
  }
  const bool bias = c.attention_bias.value_or(false);
  const nn::RMSNorm norm{.features = c.hidden_size, .epsilon = c.rms_norm_eps};
  const nn::Linear up{c.hidden_size, c.intermediate_size, false, {}, {}, P("features", "hidden")},
      down{c.intermediate_size, c.hidden_size, false, {}, {}, P("hidden", "features")},
      head{c.hidden_size, c.vocab_size, false, {}, {}, P("features", nullptr)};
  const nn::MultiHeadAttention attention{.num_heads = c.num_attention_heads,
                                         .in_features = c.hidden_size,
                                         .qkv_features = c.num_attention_heads * c.head_size(),
                                         .out_features = c.hidden_size,
                                         .num_key_heads = c.key_heads(),
                                         .use_bias = bias || c.model_type == "qwen2",
                                         .out_bias = bias,
                                         .axes = P("features", "heads", nullptr)};
  Block block{norm, attention, norm, Mlp{up, up, down}, std::nullopt};
  if (c.num_local_experts) {
    block.mlp.reset();
    block.experts = nn::MixtureOfExperts{.features = c.hidden_size,
                                         .hidden_features = c.intermediate_size,
                                         .num_experts = *c.num_local_experts,
                                         .experts_per_token = c.num_experts_per_tok.value_or(2),
                                         .axes = P("features", "hidden")};
  }
  return {.embed = {c.vocab_size, c.hidden_size, {}, P(nullptr, "features")},
          .layers = std::vector(static_cast<std::size_t>(c.num_hidden_layers), block),
          .norm = norm,
          .head = c.tie_word_embeddings.value_or(false) ? std::nullopt : std::optional(head)};
}

/// The model in the folder, over the axis `tensor` of the mesh: each device has some of the heads and of the
/// hidden units. With `fsdp`, those along the axis `data` have parts of them, and gather each array where it
/// is used.
inline Model read(const std::string& folder, const Config& config, const ls::Mesh& mesh, bool fsdp = false) {
  nn::LogicalRules rules_of_axes = {{"heads", "tensor"}, {"hidden", "tensor"}};
  if (fsdp) rules_of_axes.push_back({"features", "data"});
  const auto placed = nn::named_shardings(mesh, nn::partition_rules(layers(config), rules_of_axes));
  const auto like = ls::jit([&] { return nn::init(layers(config), ls::random::key(0)); }).eval_shape();
  return hf::restore(folder, like, rules(), {.sharding = placed});
}

/// config.json's rope_theta and rope_scaling, which newer files have in rope_parameters.
inline nn::RotaryOptions rotary_of(const hf::Config& file) {
  const std::string entry = file.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const std::string old = file.get<std::string>(entry + ".type", "default");
  const std::string kind = file.get<std::string>(entry + ".rope_type", old);
  nn::RotaryOptions options{.base = file.get(entry + ".rope_theta", file.get("rope_theta", 10000.0))};
  if (kind == "linear") options.scaling = file.get<nn::LinearRotaryScaling>(entry);
  if (kind == "llama3") options.scaling = file.get<nn::Llama3RotaryScaling>(entry);
  if (kind != "default" && options.scaling.index() == 0)
    throw ls::Error("config.json: rope_type is " + kind + "; this program runs default, linear and llama3");
  return options;
}

/// The last features of tokens, i32[batch,rows]. `attend` is called with each layer's attention, what it
/// gets, and the layer's number.
template <class Attend>
Array features_by(const Model& model, const Array& tokens, Attend attend) {
  Array x = model.embed(tokens);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Block& block = model.layers[i];
    x = x + attend(block.attention, block.input_layernorm(x), i);
    const Array y = block.post_attention_layernorm(x);
    x = x + (block.experts ? (*block.experts)(y) : (*block.mlp)(y));
  }
  return model.norm(x);
}

using Caches = std::vector<nn::KvCache>;

/// The last features of new tokens, i32[batch,rows], of which each row has some, and the caches with them.
inline std::pair<Array, Caches> features(const Model& model, const Array& tokens, const Array& lengths,
                                         Caches caches, const nn::RotaryOptions& rotary) {
  nn::RotaryOptions at = rotary;
  at.positions = caches[0].next_positions(tokens.shape()[1]);
  const auto tables = nn::rotary_tables(tokens.shape()[1], caches[0].key.shape()[3], at);
  const Array x =
      features_by(model, tokens, [&](const nn::MultiHeadAttention& attention, const Array& y, std::size_t i) {
        return attention(y, caches[i], tables, {.query_seq_lengths = lengths});
      });
  return {x, caches};
}

/// The last features of whole rows of tokens, i32[batch,rows], as in training.
inline Array features(const Model& model, const Array& tokens, const Config& config,
                      const nn::RotaryOptions& rotary) {
  const auto tables = nn::rotary_tables(tokens.shape()[1], config.head_size(), rotary);
  return features_by(model, tokens,
                     [&](const nn::MultiHeadAttention& attention, const Array& y, std::size_t i) {
                       nn::AttentionOptions options{.is_causal = true};
                       const std::int64_t window = config.window(static_cast<std::int64_t>(i));
                       if (window > 0) options.local_window_size = {window - 1, 0};
                       return attention(y, tables, options);
                     });
}

/// The logits of the token that follows each of these features.
inline Array logits(const Model& model, const Array& x) {
  return model.head ? (*model.head)(x) : model.embed.attend(x);
}

}  // namespace llm
