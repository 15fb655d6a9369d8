// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <variant>

#include "lockstep/ops/operand.h"

namespace lockstep::nn {

/// How the rates of a rotary embedding are changed for sequences that are longer than those of the training.
/// The fields are those of `rope_scaling` in Hugging Face's configurations.
///
/// "linear": all rates are divided by the factor.
struct LinearRotaryScaling {
  double factor = 1;
};

/// "llama3" (Llama 3.1): slow pairs, of fewer than low_freq_factor turns in the original length, are divided
/// by the factor, those of more than high_freq_factor turns stay, and between the two the change is gradual.
struct Llama3RotaryScaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_max_position_embeddings = 8192;
};

/// "yarn" (Peng and others, "YaRN: Efficient Context Window Extension of Large Language Models", 2023): the
/// same with a ramp over the pairs, from beta_fast to beta_slow turns. Sines and cosines are multiplied by
/// attention_factor, by default 0.1 * log(factor) + 1, or by a ratio of such numbers if mscale and
/// mscale_all_dim are given.
struct YarnRotaryScaling {
  double factor = 1;
  std::int64_t original_max_position_embeddings = 0;
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  bool truncate = true;  ///< the ramp's ends are whole pairs
};

using RotaryScaling =
    std::variant<std::monostate, LinearRotaryScaling, Llama3RotaryScaling, YarnRotaryScaling>;

struct RotaryOptions {
  double base = 10000;                  ///< the slowest pair turns about 1 / base radians from row to row
  std::optional<Array> positions = {};  ///< of the rows: [rows] or [batch, rows]; by default 0, 1, 2, …
  std::int64_t features = 0;  ///< only this many features, the first ones, are turned (GPT-NeoX, Phi); 0: all
  bool interleaved = false;  ///< a pair is the features 2i and 2i + 1 (GPT-J, Llama's own files) instead of i
                             ///< and i + features / 2 (GPT-NeoX, Hugging Face's files)
  RotaryScaling scaling = {};
};

/// Rotary position embedding, for the queries and the keys of an attention: x is [batch, rows, heads,
/// features] of a floating dtype, and so is the result. Feature i of the first half of the features and
/// feature i of the second half are a point of the plane, which is turned by position * base^(-2i / features)
/// radians. So the product of a query and a key depends on the distance of their rows. The angles are
/// computed in f32 (of f64: in f64).
///
/// Throws ShapeError unless x has four dimensions and an even number of features, and for positions of
/// another shape; DTypeError for an x that is not floating; Error for a base that is not above 0, and for
/// numbers of the scaling that do not fit each other.
///
/// Source: Su and others, "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021).
Array rotary_embedding(const Operand& x, const RotaryOptions& options = {});

/// The cosines and sines of a rotary embedding: computed once, for all layers of a model.
struct RotaryTables {
  Array cosines, sines;  ///< [rows, features / 2], or [batch, rows, features / 2]
  bool interleaved = false;
};

/// The tables of `rows` rows of heads that have this many features: options.features of them are turned. The
/// dtype is f32, or f64 for an x of f64. Throws as rotary_embedding does.
RotaryTables rotary_tables(std::int64_t rows, std::int64_t features, const RotaryOptions& options = {},
                           DType dtype = DType::kF32,
                           std::source_location where = std::source_location::current());

/// x turned by the tables. Features that they do not have, the last ones, stay as they are.
Array rotary_embedding(const Operand& x, const RotaryTables& tables);

}  // namespace lockstep::nn
