// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/data/source.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep::data {

struct LoaderOptions {
  /// The leading dimensions of each array, so that {64} is a batch of 64 records and {4, 16} are 4 groups of
  /// 16. Their product is the number of records of a batch, over all processes.
  Shape batch;

  /// The sharding of the arrays: in P("data", "model") the first entry is for the first dimension of `batch`,
  /// and so on; entries after those of `batch` are for the fields' own dimensions, if a field has them.
  /// nullopt: this process's first device, in a job of one process only.
  std::optional<Sharding> sharding;

  /// The number of passes over the records; nullopt: unlimited. With several sources, the end comes when one
  /// of them would have to be read once more.
  std::optional<std::uint64_t> epochs = 1;

  /// Each epoch has its own order, which depends on this. nullopt: the records' own order in each epoch.
  std::optional<std::uint64_t> seed = 0;

  /// Whether records at the end that do not fill a batch are dropped. Otherwise the last batch has rows of
  /// zeros, for which `valid` is false.
  bool drop_last = false;

  /// The number of reading threads, and of batches that are read ahead of the one that `next` returned; these
  /// are put on the devices as soon as they are complete.
  int workers = 4;
  int ahead = 2;
};

/// One of several sources, and its weight in the mixture; see Mixture.
struct Weighted {
  SourcePtr source;
  double weight = 1;
};

/// The result of `next`: a tree of arrays.
struct Batch {
  std::map<std::string, Array> fields;  ///< each of the shape batch + the field's own
  Array valid;                          ///< bool, of the shape batch: false in rows after the end

  /// Throws DataError if there is no such field; the error names the existing ones.
  const Array& operator[](const std::string& name) const;
};

/// The state with which a Loader continues where another one stopped: a tree of numbers, for a checkpoint.
struct LoaderState {
  std::uint64_t format = 2;    ///< the version of this struct, and of the order of records
  std::uint64_t position = 0;  ///< of the next record, counted over all sources and epochs
  std::uint64_t sources = 0;   ///< fingerprint of the sources, files and functions
  std::uint64_t records = 0;   ///< in all sources
  std::uint64_t mixture = 0;   ///< fingerprint of the weights
  std::uint64_t epochs = 0;    ///< 0: unlimited
  std::uint64_t seed = 0;      ///< fingerprint of the seed, or of there being none
  std::uint64_t batch = 0;     ///< twice the number of records in each, plus 1 for drop_last

  std::array<std::byte, 64> to_bytes() const;

  /// Throws DataError if there are not 64 bytes, or they have another format.
  static LoaderState from_bytes(std::span<const std::byte> bytes);

  bool operator==(const LoaderState&) const = default;
};
static_assert(sizeof(LoaderState) == 64);

/// Statistics of a Loader on this process.
struct LoaderMetrics {
  std::uint64_t batches = 0;  ///< that `next` gave
  std::uint64_t records = 0;  ///< that were read
  std::uint64_t bytes = 0;    ///< of their fields
  double wait_seconds = 0;    ///< that `next` waited
  double read_seconds = 0;    ///< that the workers read, all together
};

/// Batches of records, as arrays over the devices of all processes. The records of a batch and their
/// rows depend only on the number of the batch, the sources and the options: not on the number of
/// processes, on threads, or on restarts of the job. Each process reads only the rows that its
/// devices hold, and the first record, to learn its fields. The end comes at the same batch on all
/// processes.
///
///   data::Loader loader(data::windows(data::tokens_u16("train.bin"), {.length = 1025, .stride = 1024}),
///                       {.batch = {64}, .sharding = NamedSharding(mesh, P("data"))});
///   while (auto batch = loader.next()) step(*batch);
///
/// To be used by one thread at a time. All processes with devices of the sharding must make the same loaders
/// with the same options and call `next` equally often.
class Loader {
 public:
  /// Reads nothing yet. Throws DataError for invalid options and sources without records, ShardingError if
  /// the batch does not fit the sharding.
  Loader(SourcePtr source, LoaderOptions options,
         std::source_location where = std::source_location::current());
  Loader(std::vector<Weighted> sources, LoaderOptions options,
         std::source_location where = std::source_location::current());

  /// Waits for the threads; each ends after the record that it is reading.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; nullopt at the end. Blocks until it is read. After one second, and then every ten
  /// seconds, a line with the name of the file is logged, and another line when the wait ends; this
  /// thread's ProgressBar shows it too. All records must have the same fields, dtypes and shapes. Throws
  /// DataError, which names the record, if one has not, cannot be read or is damaged; the position does not
  /// change, and later calls throw the same error. The first call, and the first after `restore`, compares
  /// options, files and position over the processes: if they differ it throws DivergenceError on all
  /// processes.
  std::optional<Batch> next(std::source_location where = std::source_location::current());

  /// The total number of batches; nullopt: unlimited.
  std::optional<std::uint64_t> batches() const;

  /// The current position: after the batches that `next` returned.
  LoaderState state() const;

  /// Goes to the position of the state, in constant time. Throws DataError, which names the difference, if
  /// sources or options differ; the number of processes, the sharding, `workers` and `ahead` may differ.
  void restore(const LoaderState& state);

  LoaderMetrics metrics() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
