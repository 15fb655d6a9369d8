// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/ffi_call.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>

#include "lockstep/base/fail.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::collectives {
namespace {

XLA_FFI_Error* make_error(const XLA_FFI_CallFrame& frame, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_ABORTED;
  return frame.api->XLA_FFI_Error_Create(&args);
}

const void* attribute(const XLA_FFI_CallFrame& frame, std::string_view wanted, XLA_FFI_AttrType type) {
  for (std::int64_t i = 0; i < frame.attrs.size; ++i) {
    const XLA_FFI_ByteSpan& name = *frame.attrs.names[i];
    if (std::string_view(name.ptr, name.len) == wanted && frame.attrs.types[i] == type)
      return frame.attrs.attrs[i];
  }
  return nullptr;
}

/// The pieces of one ffi_for_each. Those who do not get a thread before all are taken find none left.
struct Pieces {
  const std::function<void(std::int64_t)>* piece;
  std::int64_t count;
  std::atomic<std::int64_t> next = 0, ended = 0;
  std::once_flag failed;
  std::exception_ptr error;  // of the first that failed

  void work() {
    for (;;) {
      const std::int64_t i = next.fetch_add(1);
      if (i >= count) return;
      try {
        (*piece)(i);
      } catch (...) {
        std::call_once(failed, [this] { error = std::current_exception(); });
      }
      if (ended.fetch_add(1) + 1 == count) ended.notify_all();
    }
  }
};

void work_on(void* data) {
  std::unique_ptr<std::shared_ptr<Pieces>> pieces(static_cast<std::shared_ptr<Pieces>*>(data));
  (*pieces)->work();
}

}  // namespace

bool ffi_succeeded(const XLA_FFI_CallFrame& frame, XLA_FFI_Error* error) {
  if (error == nullptr) return true;
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  frame.api->XLA_FFI_Error_Destroy(&args);
  return false;
}

std::int64_t ffi_threads(const XLA_FFI_CallFrame& frame) {
  // The last of the functions that ffi_for_each calls; an older plugin's table ends before it.
  if (frame.api->struct_size <= offsetof(XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads)) return 1;
  std::int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = frame.ctx;
  args.num_threads = &threads;
  return ffi_succeeded(frame, frame.api->XLA_FFI_ThreadPool_NumThreads(&args)) ? threads : 1;
}

void ffi_for_each(const XLA_FFI_CallFrame& frame, std::int64_t count,
                  const std::function<void(std::int64_t)>& piece) {
  const auto pieces = std::make_shared<Pieces>();
  pieces->piece = &piece;
  pieces->count = count;
  const std::int64_t helpers = std::min(ffi_threads(frame), count) - 1;
  for (std::int64_t i = 0; i < helpers; ++i) {
    auto mine = std::make_unique<std::shared_ptr<Pieces>>(pieces);
    XLA_FFI_ThreadPool_Schedule_Args args{};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = frame.ctx;
    args.task = work_on;
    args.data = mine.get();
    if (!ffi_succeeded(frame, frame.api->XLA_FFI_ThreadPool_Schedule(&args))) break;
    mine.release();
  }
  pieces->work();
  for (std::int64_t ended; (ended = pieces->ended.load()) < count;) pieces->ended.wait(ended);
  if (pieces->error) std::rethrow_exception(pieces->error);
}

ForEach for_each_of(const XLA_FFI_CallFrame& frame) {
  return [&frame](std::int64_t count, const std::function<void(std::int64_t)>& piece) {
    ffi_for_each(frame, count, piece);
  };
}

XLA_FFI_Error* handle_ffi_call(XLA_FFI_CallFrame& frame,
                               const std::function<void(const XLA_FFI_CallFrame&)>& execute) {
  for (auto* extension = frame.extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    metadata.traits = 0;
    return nullptr;
  }
  try {
    execute(frame);
    return nullptr;
  } catch (const std::exception& error) {
    return make_error(frame, error.what());
  } catch (...) {
    return make_error(frame, "a handler failed with an exception that is not a std::exception");
  }
}

std::int64_t ffi_number(const XLA_FFI_CallFrame& frame, std::string_view name) {
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attribute(frame, name, XLA_FFI_AttrType_SCALAR));
  if (scalar == nullptr || (scalar->dtype != XLA_FFI_DataType_S64 && scalar->dtype != XLA_FFI_DataType_U64)) {
    fail("a custom call lacks the 64-bit attribute '{}'", name);
  }
  std::int64_t value;
  std::memcpy(&value, scalar->value, sizeof value);
  return value;
}

std::string_view ffi_text(const XLA_FFI_CallFrame& frame, std::string_view name) {
  const auto* span = static_cast<const XLA_FFI_ByteSpan*>(attribute(frame, name, XLA_FFI_AttrType_STRING));
  if (span == nullptr) fail("a custom call lacks the text attribute '{}'", name);
  return {span->ptr, span->len};
}

std::vector<std::int64_t> ffi_numbers(const XLA_FFI_CallFrame& frame, std::string_view name) {
  const auto* array = static_cast<const XLA_FFI_Array*>(attribute(frame, name, XLA_FFI_AttrType_ARRAY));
  if (array == nullptr || array->dtype != XLA_FFI_DataType_S64)
    fail("a custom call lacks the attribute '{}', an array of 64-bit integers", name);
  const auto* values = static_cast<const std::int64_t*>(array->data);
  return {values, values + array->size};
}

std::int64_t ffi_elements(const XLA_FFI_Buffer& buffer) {
  return std::accumulate(buffer.dims, buffer.dims + buffer.rank, std::int64_t{1}, std::multiplies<>());
}

std::optional<DType> dtype_of_ffi(int type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return DType::kBool;
    case XLA_FFI_DataType_S8:
      return DType::kI8;
    case XLA_FFI_DataType_S16:
      return DType::kI16;
    case XLA_FFI_DataType_S32:
      return DType::kI32;
    case XLA_FFI_DataType_S64:
      return DType::kI64;
    case XLA_FFI_DataType_U8:
      return DType::kU8;
    case XLA_FFI_DataType_U16:
      return DType::kU16;
    case XLA_FFI_DataType_U32:
      return DType::kU32;
    case XLA_FFI_DataType_U64:
      return DType::kU64;
    case XLA_FFI_DataType_F16:
      return DType::kF16;
    case XLA_FFI_DataType_BF16:
      return DType::kBF16;
    case XLA_FFI_DataType_F32:
      return DType::kF32;
    case XLA_FFI_DataType_F64:
      return DType::kF64;
    case XLA_FFI_DataType_C64:
      return DType::kC64;
    case XLA_FFI_DataType_C128:
      return DType::kC128;
    case XLA_FFI_DataType_F8E4M3FN:
      return DType::kF8E4M3FN;
    case XLA_FFI_DataType_F8E5M2:
      return DType::kF8E5M2;
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::collectives
