// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/lowering.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/cuda/solver.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/fft.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/primitives/window.h"
#include "lockstep/program/uses.h"

namespace lockstep::ir {
namespace {

constexpr std::string_view kPositionType = "tensor<i32>";

/// Whether the program has a transpose that XLA must do by itself: one before or after a dot product becomes
/// part of it, and one that keeps the minor dimension copies whole rows.
bool has_transposes(const Program& program) {
  for (const Equation& equation : program.equations) {
    for (const NestedProgram& nested : programs_of(equation)) {
      if (has_transposes(*nested.program)) return true;
    }
  }
  const auto is_dot = [](const Equation& equation) { return equation.primitive == &dot_general_p(); };
  std::vector<bool> by_dot(program.variables.size());
  for (const Equation& equation : program.equations)
    for (Var var : equation.outputs) by_dot[static_cast<std::size_t>(var)] = is_dot(equation);
  const Uses uses(program);
  const auto has_use_beside_dot = [&](Var var) {
    return std::ranges::any_of(uses.of(var), [&](std::size_t place) {
      return place == program.equations.size() || !is_dot(program.equations[place]);
    });
  };
  return std::ranges::any_of(program.equations, [&](const Equation& equation) {
    if (equation.primitive != &transpose_p()) return false;
    const auto& permutation = equation.params.as<TransposeParams>().permutation;
    return permutation.back() != static_cast<std::int64_t>(permutation.size()) - 1 &&
           !by_dot[static_cast<std::size_t>(equation.inputs[0])] && has_use_beside_dot(equation.outputs[0]);
  });
}

/// Where an operation stands: ` loc("encoder/attention/dot_general")`; nothing outside of all scopes.
std::string location_of(std::string_view line, std::string_view scopes) {
  constexpr std::string_view kDialect = "stablehlo.";
  if (scopes.empty()) return "";
  std::string name(scopes);
  if (const std::size_t dialect = line.find(kDialect); dialect != line.npos) {
    const std::string_view rest = line.substr(dialect + kDialect.size());
    name += fmt::format("/{}", rest.substr(0, rest.find_first_of("\" (")));
  }
  std::string quoted;
  for (char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return fmt::format(" loc(\"{}\")", quoted);
}

bool has_loops(const Program& program) {
  for (const Equation& equation : program.equations) {
    for (const NestedProgram& nested : programs_of(equation)) {
      if (nested.times != 1 || has_loops(*nested.program)) return true;
    }
  }
  return false;
}

/// Whether the pad's result is large, and most of it is its operand.
bool pads_by_little(const Program& program, const Equation& equation) {
  constexpr std::int64_t kLarge = 1 << 14;  // computed in microseconds
  if (equation.primitive != &pad_p()) return false;
  const std::int64_t size = program.aval(equation.outputs[0]).num_elements();
  return size >= kLarge && 2 * size <= 3 * program.aval(equation.inputs[0]).num_elements();
}

bool has_padding(const Program& program, bool in_loop = false) {
  return std::ranges::any_of(program.equations, [&](const Equation& equation) {
    if (in_loop && pads_by_little(program, equation)) return true;
    return std::ranges::any_of(programs_of(equation), [&](const NestedProgram& nested) {
      return has_padding(*nested.program, in_loop || nested.times != 1);
    });
  });
}

bool has_running(const Program& program) {
  const Primitive* const kinds[] = {&cumsum_p(), &cumprod_p(), &cummax_p(), &cummin_p(), &cumlogsumexp_p()};
  bool has = false;
  for_each_equation(program, [&](const Equation& equation) {
    has = has || std::ranges::find(kinds, equation.primitive) != std::end(kinds);
  });
  return has;
}

bool has_fft(const Program& program) {
  bool has = false;
  for_each_equation(program, [&](const Equation& equation) { has = has || equation.primitive == &fft_p(); });
  return has;
}

}  // namespace

std::string mlir_type(DType dtype, const Shape& shape) {
  std::string text = "tensor<";
  for (std::int64_t size : shape) text += fmt::format("{}x", size);
  return text + std::string(info(dtype).mlir_name) + ">";
}

std::string mlir_type(const Aval& aval) { return mlir_type(aval.dtype, aval.shape); }

std::string mlir_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\')
      out += fmt::format("\\{:02X}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string mlir_array(std::span<const std::int64_t> values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string mlir_splat(const Scalar& value, DType dtype, const Shape& shape) {
  std::string text;
  if (dtype == DType::kBool) {
    text = (value.kind == Scalar::Kind::kFloat ? value.real != 0 : value.integer != 0) ? "true" : "false";
  } else if (is_integer(dtype)) {
    text = info(dtype).kind == DTypeKind::kUnsigned
               ? std::to_string(static_cast<std::uint64_t>(value.integer))
               : std::to_string(value.integer);
  } else {
    if (real_dtype(dtype) == DType::kF64) {
      text = fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value.real));
    } else if (dtype == DType::kF8E4M3FN) {
      text = fmt::format("0x{:02X}", f8_e4m3fn_bits(static_cast<float>(value.real)));
    } else if (dtype == DType::kF8E5M2) {
      text = fmt::format("0x{:02X}", f8_e5m2_bits(static_cast<float>(value.real)));
    } else if (real_dtype(dtype) == DType::kF32) {
      text = fmt::format("0x{:08X}", std::bit_cast<std::uint32_t>(static_cast<float>(value.real)));
    } else if (std::isinf(value.real)) {
      text = dtype == DType::kF16 ? (value.real > 0 ? "0x7C00" : "0xFC00")
                                  : (value.real > 0 ? "0x7F80" : "0xFF80");
    } else if (std::isnan(value.real)) {
      text = dtype == DType::kF16 ? "0x7E00" : "0x7FC0";
    } else {
      text = fmt::format("{:.17e}", value.real);
    }
    if (is_complex(dtype)) text = fmt::format("({}, 0x{:0{}X})", text, 0, size_of(dtype));
  }
  return fmt::format("dense<{}> : {}", text, mlir_type(dtype, shape));
}

std::string mlir_layout(std::span<const std::int64_t> minor_to_major) {
  const std::string numbers = fmt::format("{}", fmt::join(minor_to_major, ", "));
  return fmt::format("dense<{}> : tensor<{}xindex>",
                     minor_to_major.size() > 1 ? "[" + numbers + "]" : numbers, minor_to_major.size());
}

std::string mlir_row_major(std::size_t rank) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.rbegin(), order.rend(), 0);
  return mlir_layout(order);
}

Lowering::Lowering(const Program& program, const LowerOptions& options)
    : program_(&program),
      num_inputs_(program.inputs.size()),
      axes_(options.axes),
      native_collectives_(options.native_collectives),
      for_cpu_(options.for_cpu),
      for_cuda_(options.for_cuda),
      lapack_(options.for_cpu && options.lapack),
      host_lapack_(options.for_cuda && options.lapack),
      onednn_(options.for_cpu && options.onednn),
      sleef_(options.for_cpu && options.sleef),
      solver_(options.for_cuda && options.solver && cuda::has_solver()),
      cudnn_features_(options.for_cuda ? options.cudnn_features : 0),
      traits_{has_transposes(program), has_loops(program), has_running(program), has_padding(program),
              has_fft(program)},
      donated_(options.donated) {}

const std::string& Lowering::operand(const Equation& equation, std::size_t i) const {
  return names_[static_cast<std::size_t>(equation.inputs[i])];
}
std::string Lowering::operand_type(const Equation& equation, std::size_t i) const {
  return mlir_type(operand_aval(equation, i));
}
std::string Lowering::result_type(const Equation& equation, std::size_t i) const {
  return mlir_type(result_aval(equation, i));
}
const Aval& Lowering::operand_aval(const Equation& equation, std::size_t i) const {
  return program_->aval(equation.inputs[i]);
}
const Aval& Lowering::result_aval(const Equation& equation, std::size_t i) const {
  return program_->aval(equation.outputs[i]);
}

std::string Lowering::op(std::string_view op, std::span<const std::string> operands,
                         std::span<const std::string> operand_types, const std::string& result_type,
                         std::string_view attributes, std::string_view region) {
  std::string name = fresh();
  if (op == "stablehlo.reshape") {
    if (const auto plain = plain_values_.find(operands[0]); plain != plain_values_.end())
      plain_values_.emplace(name, plain->second);
  } else {
    only_collectives_ = false;
  }
  write(fmt::format("{} = \"{}\"({}){}{} : ({}) -> {}", name, op, fmt::join(operands, ", "),
                    region.empty() ? "" : fmt::format(" ({{{}}})", region),
                    attributes.empty() ? "" : fmt::format(" {{{}}}", attributes),
                    fmt::join(operand_types, ", "), result_type));
  return name;
}

std::string Lowering::op(std::string_view name, const Equation& equation, std::string_view attributes,
                         std::string_view region) {
  std::vector<std::string> operands, types;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    operands.push_back(operand(equation, i));
    types.push_back(operand_type(equation, i));
  }
  return op(name, operands, types, result_type(equation), attributes, region);
}

std::string Lowering::compare(std::string_view direction, const std::string& a, const std::string& b,
                              DType dtype, const Shape& shape) {
  const std::string operands[] = {a, b}, types[] = {mlir_type(dtype, shape), mlir_type(dtype, shape)};
  return op("stablehlo.compare", operands, types, mlir_type(DType::kBool, shape),
            fmt::format("comparison_direction = #stablehlo<comparison_direction {}>", direction));
}

std::string Lowering::select(const std::string& which, const std::string& a, const std::string& b,
                             DType dtype, const Shape& shape) {
  const std::string type = mlir_type(dtype, shape);
  const std::string operands[] = {which, a, b}, types[] = {mlir_type(DType::kBool, shape), type, type};
  return op("stablehlo.select", operands, types, type);
}

std::string Lowering::slice(const std::string& x, DType dtype, const Shape& from, const Shape& start,
                            const Shape& limit) {
  Shape to(limit.size());
  std::ranges::transform(limit, start, to.begin(), std::minus<>());
  if (to == from) return x;
  const std::string operands[] = {x}, types[] = {mlir_type(dtype, from)};
  return op("stablehlo.slice", operands, types, mlir_type(dtype, to),
            fmt::format("start_indices = {}, limit_indices = {}, strides = {}", mlir_array(start),
                        mlir_array(limit), mlir_array(Shape(to.size(), 1))));
}

std::string Lowering::splat(const Scalar& value, DType dtype, const Shape& shape) {
  std::string name = fresh();
  line(fmt::format("{} = stablehlo.constant {}", name, mlir_splat(value, dtype, shape)));
  return name;
}

std::string Lowering::position() {
  uses_position_ = true;
  if (native_collectives_ && position_.empty()) {
    const std::string replica = fresh();
    line(fmt::format("{} = stablehlo.replica_id : tensor<ui32>", replica));
    const std::string operands[] = {replica}, types[] = {"tensor<ui32>"};
    position_ = op("stablehlo.convert", operands, types, std::string(kPositionType));
  }
  return position_.empty() ? "%position" : position_;
}

void Lowering::write(std::string_view text) {
  body_ += fmt::format("    {}{}\n", text, location_of(text, named_scope_of(CallSiteScope::current())));
}

std::string Lowering::collective(collectives::Collective plan, const std::string& data,
                                 const Shape& data_shape, const Shape& result_shape) {
  if (native_collectives_) {
    std::string result = native(plan, data, data_shape, result_shape);
    collectives_.push_back(std::move(plan));
    return result;
  }
  const DType dtype = plan.dtype;
  const std::size_t number = collectives_.size();
  std::string result =
      call(std::move(plan), data, mlir_type(dtype, data_shape), mlir_type(dtype, result_shape));
  if (const auto operand = plain_values_.find(data); operand != plain_values_.end()) {
    const Aval from{dtype, data_shape};
    plain_values_.emplace(result, num_inputs_ + steps_.size());
    steps_.push_back(
        {number, operand->second, static_cast<std::size_t>(from.bytes()), {dtype, result_shape}});
  }
  return result;
}

std::string Lowering::native(const collectives::Collective& plan, const std::string& data,
                             const Shape& data_shape, const Shape& result_shape) {
  using collectives::Kind;
  std::vector<std::string> rows;
  for (const auto& group : plan.groups) rows.push_back(fmt::format("[{}]", fmt::join(group, ", ")));
  const std::string groups =
      fmt::format("replica_groups = dense<[{}]> : tensor<{}x{}xi64>", fmt::join(rows, ", "),
                  plan.groups.size(), plan.groups.front().size());
  const auto n = static_cast<std::int64_t>(plan.groups.front().size());
  const std::string element = mlir_type(plan.dtype, {});
  auto reshaped = [&](const std::string& x, const Shape& from, const Shape& to) {
    if (from == to) return x;
    const std::string operands[] = {x}, types[] = {mlir_type(plan.dtype, from)};
    return op("stablehlo.reshape", operands, types, mlir_type(plan.dtype, to));
  };
  auto run = [&](std::string_view name, const std::string& x, const Shape& from, const Shape& to,
                 const std::string& attributes, const std::string& region = "") {
    const std::string operands[] = {x}, types[] = {mlir_type(plan.dtype, from)};
    return op(name, operands, types, mlir_type(plan.dtype, to), attributes, region);
  };
  auto reduction = [&] {
    const bool logical = plan.dtype == DType::kBool;
    std::string_view op;
    switch (plan.op) {
      case collectives::ReduceOp::kSum:
        op = logical ? "or" : "add";
        break;
      case collectives::ReduceOp::kProd:
        op = logical ? "and" : "multiply";
        break;
      case collectives::ReduceOp::kMin:
        op = "minimum";
        break;
      case collectives::ReduceOp::kMax:
        op = "maximum";
        break;
    }
    return fmt::format(
        "^bb0(%a: {0}, %b: {0}): %c = \"stablehlo.{1}\"(%a, %b) : ({0}, {0}) -> {0} \"stablehlo.return\"(%c) "
        ": ({0}) "
        "-> ()",
        element, op);
  };
  switch (plan.kind) {
    case Kind::kAllReduce:
      return run("stablehlo.all_reduce", data, data_shape, result_shape, groups, reduction());
    case Kind::kAllGather: {
      // The parts are along the first dimension, or along a new one.
      Shape part = data_shape;
      if (part.size() != result_shape.size()) part.insert(part.begin(), 1);
      return run("stablehlo.all_gather", reshaped(data, data_shape, part), part, result_shape,
                 "all_gather_dim = 0 : i64, " + groups);
    }
    case Kind::kReduceScatter: {
      Shape part = data_shape;
      part.front() /= n;
      return reshaped(run("stablehlo.reduce_scatter", data, data_shape, part,
                          "scatter_dimension = 0 : i64, " + groups, reduction()),
                      part, result_shape);
    }
    case Kind::kAllToAll:
      return run(
          "stablehlo.all_to_all", data, data_shape, result_shape,
          fmt::format("split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {} : i64, {}", n,
                      groups));
    case Kind::kPermute: {
      std::vector<std::string> pairs;
      for (const auto& group : plan.groups) {
        for (const auto& [source, target] : plan.pairs) {
          pairs.push_back(fmt::format("[{}, {}]", group[static_cast<std::size_t>(source)],
                                      group[static_cast<std::size_t>(target)]));
        }
      }
      return run("stablehlo.collective_permute", data, data_shape, result_shape,
                 fmt::format("source_target_pairs = dense<[{}]> : tensor<{}x2xi64>", fmt::join(pairs, ", "),
                             pairs.size()));
    }
    case Kind::kBroadcast:
    case Kind::kBarrier:
      break;
  }
  fail_internally("[lower] {} has no native form", plan.description);
}

namespace {

/// The result is written over the operand with this number.
std::string aliased_with(int operand) {
  return fmt::format(
      ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], "
      "operand_index = {}, operand_tuple_indices = []>]",
      operand);
}

}  // namespace

std::string Lowering::call(collectives::Collective plan, const std::string& data,
                           const std::string& data_type, const std::string& result_type) {
  // An all-reduce within one buffer spares a fresh output; an operand that lives on would be copied.
  const bool in_place =
      plan.kind == collectives::Kind::kAllReduce && data_type == result_type && operand_dies_;
  const std::string operands[] = {data}, types[] = {data_type};
  const std::string result = collective_call(is_awaited_ ? "_start" : "", collectives_.size(), operands,
                                             types, result_type, in_place ? aliased_with(1) : "");
  if (is_awaited_) {
    only_collectives_ = false;
    in_flight_[result] = {collectives_.size(), in_place ? "" : data, data_type, result_type};
  }
  collectives_.push_back(std::move(plan));
  return result;
}

std::string Lowering::collective_done(const Equation& equation) {
  const std::string& result = operand(equation, 0);
  const auto started = in_flight_.find(result);
  if (started == in_flight_.end()) return result;
  const InFlight& flight = started->second;
  Names operands = {result};
  std::vector<std::string> types = {flight.result_type};
  // Its operand is read until it is done, and must not be overwritten before.
  if (!flight.data.empty()) {
    operands.push_back(flight.data);
    types.push_back(flight.data_type);
  }
  for (std::size_t i = 1; i < equation.inputs.size(); ++i) {
    operands.push_back(operand(equation, i));
    types.push_back(operand_type(equation, i));
  }
  return collective_call("_done", flight.collective, operands, types, flight.result_type, aliased_with(1));
}

std::string Lowering::collective_call(std::string_view stage, std::size_t number,
                                      std::span<const std::string> operands,
                                      std::span<const std::string> operand_types,
                                      const std::string& result_type, std::string_view aliases) {
  if (chain_.empty()) make_token(chain_ = fresh());
  const std::string result = fresh();
  write(fmt::format(
      "{}:2 = \"stablehlo.custom_call\"({}, {}, {}) {{call_target_name = \"lockstep_collective{}\", "
      "api_version = 4 : i32, has_side_effect = true, backend_config = {{program = {} : i64, call = {} : "
      "i64}}{}}} : ({}, {}, {}) -> ({}, {})",
      result, position(), fmt::join(operands, ", "), chain_, stage, static_cast<std::int64_t>(fingerprint_),
      number, aliases, kPositionType, fmt::join(operand_types, ", "), kMlirTokenType, result_type,
      kMlirTokenType));
  chain_ = result + "#1";
  return result + "#0";
}

std::optional<CollectiveSteps> Lowering::steps(const Program& program, const Names& outputs) const {
  if (!only_collectives_ || steps_.empty() || native_collectives_) return std::nullopt;
  if (std::ranges::find(donated_, true) != donated_.end()) return std::nullopt;
  CollectiveSteps all{steps_, {}};
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const auto value = plain_values_.find(outputs[k]);
    // An input, or one result twice, has to be copied.
    if (value == plain_values_.end() || value->second < num_inputs_ ||
        std::ranges::find(all.outputs, value->second) != all.outputs.end())
      return std::nullopt;
    all.outputs.push_back(value->second);
    all.steps[value->second - num_inputs_].result = program.aval(program.outputs[k]);
  }
  const auto is_empty = [](const CollectiveSteps::Step& step) { return step.result.num_elements() == 0; };
  if (std::ranges::any_of(all.steps, is_empty)) return std::nullopt;
  return all;
}

/// Writes one program. A friend of Lowering, which is the interface for primitives.
struct LowerProgram {
  static LoweredProgram run(const Program& program, const LowerOptions& options) {
    Lowering out(program, options);
    out.fingerprint_ = combine(fingerprint(to_string(program)), options.salt);
    std::vector<std::string> inputs;
    std::string arguments;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      std::string name = fmt::format("%arg{}", i);
      inputs.push_back(name);
      out.plain_values_.emplace(name, i);
      arguments += fmt::format(", {}: {}{}", name, mlir_type(program.aval(program.inputs[i])),
                               out.is_donated(i) ? " {jax.buffer_donor = true}" : "");
    }
    const std::vector<std::string> outputs = out.inlined(program, std::move(inputs));
    std::string results, types;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Var var = program.outputs[i];
      results += (results.empty() ? " " : ", ") + outputs[i];
      types += (types.empty() ? "" : ", ") + mlir_type(program.aval(var));
    }

    LoweredProgram lowered;
    lowered.fingerprint = out.fingerprint_;
    lowered.native_collectives = options.native_collectives;
    lowered.takes_position = out.uses_position_ && !options.native_collectives;
    lowered.traits = out.traits_;
    lowered.only_collectives = out.steps(program, outputs);
    lowered.collectives = std::move(out.collectives_);
    if (lowered.takes_position) {
      arguments = fmt::format(", %position: {}{}", kPositionType, arguments);
    }
    if (!arguments.empty()) arguments.erase(0, 2);
    lowered.stablehlo = fmt::format(
        "module @lockstep {{\n  func.func public @main({}) -> ({}) {{\n{}    return{}{}\n  }}\n{}}}\n",
        arguments, types, out.body_, results, types.empty() ? "" : " : " + types, out.functions_);
    return lowered;
  }
};

LoweredProgram lower(const Program& program, const LowerOptions& options) {
  return LowerProgram::run(program, options);
}

}  // namespace lockstep::ir
