// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/dot_general.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/program/lowering.h"
#include "lockstep/program/precision.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using Dimensions = std::vector<std::int64_t>;

const DotGeneralParams& dims_of(const OpParams& params) { return params.as<DotGeneralParams>(); }

std::int64_t size(const Aval& aval, std::int64_t dimension) {
  return aval.shape[static_cast<std::size_t>(dimension)];
}

/// The dimensions of an operand of this rank that are neither in `a` nor in `b`.
Dimensions free_dimensions(std::int64_t rank, const Dimensions& a, const Dimensions& b) {
  Dimensions out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::ranges::find(a, d) == a.end() && std::ranges::find(b, d) == b.end()) out.push_back(d);
  }
  return out;
}

Dimensions joined(Dimensions a, const Dimensions& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dimensions range(std::int64_t start, std::size_t count) {
  Dimensions out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(start + static_cast<std::int64_t>(i));
  return out;
}

/// The permutation that undoes this one.
Dimensions inverse(const Dimensions& permutation) {
  Dimensions out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

/// x with dimension `from` moved to the front.
Value moved_to_front(const Value& x, std::int64_t from) {
  Dimensions order = {from};
  for (std::int64_t d = 0; d < x.aval().rank(); ++d) {
    if (d != from) order.push_back(d);
  }
  return lax::transpose(x, order);
}

void check_operand(std::string_view which, const Aval& aval, const Dimensions& contracting,
                   const Dimensions& batch) {
  Dimensions all = joined(contracting, batch);
  for (std::int64_t d : all) {
    if (d < 0 || d >= aval.rank()) {
      fail<ShapeError>("{} dimension {} is out of range for {}, which has {} dimensions", which, d,
                       to_string(aval), aval.rank());
    }
    if (std::ranges::count(all, d) != 1) {
      fail<ShapeError>("{} dimension {} of {} is named more than once (contracting {}, batch {})", which, d,
                       to_string(aval), to_string(contracting), to_string(batch));
    }
  }
}

void check_pairs(std::string_view what, std::span<const Aval> inputs, const Dimensions& lhs,
                 const Dimensions& rhs) {
  if (lhs.size() != rhs.size()) {
    fail<ShapeError>("expected the same number of {} dimensions of lhs {} and rhs {}, got {} and {}", what,
                     to_string(inputs[0]), to_string(inputs[1]), to_string(lhs), to_string(rhs));
  }
  for (std::size_t i = 0; i < lhs.size(); ++i) {
    if (size(inputs[0], lhs[i]) != size(inputs[1], rhs[i])) {
      fail<ShapeError>(
          "expected {} dimensions of one size, got {} (dimension {} of lhs {}) and {} (dimension {} of rhs "
          "{})",
          what, size(inputs[0], lhs[i]), lhs[i], to_string(inputs[0]), size(inputs[1], rhs[i]), rhs[i],
          to_string(inputs[1]));
    }
  }
}

std::vector<Aval> shape(std::span<const Aval> inputs, const OpParams& params) {
  const auto& p = dims_of(params);
  const Aval &lhs = inputs[0], &rhs = inputs[1];
  rules::same_dtypes(inputs);
  if (lhs.dtype == DType::kBool) {
    fail<DTypeError>("expected numbers, got {} and {}; convert with astype", to_string(lhs), to_string(rhs));
  }
  check_operand("lhs", lhs, p.lhs_contracting, p.lhs_batch);
  check_operand("rhs", rhs, p.rhs_contracting, p.rhs_batch);
  check_pairs("contracting", inputs, p.lhs_contracting, p.rhs_contracting);
  check_pairs("batch", inputs, p.lhs_batch, p.rhs_batch);
  Aval out{product_dtype(lhs.dtype, p.preferred_element_type), {}, lhs.weak_type && rhs.weak_type, {}};
  if (p.preferred_element_type) out.weak_type = false;
  for (std::int64_t d : p.lhs_batch) out.shape.push_back(size(lhs, d));
  for (std::int64_t d : free_dimensions(lhs.rank(), p.lhs_contracting, p.lhs_batch)) {
    out.shape.push_back(size(lhs, d));
  }
  for (std::int64_t d : free_dimensions(rhs.rank(), p.rhs_contracting, p.rhs_batch)) {
    out.shape.push_back(size(rhs, d));
  }
  return {out};
}

ShardingRule sharding(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
  const auto& p = dims_of(params);
  ShardingRule rule = ShardingRule::replicated(inputs, outputs);
  std::size_t result_dim = 0;
  auto name = [&](std::size_t operand, std::int64_t dimension, int factor) {
    rule.operands[operand][static_cast<std::size_t>(dimension)] = factor;
  };
  auto add = [&](std::int64_t size, ShardingRule::Combine combine) {
    int factor = static_cast<int>(rule.factors.size());
    rule.factors.push_back({size, combine});
    if (combine == ShardingRule::Combine::kNone) rule.results[0][result_dim++] = factor;
    return factor;
  };
  for (std::size_t i = 0; i < p.lhs_batch.size(); ++i) {
    int factor = add(size(inputs[0], p.lhs_batch[i]), ShardingRule::Combine::kNone);
    name(0, p.lhs_batch[i], factor);
    name(1, p.rhs_batch[i], factor);
  }
  for (std::int64_t d : free_dimensions(inputs[0].rank(), p.lhs_contracting, p.lhs_batch)) {
    name(0, d, add(size(inputs[0], d), ShardingRule::Combine::kNone));
  }
  for (std::int64_t d : free_dimensions(inputs[1].rank(), p.rhs_contracting, p.rhs_batch)) {
    name(1, d, add(size(inputs[1], d), ShardingRule::Combine::kNone));
  }
  for (std::size_t i = 0; i < p.lhs_contracting.size(); ++i) {
    int factor = add(size(inputs[0], p.lhs_contracting[i]), ShardingRule::Combine::kSum);
    name(0, p.lhs_contracting[i], factor);
    name(1, p.rhs_contracting[i], factor);
  }
  return rule;
}

/// The cotangent of one operand, "mine", from that of the result and the value of the other. Of the result's
/// dimensions, those that the other left start at `other_start`. Computed in the dtype of the result.
Value cotangent_in_dtype_of_result(const Value& ct, const Value& other_as_it_is, std::int64_t my_rank,
                                   const Dimensions& my_contracting, const Dimensions& my_batch,
                                   const Dimensions& other_contracting, const Dimensions& other_batch,
                                   std::int64_t other_start, const std::optional<std::string>& precision) {
  const Value other = other_as_it_is.aval().dtype == ct.aval().dtype
                          ? other_as_it_is
                          : lax::convert_element_type(other_as_it_is, ct.aval().dtype);
  Dimensions my_free = free_dimensions(my_rank, my_contracting, my_batch);
  Dimensions other_free = free_dimensions(other.aval().rank(), other_contracting, other_batch);
  // The product leaves the other's contracting dimensions, which are mine, in rising order.
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < my_contracting.size(); ++i) {
    pairs.emplace_back(other_contracting[i], my_contracting[i]);
  }
  std::ranges::sort(pairs);
  Dimensions contracted;
  for (const auto& [theirs, mine] : pairs) contracted.push_back(mine);
  const Dimensions ct_summed = range(other_start, other_free.size()), ct_batch = range(0, my_batch.size());

  // The order of the factors determines that of the dimensions: use the one that needs no transpose, if there
  // is one.
  Dimensions other_first = joined(joined(my_batch, contracted), my_free);
  if (std::ranges::is_sorted(other_first)) {
    return lax::dot_general(other, ct,
                            DotGeneralParams{other_free, ct_summed, other_batch, ct_batch, {}, precision});
  }
  Value product = lax::dot_general(
      ct, other, DotGeneralParams{ct_summed, other_free, ct_batch, other_batch, {}, precision});
  Dimensions order = joined(joined(my_batch, my_free), contracted);
  return lax::transpose(product, inverse(order));
}

Tangents transpose(const TransposeCall& c) {
  const auto& p = dims_of(c.params);
  const Value& ct = *c.cotangents[0];
  const std::int64_t lhs_rank = c.operands[0].aval.rank(), rhs_rank = c.operands[1].aval.rank();
  const auto batch = static_cast<std::int64_t>(p.lhs_batch.size());
  auto of_dtype = [&](const Value& x, const Aval& operand) {
    return x.aval().dtype == operand.dtype ? x : lax::convert_element_type(x, operand.dtype);
  };
  if (c.operands[0].linear()) {
    const std::int64_t lhs_free = lhs_rank - batch - static_cast<std::int64_t>(p.lhs_contracting.size());
    const Value found =
        cotangent_in_dtype_of_result(ct, *c.operands[1].value, lhs_rank, p.lhs_contracting, p.lhs_batch,
                                     p.rhs_contracting, p.rhs_batch, batch + lhs_free, p.precision);
    return {of_dtype(found, c.operands[0].aval), std::nullopt};
  }
  const Value found =
      cotangent_in_dtype_of_result(ct, *c.operands[0].value, rhs_rank, p.rhs_contracting, p.rhs_batch,
                                   p.lhs_contracting, p.lhs_batch, batch, p.precision);
  return {std::nullopt, of_dtype(found, c.operands[1].aval)};
}

std::vector<Value> dot_batching(const BatchCall& call) {
  DotGeneralParams p = dims_of(call.params);
  const auto batch = static_cast<std::int64_t>(p.lhs_batch.size());
  for (std::size_t i : {0, 1}) {
    if (!call.batched[i]) continue;
    Dimensions& contracting = i == 0 ? p.lhs_contracting : p.rhs_contracting;
    Dimensions& batch_dims = i == 0 ? p.lhs_batch : p.rhs_batch;
    contracting = rules::shifted(std::move(contracting));
    batch_dims = rules::shifted(std::move(batch_dims));
  }
  if (call.batched[0] && call.batched[1]) {
    p.lhs_batch = rules::prepended(0, std::move(p.lhs_batch));
    p.rhs_batch = rules::prepended(0, std::move(p.rhs_batch));
    return {lax::dot_general(call.inputs[0], call.inputs[1], p)};
  }
  // The mapped dimension is the first free one of its operand.
  std::int64_t place = batch;
  if (call.batched[1])
    place = call.inputs[0].aval().rank() - static_cast<std::int64_t>(p.lhs_contracting.size());
  return {moved_to_front(lax::dot_general(call.inputs[0], call.inputs[1], p), place)};
}

double dot_flops(std::span<const Aval> inputs, std::span<const Aval> outputs, const OpParams& params) {
  double operations = 2 * flops_of_results(inputs, outputs, params);
  for (std::int64_t d : dims_of(params).lhs_contracting)
    operations *= static_cast<double>(size(inputs[0], d));
  return operations;
}

std::string dimensions_text(const Dimensions& lhs_contracting, const Dimensions& rhs_contracting,
                            const Dimensions& lhs_batch, const Dimensions& rhs_batch,
                            const std::optional<std::string>& precision) {
  return fmt::format(
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [{}], rhs_batching_dimensions = "
      "[{}], lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]>{}",
      fmt::join(lhs_batch, ", "), fmt::join(rhs_batch, ", "), fmt::join(lhs_contracting, ", "),
      fmt::join(rhs_contracting, ", "), precision_attribute(precision));
}

/// Whether these sizes of a product of two matrices, [m, n] and [n, k], repay a transposition of the first
/// one (benchmarks/compare_jax/compare_products.cc). Large matrices are transposed slowly, because XLA reads
/// their columns one by one.
bool repays_transposition(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m >= 128 && n >= 64 && k >= 64 && (m * n <= 1 << 22 || k >= 256);
}

bool is_transpose(const Equation* e) { return e != nullptr && e->primitive == &transpose_p(); }

/// A product in which each operand is contracted over its first dimensions, as in the gradient of a linear
/// layer's weights: that of a matrix [n, m], transposed, and a matrix [n, k]. XLA gives it to its library as
/// it is, also where a transposition says the same, and the library takes up to twice its time for others.
struct ByRows {
  std::int64_t m, n, k;
  std::string lhs;  ///< the name of the first matrix, and its shape before it is one of [n, m]
  Shape lhs_shape;
  std::string transposed_lhs;  ///< and of its transposition; empty if the program does not have that
};

std::string reshaped(Lowering& out, const std::string& name, DType dtype, const Shape& from,
                     const Shape& to) {
  if (from == to) return name;
  return out.op("stablehlo.reshape", {{name}}, {{mlir_type(dtype, from)}}, mlir_type(dtype, to));
}

std::optional<ByRows> by_rows(Lowering& out, const Equation& e) {
  const Aval &lhs = out.operand_aval(e, 0), &rhs = out.operand_aval(e, 1);
  const auto& p = dims_of(e.params);
  if (!p.lhs_batch.empty() || lhs.num_elements() == 0 || rhs.num_elements() == 0) return std::nullopt;
  if (lhs.rank() == 2 && rhs.rank() == 2 && p.lhs_contracting == Dimensions{1} &&
      p.rhs_contracting == Dimensions{0} && is_transpose(out.made_by(e, 0)))
    return ByRows{size(lhs, 0),
                  size(lhs, 1),
                  size(rhs, 1),
                  out.operand(*out.made_by(e, 0), 0),
                  {size(lhs, 1), size(lhs, 0)},
                  out.operand(e, 0)};
  std::int64_t n = 1;
  for (std::size_t d = 0; d < p.lhs_contracting.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    if (p.lhs_contracting[d] != dimension || p.rhs_contracting[d] != dimension) return std::nullopt;
    n *= size(lhs, dimension);
  }
  const std::int64_t m = lhs.num_elements() / n, k = rhs.num_elements() / n;
  return ByRows{m, n, k, out.operand(e, 0), lhs.shape, ""};
}

bool repays_onednn(const ByRows& p) {
  return p.m >= 32 && p.n >= 64 && p.k >= 16 && p.m * p.n * p.k >= 1 << 20;
}

/// The product of two matrices by oneDNN, if it is installed; or else of a transposed copy, behind a barrier
/// that keeps XLA from undoing it. XLA's older loop emitters copy element by element, which takes longer than
/// what it saves.
std::optional<std::string> lower_by_rows(Lowering& out, const Equation& e, const ByRows& p) {
  const Aval& rhs = out.operand_aval(e, 1);
  const DType dtype = rhs.dtype, of_result = out.result_aval(e).dtype;
  const bool by_onednn =
      out.onednn_takes(dtype, of_result) && repays_onednn(p) && onednn::computes_product(p.m, p.n, p.k);
  const bool by_copy = (dtype == DType::kF32 || dtype == DType::kF64) && of_result == dtype &&
                       out.traits().needs_newer_emitters() && repays_transposition(p.m, p.n, p.k);
  if (!by_onednn && !by_copy) return std::nullopt;
  const std::string right = reshaped(out, out.operand(e, 1), dtype, rhs.shape, {p.n, p.k}),
                    right_type = mlir_type(dtype, {p.n, p.k}), left_type = mlir_type(dtype, {p.n, p.m}),
                    type = mlir_type(dtype, {p.m, p.k});
  std::string product;
  const auto left = [&] { return reshaped(out, p.lhs, dtype, p.lhs_shape, {p.n, p.m}); };
  if (by_onednn) {
    product = out.onednn_call("operation = \"product\"",
                              std::array{std::pair(left(), Aval{dtype, {p.n, p.m}}),
                                         std::pair(right, Aval{dtype, {p.n, p.k}})},
                              {{Aval{of_result, {p.m, p.k}}}})
                  .front();
  } else {
    const std::string turned_type = mlir_type(dtype, {p.m, p.n});
    std::string turned = p.transposed_lhs;
    if (turned.empty())
      turned = out.op("stablehlo.transpose", {{left()}}, {{left_type}}, turned_type,
                      "permutation = array<i64: 1, 0>");
    product = out.op("stablehlo.dot_general", {{out.barrier({turned}, {turned_type})[0], right}},
                     {{turned_type, right_type}}, type,
                     dimensions_text({1}, {0}, {}, {}, dims_of(e.params).precision));
  }
  return reshaped(out, product, of_result, {p.m, p.k}, out.result_aval(e).shape);
}

/// An operand of a product of batches, with the batch dimensions in front.
struct BatchesFirst {
  std::string name, type;
  Dimensions contracting, batch;

  BatchesFirst(Lowering& out, const Equation& e, std::size_t operand, Dimensions contracting_of,
               Dimensions batch_of)
      : name(out.operand(e, operand)),
        type(out.operand_type(e, operand)),
        contracting(std::move(contracting_of)),
        batch(std::move(batch_of)) {
    const Aval& aval = out.operand_aval(e, operand);
    Dimensions order = batch;
    for (std::int64_t d = 0; d < aval.rank(); ++d)
      if (std::ranges::find(batch, d) == batch.end()) order.push_back(d);
    if (std::ranges::is_sorted(order)) return;
    Aval moved = aval;
    for (std::size_t d = 0; d < order.size(); ++d) moved.shape[d] = size(aval, order[d]);
    const std::string from = std::exchange(type, mlir_type(moved));
    name = out.op("stablehlo.transpose", {{name}}, {{from}}, type,
                  fmt::format("permutation = {}", mlir_array(order)));
    for (Dimensions* dimensions : {&contracting, &batch})
      for (std::int64_t& d : *dimensions) d = std::ranges::find(order, d) - order.begin();
  }
};

/// Whether it is a batch of products of two matrices, each of more than one row or column.
bool is_batch_of_matrices(Lowering& out, const Equation& e) {
  const auto& p = dims_of(e.params);
  const auto rest = [](const Aval& aval, const Dimensions& contracting, const Dimensions& batch) {
    std::int64_t count = aval.num_elements();
    for (const Dimensions* each : {&contracting, &batch})
      for (std::int64_t d : *each) count /= std::max<std::int64_t>(size(aval, d), 1);
    return count;
  };
  return !p.lhs_batch.empty() && rest(out.operand_aval(e, 0), p.lhs_contracting, p.lhs_batch) > 1 &&
         rest(out.operand_aval(e, 1), p.rhs_contracting, p.rhs_batch) > 1;
}

/// The product of the operands as i32, or as the result's dtype if that is larger.
std::string lower_widened(Lowering& out, const Equation& e) {
  const auto& p = dims_of(e.params);
  const Aval& result = out.result_aval(e);
  const DType wide = size_of(result.dtype) < size_of(DType::kI32) ? DType::kI32 : result.dtype;
  std::vector<std::string> operands, types;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    types.push_back(mlir_type(wide, out.operand_aval(e, i).shape));
    operands.push_back(
        out.op("stablehlo.convert", {{out.operand(e, i)}}, {{out.operand_type(e, i)}}, types.back()));
  }
  const std::string type = mlir_type(wide, result.shape);
  const std::string product =
      out.op("stablehlo.dot_general", operands, types, type,
             dimensions_text(p.lhs_contracting, p.rhs_contracting, p.lhs_batch, p.rhs_batch, p.precision));
  if (result.dtype == wide) return product;
  return out.op("stablehlo.convert", {{product}}, {{type}}, out.result_type(e));
}

std::vector<std::string> lower_dot(Lowering& out, const Equation& e) {
  const auto& p = dims_of(e.params);
  const DType dtype = out.operand_aval(e, 0).dtype;
  if (out.for_cuda() && (dtype == DType::kI8 || dtype == DType::kU8)) return {lower_widened(out, e)};
  if (out.for_cpu() && is_batch_of_matrices(out, e)) {
    // XLA's CPU compiler moves the contracted dimensions, too, where it has to move others, and reads the
    // elements in an order that takes several times as long.
    const BatchesFirst lhs(out, e, 0, p.lhs_contracting, p.lhs_batch),
        rhs(out, e, 1, p.rhs_contracting, p.rhs_batch);
    return {out.op("stablehlo.dot_general", {{lhs.name, rhs.name}}, {{lhs.type, rhs.type}},
                   out.result_type(e),
                   dimensions_text(lhs.contracting, rhs.contracting, lhs.batch, rhs.batch, p.precision))};
  }
  if (const auto rows = out.for_cpu() ? by_rows(out, e) : std::nullopt) {
    if (const auto product = lower_by_rows(out, e, *rows)) return {*product};
  }
  return {
      out.op("stablehlo.dot_general", e,
             dimensions_text(p.lhs_contracting, p.rhs_contracting, p.lhs_batch, p.rhs_batch, p.precision))};
}

}  // namespace

const Primitive& dot_general_p() {
  static const Primitive p = {
      .name = "dot_general",
      .shape = shape,
      .sharding = sharding,
      .jvp = rules::bilinear_jvp(dot_general_p),
      .transpose = transpose,
      .batching = dot_batching,
      .flops = dot_flops,
      .zero_padding = ZeroPadding::kAddsNothing,
      .exchange = no_exchange,
      .lower = lower_dot,
      .linear = {.together = {{0}, {1}}},
  };
  return p;
}

}  // namespace lockstep::ir
