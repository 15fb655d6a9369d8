// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lockstep/array/array.h"
#include "lockstep/program/program.h"
#include "lockstep/transforms/nonfinite.h"

namespace lockstep::internal {

class Computation;

/// The check of debug_nans and debug_infs for one computation: its program gets one more output, which says
/// whether the others have a NaN (or an infinity) on any device. All processes of the mesh get the same
/// answer, so they act together.
class ResultCheck {
 public:
  /// Compiles another program for the same arguments.
  using Compile = std::function<std::shared_ptr<const Computation>(ir::Program)>;

  /// Adds the check to the program if the settings ask for it and there are results to check.
  static std::optional<ResultCheck> add_to(ir::Program& program, Compile compile);

  /// `found` is the value of the additional output in a call of the program, `name`, with these arguments. If
  /// it is true, finds the operation that made the first NaN and throws FloatingPointError.
  void look_at(const Array& found, const std::string& name, std::span<const Array* const> arguments) const;

 private:
  ResultCheck(transforms::NonFinite what, ir::Program program, Compile compile)
      : what_(what), program_(std::move(program)), compile_(std::move(compile)) {}

  transforms::NonFinite what_;
  ir::Program program_;  ///< without the check
  CallSite made_for_ = CallSiteScope::current();
  Compile compile_;
};

}  // namespace lockstep::internal
