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

  /// How the arrays lie: of P("data", "model") the first entry is for the first dimension of `batch`, and so
  /// on; entries behind those of `batch` are for the fields' own dimensions, where a field has them. Nothing:
  /// on this process's first device, in a job of one process only.
  std::optional<Sharding> sharding;

  /// How often to go through the records; nothing: for ever. Of several sources, the end comes when one of
  /// them would have to be read once more.
  std::optional<std::uint64_t> epochs = 1;

  /// Each epoch has an order of its own, which this decides. Nothing: the records' own order in each.
  std::optional<std::uint64_t> seed = 0;

  /// What becomes of records at the end that do not fill a batch: a batch with rows of zeros, whose `valid`
  /// is false, or none.
  bool drop_last = false;

  /// Threads that read, and how many batches are read ahead of the one that `next` gave; they are put on the
  /// devices as soon as they are whole.
  int workers = 4;
  int ahead = 2;
};

/// One of several sources, and how much of it there is in the mixture; see Mixture.
struct Weighted {
  SourcePtr source;
  double weight = 1;
};

/// What `next` gives: a tree of arrays.
struct Batch {
  std::map<std::string, Array> fields;  ///< each of the shape batch + the field's own
  Array valid;                          ///< bool, of the shape batch: false in rows behind the end

  /// Throws DataError where there is no such field, naming those that there are.
  const Array& operator[](const std::string& name) const;
};

/// All that a Loader must be told to go on where another one stopped: a tree of numbers, for a checkpoint.
struct LoaderState {
  std::uint64_t format = 1;    ///< of this struct
  std::uint64_t position = 0;  ///< of the next record, counted over all sources and epochs
  std::uint64_t sources = 0;   ///< fingerprint of the sources, files and functions
  std::uint64_t records = 0;   ///< in all sources
  std::uint64_t mixture = 0;   ///< fingerprint of the weights
  std::uint64_t epochs = 0;    ///< 0: for ever
  std::uint64_t seed = 0;      ///< fingerprint of the seed, or of there being none
  std::uint64_t batch = 0;     ///< records in each, times two, and one more for drop_last

  std::array<std::byte, 64> to_bytes() const;

  /// Throws DataError where there are not 64 bytes, or they are of another format.
  static LoaderState from_bytes(std::span<const std::byte> bytes);

  bool operator==(const LoaderState&) const = default;
};
static_assert(sizeof(LoaderState) == 64);

/// What a Loader has done so far, on this process.
struct LoaderMetrics {
  std::uint64_t batches = 0;  ///< that `next` gave
  std::uint64_t records = 0;  ///< that were read
  std::uint64_t bytes = 0;    ///< of their fields
  double wait_seconds = 0;    ///< that `next` waited
  double read_seconds = 0;    ///< that the workers read, all together
};

/// Batches of records, as arrays over the devices of all processes. Which records are in a batch, and in
/// which row, depends on its number, the sources and the options alone: not on the number of processes, on
/// threads, or on whether the job was started anew in between. Each process reads the rows that its devices
/// hold, and no others, but for the first record, of which all learn the fields. The end comes at the same
/// batch on all processes.
///
///   data::Loader loader(data::windows(data::tokens_u16("train.bin"), {.length = 1025, .stride = 1024}),
///                       {.batch = {64}, .sharding = NamedSharding(mesh, P("data"))});
///   while (auto batch = loader.next()) step(*batch);
///
/// To be used by one thread at a time. The processes that have the sharding's devices all make the same
/// loaders with the same options and call `next` equally often.
class Loader {
 public:
  /// Reads nothing yet. Throws DataError for options that cannot be and sources without records,
  /// ShardingError where the batch does not fit the sharding.
  Loader(SourcePtr source, LoaderOptions options,
         std::source_location where = std::source_location::current());
  Loader(std::vector<Weighted> sources, LoaderOptions options,
         std::source_location where = std::source_location::current());

  /// Waits for the threads, which end with the record that each is reading.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; nothing at the end. Blocks until it is read; from one second on a line is logged every
  /// ten seconds that says which file is waited for, and another when it came; this thread's ProgressBar says
  /// it too. All records must have the same
  /// fields, dtypes and shapes. Throws DataError, naming the record, where one has not, cannot be read or is
  /// damaged; the position then stays, and so does the error. The first call, and the first after `restore`,
  /// compares options, files and position over the processes: where they differ it throws DivergenceError on
  /// all.
  std::optional<Batch> next(std::source_location where = std::source_location::current());

  /// How many batches there are in all; nothing: for ever.
  std::optional<std::uint64_t> batches() const;

  /// Where it is: behind the batches that `next` gave.
  LoaderState state() const;

  /// Goes to where the state says, at once. Throws DataError, naming what differs, where it is of other
  /// sources or options; the number of processes, the sharding, `workers` and `ahead` may differ.
  void restore(const LoaderState& state);

  LoaderMetrics metrics() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
