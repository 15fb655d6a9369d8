// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/generate.h"

#include <fmt/format.h>

#include <chrono>

#include "lockstep/array/host.h"
#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/ops.h"
#include "lockstep/random/random.h"

namespace lockstep::nn {
namespace {

/// A token's number as an i32. Throws Error for one that is none.
int token_of(const char* name, std::int64_t token) {
  if (token < 0 || token > INT32_MAX)
    fail("[nn::generate] expected a token from 0 as {}, got {}{}", name, token, ops::at());
  return static_cast<int>(token);
}

}  // namespace

namespace internal {

Decoding next_decoding(Decoding at, const Array& logits, const random::Key& key,
                       const GenerationOptions& options) {
  const Array chosen = sample(logits, options.sampling, random::fold_in(key, at.step), at.seen);
  at.last = where(at.done, token_of("pad_token_id", options.pad_token_id), chosen);
  at.lengths = at.lengths + astype(logical_not(at.done), DType::kI32);
  at.tokens = dynamic_update_slice(at.tokens, expand_dims(at.last, 1), {0, at.step});
  for (std::int64_t token : options.eos_token_id)
    at.done = logical_or(at.done, chosen == token_of("eos_token_id", token));
  if (at.seen) at.seen = put_along_axis(*at.seen, expand_dims(chosen, 1), true, 1);
  at.step = at.step + 1;
  return at;
}

void check_generation(const Array& prompt, const Array& lengths, const GenerationOptions& options,
                      const random::Key& key, const CallSite& site) {
  CallSiteScope here(site);
  const Shape& shape = prompt.shape();
  if (shape.size() != 2 || lengths.shape() != Shape{shape[0]} || num_elements(shape) == 0) {
    fail<ShapeError>("[nn::generate] expected tokens [batch, places] and lengths [batch], got {} and {}{}",
                     to_string(prompt.aval()), to_string(lengths.aval()), ops::at());
  }
  if (prompt.dtype() != DType::kI32 || lengths.dtype() != DType::kI32) {
    fail<DTypeError>("[nn::generate] expected tokens and lengths of i32, got {} and {}{}",
                     to_string(prompt.aval()), to_string(lengths.aval()), ops::at());
  }
  if (options.max_new_tokens < 1)
    fail("[nn::generate] expected max_new_tokens of at least 1, got {}{}", options.max_new_tokens, ops::at());
  if (options.sampling.do_sample && !key.valid())
    fail("[nn::generate] expected a key to draw by, got none{}", ops::at());
}

Decoding begin_decoding(const Array& logits, const Array& prompt, const Array& lengths,
                        const random::Key& key, const GenerationOptions& options) {
  const std::int64_t batch = prompt.shape()[0];
  if (logits.shape().size() != 2 || logits.shape()[0] != batch) {
    fail<ShapeError>(
        "[nn::generate] expected logits [batch, vocabulary] of the last token of {} examples, got {}{}; "
        "nn::last_rows takes the last rows",
        batch, to_string(logits.aval()), ops::at());
  }
  Decoding at{.tokens = full({batch, options.max_new_tokens}, token_of("pad_token_id", options.pad_token_id),
                             DType::kI32),
              .lengths = zeros({batch}, DType::kI32),
              .last = {},
              .done = zeros({batch}, DType::kBool),
              .step = zeros({}, DType::kI32),
              .seen = {}};
  if (options.sampling.repetition_penalty != 1) at.seen = seen_tokens(prompt, logits.shape()[1], lengths);
  return next_decoding(std::move(at), logits, key, options);
}

Array goes_on(const Decoding& at, const GenerationOptions& options) {
  const Array some_left = at.step < static_cast<int>(options.max_new_tokens);
  if (options.eos_token_id.empty()) return some_left;
  return logical_and(some_left, logical_not(all(at.done)));
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Generated generated(const Decoding& last, const Array& prompt_tokens) {
  Generated all{.tokens = last.tokens, .lengths = last.lengths};
  all.prompt_tokens = prompt_tokens.item<std::int32_t>();
  all.new_tokens = sum(last.lengths).item<std::int32_t>();
  all.batch = last.lengths.shape()[0];
  return all;
}

}  // namespace internal

std::string Generated::speed() const {
  auto part = [](const char* what, std::int64_t tokens, double seconds) {
    return fmt::format("{}: {} tokens in {:.3f} s, {:.1f} tokens/s", what, tokens, seconds,
                       seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
  };
  return part("prompt", prompt_tokens, prefill_seconds) + "; " +
         part("new", new_tokens - batch, decode_seconds);
}

Array last_rows(const Operand& x, const Operand& lengths) {
  CallSiteScope here(x.site());
  const Shape& shape = x.shape();
  if (shape.size() != 3 || lengths.shape() != Shape{shape[0]}) {
    fail<ShapeError>("[nn::last_rows] expected [batch, rows, features] and lengths [batch], got {} and {}{}",
                     to_string(x.aval()), to_string(lengths.aval()), ops::at());
  }
  if (!is_integer(lengths.type().dtype)) {
    fail<DTypeError>("[nn::last_rows] expected integers as lengths, got {}{}", to_string(lengths.aval()),
                     ops::at());
  }
  if (shape[1] == 1) return reshape(x, {shape[0], shape[2]});
  const Array at = clip(lengths - 1, 0, static_cast<int>(shape[1] - 1));
  return squeeze(take_along_axis(x, reshape(at, {shape[0], 1, 1}), 1, GatherScatterMode::kClip), 1);
}

}  // namespace lockstep::nn
