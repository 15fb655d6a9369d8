// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/base/function.h"
#include "lockstep/data/record.h"

/// Data for training. A Source gives records by their number; the functions of the formats (tokens.h, npy.h,
/// lines.h, tfrecord.h, mds.h, tar.h, parquet.h) open files as sources, those below make sources of sources,
/// and a Loader (loader.h) makes batches of them. Files are named by path or by "s3://bucket/key".
namespace lockstep::data {

/// Records by number. May be used by several threads at a time.
class Source {
 public:
  virtual ~Source() = default;

  /// The number of records.
  virtual std::uint64_t size() const = 0;

  /// Record i, the same at each call. Blocks while the storage does. Throws DataError, with the path, the
  /// record and the position in the file, if it cannot be read or is damaged, or if i is not below
  /// size().
  virtual Record read(std::uint64_t i) const = 0;

  /// Where record i comes from, for messages: "train.tfrecord record 17". Does not wait for the data.
  virtual std::string place(std::uint64_t i) const = 0;

  /// The fingerprint of the files and of the functions applied to their records; the same on every machine.
  /// For a file it covers the size and the bytes at the start, in the middle and at the end, not all bytes,
  /// and not its path.
  virtual Fingerprint fingerprint() const = 0;
};

using SourcePtr = std::shared_ptr<const Source>;

/// Where the index of a file is stored, which is made once by reading the whole file.
struct IndexOptions {
  /// A local folder. Empty: beside the file, as FILE.NAME.index; if that cannot be written, and for files in
  /// object stores, in LOCKSTEP_DATA_CACHE, or else in the user's cache folder. If the file has changed, its
  /// index is made again. One process of each host makes the index; the others wait.
  std::string folder;

  /// Whether a progress bar is shown while the index of a file of 1 GiB or more is made.
  bool progress = true;
};

/// Records in memory.
SourcePtr in_memory(std::vector<Record> records);

/// Records made by a function: record i is `make(i)`. Several threads call it at the same time, and it must
/// depend only on i. `name` and the size represent it in the fingerprint.
SourcePtr from_function(std::uint64_t size, std::string name, std::function<Record(std::uint64_t)> make);

/// All records of the first source, then those of the second, and so on.
SourcePtr concat(std::vector<SourcePtr> sources);

/// Records `begin` to `end` - 1. Throws DataError if there are fewer records.
SourcePtr slice(SourcePtr source, std::uint64_t begin, std::uint64_t end);

/// Each record, changed by `change`. Several threads call it at the same time, and it must depend only on its
/// argument. `name` represents it in the fingerprint: change the name when you change the function.
SourcePtr map(SourcePtr source, std::string name, std::function<Record(Record)> change);

/// The records for which `keep` is true, in their order. All are read once, by `threads` threads, to make an
/// index of them, in the folder that IndexOptions gives or the cache folder. `name` represents `keep` in the
/// fingerprint, as in map.
SourcePtr filter(SourcePtr source, std::string name, std::function<bool(const Record&)> keep,
                 IndexOptions index = {}, int threads = 4);

/// The windows that pack and windows make.
struct WindowOptions {
  std::uint64_t length = 0;

  /// From the beginning of one window to that of the next; 0: the length. For a model that predicts the next
  /// token, a length of context + 1 and a stride of context.
  std::uint64_t stride = 0;

  /// Adds a field "segments", i32[length]: for each value the number, from 0 in each window, of the document
  /// that it comes from.
  bool segments = false;
};

/// Windows over the concatenated values of a field, which may have any length in each record. Values after
/// the last whole window are left out. All records are read once to make an index of their lengths.
SourcePtr pack(SourcePtr source, std::string field, WindowOptions window, IndexOptions index = {},
               int threads = 4);

}  // namespace lockstep::data
