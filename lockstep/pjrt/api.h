// SPDX-License-Identifier: Apache-2.0
#pragma once

// Only for the sources of this folder: it includes the types of the PJRT C API.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/dtype.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace lockstep::pjrt {

/// An argument struct of the C API, zeroed, with its size set: `auto args =
/// make<PJRT_X_Args>(PJRT_X_Args_STRUCT_SIZE)`.
#define LOCKSTEP_PJRT_ARGS(type, name) \
  type name{};                         \
  name.struct_size = type##_STRUCT_SIZE

/// If there is an error, destroys it and throws it as "[pjrt] WHAT: CODE_NAME: message".
void throw_error(const PJRT_Api* api, PJRT_Error* error, std::string_view what);
inline void check(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  if (error != nullptr) [[unlikely]]
    throw_error(api, error, what);
}

/// Destroys an error that cannot be reported.
void ignore(const PJRT_Api* api, PJRT_Error* error) noexcept;

/// Blocks until the event is done, destroys it, and throws its error.
void await_and_destroy(const PJRT_Api* api, PJRT_Event* event, std::string_view what);

/// Destroys the event without waiting.
void destroy(const PJRT_Api* api, PJRT_Event* event) noexcept;

PJRT_Buffer_Type to_pjrt(DType dtype);

/// The bytes of dense elements.
std::size_t bytes_of(DType dtype, std::span<const std::int64_t> dims);

/// Throws PjrtError for a type for which Lockstep has no dtype; `what` is named in the message.
DType from_pjrt(PJRT_Buffer_Type type, std::string_view what);

/// The layout of dense row-major elements, as an argument of the C API.
class RowMajorLayout {
 public:
  /// Throws PjrtError, with `what`, for more than 32 dimensions.
  RowMajorLayout(std::size_t rank, std::string_view what);
  RowMajorLayout(const RowMajorLayout&) = delete;
  RowMajorLayout& operator=(const RowMajorLayout&) = delete;

  PJRT_Buffer_MemoryLayout* get() { return &layout_; }

 private:
  std::array<std::int64_t, 32> minor_to_major_;
  PJRT_Buffer_MemoryLayout layout_{};
};

}  // namespace lockstep::pjrt
