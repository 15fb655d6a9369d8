// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/array/array.h"
#include "lockstep/pjrt/buffer.h"

namespace lockstep::metrics {

/// The number in an array of one element. It keeps the array's memory: the array may be donated or deleted
/// meanwhile.
class NumberOfArray {
 public:
  /// For an array of which this process has a part; `name` is for messages. Throws ShapeError, DTypeError,
  /// TraceError.
  NumberOfArray(const Array& array, const std::string& name);

  /// Whether this process has a part of the array.
  static bool is_here(const Array& array);

  /// Whether it is computed. Throws the error of its computation.
  bool is_ready() const { return buffer_.ready(); }

  /// Blocks until it is computed. Throws the error of its computation.
  double read() const;

 private:
  DType dtype_;
  pjrt::Buffer buffer_;
};

}  // namespace lockstep::metrics
