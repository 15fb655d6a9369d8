// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/keep.h"
#include "lockstep/checkpoint/plan.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// Everything that is saved of a tree.
struct Contents {
  std::vector<Leaf> arrays;
  Values values;
};

struct SavingOptions {
  std::optional<std::int64_t> step;
  std::optional<double> metric;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  /// The highest Manifest::order of the steps in the store, that of the checkpoint's parent folder. Called on
  /// process 0 before it publishes.
  std::function<std::int64_t(const storage::Store&)> highest_order;
};

/// Memory for copies of arrays, which is kept from one save to the next.
class Staging {
 public:
  /// At least this number of bytes, aligned to a page. The previous content is lost.
  std::byte* reserve(std::size_t bytes);
  std::size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t capacity_ = 0;
};

/// One save by all processes, from the tree to the published folder. Made and staged in the caller's thread;
/// `run` may be called in another.
class Saving {
 public:
  /// `url` is the folder to publish. Blocks until the arrays are computed. Throws CheckpointError for
  /// contents that cannot be saved: a tracer, an array without a value, two places with one path.
  Saving(Job job, std::string url, Contents contents, SavingOptions options);

  /// The bytes of the arrays that this process writes; before `run` has ended, at most so many.
  std::uint64_t bytes() const { return bytes_; }

  /// Copies the data that this process writes, up to `most` bytes; the rest is kept as arrays, which a
  /// computation must copy if they are donated to it. The arrays may be donated afterwards.
  void stage(Staging& staging, std::uint64_t most);

  /// Writes, and publishes together with the other processes. Blocks. Throws CheckpointError, with the same
  /// message on all processes, if one of them failed: then nothing is published. Throws PeerFailure if a
  /// process died.
  void run();

  /// On process 0, what was published.
  const SavedStep& saved() const { return saved_; }

  /// Called with numbers of bytes as they are written.
  std::function<void(std::uint64_t)> on_written;

 private:
  struct Mine {
    Piece piece;
    std::size_t bytes = 0;
  };
  /// A copy of a part of an array, dense and row-major.
  struct Staged {
    Box box;
    const std::byte* memory;
  };
  Mine mine_of(Piece piece) const;
  const std::byte* elements(const Piece& piece, const Box& rows, std::byte* scratch) const;
  std::string digest_of(std::size_t leaf) const;
  void begin();
  void join();
  void plan_the_rest(const std::vector<Place>& places);
  std::string write(const std::string& folder);
  void check_there(const std::vector<std::string>& reports) const;
  void publish(const std::vector<std::string>& reports);
  [[noreturn]] void fail_there_already() const;
  [[noreturn]] void give_up(const std::string& message);

  const Job job_;
  const std::string url_;
  std::string parent_, name_;
  Contents contents_;
  const SavingOptions options_;
  Round round_;
  Loads loads_;
  std::string described_;                      ///< describe_tree of the arrays, before they are donated
  std::vector<int> owners_;                    ///< owners_of the arrays, likewise
  std::vector<Mine> mine_;                     ///< before `run`, also all that only this process may have
  std::vector<std::size_t> each_;              ///< the leaves of Place::kEach
  std::multimap<std::size_t, Staged> staged_;  ///< by leaf
  std::atomic<std::uint64_t> bytes_ = 0;
  SavedStep saved_;
  struct Open;
  std::shared_ptr<Open> open_;
};

}  // namespace lockstep::checkpoint
