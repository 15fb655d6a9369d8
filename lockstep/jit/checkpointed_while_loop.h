// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/remat.h"

namespace lockstep {

struct CheckpointedWhileLoopOptions {
  std::int64_t max_steps;  ///< the loop ends after this many steps, whatever the condition is

  /// How many carries the reverse derivative keeps; by default the square root of max_steps.
  std::optional<std::int64_t> checkpoints = std::nullopt;
};

namespace internal {
struct CheckpointPlan {
  std::int64_t checkpoints, steps_each;
};
/// Throws Error for options below 1.
CheckpointPlan plan_of(const CheckpointedWhileLoopOptions& options, const CallSite& site);
}  // namespace internal

/// A while_loop of at most max_steps steps that has a reverse derivative, as in equinox. The derivative keeps
/// the carry at regular intervals and computes the steps between again. Its memory is that of `checkpoints`
/// carries and of the values of max_steps / checkpoints steps. After the condition has become false nothing
/// more is computed. Throws as while_loop and cond do, and Error for options below 1.
template <class Condition, class Body, class Carry>
Carry checkpointed_while_loop(Condition&& condition, Body&& body, const Carry& init,
                              CheckpointedWhileLoopOptions options,
                              std::source_location where = std::source_location::current()) {
  const internal::CheckpointPlan plan = internal::plan_of(options, CallSite::from(where));
  using Counted = std::pair<Array, Carry>;  // the carry, with the number of steps left
  auto goes_on = [condition = std::decay_t<Condition>(condition)](const Counted& at) mutable {
    return logical_and(at.first > 0, condition(at.second));
  };
  auto step = [goes_on, body = std::decay_t<Body>(body), where](Counted at, std::tuple<>) mutable {
    auto on = [&](const Counted& now) { return Counted(now.first - 1, body(now.second)); };
    Counted next = cond(
        Operand(goes_on(at), where), on, [](const Counted& now) { return now; }, at);
    return std::pair(std::move(next), std::tuple<>());
  };
  auto some = remat(
      [step, plan, where](const Counted& at) {
        return scan(step, at, std::tuple<>(), {.length = plan.steps_each}, where).first;
      },
      where);
  auto block = [goes_on, some, where](Counted at, std::tuple<>) mutable {
    Counted next = cond(
        Operand(goes_on(at), where), some, [](const Counted& now) { return now; }, at);
    return std::pair(std::move(next), std::tuple<>());
  };
  return scan(block, Counted(internal::counter(options.max_steps, options.max_steps), init), std::tuple<>(),
              {.length = plan.checkpoints}, where)
      .first.second;
}

}  // namespace lockstep
