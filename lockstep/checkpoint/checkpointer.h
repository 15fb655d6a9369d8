// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/durations.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/keep.h"

namespace lockstep::checkpoint {

struct CheckpointerOptions {
  /// Which steps are kept.
  Keep keep;

  /// `due` is true for multiples of this; 0: for no step.
  std::int64_t every = 0;

  /// true: `save` returns when the arrays are copied, and a thread writes them.
  bool asynchronous = true;

  /// The most bytes that an asynchronous save copies on each process. It keeps the other arrays until they
  /// are written; if one of them is donated to a computation, that computation copies it.
  std::uint64_t staging_bytes = std::uint64_t{8} << 30;

  /// The limit for one save by all processes.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// Statistics of the last save on this process.
struct SaveReport {
  std::int64_t step = -1;
  std::uint64_t bytes = 0;     ///< that this process wrote
  double blocked_seconds = 0;  ///< that `save` blocked the caller, without the wait for an earlier save
  double written_seconds = 0;  ///< until it was published
};

/// The checkpoints of a run: a folder, or a prefix of an object store, with one checkpoint for each saved
/// step. Every process of the job makes a Checkpointer, and calls it in the same order, from one thread.
///
///     checkpoint::Checkpointer checkpoints(folder, {.keep = {.last = 3}, .every = 100});
///     if (auto found = checkpoints.restore_latest(state)) std::tie(first, state) = *found;
///     for (std::int64_t step = first + 1; step <= steps; ++step) {
///       state = train(state);
///       if (checkpoints.due(step)) checkpoints.save(step, state);
///     }
///     checkpoints.wait();
///
/// The error of a failed asynchronous save is thrown by the next call on each process, the same error on all.
/// Steps that were saved before are not affected. Several may use one folder, also of several jobs.
class Checkpointer {
 public:
  /// Creates the folder if it does not exist. Removes unfinished saves of an earlier start of the same job,
  /// and of other jobs when their time limit is over, and ends interrupted removals. Throws CheckpointError
  /// if the folder cannot be created or read.
  explicit Checkpointer(std::string url, CheckpointerOptions options = {},
                        std::source_location where = std::source_location::current());

  /// Waits for the current save. If it failed, logs its error, and the program ends with status 1 in place of
  /// 0: call `wait` to catch the error.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  bool due(std::int64_t step) const { return options_.every > 0 && step % options_.every == 0; }

  /// Saves the tree as this step. First waits for the previous save. Then blocks until everything is durable,
  /// or, if asynchronous, until the arrays are copied: they may then be donated. Throws as checkpoint::save
  /// does, for this save or the previous one.
  template <class Tree>
  void save(std::int64_t step, const Tree& tree, std::optional<double> metric = std::nullopt,
            std::source_location where = std::source_location::current()) {
    CallSiteScope scope(CallSite::from(where));
    save_tree(step, tree::tree_ref(tree), metric);
  }

  /// Waits for the current save. Throws its error.
  void wait();

  /// The existing steps in ascending order; the same on all processes. Waits as `wait` does.
  std::vector<std::int64_t> steps();

  /// The one that was saved last, which after a return to an earlier step is not the one with the highest
  /// number. Throws CheckpointError if that cannot be told because a step's manifest is damaged.
  std::optional<std::int64_t> latest();

  /// The tree of this step. Waits as `wait` does; throws as checkpoint::restore does.
  template <class Tree>
  Tree restore(std::int64_t step, const Tree& like, const RestoreOptions& options = {},
               RestoreReport* report = nullptr,
               std::source_location where = std::source_location::current()) {
    wait();
    return checkpoint::restore(url_of(step), like, options, report, where);
  }

  /// The step that was saved last, and its tree; nullopt if there is none. Process 0 logs the step.
  template <class Tree>
  std::optional<std::pair<std::int64_t, Tree>> restore_latest(
      const Tree& like, const RestoreOptions& options = {},
      std::source_location where = std::source_location::current()) {
    const std::optional<std::int64_t> step = latest();
    if (!step) return std::nullopt;
    RestoreReport report;
    Tree tree = restore(*step, like, options, &report, where);
    log_restored(*step, report);
    return std::pair(*step, std::move(tree));
  }

  /// The folder of a step: "URL/step-00001000".
  std::string url_of(std::int64_t step) const;

  const SaveReport& last_save() const { return last_; }

 private:
  struct State;
  void save_tree(std::int64_t step, tree::TreeRef tree, std::optional<double> metric);
  void log_restored(std::int64_t step, const RestoreReport& report) const;

  const std::string url_;
  const CheckpointerOptions options_;
  SaveReport last_;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::checkpoint
