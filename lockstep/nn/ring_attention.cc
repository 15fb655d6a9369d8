// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>

#include "lockstep/nn/attention.h"
#include "lockstep/nn/attention_blocks.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/transforms/inline.h"
#include "lockstep/transforms/nested_primitives.h"
#include "lockstep/transforms/vjp.h"

namespace lockstep::nn {
namespace {

using internal::Keys;
using internal::Queries;
using internal::Softmax;
using Arrays = std::vector<Array>;

Arrays joined(std::span<const Array> a, std::span<const Array> b) {
  Arrays all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// The cotangents of the inputs of `function`, which are `inputs`, for those of its results.
Arrays pulled_back(const std::function<Arrays(std::span<const Array>)>& function, const Arrays& inputs,
                   const Arrays& cotangents) {
  ir::Program program;
  Arrays operands = inputs;
  {
    Trace trace("ring_attention_block");
    Arrays tracers;
    for (const Array& input : inputs) tracers.push_back(trace.input(input.aval()));
    program = trace.finish(function(tracers));
    operands = joined(operands, trace.captures());
  }
  std::vector<bool> wrt(operands.size());
  std::fill_n(wrt.begin(), inputs.size(), true);
  Trace& trace = *Trace::current();
  std::vector<ir::Value> values;
  for (const Array& operand : operands) values.push_back(trace.value_of(operand));
  for (std::size_t k = 0; k < cotangents.size(); ++k) {
    values.push_back(
        ir::lax::vary_over(trace.value_of(cotangents[k]), program.aval(program.outputs[k]).varying));
  }
  const std::vector<ir::Value> results =
      transforms::inline_program(trace.builder(), transforms::vjp(program, wrt), values);
  Arrays out;
  for (std::size_t i = program.outputs.size(); i < results.size(); ++i) out.push_back(trace.wrap(results[i]));
  return out;
}

/// The attention of one device. Operands are query, key, value, then the bias and the mask that are there, in
/// the shapes of attention_blocks.h.
struct Ring {
  AxisNames axes;
  std::int64_t devices, queries, keys, block;
  bool has_bias, has_mask, is_causal;
  LocalWindow window;
  double scale;
  DType dtype;  ///< of the scores

  std::size_t num_inexact() const { return has_bias ? 4 : 3; }

  bool needs_places() const { return is_causal || window.is_limited(); }

  Array places_of_queries() const { return arange(queries, DType::kI32) + axis_index(axes) * queries; }

  Queries queries_of(const Array& query) const {
    Queries out = {query, {}, scale, is_causal, window};
    if (needs_places()) out.places = places_of_queries();
    return out;
  }

  /// The keys and values that this device has after this number of steps.
  Keys keys_of(const Array& key, const Array& value, const Arrays& bias_and_mask, const Array& step) const {
    const Array source = remainder(axis_index(axes) - step + devices, devices), first = source * keys;
    auto part = [&](const Array& terms) {
      Shape shape = terms.shape();
      if (shape.back() == 1) return terms;
      shape.back() = keys;
      return dynamic_slice(terms, {0, 0, 0, 0, first}, shape);
    };
    Keys out = {key, value, {}, {}, {}};
    if (has_bias) out.bias = part(bias_and_mask.front());
    if (has_mask) out.mask = part(bias_and_mask.back());
    if (needs_places()) out.places = arange(keys, DType::kI32) + first;
    return out;
  }

  Array sent(const Array& x) const {
    std::vector<std::pair<int, int>> pairs;
    const int n = static_cast<int>(devices);
    for (int i = 0; i < n; ++i) pairs.emplace_back(i, (i + 1) % n);
    return ppermute(x, axes, pairs);
  }

  Array last_step() const { return full({}, static_cast<int>(devices - 1), DType::kI32); }

  Softmax forward(const Arrays& t) const {
    const Queries own = queries_of(t[0]);
    const Arrays rest(t.begin() + 3, t.end());
    auto with = [&](const Softmax& before, const Array& key, const Array& value, const Array& step) {
      return internal::with_keys(before, own, keys_of(key, value, rest, step), block);
    };
    Arrays carry = internal::no_keys(own, {t[1], t[2], {}, {}, {}}).arrays();
    carry.insert(carry.end(), {t[1], t[2]});
    // The data that is sent does not depend on the results, so communication and computation can overlap.
    carry = lockstep::internal::scan_of_arrays("ring_attention", carry, {arange(devices - 1, DType::kI32)},
                                               devices - 1, [&](const Arrays& c, const Arrays& step) {
                                                 const Arrays after =
                                                     with(Softmax::of(c), c[3], c[4], step[0]).arrays();
                                                 return joined(after, Arrays{sent(c[3]), sent(c[4])});
                                               });
    return with(Softmax::of(carry), carry[3], carry[4], last_step());
  }

  /// The cotangents of query, key, value and the bias. They are summed in the dtype of the scores. Those of
  /// key and value are summed by the device that has these at the time, and are back home after a full round.
  Arrays backward(const Arrays& t, const Array& result, const Softmax& all, const Array& cotangent) const {
    const Arrays of_sums = {cotangent / all.powers,
                            -sum(cotangent * result, {.axis = -1, .keepdims = true}) / all.powers};
    // `sums` are of query, [bias], key, value.
    auto with = [&](const Arrays& sums, const Array& key, const Array& value, const Array& step) {
      Arrays inputs = {t[0], key, value};
      if (has_bias) inputs.push_back(t[3]);
      const Arrays here = pulled_back(
          [&](std::span<const Array> x) {
            Arrays rest;
            if (has_bias) rest.push_back(x[3]);
            if (has_mask) rest.push_back(t.back());
            const auto [values, powers] =
                internal::weighed(queries_of(x[0]), keys_of(x[1], x[2], rest, step), all.highest, block);
            return Arrays{values, powers};
          },
          inputs, of_sums);
      Arrays out = {sums[0] + astype(here[0], dtype)};
      if (has_bias) out.push_back(sums[1] + astype(here[3], dtype));
      out.push_back(sums[sums.size() - 2] + astype(here[1], dtype));
      out.push_back(sums[sums.size() - 1] + astype(here[2], dtype));
      return out;
    };
    Arrays carry = {zeros_like(t[0], dtype)};
    if (has_bias) carry.push_back(zeros_like(t[3], dtype));
    carry.insert(carry.end(), {zeros_like(t[1], dtype), zeros_like(t[2], dtype), t[1], t[2]});
    const std::size_t n = num_inexact();
    auto step_of = [&](const Arrays& c, const Array& step) {
      Arrays sums = with(Arrays(c.begin(), c.begin() + static_cast<std::ptrdiff_t>(n)), c[n], c[n + 1], step);
      sums[n - 2] = sent(sums[n - 2]);
      sums[n - 1] = sent(sums[n - 1]);
      return sums;
    };
    carry = lockstep::internal::scan_of_arrays(
        "ring_attention", carry, {arange(devices - 1, DType::kI32)}, devices - 1,
        [&](const Arrays& c, const Arrays& step) {
          return joined(step_of(c, step[0]), Arrays{sent(c[n]), sent(c[n + 1])});
        });
    const Arrays sums = step_of(carry, last_step());
    Arrays out = {astype(sums[0], t[0].dtype()), astype(sums[n - 2], t[1].dtype()),
                  astype(sums[n - 1], t[2].dtype())};
    if (has_bias) out.push_back(astype(sums[1], t[3].dtype()));
    return out;
  }

  /// An operation of the current trace, with the derivative above.
  Array emit(const Arrays& operands) const {
    auto inputs = [](Trace& trace, const std::vector<Aval>& avals) {
      Arrays out;
      for (const Aval& aval : avals) out.push_back(trace.input(aval));
      return out;
    };
    std::vector<Aval> avals;
    for (const Array& operand : operands) avals.push_back(operand.aval());
    auto program = [&](bool with_residuals) {
      Trace trace("ring_attention");
      const Arrays t = inputs(trace, avals);
      const Softmax all = forward(t);
      const Array result = attended(all);
      Arrays out = {result};
      if (with_residuals) out = joined(joined(out, t), Arrays{result, all.powers, all.highest});
      return trace.finish(out);
    };
    ir::Program plain = program(false), first = program(true), second;
    {
      std::vector<Aval> avals_of_second = first.output_avals();
      avals_of_second.erase(avals_of_second.begin());
      avals_of_second.push_back(plain.output_avals().front());
      Trace trace("ring_attention_backward");
      const Arrays x = inputs(trace, avals_of_second);
      const auto rest = x.begin() + static_cast<std::ptrdiff_t>(operands.size());
      second = trace.finish(backward(Arrays(x.begin(), rest), rest[0], {rest[0], rest[1], rest[2]}, rest[3]));
    }
    return lockstep::internal::emit_nested(
               transforms::custom_vjp_p(),
               ir::OpParams::of(transforms::CustomVjpParams{transforms::shared(std::move(plain)),
                                                            transforms::shared(std::move(first)),
                                                            transforms::shared(std::move(second)), 0}),
               operands)
        .front();
  }
};

std::int64_t devices_along(const AxisNames& axes) {
  try {
    return lockstep::axis_size(axes);
  } catch (const ShardingError& error) {
    fail<ShardingError>("[ring_attention] {}{}", error.what(), ops::at());
  }
}

}  // namespace

Array ring_attention(const Operand& query, const Operand& key, const Operand& value, const AxisNames& axes,
                     const AttentionOptions& options) {
  CallSiteScope here(query.site());
  const std::int64_t devices = devices_along(axes);
  internal::check_attention("ring_attention", query, key, value, options, devices);
  const DType dtype = query.type().dtype;
  if (!is_floating(dtype) || key.type().dtype != dtype || value.type().dtype != dtype) {
    fail<DTypeError>(
        "[ring_attention] expected query, key and value of one floating dtype, got {}, {} and {}{}",
        to_string(query.aval()), to_string(key.aval()), to_string(value.aval()), ops::at());
  }
  const std::int64_t heads = query.shape()[2], key_heads = key.shape()[2], queries = query.shape()[1],
                     keys = key.shape()[1];
  const std::optional<Array> mask =
      internal::mask_with_lengths(options.mask, options.key_value_seq_lengths, keys * devices);
  const Ring ring = {.axes = axes,
                     .devices = devices,
                     .queries = queries,
                     .keys = keys,
                     .block = internal::block_size(options, queries, keys),
                     .has_bias = options.bias.has_value(),
                     .has_mask = mask.has_value(),
                     .is_causal = options.is_causal,
                     .window = options.local_window_size,
                     .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.shape()[3]))),
                     .dtype = at_least_f32(dtype)};
  Arrays operands = {internal::grouped(query.as_array(), key_heads), transpose(key.as_array(), {0, 2, 1, 3}),
                     transpose(value.as_array(), {0, 2, 1, 3})};
  if (options.bias)
    operands.push_back(astype(internal::grouped_terms(*options.bias, heads, key_heads), ring.dtype));
  if (mask) operands.push_back(internal::grouped_terms(*mask, heads, key_heads));
  const Array result = astype(internal::ungrouped(ring.emit(operands)), dtype);
  if (!options.query_seq_lengths) return result;
  return internal::without_padding(result, *options.query_seq_lengths, ring.places_of_queries());
}

}  // namespace lockstep::nn
