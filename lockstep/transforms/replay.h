#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/program.h"

/// What the transforms share.
namespace lockstep::transforms {

/// The values that a program's variables have in the program that it is written into. While it lives the
/// program's axes are in force.
class Bindings {
 public:
  /// None yet.
  explicit Bindings(const Program& program);

  /// The program's inputs. Throws Error unless there is one value for each.
  Bindings(std::string_view transform, const Program& program, std::span<const Value> inputs);

  const Value& operator[](Var var) const { return *values_[static_cast<std::size_t>(var)]; }
  void set(Var var, Value value) { values_[static_cast<std::size_t>(var)] = value; }
  std::vector<Value> all(std::span<const Var> vars) const;

 private:
  std::vector<std::optional<Value>> values_;
  std::optional<AxisEnvScope> axes_;
};

/// These axes, and those of AxisEnv::current() over whose examples vmap maps.
AxisEnv with_mapped_axes(AxisEnv env);

/// Throws Error unless there is one flag for each of the program's inputs.
void check_flags(std::string_view transform, const Program& program, const std::vector<bool>& flags);

/// Throws TraceError where an input that is differentiated is not inexact, naming its number and dtype.
void check_differentiable(std::string_view transform, const Program& program, const std::vector<bool>& wrt);

Value zeros(Builder& builder, const Aval& aval);

/// The tangent or cotangent `x` of a value of this aval, made to vary over the same mesh axes: over more by
/// pvary, over fewer by a sum, which is pvary's transpose. Throws Error, naming the primitive whose rule gave
/// it, where the shape or the dtype differs.
Value conform(const Value& x, const Aval& aval, const Primitive& from);

/// x, zeros where there is none, with this aval's weak_type.
Value made_explicit(Builder& builder, const std::optional<Value>& x, const Aval& aval);

}  // namespace lockstep::transforms
