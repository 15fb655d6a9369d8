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

/// The check of debug_nans and debug_infs on one computation: its program has a last output more, which says
/// whether the others hold a NaN (or an infinity) on any device. All processes of the mesh are told the same,
/// so what follows they do together.
class ResultCheck {
 public:
  /// Compiles another program for the same arguments.
  using Compile = std::function<std::shared_ptr<const Computation>(Program)>;

  /// Adds the check to the program, where the settings ask for it and there are results to check.
  static std::optional<ResultCheck> add_to(Program& program, Compile compile);

  /// `found` is what the output gave in a call of the program, `name`, on these arguments. Where it holds
  /// one, finds out which operation made the first and throws FloatingPointError.
  void look_at(const Array& found, const std::string& name, std::span<const Array* const> arguments) const;

 private:
  ResultCheck(transforms::NonFinite what, Program program, Compile compile)
      : what_(what), program_(std::move(program)), compile_(std::move(compile)) {}

  transforms::NonFinite what_;
  Program program_;  ///< without the check
  CallSite made_for_ = CallSiteScope::current();
  Compile compile_;
};

}  // namespace lockstep::internal
