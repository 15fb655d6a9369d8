// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/jit.h"
#include "lockstep/nn/kv_cache.h"
#include "lockstep/nn/sampling.h"

/// Text, token by token: nn::generate, and what it consists of.
namespace lockstep::nn {

/// With the names of Hugging Face's GenerationConfig.
struct GenerationOptions {
  std::int64_t max_new_tokens = 20;             ///< at least 1
  std::vector<std::int64_t> eos_token_id = {};  ///< an example ends after any of these
  std::int64_t pad_token_id = 0;                ///< what follows its end
  SamplingOptions sampling = {};
};

/// What a generation gave, and how long it took.
struct Generated {
  Array tokens;   ///< i32[batch, max_new_tokens]: the new ones
  Array lengths;  ///< i32[batch]: how many there are before the padding, with the eos_token_id

  std::int64_t prompt_tokens = 0, new_tokens = 0;  ///< of all examples, without padding
  std::int64_t batch = 0;
  double prefill_seconds = 0;  ///< for the prompts, and the first new token of each example
  double decode_seconds = 0;   ///< for the other new tokens

  /// "prompt: 12 tokens in 0.004 s, 3000.0 tokens/s; new: 40 tokens in 0.020 s, 2000.0 tokens/s". The seconds
  /// are without compiling.
  std::string speed() const;
};

namespace internal {

/// Where a generation is.
struct Decoding {
  Array tokens, lengths;      ///< as in Generated, so far
  Array last;                 ///< i32[batch]: the newest token of each example
  Array done;                 ///< bools [batch]
  Array step;                 ///< i32 scalar: the number of tokens so far
  std::optional<Array> seen;  ///< bools [batch, vocabulary], for a repetition_penalty
};

/// Throw ShapeError and DTypeError for arguments that are not as generate says, Error for options.
void check_generation(const Array& prompt, const Array& lengths, const GenerationOptions& options,
                      const random::Key& key, const CallSite& site);

/// The first tokens, chosen from these logits.
Decoding begin_decoding(const Array& logits, const Array& prompt, const Array& lengths,
                        const random::Key& key, const GenerationOptions& options);

/// With one more token of each example.
Decoding next_decoding(Decoding at, const Array& logits, const random::Key& key,
                       const GenerationOptions& options);
Array goes_on(const Decoding& at, const GenerationOptions& options);

double seconds_now();

/// Fills in the numbers of tokens.
Generated generated(const Decoding& last, const Array& prompt_tokens);

template <class Step>
struct Prefill {
  Step step;
  GenerationOptions options;

  template <class Params, class Cache>
  auto operator()(const Params& params, const Cache& cache, const Array& prompt, const Array& lengths,
                  const random::Key& key) const {
    std::pair<Array, Cache> next = step(params, prompt, lengths, cache);
    return std::tuple(begin_decoding(next.first, prompt, lengths, key, options), std::move(next.second),
                      sum(lengths));
  }
};

template <class Step>
struct Decode {
  Step step;
  GenerationOptions options;

  template <class Params, class Cache>
  auto operator()(const Params& params, const Cache& cache, const Decoding& first,
                  const random::Key& key) const {
    using State = std::pair<Decoding, Cache>;
    return while_loop([this](const State& at) -> Array { return goes_on(at.first, options); },
                      [&](const State& at) {
                        const Array row = expand_dims(at.first.last, 1);
                        const Array one = ones(at.first.last.shape(), DType::kI32);
                        std::pair<Array, Cache> next = step(params, row, one, at.second);
                        return State(next_decoding(at.first, next.first, key, options),
                                     std::move(next.second));
                      },
                      State(first, cache))
        .first;
  }
};

}  // namespace internal

/// Generates text with a model, compiled once for each shape of prompts: a program that reads them, and one
/// loop of steps of one token, which ends when all examples have ended.
///
/// `step(params, tokens, lengths, cache)` is a function of the model's parameters (any tree), i32 tokens
/// [batch, rows], i32 lengths [batch], and a cache (any tree; such as a std::vector of a KvCache for each
/// layer). It returns a pair: the floating-point logits [batch, vocabulary] of the token that follows the
/// first lengths[i] rows of example i (last_rows), and the cache with these rows. It is called with the whole
/// prompts, and with one row of each example.
template <class Step>
class Generator {
 public:
  explicit Generator(Step step, GenerationOptions options = {},
                     std::source_location where = std::source_location::current())
      : options_(std::move(options)),
        prefill_(
            jit(internal::Prefill<Step>{step, options_}, {.donate_argnums = {1}, .name = "prefill"}, where)),
        decode_(jit(internal::Decode<Step>{step, options_}, {.donate_argnums = {1, 2}, .name = "decode"},
                    where)) {}

  /// The tokens that follow the prompts, i32 [batch, places], of which example i has lengths[i] tokens, at
  /// least one, and then padding of any kind. `cache` is the empty cache, with room for the prompts and
  /// max_new_tokens - 1 more; it is donated. Its sharding, and that of the parameters, decide how the steps
  /// are split over devices. The key is for SamplingOptions::do_sample. Example i's tokens do not depend on
  /// the other examples, unless they are drawn.
  ///
  /// All processes must call it, as they would call a jitted function. Blocks until the last token is there.
  /// Throws ShapeError and DTypeError for other arguments, Error for options out of range, and what the step
  /// throws.
  template <class Params, class Cache>
  Generated operator()(const Params& params, const Cache& cache, const Array& prompt, const Array& lengths,
                       const random::Key& key = {},
                       std::source_location where = std::source_location::current()) const {
    const CallSite site = CallSite::from(where);
    internal::check_generation(prompt, lengths, options_, key, site);
    const random::Key drawn_by = key.valid() ? key : random::Key(zeros({2}, DType::kU32));
    const bool compiles = compiled_for_ != prompt.shape();
    if (compiles) prefill_.lower(params, cache, prompt, lengths, drawn_by).compile();
    const double start = internal::seconds_now();
    auto [first, filled, prompt_tokens] = prefill_(params, cache, prompt, lengths, drawn_by);
    const double read = internal::seconds_now();
    if (compiles) decode_.lower(params, filled, first, drawn_by).compile();
    const double compiled = internal::seconds_now();
    const internal::Decoding last = decode_(params, filled, first, drawn_by);
    Generated all = internal::generated(last, prompt_tokens);
    all.prefill_seconds = read - start;
    all.decode_seconds = internal::seconds_now() - compiled;
    compiled_for_ = prompt.shape();
    return all;
  }

 private:
  GenerationOptions options_;
  Jitted<internal::Prefill<Step>> prefill_;
  Jitted<internal::Decode<Step>> decode_;
  mutable Shape compiled_for_;
};

/// One call of a Generator, which compiles its programs anew.
template <class Step, class Params, class Cache>
Generated generate(Step step, const Params& params, const Cache& cache, const Array& prompt,
                   const Array& lengths, const GenerationOptions& options = {}, const random::Key& key = {},
                   std::source_location where = std::source_location::current()) {
  return Generator<Step>(std::move(step), options, where)(params, cache, prompt, lengths, key, where);
}

/// Row lengths[i] - 1 of x[i]: [batch, rows, features] to [batch, features]. Throws ShapeError for other
/// shapes, DTypeError for lengths that are not integers.
Array last_rows(const Operand& x, const Operand& lengths);

}  // namespace lockstep::nn
