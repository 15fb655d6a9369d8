// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/reduce.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tests/fuzz/operations.h"

namespace lockstep::fuzz {
namespace {

/// A node by its number in the order of for_each_node, with the body that it stands in.
struct Place {
  Body* body = nullptr;
  std::size_t index = 0;
  Node& node() const { return body->nodes[index]; }
};

std::optional<Place> find(Body& body, int& number) {
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    if (number-- == 0) return Place{&body, i};
    for (Body& inner : body.nodes[i].bodies) {
      if (auto place = find(inner, number)) return place;
    }
  }
  return std::nullopt;
}

int count_nodes(const Program& program) {
  int n = 0;
  for_each_node(program.body, [&](const Node&) { ++n; });
  return n;
}

void replace(Body& body, Value from, Value to) {
  for (Node& node : body.nodes) {
    std::replace(node.operands.begin(), node.operands.end(), from, to);
    for (Body& inner : node.bodies) replace(inner, from, to);
  }
  std::replace(body.outputs.begin(), body.outputs.end(), from, to);
}

Node constant(Value result) {
  Node node;
  node.op = "full";
  node.results = {result};
  node.numbers = {1};
  return node;
}

template <class T>
void erase_at(std::vector<T>& from, std::size_t i) {
  from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
}

class Reducer {
 public:
  Reducer(Program program, const Examine& examine, std::chrono::seconds at_most)
      : best_(std::move(program)),
        examine_(examine),
        end_(std::chrono::steady_clock::now() + at_most),
        kind_(kind_of(examine(best_))) {}

  Program run() {
    if (kind_.empty()) return best_;
    for (bool smaller = true; smaller && !over();) {
      smaller = false;
      smaller |= options();
      smaller |= outputs();
      smaller |= nodes();
      smaller |= operands();
      smaller |= sizes();
    }
    return best_;
  }

 private:
  bool over() const { return std::chrono::steady_clock::now() >= end_; }

  bool attempt(const std::function<bool(Program&)>& change) {
    if (over()) return false;
    Program smaller = best_;
    if (!change(smaller)) return false;
    remove_unused(smaller);
    remove_unused_inputs(smaller);
    try {
      check(smaller);
    } catch (const std::exception&) {
      return false;
    }
    if (kind_of(examine_(smaller)) != kind_) return false;
    best_ = std::move(smaller);
    return true;
  }

  static void remove_unused_inputs(Program& program) {
    Body closed = program.body;
    closed.inputs.clear();
    const std::set<Value> used = free_values(closed);
    for (std::size_t i = program.inputs.size(); i-- > 0;) {
      if (program.inputs.size() == 1 || used.contains(program.inputs[i].value)) continue;
      erase_at(program.inputs, i);
      erase_at(program.body.inputs, i);
    }
  }

  bool options() {
    bool any = false;
    any |= attempt([](Program& p) { return p.derivatives > 0 && (p.derivatives = 0, true); });
    any |= attempt([](Program& p) { return p.derivatives > 1 && (p.derivatives = 1, true); });
    any |= attempt([](Program& p) { return p.has_in_shardings && (p.has_in_shardings = false, true); });
    any |= attempt([](Program& p) { return p.has_out_shardings && (p.has_out_shardings = false, true); });
    for (std::size_t i = 0; i < best_.inputs.size(); ++i) {
      any |= attempt([&](Program& p) {
        return i < p.inputs.size() && !p.inputs[i].before.empty() && (p.inputs[i].before.clear(), true);
      });
      any |= attempt([&](Program& p) {
        return i < p.inputs.size() && !p.inputs[i].spec.empty() && (p.inputs[i].spec.clear(), true);
      });
      any |= attempt([&](Program& p) {
        return i < p.inputs.size() && p.inputs[i].role != Role::kArgument &&
               (p.inputs[i].role = Role::kArgument, true);
      });
    }
    return any;
  }

  bool outputs() {
    bool any = false;
    for (std::size_t i = best_.body.outputs.size(); i-- > 0;) {
      any |= attempt([&](Program& p) {
        if (i >= p.body.outputs.size() || p.body.outputs.size() == 1) return false;
        erase_at(p.body.outputs, i);
        return true;
      });
    }
    return any;
  }

  bool nodes() {
    bool any = false;
    for (int k = count_nodes(best_); k-- > 0;) {
      if (over()) return any;
      // By what its body says, where it is a mere call; by an operand or another value of its type; by a
      // constant.
      const bool gone = attempt([&](Program& p) { return inline_body(p, k); }) ||
                        attempt([&](Program& p) { return by_other(p, k, true); }) ||
                        attempt([&](Program& p) { return by_other(p, k, false); }) ||
                        attempt([&](Program& p) { return by_constant(p, k); });
      any |= gone;
      if (!gone) any |= attempt([&](Program& p) { return clear_spec(p, k); });
    }
    return any;
  }

  static bool inline_body(Program& program, int k) {
    const auto place = find(program.body, k);
    if (!place || (place->node().op != "jit" && place->node().op != "checkpoint" &&
                   place->node().op != "custom_jvp" && place->node().op != "custom_vjp"))
      return false;
    const Node node = place->node();
    Body inner = node.bodies[0];
    for (std::size_t i = 0; i < inner.inputs.size(); ++i) replace(inner, inner.inputs[i], node.operands[i]);
    erase_at(place->body->nodes, place->index);
    place->body->nodes.insert(place->body->nodes.begin() + static_cast<std::ptrdiff_t>(place->index),
                              inner.nodes.begin(), inner.nodes.end());
    for (std::size_t i = 0; i < node.results.size(); ++i)
      replace(*place->body, node.results[i], inner.outputs[i]);
    return true;
  }

  /// All results by values of their types that stand before it: its own operands, or others of its body.
  static bool by_other(Program& program, int k, bool own) {
    const auto place = find(program.body, k);
    if (!place) return false;
    const Node node = place->node();
    std::vector<Value> candidates = node.operands;
    if (!own) {
      candidates = place->body->inputs;
      for (std::size_t i = 0; i < place->index; ++i)
        candidates.insert(candidates.end(), place->body->nodes[i].results.begin(),
                          place->body->nodes[i].results.end());
    }
    std::map<Value, Value> by;
    for (Value result : node.results) {
      for (Value v : candidates) {
        if (program.type(v) == program.type(result)) by[result] = v;
      }
      if (!by.contains(result)) return false;
    }
    erase_at(place->body->nodes, place->index);
    for (const auto& [from, to] : by) replace(*place->body, from, to);
    return true;
  }

  static bool by_constant(Program& program, int k) {
    const auto place = find(program.body, k);
    if (!place || place->node().op == "full") return false;
    std::vector<Node> constants;
    for (Value result : place->node().results) constants.push_back(constant(result));
    erase_at(place->body->nodes, place->index);
    place->body->nodes.insert(place->body->nodes.begin() + static_cast<std::ptrdiff_t>(place->index),
                              constants.begin(), constants.end());
    return true;
  }

  static bool clear_spec(Program& program, int k) {
    const auto place = find(program.body, k);
    if (!place) return false;
    if (place->node().op == "jit" && !place->node().out_specs.empty())
      return place->node().out_specs.clear(), true;
    if (place->node().op != "constraint" || place->node().out_specs[0].empty()) return false;
    Spec& spec = place->node().out_specs[0];
    for (auto& axes : spec) {
      if (axes.size() > 1) return axes.pop_back(), true;
    }
    int split = 0;
    for (const auto& axes : spec) split += axes.empty() ? 0 : 1;
    if (split < 2) return false;
    for (auto& axes : spec) {
      if (!axes.empty()) return axes.clear(), true;
    }
    return false;
  }

  /// Drops operands that bodies do not read, and results that nobody reads.
  bool operands() {
    bool any = false;
    for (int k = count_nodes(best_); k-- > 0;) {
      for (std::size_t i = 4; i-- > 0;) {
        any |= attempt([&](Program& p) { return drop_operand(p, k, i); });
        any |= attempt([&](Program& p) { return drop_result(p, k, i); });
      }
    }
    return any;
  }

  static bool drop_operand(Program& program, int k, std::size_t i) {
    const auto place = find(program.body, k);
    if (!place || place->node().bodies.empty()) return false;
    Node& node = place->node();
    static const std::set<std::string> simple{"jit", "checkpoint", "shard_map", "vmap",
                                              "map", "cond",       "switch",    "grad"};
    if (!simple.contains(node.op) || i >= node.bodies[0].inputs.size() || node.bodies[0].inputs.size() == 1)
      return false;
    if (node.op == "grad" && node.ints[i] != 0) return false;
    for (Body& body : node.bodies) {
      Body open = body;
      const Value v = open.inputs[i];
      erase_at(open.inputs, i);
      if (free_values(open).contains(v)) return false;
      body = open;
    }
    const std::size_t at = node.op == "cond" || node.op == "switch" ? i + 1 : i;
    erase_at(node.operands, at);
    if (node.op == "shard_map" || node.op == "grad") erase_at(node.in_specs, i);
    if (node.op == "vmap" || node.op == "grad") erase_at(node.ints, i);
    return true;
  }

  static bool drop_result(Program& program, int k, std::size_t i) {
    const auto place = find(program.body, k);
    if (!place || place->node().bodies.empty()) return false;
    Node& node = place->node();
    static const std::set<std::string> simple{"jit", "checkpoint", "shard_map", "vmap",
                                              "map", "cond",       "switch"};
    if (!simple.contains(node.op) || node.results.size() == 1 || i >= node.results.size()) return false;
    Body rest = *place->body;
    erase_at(rest.nodes[place->index].results, i);
    if (free_values(rest).contains(node.results[i])) return false;
    erase_at(node.results, i);
    for (Body& body : node.bodies) erase_at(body.outputs, i);
    if (node.op == "shard_map") erase_at(node.out_specs, i);
    return true;
  }

  /// Every dimension of one size with another one; whether the program then still makes sense shows when it
  /// runs.
  bool sizes() {
    bool any = false;
    for (std::int64_t from : {9, 7, 6, 5, 3, 8, 4}) {
      for (std::int64_t to : {2, 4}) {
        if (to >= from) continue;
        any |= attempt([&](Program& p) {
          bool found = false;
          for (const Input& input : p.inputs) {
            const Shape& shape = p.type(input.value).shape;
            found = found || std::find(shape.begin(), shape.end(), from) != shape.end();
          }
          if (!found) return false;
          for (Type& type : p.types) std::replace(type.shape.begin(), type.shape.end(), from, to);
          for (Input& input : p.inputs) {
            const Type& type = p.type(input.value);
            input.data.resize(static_cast<std::size_t>(num_elements(type.shape)) *
                              (type.dtype == DType::kC64 ? 2 : 1));
            if (!divides(p, input.spec, type.shape)) input.spec.clear();
            input.before.clear();
          }
          return true;
        });
      }
    }
    return any;
  }

  Program best_;
  const Examine& examine_;
  std::chrono::steady_clock::time_point end_;
  std::string kind_;
};

}  // namespace

std::string kind_of(const std::string& failure) {
  const std::size_t colon = failure.find(": ");
  if (colon == failure.npos) return failure;
  const std::string where = failure.substr(0, colon);
  if (failure.find(" differs at element ") != failure.npos) return where + ": differs";
  std::string text = failure.substr(colon + 2, 48);
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return where + ": " + text;
}

Program reduce(Program program, const Examine& examine, std::chrono::seconds at_most) {
  return Reducer(std::move(program), examine, at_most).run();
}

}  // namespace lockstep::fuzz
