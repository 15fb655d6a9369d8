// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/fuzz/operations.h"
#include "tests/fuzz/print.h"

namespace lockstep::fuzz {
namespace {

std::string list(const std::vector<Value>& values) {
  std::string out = "{";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + value_name(values[i]);
  return out + "}";
}

std::string names(const std::vector<std::string>& all) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) out += (i > 0 ? ", \"" : "\"") + all[i] + "\"";
  return out;
}

std::string spec_text(const Spec& spec) {
  std::string out = "ls::P::from_entries({";
  for (std::size_t d = 0; d < spec.size(); ++d) out += (d > 0 ? ", {" : "{") + names(spec[d]) + "}";
  return out + "})";
}

std::string specs_text(const std::vector<Spec>& specs) {
  std::string out = "{ls::tree::PerLeaf<ls::P>(std::vector<ls::P>{";
  for (std::size_t i = 0; i < specs.size(); ++i) out += (i > 0 ? ", " : "") + spec_text(specs[i]);
  return out + "})}";
}

std::string dtype_text(DType dtype) {
  return dtype == DType::kBool ? "ls::bool_" : "ls::" + std::string(info(dtype).numpy_name);
}

std::string shape_text(const Shape& shape) {
  std::string out = "{";
  for (std::size_t d = 0; d < shape.size(); ++d) out += (d > 0 ? ", " : "") + std::to_string(shape[d]);
  return out + "}";
}

std::string numbers_text(const std::vector<double>& data, std::size_t from = 0, std::size_t step = 1) {
  std::string out = "std::vector<double>{";
  for (std::size_t i = from; i < data.size(); i += step) out += (i > from ? ", " : "") + number(data[i]);
  return out + "}";
}

std::string data_text(const std::vector<double>& data, const Type& type) {
  const std::string shape = "ls::Shape" + shape_text(type.shape);
  if (type.dtype == DType::kC64) {
    auto part = [&](std::size_t i) {
      return "ls::astype(ls::array(" + numbers_text(data, i, 2) + ", " + shape + "), ls::float32)";
    };
    return "ls::complex(" + part(0) + ", " + part(1) + ")";
  }
  return "ls::astype(ls::array(" + numbers_text(data) + ", " + shape + "), " + dtype_text(type.dtype) + ")";
}

std::string ints_text(const std::vector<std::int64_t>& ints) {
  std::string out = "{";
  for (std::size_t i = 0; i < ints.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(ints[i]);
  return out + "}";
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  /// auto NAME = [&](const Arrays& in) -> Arrays { ... };
  std::string function(const std::string& name, const Body& body) {
    const std::string in = "in_" + name;
    std::string out = "auto " + name + " = [&](" +
                      (body.inputs.empty() ? "const Arrays&" : "const Arrays& " + in) + ") -> Arrays {\n";
    for (std::size_t i = 0; i < body.inputs.size(); ++i)
      out += "  const Array " + value_name(body.inputs[i]) + " = " + in + "[" + std::to_string(i) + "];\n";
    for (const Node& node : body.nodes) out += indented(lines(node), 2);
    return out + "  return " + list(body.outputs) + ";\n};\n";
  }

 private:
  std::string one(const Node& node, const std::string& text) {
    return "const Array " + value_name(node.results[0]) + " = " + text + ";\n";
  }

  std::string lines(const Node& node) {
    if (is_operation(node.op)) return one(node, fill(operation(node.op).cpp, program_, node, false));
    if (node.op == "constraint")
      return one(node, "ls::with_sharding_constraint(" + value_name(node.operands[0]) +
                           ", ls::NamedSharding(mesh, " + spec_text(node.out_specs[0]) + "))");
    if (node.bodies.empty()) return one(node, collective(node));
    std::string out;
    std::vector<std::string> f;
    for (const Body& body : node.bodies) {
      f.push_back("f" + std::to_string(next_++));
      out += function(f.back(), body);
    }
    const std::string result = "r" + std::to_string(next_++);
    out += "const Arrays " + result + " = " + call(node, f) + ";\n";
    for (std::size_t i = 0; i < node.results.size(); ++i)
      out += "const Array " + value_name(node.results[i]) + " = " + result + "[" + std::to_string(i) + "];\n";
    return out;
  }

  std::string call(const Node& node, const std::vector<std::string>& f) {
    const std::string& op = node.op;
    auto arrays = [](const std::vector<Value>& values) { return "Arrays" + list(values); };
    auto part = [&](std::size_t from, std::size_t to) {
      return arrays({node.operands.begin() + static_cast<std::ptrdiff_t>(from),
                     node.operands.begin() + static_cast<std::ptrdiff_t>(to)});
    };
    const std::size_t n = node.operands.size();
    const std::string all = arrays(node.operands);
    if (op == "jit" && !node.out_specs.empty())
      return "ls::jit(" + f[0] + ", {.out_shardings = {ls::NamedSharding(mesh, " +
             spec_text(node.out_specs[0]) + ")}})(" + all + ")";
    if (op == "jit" || op == "checkpoint")
      return (op == "jit" ? "ls::jit(" : "ls::remat(") + f[0] + ")(" + all + ")";
    if (op == "map") return "ls::map(" + f[0] + ", " + all + ")";
    if (op == "shard_map")
      return "ls::shard_map(" + f[0] + ", {mesh, " + specs_text(node.in_specs) + ", " +
             specs_text(node.out_specs) + ", {" +
             (node.axes.size() < program_.mesh.size() ? names(node.axes) : "") + "}})(" + all + ")";
    if (op == "cond")
      return "ls::cond(" + value_name(node.operands[0]) + ", " + f[0] + ", " + f[1] + ", " + part(1, n) + ")";
    if (op == "switch") {
      std::string functions;
      for (const std::string& each : f) functions += (functions.empty() ? "" : ", ") + each;
      return "ls::switch_(" + value_name(node.operands[0]) + ", std::tuple(" + functions + "), " +
             part(1, n) + ")";
    }
    if (op == "while_loop")
      return "ls::while_loop([&](const Arrays& c) -> Array { return " + f[0] + "(c)[0]; }, " + f[1] + ", " +
             all + ")";
    if (op == "counted_loop")
      return "ls::fori_loop(" + value_name(node.operands[0]) + ", " + value_name(node.operands[1]) +
             ", [&](Array i, Arrays c) { return " + f[0] + "(joined({i}, c)); }, " + part(2, n) + ")";
    if (op == "fori_loop")
      return "ls::fori_loop(" + std::to_string(node.ints[0]) + ", " + std::to_string(node.ints[1]) +
             ", [&](Array i, Arrays c) { return " + f[0] + "(joined({i}, c)); }, " + all + ")";
    if (op == "scan") {
      const auto c = static_cast<std::size_t>(node.ints[0]);
      return "joined(ls::scan([&](Arrays c, Arrays x) { return parted(" + f[0] + "(joined(c, x)), " +
             std::to_string(c) + "); }, " + part(0, c) + ", " + part(c, n) +
             ", {.length = " + std::to_string(node.ints[1]) +
             ", .reverse = " + (node.ints[2] != 0 ? "true" : "false") + "}))";
    }
    if (op == "jvp")
      return "joined(ls::jvp(" + f[0] + ", std::tuple(" + part(0, n / 2) + "), std::tuple(" + part(n / 2, n) +
             ")))";
    if (op == "linearize")
      return "[&] { auto [y, push] = ls::linearize(" + f[0] + ", " + part(0, n / 2) +
             "); return joined(y, push(std::tuple(" + part(n / 2, n) + "))); }()";
    if (op == "vjp") {
      const auto c = static_cast<std::size_t>(node.ints[0]);
      return "[&] { auto [y, pull] = ls::vjp(" + f[0] + ", " + part(0, c) +
             "); return joined(y, std::get<0>(pull(" + part(c, n) + "))); }()";
    }
    if (op == "jacfwd" || op == "jacrev" || op == "hessian")
      return "Arrays{ls::" + op + "([&](Array x) { return " + f[0] + "({x})[0]; })(" +
             value_name(node.operands[0]) + ")}";
    if (op == "grad") {
      std::vector<Value> by, others;
      std::string inputs;
      for (std::size_t i = 0; i < n; ++i) {
        auto& group = node.ints[i] != 0 ? by : others;
        inputs += (i > 0 ? ", " : "") + std::string(node.ints[i] != 0 ? "x[" : "y[") +
                  std::to_string(group.size()) + "]";
        group.push_back(node.operands[i]);
      }
      return "joined(ls::value_and_grad([&](const Arrays& x, [[maybe_unused]] const Arrays& y) { const Array "
             "loss = " +
             f[0] + "({" + inputs + "})[0]; return std::pair(loss, Arrays{loss}); })(" + arrays(by) + ", " +
             arrays(others) + "))";
    }
    if (op == "vmap") {
      std::vector<Value> groups[3];
      std::string inputs;
      const char* of[] = {"x", "y", "z"};
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t g = node.ints[i] < 0 ? 2 : static_cast<std::size_t>(node.ints[i]);
        inputs += (i > 0 ? ", " : "") + std::string(of[g]) + "[" + std::to_string(groups[g].size()) + "]";
        groups[g].push_back(node.operands[i]);
      }
      return "ls::vmap([&]([[maybe_unused]] const Arrays& x, [[maybe_unused]] const Arrays& y, "
             "[[maybe_unused]] const Arrays& z) { return " +
             f[0] + "({" + inputs + "}); }, {{0, 1, std::nullopt}, " + std::to_string(node.ints.back()) +
             ", \"" + node.text + "\"})(" + arrays(groups[0]) + ", " + arrays(groups[1]) + ", " +
             arrays(groups[2]) + ")";
    }
    if (op == "custom_jvp")
      return "ls::custom_jvp(" + f[0] + ", [&](std::tuple<Arrays> x, std::tuple<Arrays> t) { return parted(" +
             f[1] + "(joined(std::get<0>(x), std::get<0>(t))), 1); })(" + all + ")";
    return "ls::custom_vjp(" + f[0] + ", [&](Arrays x) { return parted(" + f[1] +
           "(x), 1); }, [&](Arrays r, Arrays ct) { return std::tuple(" + f[2] + "(joined(r, ct))); })(" +
           all + ")";
  }

  static std::string collective(const Node& node) {
    const std::string axes =
        node.text.empty() ? "std::vector<std::string>{" + names(node.axes) + "}" : "\"" + node.text + "\"";
    if (node.op == "axis_index") return "ls::axis_index(" + axes + ")";
    const std::string x = value_name(node.operands[0]);
    auto integer = [&](std::size_t i) { return std::to_string(node.ints[i]); };
    const std::string start = "ls::" + node.op + "(" + x + ", " + axes;
    if (node.op == "all_gather")
      return start + ", {.axis = " + integer(0) + ", .tiled = " + (node.ints[1] != 0 ? "true" : "false") +
             "})";
    if (node.op == "psum_scatter")
      return start + ", {.scatter_dimension = " + integer(0) + ", .tiled = true})";
    if (node.op == "all_to_all") return start + ", " + integer(0) + ", " + integer(1) + ")";
    if (node.op == "ppermute") {
      std::string pairs;
      for (std::size_t i = 0; i < node.ints.size(); i += 2)
        pairs += (i > 0 ? ", {" : "{") + integer(i) + ", " + integer(i + 1) + "}";
      return start + ", {" + pairs + "})";
    }
    if (node.op == "pshuffle") return start + ", " + ints_text(node.ints) + ")";
    return start + ")";
  }

  const Program& program_;
  int next_ = 0;
};

std::string mesh_text(const std::vector<std::int64_t>& sizes) {
  std::string out = "ls::make_mesh({";
  for (std::size_t i = 0; i < sizes.size(); ++i)
    out += (i > 0 ? ", {\"" : "{\"") + axis_name(i) + "\", " + std::to_string(sizes[i]) + "}";
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  if (count == kDevices) return out + "})";
  return out + "}, {ls::devices().begin(), ls::devices().begin() + " + std::to_string(count) + "})";
}

constexpr const char* kStart = R"(#include <cstdio>
#include <lockstep/lockstep.h>

namespace ls = lockstep;
using ls::Array;
using Arrays = std::vector<Array>;

[[maybe_unused]] static Arrays joined(Arrays x, const Arrays& y) {
  x.insert(x.end(), y.begin(), y.end());
  return x;
}
[[maybe_unused]] static Arrays joined(const std::pair<Arrays, Arrays>& both) { return joined(both.first, both.second); }
[[maybe_unused]] static Arrays joined(const std::pair<std::pair<Array, Arrays>, Arrays>& loss) {
  return joined({loss.first.first}, loss.second);
}
[[maybe_unused]] static std::pair<Arrays, Arrays> parted(const Arrays& all, std::ptrdiff_t n) {
  return {Arrays(all.begin(), all.begin() + n), Arrays(all.begin() + n, all.end())};
}

int main() {
  ls::initialize({.num_cpu_devices = 8});
)";

}  // namespace

std::string print_cpp(const Program& program, const std::vector<Numbers>& expected) {
  std::string out = kStart;
  out += "  [[maybe_unused]] const ls::Mesh mesh = " + mesh_text(program.mesh) + ";\n";
  Printer printer(program);
  out +=
      "  auto put = [&](const Array& x, const ls::P& spec) { return ls::device_put(x, "
      "ls::NamedSharding(mesh, spec)); };\n";
  out += indented(printer.function("f", program.body), 2);
  const std::vector<std::size_t> inexact = differentiated(program, false),
                                 floating = differentiated(program, true);
  std::string arguments, donated, all;
  std::size_t next_argument = 0, next_donated = 0;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    Spec spec = input.spec;
    if (program.has_in_shardings && input.role == Role::kArgument) spec = program.in_argument;
    if (program.has_in_shardings && input.role == Role::kDonated) spec = program.in_donated;
    std::string text = data_text(input.data, program.type(input.value));
    for (const auto& [sizes, before] : input.before)
      text = "ls::device_put(" + text + ", ls::NamedSharding(" + mesh_text(sizes) + ", " + spec_text(before) +
             "))";
    const std::string name = "x" + std::to_string(i);
    out += "  const Array " + name + " = put(" + text + ", " + spec_text(spec) + ");\n";
    std::string within = name;
    if (input.role == Role::kArgument) {
      arguments += (arguments.empty() ? "" : ", ") + name;
      within = "arguments[" + std::to_string(next_argument++) + "]";
    } else if (input.role == Role::kDonated) {
      donated += (donated.empty() ? "" : ", ") + name;
      within = "donated[" + std::to_string(next_donated++) + "]";
    }
    all += (all.empty() ? "" : ", ") + within;
  }
  out +=
      "  auto whole = [&]([[maybe_unused]] const Arrays& arguments, [[maybe_unused]] const Arrays& donated) "
      "{\n";
  out += "    const Arrays inputs{" + all +
         "};\n    const Arrays values = f(inputs);\n    Arrays derivatives;\n";
  std::string cotangents;
  std::size_t count = 0;
  std::string chosen;
  for (std::size_t o = 0; o < program.body.outputs.size(); ++o) {
    const Type& type = program.type(program.body.outputs[o]);
    if (!is_inexact(type.dtype)) continue;
    cotangents +=
        (count > 0 ? ",\n                            " : "") + data_text(cotangent(type, count), type);
    ++count;
    chosen += (chosen.empty() ? "y[" : ", y[") + std::to_string(o) + "]";
  }
  auto given = [&](const std::vector<std::size_t>& places) {
    std::string text;
    for (std::size_t i : places) text += (text.empty() ? "inputs[" : ", inputs[") + std::to_string(i) + "]";
    return "Arrays{" + text + "}";
  };
  auto with = [&](const std::vector<std::size_t>& places) {
    std::string text;
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const auto at = std::find(places.begin(), places.end(), i);
      text += (i > 0 ? ", " : "") + (at == places.end() ? "inputs[" + std::to_string(i) + "]"
                                                        : "x[" + std::to_string(at - places.begin()) + "]");
    }
    return "[&](const Arrays& x) { const Arrays y = f({" + text + "}); return Arrays{" + chosen + "}; }";
  };
  const bool first = program.derivatives >= 1 && !inexact.empty() && count > 0;
  const bool second = program.derivatives >= 2 && !floating.empty() && count > 0;
  if (first || second) out += "    const Arrays cotangents{" + cotangents + "};\n";
  if (first) {
    out += "    auto pulled = ls::vjp(" + with(inexact) + ", " + given(inexact) + ").second(cotangents);\n";
    out += "    derivatives = std::get<0>(pulled);\n";
  }
  if (second) {
    out += "    auto inexact = " + with(floating) + ";\n";
    out += R"(    auto loss = [&](const Arrays& x) -> Array {
      Array total = ls::zeros({});
      const Arrays y = inexact(x);
      for (std::size_t i = 0; i < y.size(); ++i) total = total + ls::sum(ls::astype(ls::real(y[i] * cotangents[i]), ls::float32));
      return total;
    };
)";
    std::string along;
    for (std::size_t i = 0; i < floating.size(); ++i) {
      const Type& type = program.type(program.inputs[floating[i]].value);
      along += (i > 0 ? ",\n                       " : "") + data_text(direction(type, i), type);
    }
    out += "    const Arrays along{" + along + "};\n";
    if (program.forward_over_reverse) {
      out += "    auto gradient = [&](const Arrays& x) { return ls::grad(loss)(x); };\n";
      out += "    derivatives = joined(derivatives, ls::jvp(gradient, std::tuple(" + given(floating) +
             "), std::tuple(along)).second);\n";
    } else {
      out += R"(    auto slope = [&](const Arrays& x) -> Array {
      Array total = ls::zeros({});
      const Arrays g = ls::grad(loss)(x);
      for (std::size_t i = 0; i < g.size(); ++i) total = total + ls::sum(ls::astype(g[i] * along[i], ls::float32));
      return total;
    };
)";
      out += "    derivatives = joined(derivatives, ls::grad(slope)(" + given(floating) + "));\n";
    }
  }
  out += "    return std::pair(values, derivatives);\n  };\n";
  std::string options = ".donate_argnums = {1}";
  if (program.seed % 2 == 1) options += ", .overlap_threshold_bytes = 1";
  auto lie = [&](const char* name, const Spec& one, const Spec& two) {
    return std::string(", .") + name + " = {ls::NamedSharding(mesh, " + spec_text(one) +
           "), ls::NamedSharding(mesh, " + spec_text(two) + ")}";
  };
  std::string shardings;
  if (program.has_in_shardings)
    shardings = lie("in_shardings", program.in_argument, program.in_donated).substr(2) + ", ";
  if (program.has_out_shardings)
    shardings += lie("out_shardings", program.out_values, program.out_derivatives).substr(2) + ", ";
  out += "  const auto [values, derivatives] = ls::jit(whole, {" + shardings + options + "})(Arrays{" +
         arguments + "}, Arrays{" + donated + "});\n";
  const std::vector<std::string> names = output_names(program);
  out += "  const char* names[] = {";
  for (std::size_t i = 0; i < names.size(); ++i) out += (i > 0 ? ", \"" : "\"") + names[i] + "\"";
  out += "};\n  std::size_t i = 0;\n";
  out +=
      "  for (const Array& each : joined(values, derivatives)) std::printf(\"%s: %s\\n\", names[i++], "
      "ls::array_str(each).c_str());\n";
  for (std::size_t i = 0; i < expected.size() && i < names.size(); ++i) {
    out += "  // expected " + names[i] + ":";
    for (std::size_t k = 0; k < std::min<std::size_t>(expected[i].elements.size(), 16); ++k)
      out += " " + std::to_string(static_cast<double>(expected[i].elements[k]));
    out += "\n";
  }
  return out + "}\n";
}

}  // namespace lockstep::fuzz
