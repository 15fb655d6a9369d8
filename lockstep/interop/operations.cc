// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <unordered_map>

#include "lockstep/base/fail.h"
#include "lockstep/interop/translation.h"
#include "lockstep/ops/ops.h"
#include "lockstep/program/precision.h"
#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/convolution.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/gather.h"
#include "lockstep/program/primitives/linalg.h"
#include "lockstep/program/primitives/reverse.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/special.h"

namespace lockstep::interop {
namespace {

using Results = std::vector<Array>;
using Rule = Results (*)(const Call& call);

/// The primitive of an operation with one or two operands; null if it is not one primitive.
const ir::Primitive* elementwise(const std::string& name) {
  static const std::unordered_map<std::string, const ir::Primitive& (*)()> all = {
      {"negate", ir::neg_p},
      {"sign", ir::sign_p},
      {"floor", ir::floor_p},
      {"ceil", ir::ceil_p},
      {"round_nearest_even", ir::round_p},
      {"exponential", ir::exp_p},
      {"exponential_minus_one", ir::expm1_p},
      {"log", ir::log_p},
      {"log_plus_one", ir::log1p_p},
      {"tanh", ir::tanh_p},
      {"logistic", ir::logistic_p},
      {"sqrt", ir::sqrt_p},
      {"rsqrt", ir::rsqrt_p},
      {"cbrt", ir::cbrt_p},
      {"sine", ir::sin_p},
      {"cosine", ir::cos_p},
      {"tan", ir::tan_p},
      {"is_finite", ir::is_finite_p},
      {"not", ir::logical_not_p},
      {"add", ir::add_p},
      {"subtract", ir::sub_p},
      {"multiply", ir::mul_p},
      {"divide", ir::div_p},
      {"remainder", ir::rem_p},
      {"power", ir::pow_p},
      {"maximum", ir::max_p},
      {"minimum", ir::min_p},
      {"and", ir::logical_and_p},
      {"or", ir::logical_or_p},
      {"xor", ir::logical_xor_p},
      {"shift_left", ir::shift_left_p},
      {"shift_right_logical", ir::shift_right_logical_p},
      {"shift_right_arithmetic", ir::shift_right_arithmetic_p},
      {"atan2", ir::atan2_p},
      {"complex", ir::complex_p},
      {"real", ir::real_p},
      {"imag", ir::imag_p},
      {"popcnt", ir::population_count_p},
      {"count_leading_zeros", ir::clz_p},
      {"select", ir::select_p},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second();
}

/// As StableHLO numbers the directions.
Results compare(const Call& call) {
  constexpr std::int64_t kTotalOrder = 2;
  const bool totally = call.integer("compare_type", 0) == kTotalOrder && is_floating(call.operand(0).dtype());
  const Array x = totally ? total_order(call.operand(0)) : call.operand(0),
              y = totally ? total_order(call.operand(1)) : call.operand(1);
  switch (call.integer("comparison_direction")) {
    case 0:
      return {ir::lax::eq(x, y)};
    case 1:
      return {ir::lax::ne(x, y)};
    case 2:
      return {ir::lax::ge(x, y)};
    case 3:
      return {ir::lax::gt(x, y)};
    case 4:
      return {ir::lax::le(x, y)};
    case 5:
      return {ir::lax::lt(x, y)};
    default:
      call.refuse("its direction is not one of StableHLO's");
  }
}

/// JAX asks for one precision of both operands, if it asks for any.
std::optional<std::string> precision_of(const Call& call) {
  const Attribute* list = call.operation.find("precision_config");
  std::int64_t most = 0;
  if (list != nullptr)
    for (const AttributePtr& each : list->elements) most = std::max(most, each->integer);
  return ir::precision_text(static_cast<Precision>(most));
}

Results dot_general(const Call& call) {
  ir::DotGeneralParams params{
      call.numbers("lhs_contracting_dimensions"), call.numbers("rhs_contracting_dimensions"),
      call.numbers("lhs_batching_dimensions"), call.numbers("rhs_batching_dimensions")};
  const DType dtype = call.result().dtype;
  if (call.operand(0).dtype() != call.operand(1).dtype()) call.refuse("its operands are of two dtypes");
  if (dtype != call.operand(0).dtype()) params.preferred_element_type = dtype;
  params.precision = precision_of(call);
  return {ir::lax::dot_general(call.operand(0), call.operand(1), std::move(params))};
}

Results convolution(const Call& call) {
  ir::ConvParams params;
  const std::size_t spatial = call.numbers("input_spatial_dimensions").size();
  const std::vector<std::int64_t> ones(spatial, 1);
  params.window_strides = call.numbers("window_strides", ones);
  params.lhs_dilation = call.numbers("lhs_dilation", ones);
  params.rhs_dilation = call.numbers("rhs_dilation", ones);
  const std::vector<std::int64_t> padding =
      call.numbers("padding", std::vector<std::int64_t>(2 * spatial, 0));
  if (padding.size() != 2 * spatial) call.refuse("its padding is not a pair for each dimension");
  for (std::size_t i = 0; i < spatial; ++i) {
    params.padding_low.push_back(padding[2 * i]);
    params.padding_high.push_back(padding[2 * i + 1]);
  }
  for (const std::int64_t reversed : call.numbers("window_reversal", {}))
    if (reversed != 0) call.refuse("its windows are reversed");
  const auto spec = [&](std::int64_t first, std::int64_t second, const std::vector<std::int64_t>& rest) {
    std::vector<std::int64_t> all = {first, second};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  params.lhs_spec = spec(call.integer("input_batch_dimension"), call.integer("input_feature_dimension"),
                         call.numbers("input_spatial_dimensions"));
  params.rhs_spec =
      spec(call.integer("kernel_output_feature_dimension"), call.integer("kernel_input_feature_dimension"),
           call.numbers("kernel_spatial_dimensions"));
  params.out_spec = spec(call.integer("output_batch_dimension"), call.integer("output_feature_dimension"),
                         call.numbers("output_spatial_dimensions"));
  params.feature_group_count = call.integer("feature_group_count", 1);
  params.batch_group_count = call.integer("batch_group_count", 1);
  const DType dtype = call.result().dtype;
  if (dtype != call.operand(0).dtype()) params.preferred_element_type = dtype;
  params.precision = precision_of(call);
  return {ir::lax::conv_general_dilated(call.operand(0), call.operand(1), std::move(params))};
}

/// The indices with their vectors along the last dimension.
Array with_vectors_last(const Array& indices, std::int64_t vector_dim) {
  if (vector_dim == indices.ndim()) {
    Shape shape = indices.shape();
    shape.push_back(1);
    return ir::lax::reshape(indices, shape);
  }
  std::vector<std::int64_t> order;
  for (std::int64_t d = 0; d < indices.ndim(); ++d)
    if (d != vector_dim) order.push_back(d);
  order.push_back(vector_dim);
  return ir::lax::transpose(indices, order);
}

/// StableHLO takes the nearest slice that is within bounds.
Results gather(const Call& call) {
  const ir::GatherDimensionNumbers numbers{
      call.numbers("offset_dims"), call.numbers("collapsed_slice_dims"), call.numbers("start_index_map"),
      call.numbers("operand_batching_dims", {}), call.numbers("start_indices_batching_dims", {})};
  return {ir::lax::gather(call.operand(0),
                          with_vectors_last(call.operand(1), call.integer("index_vector_dim")), numbers,
                          call.numbers("slice_sizes"), GatherScatterMode::kClip)};
}

Results cholesky(const Call& call) {
  if (call.integer("lower", 0) == 0) call.refuse("it asks for the upper triangle");
  return {ir::lax::cholesky(call.operand(0))};
}

Results triangular_solve(const Call& call) {
  constexpr std::int64_t kNone = 1, kTransposed = 2;
  const std::int64_t transpose = call.integer("transpose_a");
  if (transpose != kNone && transpose != kTransposed) call.refuse("it asks for the adjoint");
  return {ir::lax::triangular_solve(call.operand(0), call.operand(1),
                                    {call.integer("left_side") != 0, call.integer("lower") != 0,
                                     transpose == kTransposed, call.integer("unit_diagonal") != 0})};
}

/// Halves are rounded away from zero.
Results round_away_from_zero(const Call& call) {
  const Array& x = call.operand(0);
  const Array size = ir::lax::abs(x), whole = ir::lax::floor(size);
  const Array half = ir::lax::full_like(x, 0.5), one = ir::lax::full_like(x, 1),
              zero = ir::lax::full_like(x, 0);
  const Array rounded =
      ir::lax::add(whole, ir::lax::select(ir::lax::ge(ir::lax::sub(size, whole), half), one, zero));
  return {ir::lax::select(ir::lax::lt(x, zero), ir::lax::neg(rounded), rounded)};
}

const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> all = {
      {"abs", [](const Call& c) -> Results { return {abs(c.operand(0))}; }},
      {"compare", compare},
      {"dot_general", dot_general},
      {"convolution", convolution},
      {"gather", gather},
      {"custom_call", custom_call},
      {"cholesky", cholesky},
      {"triangular_solve", triangular_solve},
      {"constant",
       [](const Call& c) -> Results {
         const Attribute* value = c.operation.find("value");
         if (value == nullptr) c.refuse("it has no value");
         return {constant_of(*value)};
       }},
      {"iota",
       [](const Call& c) -> Results {
         return {ir::lax::iota(Array(), c.result().dtype, c.result().shape, c.integer("iota_dimension"))};
       }},
      {"broadcast_in_dim",
       [](const Call& c) -> Results {
         return {
             ir::lax::broadcast_in_dim(c.operand(0), c.result().shape, c.numbers("broadcast_dimensions"))};
       }},
      {"reshape",
       [](const Call& c) -> Results { return {ir::lax::reshape(c.operand(0), c.result().shape)}; }},
      {"transpose",
       [](const Call& c) -> Results { return {ir::lax::transpose(c.operand(0), c.numbers("permutation"))}; }},
      {"slice",
       [](const Call& c) -> Results {
         return {ir::lax::slice(c.operand(0), c.numbers("start_indices"), c.numbers("limit_indices"),
                                c.numbers("strides"))};
       }},
      {"pad",
       [](const Call& c) -> Results {
         return {ir::lax::pad(c.operand(0), c.operand(1), c.numbers("edge_padding_low"),
                              c.numbers("edge_padding_high"), c.numbers("interior_padding"))};
       }},
      {"concatenate",
       [](const Call& c) -> Results {
         return {ir::lax::concatenate(c.operands_from(0), c.integer("dimension"))};
       }},
      {"reverse",
       [](const Call& c) -> Results { return {ir::lax::rev(c.operand(0), c.numbers("dimensions"))}; }},
      {"dynamic_slice",
       [](const Call& c) -> Results {
         return {ir::lax::dynamic_slice(c.operand(0), c.operands_from(1), c.numbers("slice_sizes"))};
       }},
      {"dynamic_update_slice",
       [](const Call& c) -> Results {
         return {ir::lax::dynamic_update_slice(c.operand(0), c.operand(1), c.operands_from(2))};
       }},
      {"convert",
       [](const Call& c) -> Results {
         return {ir::lax::convert_element_type(c.operand(0), c.result().dtype)};
       }},
      {"bitcast_convert",
       [](const Call& c) -> Results {
         return {ir::lax::bitcast_convert_type(c.operand(0), c.result().dtype)};
       }},
      {"round_nearest_afz", round_away_from_zero},
      {"reduce_precision",
       [](const Call& c) -> Results {
         return {
             ir::lax::reduce_precision(c.operand(0), c.integer("exponent_bits"), c.integer("mantissa_bits"))};
       }},
      {"clamp",
       [](const Call& c) -> Results {
         const Shape shape = c.operand(1).shape();
         const auto wide = [&](const Array& bound) {
           return bound.shape() == shape ? bound : ir::lax::broadcast_in_dim(bound, shape, {});
         };
         return {ir::lax::min(ir::lax::max(c.operand(1), wide(c.operand(0))), wide(c.operand(2)))};
       }},
      {"fft",
       [](const Call& c) -> Results {
         return {ir::lax::fft(c.operand(0), static_cast<ir::FftType>(c.integer("fft_type")),
                              c.numbers("fft_length"))};
       }},
      {"optimization_barrier", [](const Call& c) -> Results { return c.operands; }},
  };
  return all;
}

}  // namespace

std::vector<Array> plain_results(const Call& call) {
  if (call.integer("result_accuracy", 0) != 0) call.refuse("it asks for an accuracy");
  if (const ir::Primitive* primitive = elementwise(call.name)) {
    // The condition of a select may be one for all.
    std::vector<Array> operands = call.operands;
    if (call.name == "select" && operands.size() == 3 && operands[0].shape() != operands[1].shape())
      operands[0] = ir::lax::broadcast_in_dim(operands[0], operands[1].shape(), {});
    return apply_primitive(*primitive, ir::OpParams(), operands);
  }
  const auto rule = rules().find(call.name);
  if (rule == rules().end()) call.refuse("Lockstep has no operation like it");
  return rule->second(call);
}

}  // namespace lockstep::interop
