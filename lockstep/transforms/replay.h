// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/program/axis_env.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/program.h"

/// Shared by the transforms.
namespace lockstep::transforms {

/// The values of a program's variables in the program into which it is written. While this object exists, the
/// program's axes are in force.
class Bindings {
 public:
  /// Initially without values.
  explicit Bindings(const ir::Program& program);

  /// Starts with the program's inputs. Throws Error unless their number matches.
  Bindings(std::string_view transform, const ir::Program& program, std::span<const ir::Value> inputs);

  const ir::Value& operator[](ir::Var var) const { return *values_[static_cast<std::size_t>(var)]; }
  void set(ir::Var var, ir::Value value) { values_[static_cast<std::size_t>(var)] = value; }
  std::vector<ir::Value> all(std::span<const ir::Var> vars) const;

 private:
  std::vector<std::optional<ir::Value>> values_;
  std::optional<ir::AxisEnvScope> axes_;
};

/// These axes, and those of AxisEnv::current() over whose examples vmap maps.
ir::AxisEnv with_mapped_axes(ir::AxisEnv env);

/// Throws Error unless there is one flag for each of the program's inputs.
void check_flags(std::string_view transform, const ir::Program& program, const std::vector<bool>& flags);

/// Throws TraceError, with its number and dtype, if a flagged input is not inexact.
void check_differentiable(std::string_view transform, const ir::Program& program,
                          const std::vector<bool>& wrt);

ir::Value zeros(ir::Builder& builder, const Aval& aval);

/// The tangent or cotangent `x` of a value with this aval, changed to vary over the same mesh axes: pvary
/// adds axes, and a sum, which is the transpose of pvary, removes them. Throws Error, with the primitive
/// whose rule returned it, if the shape or dtype differs.
ir::Value conform(const ir::Value& x, const Aval& aval, const ir::Primitive& from);

/// x, or zeros if it is not set, with this aval's weak_type.
ir::Value made_explicit(ir::Builder& builder, const std::optional<ir::Value>& x, const Aval& aval);

}  // namespace lockstep::transforms
