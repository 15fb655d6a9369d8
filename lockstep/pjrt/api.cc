// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/api.h"

#include <array>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep::pjrt {
namespace {

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

constexpr std::array<std::pair<DType, PJRT_Buffer_Type>, kNumDTypes> kTypes = {{
    {DType::kBool, PJRT_Buffer_Type_PRED},
    {DType::kI8, PJRT_Buffer_Type_S8},
    {DType::kI16, PJRT_Buffer_Type_S16},
    {DType::kI32, PJRT_Buffer_Type_S32},
    {DType::kI64, PJRT_Buffer_Type_S64},
    {DType::kU8, PJRT_Buffer_Type_U8},
    {DType::kU16, PJRT_Buffer_Type_U16},
    {DType::kU32, PJRT_Buffer_Type_U32},
    {DType::kU64, PJRT_Buffer_Type_U64},
    {DType::kF16, PJRT_Buffer_Type_F16},
    {DType::kBF16, PJRT_Buffer_Type_BF16},
    {DType::kF32, PJRT_Buffer_Type_F32},
    {DType::kF64, PJRT_Buffer_Type_F64},
    {DType::kC64, PJRT_Buffer_Type_C64},
    {DType::kC128, PJRT_Buffer_Type_C128},
    {DType::kF8E4M3FN, PJRT_Buffer_Type_F8E4M3FN},
    {DType::kF8E5M2, PJRT_Buffer_Type_F8E5M2},
}};

}  // namespace

void ignore(const PJRT_Api* api, PJRT_Error* error) noexcept {
  if (error == nullptr) return;
  LOCKSTEP_PJRT_ARGS(PJRT_Error_Destroy_Args, args);
  args.error = error;
  api->PJRT_Error_Destroy(&args);
}

void throw_error(const PJRT_Api* api, PJRT_Error* error, std::string_view what) {
  LOCKSTEP_PJRT_ARGS(PJRT_Error_GetCode_Args, code);
  code.error = error;
  if (PJRT_Error* second = api->PJRT_Error_GetCode(&code)) {
    ignore(api, second);
    code.code = PJRT_Error_Code_UNKNOWN;
  }
  LOCKSTEP_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  const auto number = static_cast<std::size_t>(code.code);
  std::string text =
      fmt::format("[pjrt] {}: {}: {}", what,
                  number < kCodeNames.size() ? kCodeNames[number] : std::string_view("UNKNOWN"),
                  std::string_view(message.message, message.message_size));
  ignore(api, error);
  if (code.code == PJRT_Error_Code_RESOURCE_EXHAUSTED) throw OutOfMemoryError(text);
  throw PjrtError(text);
}

void await_and_destroy(const PJRT_Api* api, PJRT_Event* event, std::string_view what) {
  LOCKSTEP_PJRT_ARGS(PJRT_Event_Await_Args, await);
  await.event = event;
  PJRT_Error* error = api->PJRT_Event_Await(&await);
  destroy(api, event);
  check(api, error, what);
}

void destroy(const PJRT_Api* api, PJRT_Event* event) noexcept {
  LOCKSTEP_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
  args.event = event;
  ignore(api, api->PJRT_Event_Destroy(&args));
}

PJRT_Buffer_Type to_pjrt(DType dtype) {
  const auto& [found, type] = kTypes.at(static_cast<std::size_t>(dtype));
  if (found != dtype) fail<PjrtError>("[pjrt] the table of dtypes is out of order at {}", name(dtype));
  return type;
}

std::size_t bytes_of(DType dtype, std::span<const std::int64_t> dims) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t dim : dims) bytes *= static_cast<std::size_t>(dim);
  return bytes;
}

DType from_pjrt(PJRT_Buffer_Type type, std::string_view what) {
  for (const auto& [dtype, pjrt] : kTypes)
    if (pjrt == type) return dtype;
  fail<PjrtError>("[pjrt] {} has PJRT element type {}, for which Lockstep has no dtype", what,
                  static_cast<int>(type));
}

RowMajorLayout::RowMajorLayout(std::size_t rank, std::string_view what) {
  if (rank > minor_to_major_.size())
    fail<PjrtError>("[pjrt] {}: it has {} dimensions, more than {}", what, rank, minor_to_major_.size());
  for (std::size_t i = 0; i < rank; ++i) minor_to_major_[i] = static_cast<std::int64_t>(rank - 1 - i);
  layout_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout_.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout_.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout_.tiled.minor_to_major = minor_to_major_.data();
  layout_.tiled.minor_to_major_size = rank;
}

}  // namespace lockstep::pjrt
