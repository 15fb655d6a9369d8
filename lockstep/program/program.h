#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/op_params.h"

namespace lockstep {

struct Primitive;

/// A variable of a Program: its place in `Program::variables`.
using Var = std::int32_t;

/// One use of a primitive.
struct Equation {
  const Primitive* primitive = nullptr;
  OpParams params;
  std::vector<Var> inputs;
  std::vector<Var> outputs;
  CallSite site;  ///< the user's line
};

/// A traced computation: typed, in static single assignment, pure data. It is what JAX calls a jaxpr.
/// Every variable is an input or the output of one equation, and is defined before it is used.
struct Program {
  std::string name;
  std::deque<Aval> variables;  ///< so that an aval stays where it is while more are added
  std::vector<Var> inputs;
  std::vector<Var> outputs;
  std::vector<Equation> equations;

  /// The axes of devices that its collectives may name, and those of the programs that it holds: of the
  /// shard_map or pmap that they stand in. None where they stand in none.
  AxisEnv axes;

  const Aval& aval(Var var) const { return variables[static_cast<std::size_t>(var)]; }
  std::vector<Aval> input_avals() const;
  std::vector<Aval> output_avals() const;
};

/// The program as text, one equation a line; the same for the same computation, whatever its call sites.
///   { step(a:f32[4], b:f32[4])
///     c:f32[4] = add a b
///     return c }
std::string to_string(const Program& program);

class Builder;

/// A variable of a program that is being built. It is valid while its builder lives.
class Value {
 public:
  Value(Builder* builder, Var var) : builder_(builder), var_(var) {}
  const Aval& aval() const;
  Builder& builder() const { return *builder_; }
  Var var() const { return var_; }
  bool operator==(const Value&) const = default;

 private:
  Builder* builder_;
  Var var_;
};

/// Makes a Program, one equation after the other.
class Builder {
 public:
  explicit Builder(std::string name = "main") { program_.name = std::move(name); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value input(Aval aval);

  /// Adds an equation, with the avals that the primitive's own rule gives, and the call site of the scope in
  /// force. Operands that vary over fewer mesh axes than the others are made to vary first. Throws ShapeError
  /// or DTypeError, naming the operation, the operands and the user's line.
  std::vector<Value> emit(const Primitive& primitive, OpParams params, std::span<const Value> inputs);

  const Aval& aval(Var var) const { return program_.aval(var); }
  const Program& program() const { return program_; }

  /// The program with these outputs; the builder must not be used after it.
  Program finish(std::span<const Value> outputs);

 private:
  void note_axes(const Equation& equation);

  Program program_;
};

/// As `Builder::emit`, on values of one builder; with at least one operand.

std::vector<Value> apply_primitive(const Primitive& primitive, OpParams params,
                                   std::span<const Value> inputs);

/// The same for a primitive without operands, in the builder of `like`.
Value apply_primitive_like(const Value& like, const Primitive& primitive, OpParams params);

}  // namespace lockstep
