// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/plan.h"
#include "lockstep/checkpoint/value.h"

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
};

/// The prefix of the names of this job's attempts, so that its next start can remove their leftovers.
std::string attempt_prefix(const std::string& job_id);

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

  /// The bytes of the arrays that this process writes.
  std::uint64_t bytes() const { return bytes_; }

  /// Copies the data that this process writes, up to `most` bytes; the rest is kept as arrays, which a
  /// computation must copy if they are donated to it. The arrays may be donated afterwards.
  void stage(Staging& staging, std::uint64_t most);

  /// Writes, and publishes together with the other processes. Blocks. Throws CheckpointError, with the same
  /// message on all processes, if one of them failed: then nothing is published. Throws PeerFailure if a
  /// process died.
  void run();

  /// Called with numbers of bytes as they are written.
  std::function<void(std::uint64_t)> on_written;

 private:
  struct Mine {
    Piece piece;
    std::size_t bytes = 0;
    const std::byte* staged = nullptr;  ///< null: in the array
  };
  const std::byte* elements(const Mine& mine, const Box& rows, std::byte* scratch) const;
  std::string write(const std::string& folder);
  void publish(const std::vector<std::string>& reports);
  [[noreturn]] void give_up(const std::string& message);

  const Job job_;
  const std::string url_;
  std::string parent_, name_;
  Contents contents_;
  const SavingOptions options_;
  Round round_;
  WritePlan plan_;
  std::vector<std::string> local_digests_;
  std::vector<Mine> mine_;
  std::uint64_t bytes_ = 0;
  struct Open;
  std::shared_ptr<Open> open_;
};

}  // namespace lockstep::checkpoint
