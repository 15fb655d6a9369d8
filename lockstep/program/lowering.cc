#include "lockstep/program/lowering.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/dot_general.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep {
namespace {

constexpr std::string_view kPositionType = "tensor<i32>";
constexpr std::string_view kTokenType = "!stablehlo.token";

/// Whether a transpose of the program is left for XLA to do by itself: one before or behind a dot product
/// becomes part of it, and one that keeps the minor dimension copies whole rows.
bool has_transposes(const Program& program) {
  std::vector<bool> by_dot(program.variables.size()), beside_dot(program.variables.size());
  for (const Equation& equation : program.equations) {
    const bool dot = equation.primitive == &dot_general_p();
    for (Var var : equation.outputs) by_dot[static_cast<std::size_t>(var)] = dot;
    for (Var var : equation.inputs) {
      if (!dot) beside_dot[static_cast<std::size_t>(var)] = true;
    }
  }
  for (Var var : program.outputs) beside_dot[static_cast<std::size_t>(var)] = true;
  return std::ranges::any_of(program.equations, [&](const Equation& equation) {
    if (equation.primitive != &transpose_p()) return false;
    const auto& permutation = equation.params.as<TransposeParams>().permutation;
    return permutation.back() != static_cast<std::int64_t>(permutation.size()) - 1 &&
           !by_dot[static_cast<std::size_t>(equation.inputs[0])] &&
           beside_dot[static_cast<std::size_t>(equation.outputs[0])];
  });
}

}  // namespace

std::string mlir_type(DType dtype, const Shape& shape) {
  std::string text = "tensor<";
  for (std::int64_t size : shape) text += fmt::format("{}x", size);
  return text + std::string(info(dtype).mlir_name) + ">";
}

std::string mlir_type(const Aval& aval) { return mlir_type(aval.dtype, aval.shape); }

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
    if (dtype == DType::kF64) {
      text = fmt::format("0x{:016X}", std::bit_cast<std::uint64_t>(value.real));
    } else if (dtype == DType::kF32 || dtype == DType::kC64) {
      text = fmt::format("0x{:08X}", std::bit_cast<std::uint32_t>(static_cast<float>(value.real)));
    } else if (std::isinf(value.real)) {
      text = dtype == DType::kF16 ? (value.real > 0 ? "0x7C00" : "0xFC00")
                                  : (value.real > 0 ? "0x7F80" : "0xFF80");
    } else if (std::isnan(value.real)) {
      text = dtype == DType::kF16 ? "0x7E00" : "0x7FC0";
    } else {
      text = fmt::format("{:.17e}", value.real);
    }
    if (dtype == DType::kC64) text = fmt::format("({}, 0x00000000)", text);
  }
  return fmt::format("dense<{}> : {}", text, mlir_type(dtype, shape));
}

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
  return program_.aval(equation.inputs[i]);
}
const Aval& Lowering::result_aval(const Equation& equation, std::size_t i) const {
  return program_.aval(equation.outputs[i]);
}

std::string Lowering::op(std::string_view op, std::span<const std::string> operands,
                         std::span<const std::string> operand_types, const std::string& result_type,
                         std::string_view attributes, std::string_view region) {
  std::string name = fresh();
  line(fmt::format("{} = \"{}\"({}){}{} : ({}) -> {}", name, op, fmt::join(operands, ", "),
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

std::string Lowering::splat(const Scalar& value, DType dtype, const Shape& shape) {
  std::string name = fresh();
  line(fmt::format("{} = stablehlo.constant {}", name, mlir_splat(value, dtype, shape)));
  return name;
}

std::string Lowering::position() {
  uses_position_ = true;
  return "%position";
}

void Lowering::line(std::string_view text) { body_ += fmt::format("    {}\n", text); }

std::string Lowering::collective(collectives::Collective plan, const std::string& data,
                                 const std::string& data_type, const std::string& result_type) {
  if (chain_.empty()) {
    chain_ = fresh();
    line(fmt::format("{} = stablehlo.create_token : {}", chain_, kTokenType));
  }
  std::string result = fresh();
  // An all-reduce within one buffer spares a fresh output and its page faults; XLA copies the operand where
  // it lives on.
  std::string alias =
      data_type != result_type
          ? ""
          : ", output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], "
            "operand_index = 1, operand_tuple_indices = []>]";
  line(fmt::format(
      "{}:2 = \"stablehlo.custom_call\"({}, {}, {}) {{call_target_name = \"lockstep_collective\", "
      "api_version = 4 : i32, has_side_effect = true, backend_config = {{program = {} : i64, call = {} : "
      "i64}}{}}} : ({}, {}, {}) -> ({}, {})",
      result, position(), data, chain_, static_cast<std::int64_t>(fingerprint_), collectives_.size(), alias,
      kPositionType, data_type, kTokenType, result_type, kTokenType));
  chain_ = result + "#1";
  collectives_.push_back(std::move(plan));
  return result + "#0";
}

/// Writes one program. A friend of Lowering, which is what the primitives see of it.
struct LowerProgram {
  static LoweredProgram run(const Program& program, const LowerOptions& options) {
    Lowering out(program, options.axes);
    out.fingerprint_ = combine(fingerprint(to_string(program)), options.salt);
    out.names_.resize(program.variables.size());
    std::string arguments;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      std::string name = fmt::format("%arg{}", i);
      out.names_[static_cast<std::size_t>(program.inputs[i])] = name;
      bool donated = i < options.donated.size() && options.donated[i];
      arguments += fmt::format(", {}: {}{}", name, mlir_type(program.aval(program.inputs[i])),
                               donated ? " {jax.buffer_donor = true}" : "");
    }
    for (const Equation& equation : program.equations) {
      CallSiteScope site(equation.site);
      std::vector<std::string> names = equation.primitive->lower(out, equation);
      for (std::size_t i = 0; i < names.size(); ++i) {
        out.names_[static_cast<std::size_t>(equation.outputs[i])] = std::move(names[i]);
      }
    }
    std::string results, types;
    for (Var var : program.outputs) {
      results += (results.empty() ? " " : ", ") + out.names_[static_cast<std::size_t>(var)];
      types += (types.empty() ? "" : ", ") + mlir_type(program.aval(var));
    }

    LoweredProgram lowered;
    lowered.fingerprint = out.fingerprint_;
    lowered.takes_position = out.uses_position_;
    lowered.transposes = has_transposes(program);
    lowered.collectives = std::move(out.collectives_);
    if (lowered.takes_position) {
      arguments = fmt::format(", %position: {}{}", kPositionType, arguments);
    }
    if (!arguments.empty()) arguments.erase(0, 2);
    lowered.stablehlo = fmt::format(
        "module @lockstep {{\n  func.func public @main({}) -> ({}) {{\n{}    return{}{}\n  }}\n}}\n",
        arguments, types, out.body_, results, types.empty() ? "" : " : " + types);
    return lowered;
  }
};

LoweredProgram lower(const Program& program, const LowerOptions& options) {
  return LowerProgram::run(program, options);
}

}  // namespace lockstep
