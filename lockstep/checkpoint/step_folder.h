#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/keep.h"
#include "lockstep/storage/store.h"

/// The folder of a run, with its steps and what is not whole among them.
namespace lockstep::checkpoint {

/// "step-00001000".
std::string step_name(std::int64_t step);

/// nullopt of any other name.
std::optional<std::int64_t> step_of_name(std::string_view name);

/// The steps that are published, rising.
std::vector<std::int64_t> published_steps(const storage::Store& store);

/// Takes a published checkpoint away: first its manifest, then the files that it names; others stay. Goes on
/// with a removal that was interrupted.
void remove_checkpoint(storage::Store& store, const std::string& folder);

/// The steps whose removal was interrupted.
std::vector<std::int64_t> half_removed_steps(const storage::Store& store);

/// An attempt at a step that was not published.
struct Leftover {
  storage::Attempt attempt;
  std::string nonce;
};
std::vector<Leftover> leftovers(const storage::Store& store);

/// Takes the files of an attempt away that a save has made there.
void remove_leftover(storage::Store& store, const Leftover& leftover);

}  // namespace lockstep::checkpoint
