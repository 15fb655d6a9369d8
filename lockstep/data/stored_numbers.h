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

/// A list of numbers in a local file, of which any is read by itself; it takes no memory. The file:
///   8 bytes "LSNUMS01", then little-endian u64: the fingerprint of what the numbers are of, their count, and
///   the XXH3 of these 24 bytes; then blocks of 511 numbers, the last one of fewer, each with its XXH3.
/// May be used by several threads at a time.
class StoredNumbers {
 public:
  static constexpr std::uint64_t kHeader = 32, kInBlock = 511;
  using Block = std::array<std::uint64_t, kInBlock + 1>;

  /// Throws DataError if the file is none, is cut off, or is of another fingerprint.
  StoredNumbers(std::string operation, const std::string& path, Fingerprint of);

  std::uint64_t size() const { return count_; }

  /// Throws DataError if its block is damaged; i is below size().
  std::uint64_t operator[](std::uint64_t i) const;

  /// Numbers i and i + 1; i + 1 is below size().
  std::pair<std::uint64_t, std::uint64_t> two(std::uint64_t i) const;

  /// Of numbers that rise: how many are at most `value`.
  std::uint64_t count_up_to(std::uint64_t value) const;

 private:
  std::uint64_t numbers_in(std::uint64_t block) const;
  void read_block(std::uint64_t block, Block& numbers) const;

  File file_;
  std::uint64_t count_ = 0;
};

using Append = std::function<void(std::uint64_t)>;

/// Opens the numbers of this fingerprint, or has `make` give them, in order, and stores them first.
/// `url` is the file that they are of, beside which they stand; empty: there is no such file. `kind` is what
/// they are ("lines"), for the name. Throws DataError if they can be stored nowhere.
std::shared_ptr<const StoredNumbers> stored_numbers(const std::string& operation, const std::string& url,
                                                    const std::string& kind, Fingerprint of,
                                                    const IndexOptions& options,
                                                    const std::function<void(const Append&)>& make);

}  // namespace lockstep::data::internal
