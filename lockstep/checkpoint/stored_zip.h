// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// The entries of a zip file, also one of more than 4 GiB, that are stored without compression, so that parts
/// of them can be read and mapped where they are. Their checksums are not looked at.
class StoredZip {
 public:
  struct Entry {
    std::uint64_t offset = 0;  ///< of the entry's own header in the file
    std::uint64_t bytes = 0;
    bool stored = true;  ///< neither compressed nor encrypted
  };

  /// Reads the directory. The reader must live as long. Throws CheckpointError if the file is damaged.
  explicit StoredZip(const storage::Reader& file);

  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// Where the entry's bytes begin in the file. Throws CheckpointError if it is damaged, or not stored.
  std::uint64_t begin(const std::string& name) const;

  [[noreturn]] void damaged(const std::string& what) const;

 private:
  std::string bytes(std::uint64_t offset, std::uint64_t count) const;

  const storage::Reader& file_;
  std::uint64_t directory_ = 0;  ///< where the entries end
  std::map<std::string, Entry> entries_;
};

}  // namespace lockstep::checkpoint
