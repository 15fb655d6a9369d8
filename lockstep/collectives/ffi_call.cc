#include "lockstep/collectives/ffi_call.h"

#include <cstring>
#include <exception>

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

}  // namespace

XLA_FFI_Error* handle_ffi_call(XLA_FFI_CallFrame& frame, void (*execute)(const XLA_FFI_CallFrame&)) {
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
    return make_error(frame, "a handler failed with an exception that is no std::exception");
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
