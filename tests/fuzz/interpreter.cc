// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/interpreter.h"

#include "lockstep/runtime/devices.h"

namespace lockstep::fuzz {

PartitionSpec partition_spec(const Spec& spec) { return PartitionSpec::from_entries(spec); }

Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::pair<std::string, std::int64_t>> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) axes.emplace_back(axis_name(i), sizes[i]);
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  const std::span<const Device> all = devices();
  return make_mesh(axes, std::vector<Device>(all.begin(), all.begin() + count));
}

std::size_t Interpreter::replicas() const {
  return emulated_.empty() || only_ ? 1 : static_cast<std::size_t>(cuts(*program_, emulated_));
}

const Array& Interpreter::at(Value v, std::size_t replica) const {
  const Arrays& all = values_[static_cast<std::size_t>(v)];
  if (all.size() == 1) return all[0];
  return all.at(only_ ? *only_ : replica);
}

Arrays Interpreter::each(Value v) const {
  Arrays all;
  for (std::size_t r = 0; r < replicas(); ++r) all.push_back(at(v, r));
  return all;
}

Arrays Interpreter::flat(const std::vector<Value>& values) const {
  Arrays all;
  for (Value v : values) {
    for (std::size_t r = 0; r < replicas(); ++r) all.push_back(at(v, r));
  }
  return all;
}

void Interpreter::bind(const std::vector<Value>& values, const Arrays& flat) {
  const auto n = static_cast<std::ptrdiff_t>(replicas());
  auto next = flat.begin();
  for (Value v : values) {
    values_[static_cast<std::size_t>(v)] = Arrays(next, next + n);
    next += n;
  }
}

Arrays Interpreter::run(const Arrays& inputs) const { return Function(*this, program_->body)(inputs); }

void Interpreter::run_body(const Body& body) {
  for (const Node& node : body.nodes) run_node(node);
}

void Interpreter::run_node(const Node& node) {
  if (is_operation(node.op)) {
    const Operation& op = operation(node.op);
    Arrays results;
    for (std::size_t r = 0; r < replicas(); ++r) {
      Arrays operands;
      for (Value v : node.operands) operands.push_back(at(v, r));
      results.push_back(op.run(operands, node, program_->type(node.results[0])));
    }
    bind(node.results, results);
  } else if (node.op == "shard_map" || node.op == "constraint") {
    bind(node.results, shard_map(node));
  } else if (node.bodies.empty()) {
    bind(node.results, collective(node));
  } else {
    bind(node.results, run_nested(node));
  }
}

}  // namespace lockstep::fuzz
