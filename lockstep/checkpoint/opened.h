// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/source.h"
#include "lockstep/storage/store.h"

/// A checkpoint that is open for reading, in any format.
namespace lockstep::checkpoint {

/// How a URL ends that names one file; "" for a folder. Folders of a file system may be called .bin, .pt or
/// .pth all the same.
std::string_view ending_of_file(std::string_view url);

/// Every count-th unit of a part, beginning with the first one.
struct Stripe {
  std::size_t first = 0, count = 1;
  bool has(std::size_t unit) const { return unit % count == first; }
};

/// The name in the manifest that is spelled most like this one; "" if none is near.
std::string nearest_name(const std::string& path, const Manifest& manifest);

class Opened final : public Source {
 public:
  /// Opens a folder that was saved, a folder in Hugging Face's format (model.safetensors.index.json, or
  /// safetensors or pytorch_model.bin files whose tensors have different names), or one file: .safetensors,
  /// .npy, .npz, and .bin, .pt and .pth of torch.save. Throws CheckpointError if it is none of these, or
  /// damaged, and StorageError if it cannot be read.
  static std::shared_ptr<Opened> open(const std::string& url);

  const std::string& url() const override { return url_; }

  /// Its contents; for other formats `files` and `values` are empty or have no checksums.
  const Manifest& manifest() const override { return manifest_; }

  const ArrayInfo& array(const std::string& path) const override;
  void check_files(const std::string& path, const Box& box) const override;

  /// Reads all requests, several files and ranges at a time, and verifies the checksums of everything that it
  /// reads. Needs at most 16 MiB of additional memory for each thread. Blocks. Throws CheckpointError, with
  /// the file and the array, if a checksum does not match.
  void read(const std::vector<Wanted>& wanted) const override;

  /// The box of an array in the mapped file, verified, if it is contiguous there, begins at a multiple of 64
  /// bytes, and the file can be mapped; otherwise null.
  std::shared_ptr<const void> map(const std::string& path, const Box& box) const override;

  /// Reads everything, and verifies every byte of every file. Throws CheckpointError for the first mismatch.
  /// `on_read` is called with numbers of bytes.
  void verify(const std::function<void(std::uint64_t)>& on_read = {}) const;

  /// The bytes that `read` and `map` have read so far.
  std::uint64_t bytes_read() const override { return bytes_read_; }

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
