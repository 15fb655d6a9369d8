// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/cudnn_attention.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/reduction.h"
#include "lockstep/program/primitives/rules.h"
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

/// The sizes of a device's part, and where its operands are.
struct Sides {
  explicit Sides(const AttentionParams& p) : Sides(p.program->input_avals(), p.backward) {}
  Sides(const std::vector<Aval>& avals, bool backward)
      : query(avals[0].shape), key(avals[1].shape), at(avals, backward) {
    if (!at.mask && !at.bias) return;
    terms = {1, 1, queries(), keys()};
    for (const auto& each : {at.mask, at.bias})
      for (const std::size_t d : {0, 1})
        if (each) terms[d] = std::max(terms[d], avals[*each].shape[d]);
  }

  std::int64_t batch() const { return query[0]; }
  std::int64_t queries() const { return query[1]; }
  std::int64_t heads() const { return query[2]; }
  std::int64_t keys() const { return key[1]; }
  std::int64_t key_heads() const { return key[2]; }
  std::int64_t group() const { return heads() / key_heads(); }

  Shape query, key;
  OptionalOperands at;
  Shape terms;  ///< of the one array that mask and bias become; empty if there is neither
};

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
  const std::string mask = std::string(sides.at.lengths ? "PADDING" : "") +
                           (sides.at.lengths && p.right ? "_" : "") + (p.right ? "CAUSAL" : "");
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

/// A custom call. The first three results of four dimensions are [batch, heads, rows, features], which memory
/// holds as [batch, rows, heads, features]. XLA adds the workspace after them.
Names call(Lowering& out, std::string_view target, const std::string& configuration, const Named& operands,
           const std::vector<Aval>& results) {
  std::vector<std::string> operand_types, operand_layouts, result_types, result_layouts;
  for (const Aval& aval : operands.avals) {
    operand_types.push_back(ir::mlir_type(aval));
    operand_layouts.push_back(ir::mlir_row_major(aval.shape.size()));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t rank = results[i].shape.size();
    result_types.push_back(ir::mlir_type(results[i]));
    result_layouts.push_back(rank == 4 && i < 3 ? ir::mlir_layout(Sizes{3, 1, 2, 0})
                                                : ir::mlir_row_major(rank));
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

/// Where queries see no key, [batch, heads, queries] or sizes of 1, in the shape of `like`, which has those
/// dimensions at these places.
Value spread(const Value& none, const Value& like, const Sizes& places) {
  Sizes order = {0, 1, 2};
  std::ranges::sort(order, {}, [&](std::int64_t d) { return places[static_cast<std::size_t>(d)]; });
  Sizes sorted = places;
  std::ranges::sort(sorted);
  return lax::broadcast_in_dim(lax::transpose(none, order), like.aval().shape, sorted);
}

/// The lengths of queries and keys for cuDNN, which must not be 0.
Names lengths_for_cudnn(Lowering& out, const std::string& lengths, const Sides& sides) {
  return written(out, {{lengths}, {{DType::kI32, {sides.batch()}}}}, [&](const std::vector<Value>& v) {
    return std::vector<Value>{lax::full_like(v[0], static_cast<double>(sides.queries())),
                              lax::max(v[0], lax::full_like(v[0], 1))};
  });
}

/// The score of hidden keys for cuDNN, which is wrong for larger ones. JAX's.
double hidden_for_cudnn(DType dtype) { return dtype == DType::kBF16 ? -0x1p41 : -0x1p15; }

/// An attention's operands for cuDNN: query, key, value, then what else the two calls take in different
/// places.
struct CudnnOperands {
  Named inputs, terms, lengths;
  Named none;  ///< where queries see no key, if that can be
};

CudnnOperands operands_for_cudnn(Lowering& out, const ir::Equation& e, const AttentionParams& p,
                                 const Sides& sides) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  CudnnOperands all;
  for (std::size_t i = 0; i < 3; ++i) all.inputs.add(out.operand(e, i), out.operand_aval(e, i));
  Named given;
  const auto place = [&](const std::optional<std::size_t>& at) -> std::optional<std::size_t> {
    if (!at) return {};
    given.add(out.operand(e, *at), out.operand_aval(e, *at));
    return given.names.size() - 1;
  };
  const auto lengths = place(sides.at.lengths), mask = place(sides.at.mask), bias = place(sides.at.bias);
  const auto of = [](const std::vector<Value>& v, const std::optional<std::size_t>& i) {
    return i ? std::optional(v[*i]) : std::nullopt;
  };
  if (lengths)
    for (std::string& name : lengths_for_cudnn(out, given.names[*lengths], sides))
      all.lengths.add(std::move(name), {DType::kI32, {sides.batch()}});
  if (mask || bias) {
    const Names terms = written(out, given, [&](const std::vector<Value>& v) -> std::vector<Value> {
      if (!mask) return {repeated(v[*bias], sides.terms)};
      const Value shows = repeated(v[*mask], sides.terms),
                  zeros = ir::rules::zeros(shows, {dtype, sides.terms});
      return {lax::select(shows, bias ? repeated(v[*bias], sides.terms) : zeros,
                          lax::full_like(zeros, hidden_for_cudnn(dtype)))};
    });
    all.terms.add(terms[0], {dtype, sides.terms});
  }
  given.add(all.inputs.names[0], all.inputs.avals[0]);
  Aval none;
  const Names names = written(out, given, [&](const std::vector<Value>& v) -> std::vector<Value> {
    const auto found = sees_none({p.scale.real, p.block, p.left, p.right}, v.back(), sides.keys(),
                                 of(v, lengths), of(v, mask));
    if (!found) return {};
    none = found->aval();
    return {*found};
  });
  if (!names.empty()) all.none.add(names[0], none);
  return all;
}

void append(Named& to, const Named& from) {
  for (std::size_t i = 0; i < from.names.size(); ++i) to.add(from.names[i], from.avals[i]);
}

std::string target(const Sides& sides, bool backward) {
  return fmt::format("__cudnn$fmha{}Softmax{}", sides.terms.empty() ? "" : "ScaleBias",
                     backward ? "Backward" : "");
}

/// The sums of x's rows, [batch, rows, heads, features], in f32: [batch, key heads, features].
Value sums_of_rows(const Value& x, const Sides& sides) {
  const Shape& shape = x.aval().shape;
  return lax::reduce_sum(
      lax::reshape(lax::convert_element_type(x, DType::kF32),
                   {shape[0], shape[1], sides.key_heads(), shape[2] / sides.key_heads(), shape[3]}),
      {1, 3});
}

/// numbers / keys, [batch, key heads, features], in each row of an array like `shape`.
Value shared_by_keys(const Value& numbers, const Shape& shape, const Sides& sides, DType dtype) {
  const Value each = lax::div(numbers, lax::full_like(numbers, static_cast<double>(sides.keys())));
  const Shape groups = {shape[0], shape[1], sides.key_heads(), shape[2] / sides.key_heads(), shape[3]};
  return lax::convert_element_type(lax::reshape(lax::broadcast_in_dim(each, groups, {0, 2, 4}), shape),
                                   dtype);
}

Names forward(Lowering& out, const ir::Equation& e, const AttentionParams& p, const Sides& sides) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  const CudnnOperands given = operands_for_cudnn(out, e, p, sides);
  Named operands = given.inputs;
  append(operands, given.terms);
  append(operands, given.lengths);
  const Aval result = by_heads(dtype, sides.query),
             logs = {DType::kF32, {sides.batch(), sides.heads(), sides.queries()}};
  std::vector<Aval> results = {result};
  if (out.is_used(e, 1)) results.push_back(logs);
  Named after{call(out, target(sides, false), configuration(p, sides, dtype), operands, results), results};
  after.add(given.inputs.names[2], given.inputs.avals[2]);
  append(after, given.none);
  Names names = written(out, after, [&](const std::vector<Value>& v) {
    std::vector<Value> all = {by_rows(v[0])};
    if (results.size() > 1) all.push_back(by_groups(v[1], sides));
    if (given.none.names.empty()) return all;
    const Value& none = v.back();
    const Value mean = shared_by_keys(sums_of_rows(v[results.size()], sides), sides.query, sides, dtype);
    all[0] = lax::select(spread(none, all[0], {0, 2, 1}), mean, all[0]);
    if (results.size() > 1) {
      const Value of_all = lax::full_like(v[1], std::log(static_cast<double>(sides.keys())));
      all[1] = by_groups(lax::select(spread(none, v[1], {0, 1, 2}), of_all, v[1]), sides);
    }
    return all;
  });
  // Nothing reads this.
  if (names.size() == 1) names.push_back(names[0]);
  return names;
}

Names backward(Lowering& out, const ir::Equation& e, const AttentionParams& p, const Sides& sides) {
  const DType dtype = out.operand_aval(e, 0).dtype;
  const CudnnOperands given = operands_for_cudnn(out, e, p, sides);
  const std::size_t of_result = e.inputs.size() - 3, of_logs = of_result + 1, of_cotangent = of_result + 2;
  Named last;
  for (const std::size_t i : {of_logs, of_cotangent}) last.add(out.operand(e, i), out.operand_aval(e, i));
  append(last, given.none);
  // Queries that see no key add nothing to cuDNN's sums: their cotangents are 0, and so are their weights,
  // the powers of scores less these logarithms. Their results were the means of all values.
  constexpr double kNoWeight = 1e30;
  const bool some_see_none = !given.none.names.empty();
  const Names prepared = written(out, last, [&](const std::vector<Value>& v) {
    std::vector<Value> all = {by_heads(v[0], sides)};
    if (!some_see_none) return all;
    all[0] = lax::select(spread(v[2], all[0], {0, 1, 2}), lax::full_like(all[0], kNoWeight), all[0]);
    const Value none = spread(v[2], v[1], {0, 2, 1}), zeros = lax::full_like(v[1], 0);
    all.push_back(lax::select(none, zeros, v[1]));
    all.push_back(sums_of_rows(lax::select(none, v[1], zeros), sides));
    return all;
  });
  Named operands = given.inputs;
  operands.add(prepared[0], {DType::kF32, {sides.batch(), sides.heads(), sides.queries()}});
  operands.add(some_see_none ? prepared[1] : last.names[1], last.avals[1]);
  append(operands, given.terms);
  operands.add(out.operand(e, of_result), out.operand_aval(e, of_result));
  append(operands, given.lengths);
  std::vector<Aval> results = {by_heads(dtype, sides.query), by_heads(dtype, sides.key),
                               by_heads(dtype, sides.key)};
  const bool of_bias = has_cotangent_of_bias(p);
  if (of_bias) results.push_back({dtype, sides.terms});
  Named after{call(out, target(sides, true), configuration(p, sides, dtype), operands, results), results};
  if (some_see_none)
    after.add(prepared[2], {DType::kF32, {sides.batch(), sides.key_heads(), sides.query[3]}});
  return written(out, after, [&](const std::vector<Value>& v) {
    std::vector<Value> all = {by_rows(v[0]), by_rows(v[1]), by_rows(v[2])};
    if (some_see_none) all[2] = lax::add(all[2], shared_by_keys(v.back(), sides.key, sides, dtype));
    if (of_bias) all.push_back(sums_in_shape(v[3], out.operand_aval(e, *sides.at.bias).shape));
    return all;
  });
}

}  // namespace

std::string why_not_cudnn(const AttentionParams& p, bool is_differentiated, DType dtype,
                          std::int64_t max_features) {
  const Sides sides(p);
  const std::int64_t features = sides.query[3];
  if (dtype != DType::kBF16 && dtype != DType::kF16)
    return fmt::format("its operands are {}, and cuDNN takes bf16 and f16", name(dtype));
  if (features % 8 != 0 || features > max_features) {
    return fmt::format("its heads have {} features, and cuDNN takes a multiple of 8 up to {}", features,
                       max_features);
  }
  if (p.right.value_or(0) != 0 || (p.left && !p.right))
    return "its window reaches to the right, and cuDNN takes windows to the left (.is_causal)";
  if (p.left && !sides.at.lengths && sides.queries() > sides.keys())
    return "it has a window and fewer keys than queries, and cuDNN takes a window over as many keys at least";
  if (p.left && !sides.terms.empty()) return "it has a window, and a mask or a bias: cuDNN takes either";
  if (sides.at.bias) {
    const DType of_bias = p.program->input_avals()[*sides.at.bias].dtype;
    if (of_bias != dtype)
      return fmt::format("its bias is {} and its query {}, and cuDNN takes a bias of the query's dtype",
                         name(of_bias), name(dtype));
  }
  if (is_differentiated && !sides.terms.empty() && (sides.queries() % 2 != 0 || sides.keys() % 2 != 0))
    return "it has a mask or a bias, and for its derivative cuDNN takes even numbers of queries and keys";
  if (!std::isfinite(p.scale.real)) return "its scale is not finite";
  return "";
}

bool cudnn_repeats_terms(const AttentionParams& p) {
  const Sides sides(p);
  if (!sides.at.mask || !sides.at.bias) return false;
  const std::vector<Aval> avals = p.program->input_avals();
  const auto rows = [](const Shape& shape) { return shape[0] * shape[1]; };
  return rows(sides.terms) > std::max(rows(avals[*sides.at.mask].shape), rows(avals[*sides.at.bias].shape));
}

Names cudnn_attention(Lowering& out, const ir::Equation& equation) {
  const auto& p = equation.params.as<AttentionParams>();
  const Sides sides(p);
  return p.backward ? backward(out, equation, p, sides) : forward(out, equation, p, sides);
}

}  // namespace lockstep::transforms
