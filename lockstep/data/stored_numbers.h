// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/base/fingerprint.h"
#include "lockstep/data/file.h"
#include "lockstep/data/source.h"

namespace lockstep::data::internal {

/// A list of numbers in a local file, with random access; it needs no memory. The file:
///   8 bytes "LSNUMS01", then little-endian u64: the fingerprint of the data that the numbers describe, their
///   count, and the XXH3 of these 24 bytes; then blocks of 511 numbers (the last one may be shorter), each
///   with its XXH3.
/// Thread-safe.
class StoredNumbers {
 public:
  static constexpr std::uint64_t kHeader = 32, kInBlock = 511;
  using Block = std::array<std::uint64_t, kInBlock + 1>;

  /// Throws DataError if the file has another format, is truncated, or has another fingerprint.
  StoredNumbers(std::string operation, const std::string& path, Fingerprint of);

  /// The path of the file, for messages.
  const std::string& url() const { return file_.url(); }

  std::uint64_t size() const { return count_; }

  /// i must be below size(). Throws DataError if its block is damaged.
  std::uint64_t operator[](std::uint64_t i) const;

  /// Numbers i and i + 1; i + 1 must be below size().
  std::pair<std::uint64_t, std::uint64_t> two(std::uint64_t i) const;

  /// Throws DataError: the file at this offset is not as these numbers, its index, say.
  [[noreturn]] void fail_outdated(const File& file, std::uint64_t offset, std::string_view what) const;

  /// For ascending numbers: how many are at most `value`.
  std::uint64_t count_up_to(std::uint64_t value) const;

 private:
  std::uint64_t numbers_in(std::uint64_t block) const;
  void read_block(std::uint64_t block, Block& numbers) const;

  File file_;
  std::uint64_t count_ = 0;
};

using Append = std::function<void(std::uint64_t)>;

/// Opens the numbers with this fingerprint; if there are none, calls `make`, which produces them in order,
/// and stores them. `url` is the file that they describe, beside which they are stored; empty: there is no
/// such file. `kind` is a name for them ("lines"). Throws DataError if they cannot be stored anywhere.
std::shared_ptr<const StoredNumbers> stored_numbers(const std::string& operation, const std::string& url,
                                                    const std::string& kind, Fingerprint of,
                                                    const IndexOptions& options,
                                                    const std::function<void(const Append&)>& make);

}  // namespace lockstep::data::internal
