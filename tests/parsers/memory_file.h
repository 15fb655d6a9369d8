// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/storage/store.h"

namespace lockstep::parsers {

/// A file in memory, which must live as long. Reads beyond its end are refused, as by those of folders.
class MemoryFile : public storage::Reader {
 public:
  explicit MemoryFile(const std::string& bytes) : bytes_(bytes) {}
  const std::string& url() const override { return url_; }
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    if (offset > bytes_.size() || into.size() > bytes_.size() - offset) fail<StorageError>("too short");
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
  }
  std::shared_ptr<const std::byte> map() const override { return nullptr; }

 private:
  const std::string& bytes_;
  std::string url_ = "file";
};

}  // namespace lockstep::parsers
