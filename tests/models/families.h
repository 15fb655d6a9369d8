// SPDX-License-Identifier: Apache-2.0
#pragma once

// GPT-2, T5 and ViT of layers of nn, and the rules by which they are read from Hugging Face's folders.
// Language models of the Llama kind are in examples/llm.h.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"

namespace lockstep::test {

namespace hf = checkpoint::hf;

constexpr std::int64_t kWidth = 32, kHeads = 4;

/// Axes "heads" and "hidden" may be split over devices.
inline nn::MultiHeadAttention attention_of(bool use_bias) {
  return {
      .num_heads = kHeads, .in_features = kWidth, .use_bias = use_bias, .axes = P(nullptr, "heads", nullptr)};
}
inline nn::Linear up(std::int64_t hidden, bool use_bias = true) {
  return {.in_features = kWidth, .out_features = hidden, .use_bias = use_bias, .axes = P(nullptr, "hidden")};
}
inline nn::Linear down(std::int64_t hidden, bool use_bias = true) {
  return {.in_features = hidden, .out_features = kWidth, .use_bias = use_bias, .axes = P("hidden", nullptr)};
}

struct Gpt2 {
  struct Block {
    nn::LayerNorm ln_1{.features = kWidth, .epsilon = 1e-5};
    nn::MultiHeadAttention attn = attention_of(true);
    nn::LayerNorm ln_2{.features = kWidth, .epsilon = 1e-5};
    nn::Linear c_fc = up(4 * kWidth), c_proj = down(4 * kWidth);
  };
  nn::Embedding wte{64, kWidth}, wpe{64, kWidth};
  std::vector<Block> h = std::vector<Block>(2);
  nn::LayerNorm ln_f{.features = kWidth, .epsilon = 1e-5};

  /// i32[batch, rows] to the logits of each next token.
  Array operator()(const Array& tokens) const {
    Array x = wte(tokens) + wpe(arange(tokens.shape()[1], int32));
    for (const Block& block : h) {
      x = x + block.attn(block.ln_1(x), {.is_causal = true});
      x = x + block.c_proj(nn::gelu(block.c_fc(block.ln_2(x))));
    }
    return wte.attend(ln_f(x));
  }

  static hf::Rules rules() {
    std::vector<hf::Rule> all;
    const std::string own = "h.{}.attn.", theirs = "transformer.h.{}.attn.";
    for (const auto& [name, third] :
         {std::pair("query", "0/3"), std::pair("key", "1/3"), std::pair("value", "2/3")}) {
      all.push_back({own + name + ".kernel", theirs + "c_attn.weight",
                     std::string("i (part=") + third + " h d) -> i h d"});
      all.push_back(
          {own + name + ".bias", theirs + "c_attn.bias", std::string("(part=") + third + " h d) -> h d"});
    }
    all.push_back({own + "out.kernel", theirs + "c_proj.weight", "(h d) o -> h d o"});
    all.push_back({own + "out.bias", theirs + "c_proj.bias"});
    all.push_back({"h.{}.{}.kernel", "transformer.h.{}.mlp.{}.weight"});
    for (const std::string name : {"c_fc", "c_proj"})
      all.push_back({"h.{}." + name + ".bias", "transformer.h.{}.mlp." + name + ".bias"});
    all.push_back({"{*}.bias", "transformer.{*}.bias"});
    all.push_back({"{*}.scale", "transformer.{*}.weight"});
    all.push_back({"{*}.embedding", "transformer.{*}.weight"});
    return hf::Rules(all);
  }
};

struct T5 {
  struct Block {
    nn::RMSNorm norm{.features = kWidth};
    nn::MultiHeadAttention attention = attention_of(false);
    nn::RMSNorm cross_norm{.features = kWidth, .use_scale = false};  // of decoders
    std::optional<nn::MultiHeadAttention> cross;
    nn::RMSNorm ff_norm{.features = kWidth};
    nn::Linear wi = up(48, false), wo = down(48, false);
  };
  struct Stack {
    nn::RelativePositionBias relative;
    std::vector<Block> blocks;
    nn::RMSNorm norm{.features = kWidth};

    Array operator()(Array x, const Array* encoded) const {
      const Array bias = relative(x.shape()[1], x.shape()[1]);
      for (const Block& block : blocks) {
        x = x + block.attention(block.norm(x), {.is_causal = encoded != nullptr, .bias = bias, .scale = 1});
        if (encoded != nullptr) x = x + (*block.cross)(block.cross_norm(x), *encoded, {.scale = 1});
        x = x + block.wo(nn::relu(block.wi(block.ff_norm(x))));
      }
      return norm(x);
    }
  };
  nn::Embedding shared{64, kWidth};
  Stack encoder = stack(false), decoder = stack(true);

  static Stack stack(bool decodes) {
    Block block;
    if (decodes) block.cross = attention_of(false), block.cross_norm.use_scale = true;
    return {
        .relative = {.num_heads = kHeads, .num_buckets = 8, .max_distance = 16, .bidirectional = !decodes},
        .blocks = std::vector(2, block)};
  }

  /// The logits of the tokens after those of `outputs`, of which the first is the start; both i32[batch,
  /// rows].
  Array operator()(const Array& inputs, const Array& outputs) const {
    const Array encoded = encoder(shared(inputs), nullptr);
    return shared.attend(decoder(shared(outputs), &encoded)) / std::sqrt(static_cast<double>(kWidth));
  }

  static hf::Rules rules() {
    std::vector<hf::Rule> all;
    const auto projections = [&](const std::string& own, const std::string& theirs) {
      for (const std::string name : {"query", "key", "value"})
        all.push_back({own + name + ".kernel", theirs + name[0] + ".weight", "(h d) i -> i h d"});
      all.push_back({own + "out.kernel", theirs + "o.weight", "o (h d) -> h d o"});
    };
    projections("{}.blocks.{}.attention.", "{}.block.{}.layer.0.SelfAttention.");
    projections("decoder.blocks.{}.cross.", "decoder.block.{}.layer.1.EncDecAttention.");
    for (const auto& [stack, layer] :
         {std::pair<std::string, std::string>("encoder", "1"), {"decoder", "2"}}) {
      const std::string own = stack + ".blocks.{}.", theirs = stack + ".block.{}.layer." + layer + ".";
      all.push_back({own + "ff_norm.scale", theirs + "layer_norm.weight"});
      all.push_back({own + "{}.kernel", theirs + "DenseReluDense.{1}.weight", "o i -> i o"});
    }
    all.push_back({"{}.blocks.{}.norm.scale", "{}.block.{}.layer.0.layer_norm.weight"});
    all.push_back({"decoder.blocks.{}.cross_norm.scale", "decoder.block.{}.layer.1.layer_norm.weight"});
    all.push_back(
        {"{}.relative.embedding", "{}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"});
    all.push_back({"{}.norm.scale", "{}.final_layer_norm.weight"});
    all.push_back({"shared.embedding", "shared.weight"});
    return hf::Rules(all);
  }
};

struct Vit {
  struct Block {
    nn::LayerNorm layernorm_before{.features = kWidth, .epsilon = 1e-12};
    nn::MultiHeadAttention attention = attention_of(true);
    nn::LayerNorm layernorm_after{.features = kWidth, .epsilon = 1e-12};
    nn::Linear intermediate = up(48), output = down(48);
  };
  nn::Conv patches{.in_features = 3,
                   .out_features = kWidth,
                   .kernel_size = {4, 4},
                   .options = {.window_strides = {4, 4}, .padding = "VALID"}};
  nn::Linear cls_token{.in_features = {1, 1}, .out_features = kWidth, .use_bias = false},
      positions{.in_features = {1, 17}, .out_features = kWidth, .use_bias = false};
  std::vector<Block> layers = std::vector<Block>(2);
  nn::LayerNorm layernorm{.features = kWidth, .epsilon = 1e-12};
  nn::Linear classifier{kWidth, 5};

  /// Pictures f32[batch, 16, 16, 3] to the logits of 5 classes.
  Array operator()(const Array& pictures) const {
    const std::int64_t batch = pictures.shape()[0];
    const Array first = broadcast_to(cls_token.kernel, {batch, 1, kWidth});
    Array x = concatenate({first, reshape(patches(pictures), {batch, 16, kWidth})}, 1) + positions.kernel;
    for (const Block& block : layers) {
      x = x + block.attention(block.layernorm_before(x));
      x = x + block.output(nn::gelu(block.intermediate(block.layernorm_after(x)), /*approximate=*/false));
    }
    return classifier(layernorm(x)[{slice(), 0}]);
  }

  static hf::Rules rules() {
    const std::string own = "layers.{}.", theirs = "vit.encoder.layer.{}.";
    std::vector<hf::Rule> all = {
        {"patches.kernel", "vit.embeddings.patch_embeddings.projection.weight", "o i h w -> h w i o"},
        {"patches.bias", "vit.embeddings.patch_embeddings.projection.bias"},
        {"cls_token.kernel", "vit.embeddings.cls_token"},
        {"positions.kernel", "vit.embeddings.position_embeddings"}};
    for (const std::string name : {"query", "key", "value"}) {
      const std::string each = theirs + "attention.attention." + name;
      all.push_back({own + "attention." + name + ".kernel", each + ".weight", "(h d) i -> i h d"});
      all.push_back({own + "attention." + name + ".bias", each + ".bias", "(h d) -> h d"});
    }
    all.push_back(
        {own + "attention.out.kernel", theirs + "attention.output.dense.weight", "o (h d) -> h d o"});
    all.push_back({own + "attention.out.bias", theirs + "attention.output.dense.bias"});
    for (const std::string name : {"intermediate", "output"}) {
      all.push_back({own + name + ".kernel", theirs + name + ".dense.weight", "o i -> i o"});
      all.push_back({own + name + ".bias", theirs + name + ".dense.bias"});
    }
    for (const std::string norm : {"layers.{}.layernorm_{}", "layernorm"}) {
      const std::string in = norm == "layernorm" ? "vit.layernorm" : theirs + "layernorm_{}";
      all.push_back({norm + ".scale", in + ".weight"});
      all.push_back({norm + ".bias", in + ".bias"});
    }
    all.push_back({"classifier.kernel", "classifier.weight", "o i -> i o"});
    return hf::Rules(all);
  }
};

}  // namespace lockstep::test
