// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {

/// A request: the memory for the elements of `box` of an array, dense and row-major.
struct Wanted {
  std::string path;
  Box box;
  std::byte* into = nullptr;
  bool once = false;  ///< no other process reads it
};

/// Arrays that a tree is restored from.
class Source {
 public:
  virtual ~Source() = default;

  /// For messages.
  virtual const std::string& url() const = 0;

  /// The dtypes and shapes of the arrays, and the values.
  virtual const Manifest& manifest() const = 0;

  /// The array with this path. If there is none, throws a CheckpointError that names the nearest path.
  virtual const ArrayInfo& array(const std::string& path) const = 0;

  /// Throws CheckpointError if a file with elements of the box is missing or has another size than the
  /// manifest says: so that nobody reserves memory for an array that is not there.
  virtual void check_files(const std::string& path, const Box& box) const = 0;

  /// Reads all requests, several files and ranges at a time. Blocks.
  virtual void read(const std::vector<Wanted>& wanted) const = 0;

  /// The box of an array in a mapped file, if it is there as it is asked for; otherwise null.
  virtual std::shared_ptr<const void> map(const std::string& path, const Box& box) const = 0;

  /// The bytes that `read` and `map` have read so far.
  virtual std::uint64_t bytes_read() const = 0;
};

}  // namespace lockstep::checkpoint
