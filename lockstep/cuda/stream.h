// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

struct XLA_FFI_CallFrame;

namespace lockstep::cuda {

struct Driver;

/// The stream of a GPU on which a program runs, while one of its custom calls is made. Work that a call
/// begins on it comes after what the program did before. The functions call CUDA's driver (libcuda.so.1),
/// which is loaded when it is first needed, and throw Error with the driver's words.
class Stream {
 public:
  /// Throws Error if the call is not one of a GPU's program, or the driver cannot be loaded.
  explicit Stream(const XLA_FFI_CallFrame& frame);

  /// Begins a copy. `host` must stay until await().
  void to_host(void* host, const void* device, std::size_t bytes) const;
  void to_device(void* device, const void* host, std::size_t bytes) const;

  /// Blocks until all work on it is done.
  void await() const;

  /// The CUstream.
  void* get() const { return stream_; }

 private:
  friend class InContextOf;
  const Driver& driver_;
  void* stream_;
};

/// While it exists, the stream's context is the thread's, as CUDA's libraries need it. XLA's thread may have
/// that of another device.
class InContextOf {
 public:
  explicit InContextOf(const Stream& stream);
  ~InContextOf();
  InContextOf(const InContextOf&) = delete;
  InContextOf& operator=(const InContextOf&) = delete;

 private:
  const Driver& driver_;
};

}  // namespace lockstep::cuda
