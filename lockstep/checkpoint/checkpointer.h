#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/keep.h"

namespace lockstep::checkpoint {

struct CheckpointerOptions {
  /// Which steps stay.
  Keep keep;

  /// `due` says yes to the steps that this divides; 0: to none.
  std::int64_t every = 0;

  /// Whether `save` returns when the arrays are copied, and a thread writes them.
  bool asynchronous = true;

  /// What an asynchronous save copies at most, in bytes, on each process. Of the rest it keeps the arrays
  /// until they are written; a computation that they are donated to then copies them.
  std::uint64_t staging_bytes = std::uint64_t{8} << 30;

  /// For one save by all processes.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// How the last save went on this process.
struct SaveReport {
  std::int64_t step = -1;
  std::uint64_t bytes = 0;     ///< that this process wrote
  double blocked_seconds = 0;  ///< that `save` took from the caller, without what an earlier save still took
  double written_seconds = 0;  ///< until it was published
};

/// The checkpoints of a run: a folder, or prefix of an object store, with one of each step that was saved.
/// Every process of the job makes one, and calls it in the same order. To be used by one thread.
///
///     checkpoint::Checkpointer checkpoints(folder, {.keep = {.last = 3}, .every = 100});
///     if (auto found = checkpoints.restore_latest(state)) std::tie(first, state) = *found;
///     for (std::int64_t step = first + 1; step <= steps; ++step) {
///       state = train(state);
///       if (checkpoints.due(step)) checkpoints.save(step, state);
///     }
///
/// An asynchronous save that failed is thrown by the next call of each process, all the same error; steps
/// that were saved before stay as they are.
class Checkpointer {
 public:
  /// Makes the folder where it is missing, and takes away what an earlier start of the same job has left of
  /// saves that did not end. Throws CheckpointError where the folder cannot be made or read.
  explicit Checkpointer(std::string url, CheckpointerOptions options = {},
                        std::source_location where = std::source_location::current());

  /// Waits for the save that is going on; logs its error.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  bool due(std::int64_t step) const { return options_.every > 0 && step % options_.every == 0; }

  /// Saves the tree as this step. First waits for the save before it. Then blocks until all is on disk for
  /// good, or, if asynchronous, until the arrays are copied: they may be donated at once. Throws as
  /// checkpoint::save does, of this save or the one before.
  template <class Tree>
  void save(std::int64_t step, const Tree& tree, std::optional<double> metric = std::nullopt,
            std::source_location where = std::source_location::current()) {
    CallSiteScope scope(CallSite::from(where));
    save_tree(step, tree::tree_ref(tree), metric);
  }

  /// Waits for the save that is going on. Throws its error.
  void wait();

  /// The steps that are there, rising; the same on all processes. Waits as `wait` does.
  std::vector<std::int64_t> steps();

  /// The newest of them.
  std::optional<std::int64_t> latest();

  /// The tree of this step. Waits as `wait` does; throws as checkpoint::restore does.
  template <class Tree>
  Tree restore(std::int64_t step, const Tree& like, const RestoreOptions& options = {},
               RestoreReport* report = nullptr,
               std::source_location where = std::source_location::current()) {
    wait();
    return checkpoint::restore(url_of(step), like, options, report, where);
  }

  /// The newest step and its tree; nothing where there is none. Process 0 says in the log which it is.
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
