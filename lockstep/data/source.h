#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "lockstep/data/record.h"

/// Data for training. A Source gives records by their number; the functions of the formats (tokens.h, npy.h,
/// lines.h, tfrecord.h, mds.h, tar.h, parquet.h) open files as sources, those below make sources of sources,
/// and a Loader (loader.h) makes batches of them. Files are named by path or by "s3://bucket/key".
namespace lockstep::data {

/// Records by number. May be used by several threads at a time.
class Source {
 public:
  virtual ~Source() = default;

  /// How many records there are.
  virtual std::uint64_t size() const = 0;

  /// Record i: the same one whenever it is asked for. Blocks while the storage does. Throws DataError, with
  /// the path, the record and the place in the file, where it cannot be read or is damaged, and where i is
  /// not below size().
  virtual Record read(std::uint64_t i) const = 0;

  /// Where record i comes from, for messages: "train.tfrecord record 17". Does not wait for the data.
  virtual std::string place(std::uint64_t i) const = 0;

  /// Of the files and of what is done with their records; the same on every machine. Of a file it covers the
  /// size and the bytes at the beginning, in the middle and at the end, not all of them, and not its path.
  virtual Fingerprint fingerprint() const = 0;
};

using SourcePtr = std::shared_ptr<const Source>;

/// Where an index is kept that is made of a file once, by reading all of it.
struct IndexOptions {
  /// A local folder. Empty: beside the file, as FILE.NAME.index; where that cannot be written, and for files
  /// in object stores, in LOCKSTEP_DATA_CACHE, or else in the user's cache folder. An index of another
  /// version of the file is made anew. Processes of one host wait for each other, so that one makes it.
  std::string folder;

  /// Whether a bar shows how far the making of an index of 1 GiB or more has come.
  bool progress = true;
};

/// Records in memory.
SourcePtr in_memory(std::vector<Record> records);

/// Records that a function makes: record i is `make(i)`, which several threads call at a time and which must
/// depend on i alone. `name` and the size stand for it in the fingerprint.
SourcePtr from_function(std::uint64_t size, std::string name, std::function<Record(std::uint64_t)> make);

/// One after the other.
SourcePtr concat(std::vector<SourcePtr> sources);

/// Records `begin` to `end` - 1. Throws DataError where there are not as many.
SourcePtr slice(SourcePtr source, std::uint64_t begin, std::uint64_t end);

/// Each record changed by `change`, which several threads call at a time, and which must depend on its
/// argument alone. `name` stands for it in the fingerprint: give another one when it does something else.
SourcePtr map(SourcePtr source, std::string name, std::function<Record(Record)> change);

/// The records for which `keep` is true, in their order. All are read once, by `threads` threads, to make an
/// index of them, in the folder that IndexOptions gives or the cache folder. `name` stands for `keep` as it
/// does in map.
SourcePtr filter(SourcePtr source, std::string name, std::function<bool(const Record&)> keep,
                 IndexOptions index = {}, int threads = 4);

/// How many values a window has, and what else it says of them.
struct WindowOptions {
  std::uint64_t length = 0;

  /// From the beginning of one window to that of the next; 0: the length. For a model that predicts the next
  /// token, a length of context + 1 and a stride of context.
  std::uint64_t stride = 0;

  /// Adds a field "segments", i32[length]: for each value the number, from 0 in each window, of the document
  /// that it comes from.
  bool segments = false;
};

/// Windows over the values of a field, of any length in each record, laid one after the other. Values behind
/// the last whole window are left out. All records are read once to make an index of their lengths.
SourcePtr pack(SourcePtr source, std::string field, WindowOptions window, IndexOptions index = {},
               int threads = 4);

}  // namespace lockstep::data
