// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lockstep/lockstep.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "examples/support/command_line.h"

/// The options of a program that saves while it trains.
struct CheckpointOptions {
  std::string dir;
  std::int64_t every = 100;

  void add_to(CommandLine& app) {
    app.option("--checkpoint-dir", dir,
               "save here, and go on from the newest step there; a folder or s3://bucket/prefix");
    app.option("--checkpoint-every", every, "steps from one save to the next");
  }

  /// Keeps the two newest steps. nullopt if no folder was given.
  std::optional<lockstep::checkpoint::Checkpointer> open() const {
    using Saved = std::optional<lockstep::checkpoint::Checkpointer>;
    if (dir.empty()) return std::nullopt;
    return Saved(std::in_place, dir,
                 lockstep::checkpoint::CheckpointerOptions{.keep = {.last = 2}, .every = every});
  }
};

/// Restores the newest step, if there is one: the state, saved as a tuple with the loader's state behind it,
/// and the loader's position. Returns the number of steps that are done.
template <class... State>
std::int64_t restore_newest(std::optional<lockstep::checkpoint::Checkpointer>& checkpoints,
                            lockstep::data::Loader& loader, State&... state) {
  if (!checkpoints) return 0;
  auto found = checkpoints->restore_latest(std::tuple(state..., loader.state()));
  if (!found) return 0;
  lockstep::data::LoaderState position;
  std::tie(state..., position) = found->second;
  loader.restore(position);
  return found->first;
}

/// After step `done`: saves the state, as restore_newest gets it, if a save is due, this is the last step, or
/// the job was told to stop. Returns whether it was: then the step is on disk, and the program ends.
template <class State>
bool save_or_stop(std::optional<lockstep::checkpoint::Checkpointer>& checkpoints, std::int64_t done,
                  bool last, const State& state) {
  if (!checkpoints) return false;
  const bool stop = lockstep::preemption_point(done);
  if (stop || last || checkpoints->due(done)) checkpoints->save(done, state);
  if (!stop) return false;
  checkpoints->wait();
  if (lockstep::process_index() == 0)
    std::printf("told to stop: step %lld is saved\n", static_cast<long long>(done));
  return true;
}
