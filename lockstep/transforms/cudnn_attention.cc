// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/cudnn_attention.h"

#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::transforms {
namespace {

namespace lax = ir::lax;
using ir::Lowering;
using ir::Value;
using Names = Lowering::Names;
using Sizes = std::vector<std::int64_t>;

/// Values with their names.
struct Named {
  Names names;
  std::vector<Aval> avals;

  void add(std::string name, Aval aval) {
    names.push_back(std::move(name));
    avals.push_back(std::move(aval));
  }
};

/// Writes what `compute` makes of values.
Names written(Lowering& out, const Named& from,
              const std::function<std::vector<Value>(const std::vector<Value>&)>& compute) {
  ir::Builder builder("attention");
  std::vector<Value> values;
  for (const Aval& aval : from.avals) values.push_back(builder.input(aval));
  return out.inlined(builder.finish(compute(values)), from.names);
}

/// The sizes of a device's part.
struct Sides {
  explicit Sides(const ir::Program& program) {
    const std::vector<Aval> avals = program.input_avals();
    query = avals[0].shape;
    key = avals[1].shape;
  }

  std::int64_t batch() const { return query[0]; }
  std::int64_t queries() const { return query[1]; }
  std::int64_t heads() const { return query[2]; }
  std::int64_t keys() const { return key[1]; }
  std::int64_t key_heads() const { return key[2]; }
  std::int64_t group() const { return heads() / key_heads(); }

  Shape query, key;
};

bool has_lengths(const AttentionParams& p) { return p.program->inputs.size() == (p.backward ? 7 : 4); }

/// The keys that a query sees to the left, with its own; 0: all. XLA's field has 32 bits.
std::int64_t window(const AttentionParams& p, const Sides& sides) {
  return p.left && *p.left < sides.queries() - 1 ? *p.left + 1 : 0;
}

/// The dimensions of a product of two matrices for each example and head.
nlohmann::json product(int left, int right, std::pair<int, int> left_batch) {
  const auto list = [](std::initializer_list<int> numbers) {
    nlohmann::json all = nlohmann::json::array();
    for (int number : numbers) all.push_back(std::to_string(number));
    return all;
  };
  return {{"lhs_contracting_dimensions", list({left})},
          {"rhs_contracting_dimensions", list({right})},
          {"lhs_batch_dimensions", list({left_batch.first, left_batch.second})},
          {"rhs_batch_dimensions", list({0, 2})}};
}

/// XLA's GpuBackendConfig (xla/service/gpu/backend_configs.proto), with JAX's values.
std::string configuration(const AttentionParams& p, const Sides& sides, DType dtype) {
  nlohmann::json scores = {{"element_type", dtype == DType::kBF16 ? "BF16" : "F16"},
                           {"dimensions",
                            {std::to_string(sides.batch()), std::to_string(sides.heads()),
                             std::to_string(sides.queries()), std::to_string(sides.keys())}},
                           {"tuple_shapes", nlohmann::json::array()},
                           {"layout",
                            {{"dim_level_types", nlohmann::json::array()},
                             {"dim_unique", nlohmann::json::array()},
                             {"dim_ordered", nlohmann::json::array()},
                             {"minor_to_major", {"3", "2", "1", "0"}},
                             {"tiles", nlohmann::json::array()},
                             {"element_size_in_bits", "0"},
                             {"memory_space", "0"},
                             {"index_primitive_type", "PRIMITIVE_TYPE_INVALID"},
                             {"pointer_primitive_type", "PRIMITIVE_TYPE_INVALID"},
                             {"dynamic_shape_metadata_prefix_bytes", "0"}}},
                           {"is_dynamic_dimension", {false, false, false, false}}};
  const std::string mask = std::string(has_lengths(p) ? "PADDING" : "") +
                           (has_lengths(p) && p.right ? "_" : "") + (p.right ? "CAUSAL" : "");
  nlohmann::json attention = {{"algorithm",
                               {{"algo_id", "0"},
                                {"math_type", "TENSOR_OP_MATH"},
                                {"tuning_knobs", {{"17", "1"}, {"24", "0"}}},
                                {"is_cudnn_frontend", true},
                                {"workspace_size", "0"}}},
                              {"fmha_scale", p.scale.real},
                              {"intermediate_tensor_shape", std::move(scores)},
                              {"is_flash_attention", true},
                              {"mask_type", mask.empty() ? "NO_MASK" : mask},
                              {"dropout_rate", 0.0},
                              {"seed", 42},
                              {"sliding_window_length", window(p, sides)},
                              {"max_seg_per_batch", 1},
                              {"is_paged_attention", false}};
  if (p.backward) {
    attention["bmm1_grad_gemm1_dot_dimension_numbers"] = product(2, 1, {0, 1});
    attention["bmm1_grad_gemm2_dot_dimension_numbers"] = product(3, 1, {0, 1});
    attention["bmm2_grad_gemm1_dot_dimension_numbers"] = product(2, 1, {0, 1});
    attention["bmm2_grad_gemm2_dot_dimension_numbers"] = product(3, 3, {0, 2});
  } else {
    attention["bmm1_dot_dimension_numbers"] = product(3, 3, {0, 2});
    attention["bmm2_dot_dimension_numbers"] = product(3, 1, {0, 1});
  }
  return json_text({{"operation_queue_id", "0"}, {"cudnn_fmha_backend_config", std::move(attention)}});
}

/// A custom call. Results of four dimensions are [batch, heads, rows, features], which memory holds as
/// [batch, rows, heads, features]. XLA adds the workspace after them.
Names call(Lowering& out, std::string_view target, const std::string& configuration, const Named& operands,
           const std::vector<Aval>& results) {
  std::vector<std::string> operand_types, operand_layouts, result_types, result_layouts;
  for (const Aval& aval : operands.avals) {
    operand_types.push_back(ir::mlir_type(aval));
    operand_layouts.push_back(ir::mlir_row_major(aval.shape.size()));
  }
  for (const Aval& aval : results) {
    result_types.push_back(ir::mlir_type(aval));
    result_layouts.push_back(aval.shape.size() == 4 ? ir::mlir_layout(Sizes{3, 1, 2, 0})
                                                    : ir::mlir_row_major(aval.shape.size()));
  }
  result_types.push_back("tensor<0xui8>");
  result_layouts.push_back(ir::mlir_row_major(1));
  const std::string name = out.fresh();
  out.line(fmt::format(
      "{}:{} = \"stablehlo.custom_call\"({}) {{call_target_name = {}, backend_config = {}, "
      "api_version = 2 : i32, operand_layouts = [{}], result_layouts = [{}]}} : ({}) -> ({})",
      name, result_types.size(), fmt::join(operands.names, ", "), ir::mlir_string(target),
      ir::mlir_string(configuration), fmt::join(operand_layouts, ", "), fmt::join(result_layouts, ", "),
      fmt::join(operand_types, ", "), fmt::join(result_types, ", ")));
  Names all;
  for (std::size_t i = 0; i < results.size(); ++i) all.push_back(fmt::format("{}#{}", name, i));
  return all;
}

/// What cuDNN calls [batch, heads, rows, features].
Aval by_heads(DType dtype, const Shape& shape) { return {dtype, {shape[0], shape[2], shape[1], shape[3]}}; }

Value by_rows(const Value& x) { return lax::transpose(x, {0, 2, 1, 3}); }

/// The logarithms of the sums of powers, [batch, key heads, queries, group], as cuDNN's [batch, heads,
/// queries], and back.
Value by_heads(const Value& logs, const Sides& sides) {
  return lax::reshape(lax::transpose(logs, {0, 1, 3, 2}), {sides.batch(), sides.heads(), sides.queries()});
}
Value by_groups(const Value& logs, const Sides& sides) {
  return lax::transpose(
      lax::reshape(logs, {sides.batch(), sides.key_heads(), sides.group(), sides.queries()}), {0, 1, 3, 2});
}

/// Of each example, in this shape: whether its queries see no keys.
Value sees_none(const Value& lengths, const Shape& shape) {
  return lax::broadcast_in_dim(lax::le(lengths, lax::full_like(lengths, 0)), shape, {0});
}

/// The lengths of queries and keys for cuDNN, which must not be 0.
Names lengths_for_cudnn(Lowering& out, const std::string& lengths, const Sides& sides) {
  return written(out, {{lengths}, {{DType::kI32, {sides.batch()}}}}, [&](const std::vector<Value>& v) {
    return std::vector<Value>{lax::full_like(v[0], static_cast<double>(sides.queries())),
                              lax::max(v[0], lax::full_like(v[0], 1))};
  });
}

/// The mean over the rows of x, in f32, in each row of `shape`, which may have several heads for each of x.
Value mean_of_rows(const Value& x, const Shape& shape) {
  const std::int64_t group = shape[2] / x.aval().shape[2];
  const Value wide = lax::convert_element_type(x, DType::kF32), sum = lax::reduce_sum(wide, {1});
  const Value mean = lax::div(sum, lax::full_like(sum, static_cast<double>(x.aval().shape[1])));
  return lax::convert_element_type(
      lax::reshape(
          lax::broadcast_in_dim(mean, {shape[0], shape[1], x.aval().shape[2], group, shape[3]}, {0, 2, 4}),
          shape),
      x.aval().dtype);
}

Names forward(Lowering& out, const ir::Equation& e, const AttentionParams& p, const Sides& sides) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  Named operands;
  for (std::size_t i = 0; i < 3; ++i) operands.add(out.operand(e, i), out.operand_aval(e, i));
  if (has_lengths(p))
    for (std::string& name : lengths_for_cudnn(out, out.operand(e, 3), sides))
      operands.add(std::move(name), {DType::kI32, {sides.batch()}});
  const Aval result = by_heads(dtype, sides.query),
             logs = {DType::kF32, {sides.batch(), sides.heads(), sides.queries()}};
  std::vector<Aval> results = {result};
  if (out.is_used(e, 1)) results.push_back(logs);
  const Names made = call(out, "__cudnn$fmhaSoftmax", configuration(p, sides, dtype), operands, results);
  Named after{made, results};
  if (has_lengths(p)) {
    after.add(out.operand(e, 2), out.operand_aval(e, 2));
    after.add(out.operand(e, 3), out.operand_aval(e, 3));
  }
  Names names = written(out, after, [&](const std::vector<Value>& v) {
    std::vector<Value> all = {by_rows(v[0])};
    if (results.size() > 1) all.push_back(by_groups(v[1], sides));
    if (!has_lengths(p)) return all;
    const Value &value = v[results.size()], &lengths = v.back();
    all[0] = lax::select(sees_none(lengths, sides.query), mean_of_rows(value, sides.query), all[0]);
    if (results.size() > 1) {
      const Value of_all = lax::full_like(all[1], std::log(static_cast<double>(sides.keys())));
      all[1] = lax::select(sees_none(lengths, all[1].aval().shape), of_all, all[1]);
    }
    return all;
  });
  // Nothing reads this.
  if (names.size() == 1) names.push_back(names[0]);
  return names;
}

Names backward(Lowering& out, const ir::Equation& e, const AttentionParams& p, const Sides& sides) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  const std::size_t of_result = has_lengths(p) ? 4 : 3, of_logs = of_result + 1, of_cotangent = of_result + 2;
  Named operands;
  for (std::size_t i = 0; i < 3; ++i) operands.add(out.operand(e, i), out.operand_aval(e, i));
  const Names logs =
      written(out, {{out.operand(e, of_logs)}, {out.operand_aval(e, of_logs)}},
              [&](const std::vector<Value>& v) { return std::vector<Value>{by_heads(v[0], sides)}; });
  operands.add(logs[0], {DType::kF32, {sides.batch(), sides.heads(), sides.queries()}});
  operands.add(out.operand(e, of_cotangent), out.operand_aval(e, of_cotangent));
  operands.add(out.operand(e, of_result), out.operand_aval(e, of_result));
  if (has_lengths(p))
    for (std::string& name : lengths_for_cudnn(out, out.operand(e, 3), sides))
      operands.add(std::move(name), {DType::kI32, {sides.batch()}});
  const std::vector<Aval> results = {by_heads(dtype, sides.query), by_heads(dtype, sides.key),
                                     by_heads(dtype, sides.key)};
  Named after{call(out, "__cudnn$fmhaSoftmaxBackward", configuration(p, sides, dtype), operands, results),
              results};
  if (has_lengths(p)) {
    after.add(out.operand(e, of_cotangent), out.operand_aval(e, of_cotangent));
    after.add(out.operand(e, 3), out.operand_aval(e, 3));
  }
  return written(out, after, [&](const std::vector<Value>& v) {
    std::vector<Value> all = {by_rows(v[0]), by_rows(v[1]), by_rows(v[2])};
    if (!has_lengths(p)) return all;
    const Value& lengths = v[4];
    for (std::size_t i = 0; i < 2; ++i)
      all[i] = lax::select(sees_none(lengths, all[i].aval().shape), lax::full_like(all[i], 0), all[i]);
    // The result was the mean of all values.
    const Shape groups = {sides.batch(), sides.queries(), sides.key_heads(), sides.group(), sides.query[3]};
    const Value cotangents = lax::reshape(lax::convert_element_type(v[3], DType::kF32), groups);
    const Value sums = lax::reduce_sum(cotangents, {1, 3});
    const Value each = lax::div(sums, lax::full_like(sums, static_cast<double>(sides.keys())));
    const Value of_all = lax::convert_element_type(lax::broadcast_in_dim(each, sides.key, {0, 2, 3}), dtype);
    all[2] = lax::select(sees_none(lengths, sides.key), of_all, all[2]);
    return all;
  });
}

}  // namespace

std::string why_not_cudnn(const AttentionParams& p, DType dtype, std::int64_t max_features) {
  const Sides sides(*p.program);
  const std::int64_t features = sides.query[3];
  if (dtype != DType::kBF16 && dtype != DType::kF16)
    return fmt::format("its operands are {}, and cuDNN takes bf16 and f16", name(dtype));
  if (features % 8 != 0 || features > max_features) {
    return fmt::format("its heads have {} features, and cuDNN takes a multiple of 8 up to {}", features,
                       max_features);
  }
  if (p.right.value_or(0) != 0 || (p.left && !p.right))
    return "its window reaches to the right, and cuDNN takes windows to the left (.is_causal)";
  if (p.left && (has_lengths(p) || sides.queries() - 1 - *p.left >= sides.keys()))
    return "some queries may see no keys, because its window ends before them, and cuDNN has no result for "
           "them";
  if (!std::isfinite(p.scale.real)) return "its scale is not finite";
  return "";
}

Names cudnn_attention(Lowering& out, const ir::Equation& equation) {
  const auto& p = equation.params.as<AttentionParams>();
  const Sides sides(*p.program);
  return p.backward ? backward(out, equation, p, sides) : forward(out, equation, p, sides);
}

}  // namespace lockstep::transforms
