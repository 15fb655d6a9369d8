// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/attention.h"

#include <cmath>

#include "lockstep/nn/activations.h"
#include "lockstep/nn/attention_blocks.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/axis_sets.h"
#include "lockstep/transforms/attention_programs.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::nn {
namespace {

/// Shorter sequences are computed by operations that XLA fuses.
constexpr std::int64_t kLeastAsOne = 128;

struct Attention {
  Array query, key, value;
  std::optional<Array> mask, bias, lengths;
  bool is_causal;
  LocalWindow window;
  double scale;
  std::optional<AttentionImplementation> implementation;

  std::int64_t queries() const { return query.shape()[1]; }
  std::int64_t keys() const { return key.shape()[1]; }
  std::int64_t key_heads() const { return key.shape()[2]; }
  std::int64_t heads() const { return query.shape()[2]; }
};

DType promoted(std::initializer_list<Array> operands) {
  std::vector<ElementType> types;
  for (const Array& operand : operands) types.push_back({operand.dtype(), false});
  return promote("dot_product_attention", types).dtype;
}

/// All scores at once. If each query head has its own key head, there is no dimension for the group.
Array whole(const Attention& a) {
  const DType dtype = a.query.dtype();
  const Shape shape = a.query.shape();
  const bool in_groups = a.heads() != a.key_heads();
  const Array query =
      in_groups ? reshape(a.query, {shape[0], shape[1], a.key_heads(), a.heads() / a.key_heads(), shape[3]})
                : a.query;
  auto terms = [&](const Array& x) {
    return in_groups ? internal::grouped_terms(x, a.heads(), a.key_heads()) : x;
  };
  Array scores = einsum(in_groups ? "bqhgf,bkhf->bhgqk" : "bqhf,bkhf->bhqk", {query, a.key});
  if (size_of(dtype) < 4) scores = astype(scores, DType::kF32);
  scores = scores * a.scale;
  if (a.bias) scores = scores + terms(*a.bias);
  const double hidden = transforms::hidden_score(dtype);
  if (a.mask) scores = where(terms(*a.mask), scores, hidden);
  if (a.is_causal) scores = where(tril(ones({a.queries(), a.keys()}, DType::kBool)), scores, hidden);
  if (a.window.is_limited()) {
    const Array seen =
        internal::visible(arange(a.queries(), DType::kI32), arange(a.keys(), DType::kI32), false, a.window);
    scores = where(seen, scores, hidden);
  }
  const Array weights = astype(softmax(scores), dtype);
  return reshape(einsum(in_groups ? "bhgqk,bkhf->bqhgf" : "bhqk,bkhf->bqhf", {weights, a.value}), shape);
}

/// Whether it is one operation, of which no scores are kept.
bool is_one_operation(const Attention& a, std::int64_t block) {
  if (a.implementation != AttentionImplementation::kCudnn)
    return is_floating(promoted({a.query, a.key, a.value})) &&
           (block < a.keys() || std::min(a.queries(), a.keys()) >= kLeastAsOne);
  const DType dtype = a.query.dtype();
  if (!is_floating(dtype) || a.key.dtype() != dtype || a.value.dtype() != dtype) {
    fail(
        "[dot_product_attention] .implementation is kCudnn, but query, key and value do not have one "
        "floating "
        "dtype{}; convert them, or leave .implementation unset",
        ops::at());
  }
  return true;
}

Array as_one_operation(const Attention& a, std::int64_t block) {
  const DType dtype = promoted({a.query, a.key, a.value});
  std::vector<Array> operands = {astype(a.query, dtype), astype(a.key, dtype), astype(a.value, dtype)};
  const auto add_terms = [&](const Array& x) {
    Shape shape = x.shape();
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    operands.push_back(reshape(x, shape));
  };
  if (a.lengths) operands.push_back(internal::lengths_of(*a.lengths, a.keys()));
  if (a.mask) add_terms(*a.mask);
  if (a.bias) add_terms(is_floating(a.bias->dtype()) ? *a.bias : astype(*a.bias, dtype));
  std::vector<std::string> varying;
  for (const Array& operand : operands) varying = ir::both(varying, operand.aval().varying);
  std::vector<Aval> avals;
  for (const Array& operand : operands) avals.push_back({operand.dtype(), operand.shape(), false, varying});
  const std::optional<std::int64_t> right = a.is_causal ? 0 : a.window.right;
  std::optional<std::string> implementation;
  if (a.implementation) implementation = *a.implementation == AttentionImplementation::kXla ? "xla" : "cudnn";
  const Array result =
      lockstep::internal::emit_nested(transforms::custom_vjp_p(),
                                      ir::OpParams::of(transforms::differentiable_attention(
                                          avals, {a.scale, block, a.window.left, right, implementation})),
                                      operands)
          .front();
  return astype(result, promoted({a.query, a.value}));
}

}  // namespace

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options) {
  CallSiteScope here(query.site());
  internal::check_attention("dot_product_attention", query, key, value, options);
  const std::int64_t queries = query.shape()[1], keys = key.shape()[1],
                     block = internal::block_size(options, queries, keys);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.shape()[3])));
  std::vector<Array> operands = {query.as_array(), key.as_array(), value.as_array()};
  std::string parameters = fmt::format("{} {} {}", options.is_causal, scale, block);
  for (const std::optional<Array>* given :
       {&options.mask, &options.bias, &options.query_seq_lengths, &options.key_value_seq_lengths}) {
    parameters += given->has_value() ? " given" : " none";
    if (*given) operands.push_back(**given);
  }
  for (const std::optional<std::int64_t>& side :
       {options.local_window_size.left, options.local_window_size.right})
    parameters += side ? fmt::format(" {}", *side) : " all";
  if (options.implementation) parameters += fmt::format(" {}", static_cast<int>(*options.implementation));
  return run_operation(
             "dot_product_attention", parameters, operands,
             [&](std::span<const Array> t) {
               auto next = t.begin() + 3;
               auto taken = [&](const std::optional<Array>& given) {
                 return given ? std::optional(*next++) : std::nullopt;
               };
               Attention a = {t[0],
                              t[1],
                              t[2],
                              {},
                              {},
                              {},
                              options.is_causal,
                              options.local_window_size,
                              scale,
                              options.implementation};
               a.mask = taken(options.mask);
               a.bias = taken(options.bias);
               const std::optional<Array> of_queries = taken(options.query_seq_lengths);
               a.lengths = taken(options.key_value_seq_lengths);
               const bool is_one = is_one_operation(a, block);
               if (!is_one) a.mask = internal::mask_with_lengths(a.mask, a.lengths, keys);
               const Array result = is_one ? as_one_operation(a, block) : whole(a);
               return std::vector<Array>{
                   of_queries ? internal::without_padding(result, *of_queries, arange(queries, DType::kI32))
                              : result};
             })
      .front();
}

}  // namespace lockstep::nn
