// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/ir.h"

#include <iterator>
#include <stdexcept>

namespace lockstep::fuzz {

std::string axis_name(std::size_t i) { return std::string(1, static_cast<char>('a' + i)); }

std::int64_t Program::axis_size(const std::string& axis) const {
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    if (axis_name(i) == axis) return mesh[i];
  }
  throw std::logic_error("the mesh has no axis " + axis);
}

void for_each_node(const Body& body, const std::function<void(const Node&)>& visit) {
  for (const Node& node : body.nodes) {
    visit(node);
    for (const Body& inner : node.bodies) for_each_node(inner, visit);
  }
}

std::set<Value> free_values(const Body& body) {
  std::set<Value> own(body.inputs.begin(), body.inputs.end()), free;
  auto use = [&](Value v) {
    if (!own.contains(v)) free.insert(v);
  };
  for (const Node& node : body.nodes) {
    for (Value v : node.operands) use(v);
    for (const Body& inner : node.bodies) {
      for (Value v : free_values(inner)) use(v);
    }
    own.insert(node.results.begin(), node.results.end());
  }
  for (Value v : body.outputs) use(v);
  return free;
}

std::int64_t cuts(const Program& program, const std::vector<std::string>& axes) {
  std::int64_t n = 1;
  for (const std::string& axis : axes) n *= program.axis_size(axis);
  return n;
}

bool divides(const Program& program, const Spec& spec, const Shape& shape) {
  if (spec.size() > shape.size()) return false;
  for (std::size_t d = 0; d < spec.size(); ++d) {
    if (shape[d] % cuts(program, spec[d]) != 0) return false;
  }
  return true;
}

namespace {
void remove_unused(Body& body, const std::set<Value>& needed_outside) {
  std::set<Value> needed(body.outputs.begin(), body.outputs.end());
  needed.insert(needed_outside.begin(), needed_outside.end());
  std::vector<Node> kept;
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
    bool used = false;
    for (Value v : node->results) used = used || needed.contains(v);
    if (!used) continue;
    needed.insert(node->operands.begin(), node->operands.end());
    for (Body& inner : node->bodies) {
      remove_unused(inner, {});
      for (Value v : free_values(inner)) needed.insert(v);
    }
    kept.push_back(std::move(*node));
  }
  body.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}
}  // namespace

void remove_unused(Program& program) { remove_unused(program.body, {}); }

void check(const Program& program) {
  if (!free_values(program.body).empty()) {
    throw std::logic_error("value " + std::to_string(*free_values(program.body).begin()) +
                           " is used but not defined");
  }
}

}  // namespace lockstep::fuzz
