// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/operations.h"
#include "tests/fuzz/print.h"

namespace lockstep::fuzz {
namespace {

std::string tuple(const std::vector<Value>& values) {
  std::string out = "(";
  for (Value v : values) out += value_name(v) + ", ";
  return out + ")";
}

std::string names(const std::vector<std::string>& all) {
  std::string out = "(";
  for (const std::string& each : all) out += "'" + each + "', ";
  return out + ")";
}

std::string spec_text(const Spec& spec) {
  std::string out = "P(";
  for (const auto& axes : spec) out += axes.empty() ? "None, " : names(axes) + ", ";
  return out + ")";
}

std::string specs_text(const std::vector<Spec>& specs) {
  std::string out = "(";
  for (const Spec& spec : specs) out += spec_text(spec) + ", ";
  return out + ")";
}

std::string dtype_text(DType dtype) {
  return dtype == DType::kBool ? "jnp.bool_" : "jnp." + std::string(info(dtype).numpy_name);
}

std::string data_text(const std::vector<double>& data, const Type& type) {
  std::string out = "_array([";
  for (std::size_t i = 0; i < data.size(); ++i)
    out += (i > 0 ? ", " : "") +
           (is_inexact(type.dtype) ? number(data[i]) : std::to_string(static_cast<std::int64_t>(data[i])));
  out += "], (";
  for (std::int64_t size : type.shape) out += std::to_string(size) + ", ";
  return out + "), " + dtype_text(type.dtype) + ")";
}

std::string ints_text(const std::vector<std::int64_t>& ints, std::size_t count) {
  std::string out = "(";
  for (std::size_t i = 0; i < count; ++i) out += std::to_string(ints[i]) + ", ";
  return out + ")";
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  /// def NAME(inputs): ...
  std::string function(const std::string& name, const Body& body) {
    std::string out = "def " + name + "(";
    for (std::size_t i = 0; i < body.inputs.size(); ++i)
      out += (i > 0 ? ", " : "") + value_name(body.inputs[i]);
    out += "):\n";
    for (const Node& node : body.nodes) out += indented(line(node), 2);
    return out + "  return " + tuple(body.outputs) + "\n";
  }

 private:
  std::string line(const Node& node) {
    if (is_operation(node.op))
      return value_name(node.results[0]) + " = " + fill(operation(node.op).jax, program_, node, true) + "\n";
    const std::string results = tuple(node.results) + " = ";
    const std::string operands = tuple(node.operands);
    if (node.op == "constraint")
      return value_name(node.results[0]) + " = jax.lax.with_sharding_constraint(" +
             value_name(node.operands[0]) + ", NamedSharding(_mesh, " + spec_text(node.out_specs[0]) + "))\n";
    if (node.bodies.empty()) return value_name(node.results[0]) + " = " + collective(node) + "\n";
    std::string out, functions;
    for (const Body& body : node.bodies) {
      const std::string name = "f" + std::to_string(next_++);
      out += function(name, body);
      functions += name + ", ";
    }
    if (node.op == "jit")
      return out + results + "jax.jit(" + functions +
             (node.out_specs.empty()
                  ? ""
                  : "out_shardings=NamedSharding(_mesh, " + spec_text(node.out_specs[0]) + ")") +
             ")(*" + operands + ")\n";
    if (node.op == "checkpoint")
      return out + results + "jax.checkpoint(" + functions + ")(*" + operands + ")\n";
    if (node.op == "shard_map")
      return out + results + "jax.shard_map(" + functions +
             "mesh=_mesh, in_specs=" + specs_text(node.in_specs) +
             ", out_specs=" + specs_text(node.out_specs) + ", axis_names=set(" + names(node.axes) + "))(*" +
             operands + ")\n";
    if (node.op == "grad")
      return out + results + "_grad(" + functions + operands + ", " +
             ints_text(node.ints, node.operands.size()) + ")\n";
    if (node.op == "vmap")
      return out + results + "_vmap(" + functions + operands + ", " +
             ints_text(node.ints, node.operands.size()) + ", " + std::to_string(node.ints.back()) + ", " +
             (node.text.empty() ? "None" : "'" + node.text + "'") + ")\n";
    if (node.op == "scan" || node.op == "fori_loop" || node.op == "vjp")
      return out + results + "_" + node.op + "(" + functions + operands + ", " +
             ints_text(node.ints, node.ints.size()) + ")\n";
    return out + results + "_" + node.op + "(" + functions + operands + ")\n";
  }

  static std::string collective(const Node& node) {
    const std::string axes = node.text.empty() ? names(node.axes) : "'" + node.text + "'";
    if (node.op == "axis_index") return "jax.lax.axis_index(" + axes + ").astype(jnp.int32)";
    const std::string x = value_name(node.operands[0]);
    auto integer = [&](std::size_t i) { return std::to_string(node.ints[i]); };
    if (node.op == "pvary") return "jax.lax.pcast(" + x + ", " + axes + ", to='varying')";
    if (node.op == "all_gather")
      return "jax.lax.all_gather(" + x + ", " + axes + ", axis=" + integer(0) +
             ", tiled=" + (node.ints[1] != 0 ? "True" : "False") + ")";
    if (node.op == "psum_scatter")
      return "jax.lax.psum_scatter(" + x + ", " + axes + ", scatter_dimension=" + integer(0) +
             ", tiled=True)";
    if (node.op == "all_to_all")
      return "jax.lax.all_to_all(" + x + ", " + axes + ", " + integer(0) + ", " + integer(1) +
             ", tiled=True)";
    if (node.op == "ppermute") {
      std::string pairs;
      for (std::size_t i = 0; i < node.ints.size(); i += 2)
        pairs += "(" + integer(i) + ", " + integer(i + 1) + "), ";
      return "jax.lax.ppermute(" + x + ", " + axes + ", [" + pairs + "])";
    }
    if (node.op == "pshuffle")
      return "jax.lax.pshuffle(" + x + ", " + axes + ", " + ints_text(node.ints, node.ints.size()) + ")";
    return "jax.lax." + node.op + "(" + x + ", " + axes + ")";
  }

  const Program& program_;
  int next_ = 0;
};

}  // namespace

std::string print_jax(const Program& program) {
  std::string out;
  std::string axes;
  for (std::size_t i = 0; i < program.mesh.size(); ++i)
    axes += "('" + axis_name(i) + "', " + std::to_string(program.mesh[i]) + "), ";
  out += "_mesh = _make_mesh([" + axes + "])\n";
  std::string inputs, roles;
  for (const Input& input : program.inputs) {
    Spec spec = input.spec;
    if (program.has_in_shardings && input.role == Role::kArgument) spec = program.in_argument;
    if (program.has_in_shardings && input.role == Role::kDonated) spec = program.in_donated;
    inputs += "  (" + data_text(input.data, program.type(input.value)) + ", " + spec_text(spec) + "),\n";
    roles += input.role == Role::kArgument ? "a" : input.role == Role::kDonated ? "d" : "c";
  }
  out += "_inputs = [\n" + inputs + "]\n";
  out += Printer(program).function("f", program.body);
  std::string cotangents, directions;
  std::size_t i = 0;
  for (Value v : program.body.outputs) {
    if (!is_inexact(program.type(v).dtype)) continue;
    cotangents += "  " + data_text(cotangent(program.type(v), i++), program.type(v)) + ",\n";
  }
  i = 0;
  for (std::size_t place : differentiated(program, true)) {
    const Type& type = program.type(program.inputs[place].value);
    directions += "  " + data_text(direction(type, i++), type) + ",\n";
  }
  out += "_cotangents = [\n" + cotangents + "]\n_directions = [\n" + directions + "]\n";
  out += "def run():\n  return _run(f, _mesh, _inputs, '" + roles +
         "', _cotangents, _directions, derivatives=" + std::to_string(program.derivatives) +
         ", forward_over_reverse=" + (program.forward_over_reverse ? "True" : "False") +
         (program.has_in_shardings
              ? ", in_specs=(" + spec_text(program.in_argument) + ", " + spec_text(program.in_donated) + ")"
              : "") +
         (program.has_out_shardings ? ", out_specs=(" + spec_text(program.out_values) + ", " +
                                          spec_text(program.out_derivatives) + ")"
                                    : "") +
         ")\n";
  return out;
}

}  // namespace lockstep::fuzz
