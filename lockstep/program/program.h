// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/axis_env.h"
#include "lockstep/program/op_params.h"

namespace lockstep::ir {

struct Primitive;

/// A variable of a Program: its index in `Program::variables`.
using Var = std::int32_t;

/// Who wanted an equation.
enum class Origin : std::uint8_t {
  kProgram,      ///< the traced function, and what transforms made of it
  kPartitioner,  ///< the partitioner: a collective that it added
};

/// One use of a primitive, and where it comes from. Whoever copies, moves or changes an equation keeps the
/// latter.
struct Equation {
  const Primitive* primitive = nullptr;
  OpParams params;
  std::vector<Var> inputs;
  std::vector<Var> outputs;
  CallSite site;  ///< the user's line
  Origin origin = Origin::kProgram;

  /// Why a collective is needed, for explain(): CommunicationLine::reason. Nothing is decided by it.
  std::string reason = {};
};

/// A traced computation: typed, in static single assignment form, without references to other data. JAX calls
/// it a jaxpr. Every variable is an input or the output of one equation, and is defined before it is used.
struct Program {
  std::string name;
  std::deque<Aval> variables;  ///< a deque, so that an aval stays in place while more are added
  std::vector<Var> inputs;
  std::vector<Var> outputs;
  std::vector<Equation> equations;

  /// The axes of devices that collectives in it, and in programs inside its equations, may name: those of the
  /// shard_map or pmap around it. Empty if there is none.
  AxisEnv axes;

  const Aval& aval(Var var) const { return variables[static_cast<std::size_t>(var)]; }
  std::vector<Aval> input_avals() const;
  std::vector<Aval> output_avals() const;
};

using lockstep::to_string;

/// The program as text, one equation a line. It is the same for the same computation, whatever its call
/// sites and reasons.
///   { step(a:f32[4], b:f32[4])
///     c:f32[4] = add a b
///     return c }
std::string to_string(const Program& program);

class Builder;

/// A variable of a program that is being built. Valid as long as its builder lives.
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

/// Builds a Program equation by equation.
class Builder {
 public:
  explicit Builder(std::string name = "main");
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  Value input(Aval aval);

  /// Adds an equation, with the avals from the primitive's shape rule and the current call site. Operands
  /// that vary over fewer mesh axes than the others are made to vary first. Throws ShapeError or DTypeError,
  /// with the operation, the operands and the user's line.
  std::vector<Value> emit(const Primitive& primitive, OpParams params, std::span<const Value> inputs);

  /// Adds an equation as it is, except that it gets these operands, and results with these avals.
  std::vector<Value> write(Equation equation, std::span<const Value> inputs, std::vector<Aval> results);

  /// The collectives among the equations from place `first` on are the partitioner's, for this reason.
  void explain(std::size_t first, const std::string& reason);

  const Aval& aval(Var var) const { return program_.aval(var); }
  const Program& program() const { return program_; }

  /// The program with these outputs. The builder must not be used afterwards.
  Program finish(std::span<const Value> outputs);

 private:
  friend class EquationsAt;
  CallSite site() const;
  void note_axes(const Equation& equation);

  Program program_;
  std::optional<CallSite> site_;  // if set, that of new equations
};

/// While this object exists, `Builder::emit` gives equations this call site, known or not, whatever scopes
/// were open before: for a program that is made of another one. The innermost of a builder counts.
class EquationsAt {
 public:
  EquationsAt(Builder& builder, const CallSite& site)
      : builder_(builder), outer_(std::exchange(builder.site_, site)), scope_(site) {}
  ~EquationsAt() { builder_.site_ = outer_; }
  EquationsAt(const EquationsAt&) = delete;
  EquationsAt& operator=(const EquationsAt&) = delete;

 private:
  Builder& builder_;
  const std::optional<CallSite> outer_;
  const CallSiteScope scope_;  // for errors of rules
};

/// Like `Builder::emit`, for values of one builder; there must be at least one operand.

std::vector<Value> apply_primitive(const Primitive& primitive, OpParams params,
                                   std::span<const Value> inputs);

/// Like apply_primitive, for a primitive without operands, in the builder of `like`.
Value apply_primitive_like(const Value& like, const Primitive& primitive, OpParams params);

}  // namespace lockstep::ir
