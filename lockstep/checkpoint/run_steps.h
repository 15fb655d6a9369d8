// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/keep.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// The contents of the manifests of a run's steps.
struct RunSteps {
  std::vector<SavedStep> steps;
  std::map<std::int64_t, std::string> damaged;  ///< why, of steps whose manifests cannot be read

  /// The highest Manifest::order; 0 if there is none.
  std::int64_t highest_order() const;

  /// The step that was saved last; nullopt if there is none. Throws CheckpointError if it may be a damaged
  /// one: if that has a higher number, or all are damaged.
  std::optional<std::int64_t> latest(const std::string& url) const;
};

/// Reads the manifests. Of a run with many steps those in `known` are not read again.
RunSteps read_run(const storage::Store& store, const RunSteps& known = {});

/// Removes the steps that no rule keeps after this one was saved, but no damaged ones. Returns one message
/// for each that could not be removed.
std::vector<std::string> remove_superseded(storage::Store& store, const Keep& keep, std::int64_t saved,
                                           RunSteps& run);

}  // namespace lockstep::checkpoint
