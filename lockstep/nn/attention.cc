#include "lockstep/nn/attention.h"

#include <cmath>

#include "lockstep/nn/activations.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

void check(const Operand& query, const Operand& key, const Operand& value) {
  const Shape &q = query.shape(), &k = key.shape();
  const bool fits = q.size() == 4 && k.size() == 4 && k == value.shape() && q[0] == k[0] && q[3] == k[3] &&
                    k[2] > 0 && q[2] % k[2] == 0;
  if (!fits) {
    fail<ShapeError>(
        "[dot_product_attention] query {}, key {} and value {} do not fit{}; expected [batch, queries, "
        "heads, features] and twice [batch, keys, heads or a divisor of them, features]",
        to_string(query.aval()), to_string(key.aval()), to_string(value.aval()), ops::at());
  }
}

/// Each head of the keys for as many heads of the queries.
Array for_heads(const Array& x, std::int64_t heads) {
  const Shape& shape = x.shape();
  if (shape[2] == heads) return x;
  const std::int64_t each = heads / shape[2];
  Array spread = broadcast_to(expand_dims(x, 3), {shape[0], shape[1], shape[2], each, shape[3]});
  return reshape(spread, {shape[0], shape[1], heads, shape[3]});
}

}  // namespace

Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options) {
  CallSiteScope here(query.site());
  check(query, key, value);
  const Shape shape = query.shape();
  const std::int64_t queries = shape[1], keys = key.shape()[1];
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(shape[3])));
  std::vector<Array> operands = {query.as_array(), key.as_array(), value.as_array()};
  if (options.mask) operands.push_back(*options.mask);
  if (options.bias) operands.push_back(*options.bias);
  const std::string parameters = fmt::format("{} {} {} {}", options.is_causal, options.mask.has_value(),
                                             options.bias.has_value(), scale);
  return run_operation(
             "dot_product_attention", parameters, operands,
             [&](std::span<const Array> t) {
               const DType dtype = t[0].dtype();
               Array scores = einsum("bqhf,bkhf->bhqk", {t[0], for_heads(t[1], shape[2])});
               if (size_of(dtype) < 4) scores = astype(scores, DType::kF32);
               scores = scores * scale;
               if (options.bias) scores = scores + t.back();
               const double lowest =
                   -0.7 * (dtype == DType::kF64 ? 1.7976931348623157e308 : 3.4028234663852886e38);
               if (options.mask) scores = where(t[3], scores, lowest);
               if (options.is_causal)
                 scores = where(tril(ones({queries, keys}, DType::kBool)), scores, lowest);
               Array weights = astype(softmax(scores), dtype);
               return std::vector<Array>{einsum("bhqk,bkhf->bqhf", {weights, for_heads(t[2], shape[2])})};
             })
      .front();
}

}  // namespace lockstep::nn
