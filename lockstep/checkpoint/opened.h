#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/storage/store.h"

/// A checkpoint that is open for reading, whoever wrote it.
namespace lockstep::checkpoint {

/// Where a request's elements are to go: `box` of the array, dense and row-major.
struct Wanted {
  std::string path;
  Box box;
  std::byte* into = nullptr;
  bool once = false;  ///< no other process reads it
};

/// Every count-th unit of a part, from the first on.
struct Stripe {
  std::size_t first = 0, count = 1;
  bool has(std::size_t unit) const { return unit % count == first; }
};

class Opened {
 public:
  /// Opens a folder that was saved, one of Hugging Face's (model.safetensors.index.json, or safetensors files
  /// whose tensors have different names), or one file: .safetensors, .npy, .npz. Throws CheckpointError where
  /// it is none of these, or damaged, and StorageError where it cannot be read.
  static std::shared_ptr<Opened> open(const std::string& url);

  const std::string& url() const { return url_; }

  /// What there is; of foreign files `files` and `values` are empty or have no checksums.
  const Manifest& manifest() const { return manifest_; }

  /// The array of this path. Throws CheckpointError, naming the nearest ones, where there is none.
  const ArrayInfo& array(const std::string& path) const;

  /// Reads all that is wanted, several files and places at a time, and checks the checksums of all that it
  /// reads. Needs at most 16 MiB a thread besides. Blocks. Throws CheckpointError, naming the file and the
  /// array, where a checksum does not fit.
  void read(const std::vector<Wanted>& wanted) const;

  /// The box of an array in the mapped file, checked, where it is one stretch of it that begins at a multiple
  /// of 64 bytes, and the file can be mapped; otherwise null.
  std::shared_ptr<const void> map(const std::string& path, const Box& box) const;

  /// Reads everything, and checks every byte of every file. Throws CheckpointError at the first that does not
  /// fit. `on_read` is told of bytes.
  void verify(const std::function<void(std::uint64_t)>& on_read = {}) const;

  /// How many bytes `read` and `map` have read so far.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  struct File {
    std::unique_ptr<storage::Reader> reader;
    std::shared_ptr<const std::byte> mapped;
    bool asked_to_map = false;
  };
  const storage::Reader& file(std::size_t i) const;
  std::shared_ptr<const std::byte> mapped(std::size_t i) const;
  void read_part(const std::string& path, const ArrayInfo& array, const Part& part, const Wanted& wanted,
                 const Stripe& stripe) const;
  void check_tile(const std::string& path, const Part& part, std::size_t tile, const Box& box,
                  const Box& unit, const std::byte* memory, std::size_t element) const;
  friend class Opener;

  std::string url_;
  std::shared_ptr<storage::Store> store_;
  Manifest manifest_;
  mutable std::mutex mutex_;
  mutable std::vector<File> files_;
  mutable std::atomic<std::uint64_t> bytes_read_ = 0;
};

}  // namespace lockstep::checkpoint
