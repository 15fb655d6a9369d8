// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/checkpointed_while_loop.h"

#include "lockstep/base/fail.h"
#include "lockstep/jit/traced_function.h"

namespace lockstep::internal {

CheckpointPlan plan_of(const CheckpointedWhileLoopOptions& options, const CallSite& site) {
  if (options.max_steps < 1 || options.checkpoints.value_or(1) < 1) {
    fail("[checkpointed_while_loop] expected max_steps and checkpoints of 1 or more, got {} and {} (at {})",
         options.max_steps, options.checkpoints.value_or(1), site.to_string());
  }
  const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(options.max_steps))));
  const std::int64_t checkpoints = std::min(options.checkpoints.value_or(root), options.max_steps);
  const std::int64_t each = (options.max_steps + checkpoints - 1) / checkpoints;
  return {(options.max_steps + each - 1) / each, each};
}

}  // namespace lockstep::internal
