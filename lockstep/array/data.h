// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the layers of the library: the representation of an Array, which includes the plugin's buffers.

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/call_site.h"
#include "lockstep/pjrt/buffer.h"

namespace lockstep::internal {

/// Everything that the compiler must know about an argument. Types are interned: two arrays have the same
/// type if and only if the pointers are equal, so the key of a cached call is a list of pointers. A pointer
/// stays valid as long as an ArrayTypeRef holds the type.
struct ArrayType {
  Aval aval;
  Sharding sharding;

  /// Whether a user determined its placement. An array that is not committed moves to the devices of the
  /// other arguments.
  bool committed = false;

  int job = 0;  ///< Of the sharding's devices.

  mutable std::atomic<std::size_t> holders = 0;  ///< ArrayTypeRefs that hold it
  mutable bool unheld = false;                   ///< whether intern() found no holders when it last looked
};

/// Holds an interned type, or none. May be copied by several threads.
class ArrayTypeRef {
 public:
  ArrayTypeRef() = default;

  /// The type must be held elsewhere during the construction.
  ArrayTypeRef(const ArrayType* type) : type_(type) {
    if (type_ != nullptr) type_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  ArrayTypeRef(const ArrayTypeRef& other) : ArrayTypeRef(other.type_) {}
  ArrayTypeRef(ArrayTypeRef&& other) noexcept : type_(std::exchange(other.type_, nullptr)) {}
  ArrayTypeRef& operator=(ArrayTypeRef other) noexcept {
    std::swap(type_, other.type_);
    return *this;
  }
  ~ArrayTypeRef() {
    if (type_ != nullptr) type_->holders.fetch_sub(1, std::memory_order_release);
  }

  const ArrayType* get() const { return type_; }
  operator const ArrayType*() const { return type_; }
  const ArrayType& operator*() const { return *type_; }
  const ArrayType* operator->() const { return type_; }

 private:
  const ArrayType* type_ = nullptr;
};

/// The type. A type without holders may be dropped at a later call. Throws Error if the sharding is of a job
/// that this process has left.
ArrayTypeRef intern(Aval aval, const Sharding& sharding, bool committed);

/// Drops all types without holders.
void forget_types();

/// The number of kept types.
std::size_t num_kept_types();

struct ArrayData {
  // For a concrete array:
  ArrayTypeRef type;
  std::vector<pjrt::Buffer> shards;  ///< on the sharding's local devices, in its order; for described devices
                                     ///< they contain no buffers
  CallSite donated_at;               ///< the call site of the computation to which it was donated

  /// Host copies of shards whose memory the host cannot read: by shard, null if none was begun yet.
  mutable std::unique_ptr<std::vector<std::shared_ptr<const pjrt::CopyToHost>>> host_copies;

  /// It only has a shape, a dtype and a sharding: it was made by shape_of(), or the devices are described.
  bool no_elements = false;

  /// The C++ number of which a weak f32 scalar was made.
  std::optional<double> number;

  // For a tracer:
  std::shared_ptr<Trace::Life> trace;
  ir::Var var = 0;
  Aval aval;
  CallSite made_at;
};

/// A concrete array with these buffers.
Array make_array(ArrayTypeRef type, std::vector<pjrt::Buffer> shards);

/// The data of a concrete array that may be read. Throws Error for no array, a tracer, an array of a job that
/// this process has left, and one that was deleted or donated, with `use` ("[to_host]") and the line that
/// donated it.
const ArrayData& concrete(const Array& array, std::string_view use);

/// Where all elements of a concrete array are, on the first device of this process that has them. Blocks
/// until they are computed. Throws as concrete() and check_has_elements(), and ShardingError if no device of
/// this process has them all.
const pjrt::Buffer& whole_shard(const Array& array, std::string_view use);

/// Throws DescribedError, with `use`, if the array has no elements.
void check_has_elements(const ArrayData& data, std::string_view use);

/// Throws TraceError for a tracer whose function has ended, naming `use`.
void check_not_leaked(const Array& array, std::string_view use);

}  // namespace lockstep::internal
