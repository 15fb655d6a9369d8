// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/sampling.h"

#include <cmath>
#include <limits>

#include "lockstep/base/fail.h"
#include "lockstep/nn/activations.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/promotion.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {
namespace {

constexpr double kLeftOut = -std::numeric_limits<double>::infinity();

/// The logits in at least f32.
Array wide_logits(std::string_view operation, const Operand& logits) {
  const DType dtype = logits.type().dtype;
  if (!is_floating(dtype)) {
    fail<DTypeError>("[nn::{}] expected logits of a floating dtype, got {}{}", operation,
                     to_string(logits.aval()), ops::at());
  }
  if (logits.shape().empty() || logits.shape().back() == 0) {
    fail<ShapeError>("[nn::{}] expected logits with a last dimension of tokens, got {}{}", operation,
                     to_string(logits.aval()), ops::at());
  }
  return astype(logits.as_array(), at_least_f32(dtype));
}

void check_range(std::string_view what, double number, bool holds, const char* range) {
  if (!holds) fail("[nn::sample] expected a {} {}, got {}{}", what, range, number, ops::at());
}

}  // namespace

Array repetition_penalty(const Operand& logits, const Operand& seen, double penalty) {
  CallSiteScope here(logits.site());
  check_range("repetition_penalty", penalty, penalty > 0, "above 0");
  const Array x = wide_logits("repetition_penalty", logits);
  return where(seen, where(x < 0.0, x * penalty, x / penalty), x);
}

Array seen_tokens(const Operand& tokens, std::int64_t vocabulary, const std::optional<Array>& lengths) {
  CallSiteScope here(tokens.site());
  const Shape& shape = tokens.shape();
  const bool fits = shape.size() == 2 && (!lengths || lengths->shape() == Shape{shape[0]});
  if (!fits || vocabulary < 1) {
    fail<ShapeError>(
        "[nn::seen_tokens] expected tokens [batch, places], lengths [batch] and a vocabulary, got {}, {} and "
        "{}{}",
        to_string(tokens.aval()), lengths ? to_string(lengths->aval()) : "no lengths", vocabulary, ops::at());
  }
  Array at = where(tokens < 0, static_cast<int>(vocabulary), tokens);
  if (lengths) {
    const Array there = arange(shape[1], DType::kI32) < expand_dims(*lengths, 1);
    at = where(there, at, static_cast<int>(vocabulary));
  }
  return put_along_axis(zeros({shape[0], vocabulary}, DType::kBool), at, true, 1);
}

Array keep_top_k(const Operand& logits, std::int64_t k) {
  CallSiteScope here(logits.site());
  check_range("top_k", static_cast<double>(k), k >= 1, "of at least 1");
  const Array x = wide_logits("keep_top_k", logits);
  if (k >= x.shape().back()) return x;
  const Array least = min(lockstep::top_k(x, k).first, {.axis = -1, .keepdims = true});
  return where(x < least, kLeftOut, x);
}

Array keep_top_p(const Operand& logits, double p) {
  CallSiteScope here(logits.site());
  check_range("top_p", p, p >= 0 && p <= 1, "from 0 to 1");
  const Array x = wide_logits("keep_top_p", logits);
  if (p == 1) return x;
  const Array sorted = sort(x, -1);
  const Array left_out = cumsum(softmax(sorted), -1) <= 1 - p;
  const Array largest = max(x, {.axis = -1, .keepdims = true});
  const Array least = min(where(left_out, largest, sorted), {.axis = -1, .keepdims = true});
  return where(x < least, kLeftOut, x);
}

Array keep_min_p(const Operand& logits, double p) {
  CallSiteScope here(logits.site());
  check_range("min_p", p, p >= 0 && p <= 1, "from 0 to 1");
  const Array x = wide_logits("keep_min_p", logits);
  if (p == 0) return x;
  return where(x - max(x, {.axis = -1, .keepdims = true}) < std::log(p), kLeftOut, x);
}

Array sampling_logits(const Operand& logits, const SamplingOptions& options,
                      const std::optional<Array>& seen) {
  CallSiteScope here(logits.site());
  Array x = wide_logits("sample", logits);
  if (options.repetition_penalty != 1) {
    if (!seen)
      fail("[nn::sample] expected the tokens seen so far for a repetition_penalty, got none{}", ops::at());
    x = repetition_penalty(x, *seen, options.repetition_penalty);
  }
  if (!options.do_sample) return x;
  check_range("temperature", options.temperature, options.temperature > 0, "above 0");
  check_range("top_k", static_cast<double>(options.top_k), options.top_k >= 0, "of at least 0");
  if (options.temperature != 1) x = x / options.temperature;
  if (options.top_k > 0) x = keep_top_k(x, options.top_k);
  return keep_min_p(keep_top_p(x, options.top_p), options.min_p);
}

Array sample(const Operand& logits, const SamplingOptions& options, const random::Key& key,
             const std::optional<Array>& seen) {
  CallSiteScope here(logits.site());
  const Array x = sampling_logits(logits, options, seen);
  if (!options.do_sample) return argmax(x, -1);
  if (!key.valid()) fail("[nn::sample] expected a key to draw by, got none{}", ops::at());
  return random::categorical(key, x);
}

}  // namespace lockstep::nn
