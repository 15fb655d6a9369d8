// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/partition_spec.h"
#include "tests/fuzz/ir.h"
#include "tests/fuzz/operations.h"

namespace lockstep::fuzz {

PartitionSpec partition_spec(const Spec& spec);
Mesh mesh_of(const std::vector<std::int64_t>& sizes);

/// Runs bodies of a program through Lockstep's public functions. With a mesh, shard_map and constraints are
/// Lockstep's. Without, it computes what they mean by other means, on one device: every value under shard_map
/// is the list of the devices' values, a collective is written out on those lists, and constraints are
/// nothing.
class Interpreter {
 public:
  /// The program must outlive it.
  Interpreter(const Program& program, std::optional<Mesh> mesh)
      : program_(&program), mesh_(std::move(mesh)), values_(program.types.size()) {}

  /// A body as a function of arrays.
  class Function;

  /// The outputs of the program's body.
  Arrays run(const Arrays& inputs) const;

 private:
  friend class Function;

  /// How many devices' values a value here is.
  std::size_t replicas() const;
  const Array& at(Value v, std::size_t replica) const;
  Arrays each(Value v) const;
  Arrays flat(const std::vector<Value>& values) const;
  void bind(const std::vector<Value>& values, const Arrays& flat);
  void run_body(const Body& body);
  void run_node(const Node& node);

  // nested.cc
  Arrays run_nested(const Node& node) const;
  Arrays gradient(const Node& node) const;
  Arrays choose(const Node& node) const;
  Arrays decided_loop(const Node& node) const;

  /// `run`, where the interpreter stands for one of the devices of a shard_map that is computed by other
  /// means.
  Arrays by_each(const Node& node, const std::function<Arrays(const Interpreter&)>& run) const;

  // collectives.cc
  Arrays shard_map(const Node& node) const;
  Arrays collective(const Node& node) const;
  Arrays emulated_shard_map(const Node& node) const;
  Arrays emulated_collective(const Node& node) const;

  /// A replica's place along these axes, row-major; and the replicas that differ from it along these only, in
  /// the order of their places.
  std::int64_t place(std::size_t replica, const std::vector<std::string>& axes) const;
  std::vector<std::size_t> group(std::size_t replica, const std::vector<std::string>& axes) const;

  const Program* program_;
  std::optional<Mesh> mesh_;
  std::vector<Arrays> values_;
  std::vector<std::string> emulated_;  ///< the manual axes of the shard_map that is computed by other means
  std::optional<std::size_t> only_;    ///< of its devices this one alone
};

class Interpreter::Function {
 public:
  Function(const Interpreter& outer, const Body& body) : outer_(&outer), body_(&body) {}

  Arrays operator()(const Arrays& inputs) const {
    Interpreter inner = *outer_;
    inner.bind(body_->inputs, inputs);
    inner.run_body(*body_);
    return inner.flat(body_->outputs);
  }

 private:
  const Interpreter* outer_;
  const Body* body_;
};

}  // namespace lockstep::fuzz
