// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/storage/store.h"

/// The folder of a run, with its steps and unfinished attempts.
namespace lockstep::checkpoint {

/// "step-00001000".
std::string step_name(std::int64_t step);

/// nullopt for any other name.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// "part-00002-of-00004.safetensors", which process 2 of 4 writes.
std::string part_name(int process, int processes);

/// The steps that have a folder, published or not, ascending.
std::vector<std::int64_t> steps_with_folders(const storage::Store& store);

/// The published steps, ascending.
std::vector<std::int64_t> published_steps(const storage::Store& store);

/// Removes a published checkpoint: first its manifest, then the files named in it; other files stay. If the
/// manifest is damaged, the files with names of parts are removed. Ends an interrupted removal, too. Returns
/// false if there was nothing to remove. Throws StorageError; then it can be repeated.
/// If `nonce` is given, only what that save wrote is removed, and nothing that was saved there since.
bool remove_checkpoint(storage::Store& store, const std::string& folder,
                       const std::optional<std::string>& nonce = std::nullopt);

/// Ends the removal of a checkpoint that was interrupted, if one was. What was saved there since then stays.
/// Returns whether there was one.
bool finish_removal(storage::Store& store, const std::string& folder);

/// The steps whose removal was interrupted.
std::vector<std::int64_t> half_removed_steps(const storage::Store& store);

/// An attempt at a step that was not published.
struct Leftover {
  storage::Attempt attempt;
  std::string nonce;
};
std::vector<Leftover> leftovers(const storage::Store& store);

/// Removes the files that a save has made in an attempt. If its process still works on it, its save fails;
/// nothing is removed if it has published meanwhile.
void remove_leftover(storage::Store& store, const Leftover& leftover);

/// The name of an attempt of this job: unique, and with the time after which the save does not publish, by
/// the clock of its process; nullopt if it has no limit.
std::string new_nonce(const std::string& job_id, std::optional<std::time_t> expires);

/// Whether the nonce is of an attempt of the job with this id, which is not empty.
bool is_of_job(const std::string& nonce, const std::string& job_id);

/// The time in the nonce; nullopt if it has none.
std::optional<std::time_t> expiry_of(const std::string& nonce);

}  // namespace lockstep::checkpoint
