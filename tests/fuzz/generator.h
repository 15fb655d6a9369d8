// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/ir.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/random.h"

namespace lockstep::fuzz {

/// The facts that the generator knows of a value besides its type.
struct Fact {
  double bound = 4;               ///< no element is larger
  int quantum = kInexact;         ///< elements are multiples of 2^-quantum
  std::set<std::string> varying;  ///< under shard_map: the manual axes along which it may differ

  static constexpr int kInexact = 1000;
};

/// A body in the making.
struct Scope {
  Body body;
  std::vector<Value> visible;
  std::vector<std::string> manual;                           ///< under shard_map: its axes
  std::vector<std::pair<std::string, std::int64_t>> mapped;  ///< under vmap: names and sizes
  int depth = 0;
  bool forward_only = false;  ///< it is differentiated forwards, and so may not have a custom_vjp
  bool collectives = true;    ///< whether all devices come here together
};

/// Makes the program of a seed, node by node. The rules are in the sources by family; each answers false
/// where it finds no operands that it may take.
class Generator {
 public:
  explicit Generator(std::uint64_t seed);
  Program run();

 private:
  using Rule = bool (Generator::*)(Scope&);

  // generate.cc: inputs, the choice of rules, outputs.
  void add_inputs(Scope& scope);
  void add_shardings(const std::vector<Value>& outputs);
  void grow(Scope& scope, int nodes);
  bool step(Scope& scope);
  std::vector<Value> choose_outputs(Scope& scope, std::int64_t most);
  Shape random_shape();
  Spec random_spec(const Shape& shape, std::vector<std::string> axes, bool even = true);
  std::vector<std::string> axes_of(const std::vector<std::int64_t>& mesh) const;

  // generate_values.cc: making values, and what is known of them.
  Value make(Scope& scope, Node node, Type type, Fact fact);
  Value op(Scope& scope, std::string name, std::vector<Value> operands, Type type, Fact fact,
           std::vector<std::int64_t> ints = {}, std::vector<double> numbers = {}, std::string text = {});
  Value new_value(Type type, Fact fact);
  const Type& type(Value v) const { return program_.type(v); }
  const Shape& shape(Value v) const { return type(v).shape; }
  DType dtype(Value v) const { return type(v).dtype; }
  std::int64_t rank(Value v) const { return static_cast<std::int64_t>(shape(v).size()); }
  Fact& fact(Value v) { return facts_[static_cast<std::size_t>(v)]; }
  bool is(Value v, unsigned classes) const { return (dtype_class(dtype(v)) & classes) != 0; }
  bool exact(Value v);
  std::optional<Value> pick(Scope& scope, const std::function<bool(Value)>& fits);
  Value limit(Scope& scope, Value v, double reach);
  Value tame(Scope& scope, Value v);
  Value guard(Scope& scope, Value v, Needs needs, double reach);
  Value constant(Scope& scope, const Type& type);
  Value match(Scope& scope, const Type& type);
  Value convert(Scope& scope, Value v, DType dtype);
  Value small_whole(Scope& scope, Value v);
  Fact moved(Value v);

  // generate_elements.cc
  bool unary(Scope& scope);
  bool binary(Scope& scope);
  bool with_number(Scope& scope);
  bool reduce(Scope& scope);
  bool along_axis(Scope& scope);
  bool fourier(Scope& scope);
  bool choice(Scope& scope);
  bool conversion(Scope& scope);

  // generate_moves.cc
  bool rearrange(Scope& scope);
  bool join(Scope& scope);
  bool cut(Scope& scope);
  bool indexed(Scope& scope);
  bool stencil(Scope& scope);
  bool product(Scope& scope);
  bool window(Scope& scope);
  bool decomposition(Scope& scope);

  // generate_nested.cc
  Scope inner(Scope& scope, bool captures);
  Value add_input(Scope& scope, const Type& type, Fact fact);
  Body finish(Scope& scope, std::vector<Value> outputs);
  std::vector<Value> results(Scope& scope, Node node, const std::vector<Type>& types,
                             const std::vector<Fact>& facts);
  Body clone(const Body& body);
  Value vary(Scope& scope, Value v, const std::vector<std::string>& axes);
  Value settle(Scope& scope, Value v, double bound);
  Value fix(Scope& scope, const Type& type, double bound);
  std::optional<Value> scalar_loss(Scope& scope);
  bool call(Scope& scope);
  bool map_examples(Scope& scope);
  bool scan(Scope& scope);
  bool gradient(Scope& scope);
  bool forward(Scope& scope);
  bool backward(Scope& scope);
  bool jacobian(Scope& scope);
  bool own_derivative(Scope& scope);

  // generate_decisions.cc
  std::optional<Value> decisive(Scope& scope);
  Value shuffled(Scope& scope, Value v);
  Value whole_of(Scope& scope, Value v);
  Value decider(Scope& scope);
  Value predicate(Scope& scope);
  Value index(Scope& scope);
  Value count(Scope& scope);
  Value term(Scope& scope, Value v);
  bool sort_by(Scope& scope);
  bool while_loop(Scope& scope);
  bool decided_loop(Scope& scope);
  bool pole(Scope& scope);
  bool branches(Scope& scope);

  // generate_sharded.cc
  bool shard_map(Scope& scope);
  bool constraint(Scope& scope);
  bool collective(Scope& scope);
  bool mapped_collective(Scope& scope);

  Random random_;
  const bool decides_;  ///< not one of the first seeds, for whose programs JAX's numbers are kept
  Program program_;
  std::vector<Fact> facts_;
  std::vector<std::int64_t> sizes_;
  std::vector<DType> dtypes_;
  std::set<Value> placed_;  ///< split inputs, and results of shard_maps and constraints
};

inline bool empty(const Shape& shape) {
  for (std::int64_t size : shape) {
    if (size == 0) return true;
  }
  return false;
}

/// Not more elements and dimensions than programs shall have.
inline bool fits(const Shape& shape) { return shape.size() <= 4 && num_elements(shape) <= 256; }

/// The shape that the two broadcast to, if they do.
std::optional<Shape> broadcast(const Shape& x, const Shape& y);

/// The dtype in which these meet, if the generator uses that pair.
std::optional<DType> meet(DType x, DType y);

}  // namespace lockstep::fuzz
