// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/ops/operand.h"
#include "lockstep/random/key.h"

/// The choice of a next token from logits [..., vocabulary] of a floating dtype, with the names and meanings
/// of Hugging Face's GenerationConfig. A token that is left out gets the logit -inf. All compute in f32 (of
/// f64: in f64), which is the results' dtype, and throw DTypeError for logits that are not floating,
/// ShapeError for logits without a dimension, and Error for numbers out of their range.
namespace lockstep::nn {

struct SamplingOptions {
  bool do_sample = false;  ///< false: the token of the largest logit, of several the first, whatever the
                           ///< options but repetition_penalty say
  double temperature = 1;  ///< above 0: logits are divided by it
  std::int64_t top_k = 0;  ///< only this many tokens, of the largest logits; 0: all
  double top_p = 1;  ///< from 0 to 1: only the likeliest tokens, as many as it takes to reach this sum of
                     ///< probabilities, at least one
  double min_p = 0;  ///< from 0 to 1: only tokens at least this share as likely as the likeliest one
  double repetition_penalty = 1;  ///< above 0: see nn::repetition_penalty
};

/// Positive logits of tokens that `seen` has, bools of the logits' shape, are divided by the penalty, and
/// negative ones multiplied by it (Keskar and others, "CTRL", 2019).
Array repetition_penalty(const Operand& logits, const Operand& seen, double penalty);

/// Bools [batch, vocabulary]: whether the first lengths[i] of tokens[i] have it. tokens are integers [batch,
/// places], lengths integers [batch]; by default all count. Tokens out of range do not.
Array seen_tokens(const Operand& tokens, std::int64_t vocabulary, const std::optional<Array>& lengths = {});

/// The logits without all but the k largest; of equal ones at the border all stay.
Array keep_top_k(const Operand& logits, std::int64_t k);

/// The logits without the least likely tokens: those up to which the probabilities, from the smallest one
/// on, add up to at most 1 - p. The likeliest stays, and of equal ones at the border all do.
Array keep_top_p(const Operand& logits, double p);

/// The logits without tokens that are less than `p` times as likely as the likeliest one.
Array keep_min_p(const Operand& logits, double p);

/// The logits from which `sample` draws: repetition_penalty, if `seen` is given, and if do_sample is set
/// temperature, top_k, top_p and min_p, in this order. Throws Error for a penalty without `seen`.
Array sampling_logits(const Operand& logits, const SamplingOptions& options,
                      const std::optional<Array>& seen = {});

/// i32 tokens, of the shape of the logits' other dimensions: drawn by the key from sampling_logits, or, if
/// do_sample is not set, the largest of them. Throws Error if a key is needed and not given.
Array sample(const Operand& logits, const SamplingOptions& options, const random::Key& key = {},
             const std::optional<Array>& seen = {});

}  // namespace lockstep::nn
