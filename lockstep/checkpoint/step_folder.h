// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/keep.h"
#include "lockstep/storage/store.h"

/// The folder of a run, with its steps and unfinished attempts.
namespace lockstep::checkpoint {

/// "step-00001000".
std::string step_name(std::int64_t step);

/// nullopt for any other name.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// The published steps, ascending.
std::vector<std::int64_t> published_steps(const storage::Store& store);

/// Removes a published checkpoint: first its manifest, then the files named in it; other files stay.
/// Continues an interrupted removal.
void remove_checkpoint(storage::Store& store, const std::string& folder);

/// The steps whose removal was interrupted.
std::vector<std::int64_t> half_removed_steps(const storage::Store& store);

/// An attempt at a step that was not published.
struct Leftover {
  storage::Attempt attempt;
  std::string nonce;
};
std::vector<Leftover> leftovers(const storage::Store& store);

/// Removes the files that a save has made in an attempt.
void remove_leftover(storage::Store& store, const Leftover& leftover);

}  // namespace lockstep::checkpoint
