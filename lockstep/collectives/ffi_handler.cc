#include "lockstep/collectives/ffi_handler.h"

#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/registry.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::collectives {

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
    default:
      return std::nullopt;
  }
}

namespace {

Operand operand_of(const XLA_FFI_Buffer& buffer) {
  Operand operand;
  operand.data = buffer.data;
  operand.dtype = dtype_of_ffi(buffer.dtype);
  std::size_t elements = buffer.dtype == XLA_FFI_DataType_TOKEN ? 0 : 1;
  for (std::int64_t i = 0; i < buffer.rank; ++i) elements *= static_cast<std::size_t>(buffer.dims[i]);
  if (operand.dtype) operand.bytes = elements * size_of(*operand.dtype);
  return operand;
}

const XLA_FFI_Buffer& argument(const XLA_FFI_CallFrame& frame, std::int64_t index) {
  return *static_cast<const XLA_FFI_Buffer*>(frame.args.args[index]);
}

std::int64_t attribute(const XLA_FFI_CallFrame& frame, std::string_view wanted) {
  for (std::int64_t i = 0; i < frame.attrs.size; ++i) {
    const XLA_FFI_ByteSpan& name = *frame.attrs.names[i];
    if (std::string_view(name.ptr, name.len) != wanted || frame.attrs.types[i] != XLA_FFI_AttrType_SCALAR)
      continue;
    const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(frame.attrs.attrs[i]);
    if (scalar.dtype != XLA_FFI_DataType_S64 && scalar.dtype != XLA_FFI_DataType_U64) continue;
    std::int64_t value;
    std::memcpy(&value, scalar.value, sizeof value);
    return value;
  }
  fail("a custom call {} lacks the 64-bit attribute '{}'", kCollectiveTarget, wanted);
}

void execute(const XLA_FFI_CallFrame& frame) {
  ProgramRegistry* registry = ProgramRegistry::current();
  if (registry == nullptr) {
    fail("a compiled program does a collective, but Lockstep is not initialized in this process");
  }
  if (frame.args.size < 1 || argument(frame, 0).dtype != XLA_FFI_DataType_S32 ||
      argument(frame, 0).rank != 0) {
    fail("a custom call {} needs its device's position as operand 0, a scalar s32", kCollectiveTarget);
  }
  std::int32_t position;
  std::memcpy(&position, argument(frame, 0).data, sizeof position);
  const Operand in = frame.args.size > 1 ? operand_of(argument(frame, 1)) : Operand{};
  Operand out;
  for (std::int64_t i = 0; i < frame.rets.size; ++i) {
    const Operand result = operand_of(*static_cast<const XLA_FFI_Buffer*>(frame.rets.rets[i]));
    if (i == 0) {
      out = result;
    } else if (result.bytes != 0) {
      std::memset(const_cast<void*>(result.data), 0, result.bytes);
    }
  }
  registry->run(static_cast<Fingerprint>(attribute(frame, "program")), attribute(frame, "call"), position, in,
                out);
}

XLA_FFI_Error* make_error(const XLA_FFI_CallFrame& frame, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = XLA_FFI_Error_Code_ABORTED;
  return frame.api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* handler(XLA_FFI_CallFrame* frame) {
  // At registration the frame only asks which version of the interface this is.
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    metadata.traits = 0;
    return nullptr;
  }
  try {
    execute(*frame);
    return nullptr;
  } catch (const std::exception& error) {
    return make_error(*frame, error.what());
  } catch (...) {
    return make_error(*frame, "a collective failed with an exception that is no std::exception");
  }
}

}  // namespace

void* collective_handler() { return reinterpret_cast<void*>(&handler); }

}  // namespace lockstep::collectives
