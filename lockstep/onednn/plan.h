// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/onednn/layout.h"
#include "lockstep/onednn/library.h"

namespace lockstep::onednn {

/// Memory for numbers, which are not initialized.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : data_(::operator new (bytes < 1 ? 1 : bytes, std::align_val_t{64})) {}
  float* data() const { return static_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(void* data) const { ::operator delete (data, std::align_val_t{64}); }
  };
  std::unique_ptr<void, Free> data_;
};

/// A primitive with the memory that it needs for intermediate results. It runs on any thread.
class Runnable {
 public:
  Runnable(const Library& library, const PrimitiveDesc& desc);
  void run(std::vector<Argument> arguments) const;

 private:
  const Library& library_;
  MemoryDescHandle scratchpad_;
  PrimitiveHandle primitive_;
};

/// An array that a primitive reads or writes, in the caller's order of elements and in the one that the
/// primitive takes, with what copies from one to the other if they differ.
class Operand {
 public:
  /// `what` is how the primitive's description names the array.
  Operand(const Library& library, MemoryDescHandle callers, const PrimitiveDesc& primitive, int what,
          bool is_result);

  /// Whether the primitive takes the caller's order.
  bool is_direct() const { return !copy_; }
  std::size_t primitive_bytes() const;
  MemoryHandle primitive_memory(void* data) const;

  /// Copies to the primitive's order, or from it if it is the result.
  void copy(void* from, void* to) const;

 private:
  const Library& library_;
  MemoryDescHandle callers_, primitives_;
  std::optional<Runnable> copy_;
  bool is_result_;
};

/// A computation of two operands and a result.
class Plan {
 public:
  /// What each array is to the primitive, in its description and among its arguments.
  struct Role {
    int what, argument;
  };

  /// nullopt where oneDNN has only its reference code for it, which is slow.
  static std::optional<Plan> make(const Library& library, PrimitiveDescHandle primitive,
                                  std::vector<MemoryDescHandle> arrays, const std::vector<Role>& roles);

  /// The operand as the primitive takes it: `data` itself, or a copy in `scratch`.
  void* prepare(std::size_t operand, void* data, std::optional<Scratch>& scratch) const;

  /// Computes the result from prepared operands.
  void run(void* first, void* second, void* result) const;

 private:
  Plan(Runnable primitive, std::vector<Operand> arrays, std::vector<Role> roles)
      : primitive_(std::move(primitive)), arrays_(std::move(arrays)), roles_(std::move(roles)) {}

  Runnable primitive_;
  std::vector<Operand> arrays_;  // the operands, then the result
  std::vector<Role> roles_;
};

MemoryDescHandle describe(const Library& library, const Layout& layout);

/// In an order that the primitive chooses.
MemoryDescHandle describe_any(const Library& library, const Layout& layout);

}  // namespace lockstep::onednn
