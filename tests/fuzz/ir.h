// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/program/aval.h"

/// The programs of the fuzzer, as plain data: what generate.h makes, run.h runs, print.h prints and reduce.h
/// makes smaller.
namespace lockstep::fuzz {

/// A value has one number in the whole program, whatever body it stands in; a body may use its own values and
/// those of the bodies around it, which it then takes in from outside.
using Value = int;

struct Type {
  DType dtype = DType::kF32;
  Shape shape;
  bool operator==(const Type&) const = default;
};

/// For each dimension the mesh axes that split it; dimensions without an entry are not split.
using Spec = std::vector<std::vector<std::string>>;

struct Node;

/// A function of its inputs.
struct Body {
  std::vector<Value> inputs;
  std::vector<Node> nodes;
  std::vector<Value> outputs;
};

/// An operation of the table in operations.h, or one that holds bodies (nested.h tells which there are and
/// what their fields mean).
struct Node {
  std::string op;
  std::vector<Value> operands;
  std::vector<Value> results;
  std::vector<std::int64_t> ints;
  std::vector<double> numbers;
  std::string text;
  std::vector<std::string> axes;
  std::vector<Body> bodies;
  std::vector<Spec> in_specs, out_specs;
};

enum class Role : std::uint8_t { kArgument, kDonated, kCaptured };

struct Input {
  Value value = 0;
  std::vector<double> data;  ///< row-major; of complex numbers the real and the imaginary part in turn
  Role role = Role::kArgument;

  /// How it is spread over the program's mesh, and, over meshes of other shapes, before that.
  Spec spec;
  std::vector<std::pair<std::vector<std::int64_t>, Spec>> before;
};

/// The devices that the programs run on, and the names of their mesh's axes: "a", "b", "c".
inline constexpr int kDevices = 8;
std::string axis_name(std::size_t i);

struct Program {
  std::uint64_t seed = 0;
  std::vector<std::int64_t> mesh;  ///< the sizes of its axes
  std::vector<Type> types;         ///< by value
  Body body;                       ///< its inputs are those of `inputs`, in order
  std::vector<Input> inputs;

  /// Shardings for the whole's jit: of the arguments, the donated ones, the values and the derivatives; each
  /// is set in programs with that option.
  bool has_in_shardings = false, has_out_shardings = false;
  Spec in_argument, in_donated, out_values, out_derivatives;

  /// Which derivatives are computed besides the values: 0 none, 1 a vjp, 2 a second one besides; by jvp of
  /// grad or by grad of grad.
  int derivatives = 2;
  bool forward_over_reverse = true;

  const Type& type(Value v) const { return types[static_cast<std::size_t>(v)]; }
  std::int64_t axis_size(const std::string& axis) const;
};

/// Calls `visit` for each node of the body and of the bodies within.
void for_each_node(const Body& body, const std::function<void(const Node&)>& visit);

/// The values that the body uses and that are not its own.
std::set<Value> free_values(const Body& body);

/// The size of a dimension's cut: the product of the axes' sizes.
std::int64_t cuts(const Program& program, const std::vector<std::string>& axes);

/// Whether the sizes are divided.
bool divides(const Program& program, const Spec& spec, const Shape& shape);

/// Removes what no output needs.
void remove_unused(Program& program);

/// Throws std::logic_error where a value is used that is not there.
void check(const Program& program);

}  // namespace lockstep::fuzz
