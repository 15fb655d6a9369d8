// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/dlpack.h"

#include <algorithm>
#include <utility>

#include "lockstep/array/array_view.h"
#include "lockstep/array/dlpack_layout.h"
#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

using dlpack::Tensor;
using dlpack::Unversioned;
using dlpack::Versioned;

struct DlpackType {
  DType dtype;
  std::uint8_t code;
};

constexpr DlpackType kDlpackTypes[] = {
    {DType::kBool, dlpack::kBool},         {DType::kI8, dlpack::kInt},
    {DType::kI16, dlpack::kInt},           {DType::kI32, dlpack::kInt},
    {DType::kI64, dlpack::kInt},           {DType::kU8, dlpack::kUInt},
    {DType::kU16, dlpack::kUInt},          {DType::kU32, dlpack::kUInt},
    {DType::kU64, dlpack::kUInt},          {DType::kF16, dlpack::kFloat},
    {DType::kBF16, dlpack::kBfloat},       {DType::kF32, dlpack::kFloat},
    {DType::kF64, dlpack::kFloat},         {DType::kC64, dlpack::kComplex},
    {DType::kC128, dlpack::kComplex},      {DType::kF8E4M3FN, dlpack::kFloat8E4M3FN},
    {DType::kF8E5M2, dlpack::kFloat8E5M2},
};
static_assert(std::size(kDlpackTypes) == kNumDTypes);

DType dtype_of_tensor(const Tensor& tensor) {
  for (const DlpackType& each : kDlpackTypes) {
    if (each.code == tensor.type.code && 8 * size_of(each.dtype) == tensor.type.bits &&
        tensor.type.lanes == 1)
      return each.dtype;
  }
  fail<DTypeError>(
      "[from_dlpack] there is no dtype for DLPack's type code {} with {} bits and {} lanes (at {}); convert "
      "the tensor to another type first",
      tensor.type.code, tensor.type.bits, tensor.type.lanes, CallSiteScope::current().to_string());
}

/// The elements of the tensor, which the owner keeps.
HostMemory memory_of(const Tensor& tensor, std::shared_ptr<const void> owner, HostCopy copy,
                     std::source_location where) {
  const std::string here = CallSiteScope::current().to_string();
  if (tensor.device_type != dlpack::kCpu && tensor.device_type != dlpack::kCudaHost &&
      tensor.device_type != dlpack::kRocmHost) {
    fail(
        "[from_dlpack] expected a tensor in host memory, got one of DLPack's device type {}{} (at {}); copy "
        "it to the host first",
        tensor.device_type, tensor.device_type == dlpack::kCuda ? ", a CUDA GPU" : "", here);
  }
  if (tensor.ndim < 0)
    fail<ShapeError>("[from_dlpack] expected 0 or more dimensions, got {} (at {})", tensor.ndim, here);
  if (tensor.ndim > 0 && tensor.shape == nullptr) {
    fail<ShapeError>(
        "[from_dlpack] expected the shape of a tensor of {} dimensions, got a null pointer (at {})",
        tensor.ndim, here);
  }
  const DType dtype = dtype_of_tensor(tensor);
  const Shape shape(tensor.shape, tensor.shape + tensor.ndim);
  const char* data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  if (std::ranges::find(shape, 0) != shape.end()) {
    alignas(HostMemory::kAlignment) static constexpr char kNothing = 0;
    data = &kNothing;  // the tensor may have no address
  }
  const CallSite site = CallSite::from(where);
  if (tensor.strides == nullptr)
    return {HostView(data, dtype, shape, nullptr, site), std::move(owner), copy, where};
  const std::vector<std::int64_t> strides(tensor.strides, tensor.strides + tensor.ndim);
  return {HostView(data, dtype, shape, &strides, site), std::move(owner), copy, where};
}

template <class Managed>
void delete_managed(Managed* managed) noexcept {
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

template <class Managed>
HostMemory take_over(Managed* managed, HostCopy copy, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  if (managed == nullptr)
    fail("[from_dlpack] expected a tensor, got a null pointer (at {})", CallSiteScope::current().to_string());
  std::shared_ptr<const void> owner(managed, [](Managed* owned) { delete_managed(owned); });
  if constexpr (std::is_same_v<Managed, Versioned>) {
    if (managed->major != 1) {
      fail("[from_dlpack] expected a tensor of DLPack 1, got version {}.{} (at {}); export it as version 1",
           managed->major, managed->minor, CallSiteScope::current().to_string());
    }
  }
  return memory_of(managed->tensor, std::move(owner), copy, where);
}

/// A tensor that was given away, with what it points to.
template <class Managed>
struct GivenTensor {
  Managed managed{};
  Shape shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<const void> keeper;
};

template <class Managed>
Managed* give(const Array& x, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  auto given = std::make_unique<GivenTensor<Managed>>();
  const internal::Elements elements = internal::elements_in_place(x, "[to_dlpack]", x.dtype());
  given->keeper = elements.keeper;
  given->shape = x.shape();
  given->strides = internal::row_major_strides(x.shape());
  Managed& managed = given->managed;
  managed.tensor = {.data = const_cast<void*>(elements.data),
                    .device_type = dlpack::kCpu,
                    .device_id = 0,
                    .ndim = static_cast<std::int32_t>(given->shape.size()),
                    .type = {kDlpackTypes[static_cast<std::size_t>(x.dtype())].code,
                             static_cast<std::uint8_t>(8 * size_of(x.dtype())), 1},
                    .shape = given->shape.data(),
                    .strides = given->strides.data(),
                    .byte_offset = 0};
  managed.context = given.get();
  managed.deleter = [](Managed* given) { delete static_cast<GivenTensor<Managed>*>(given->context); };
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.major = 1;
    managed.minor = 1;
    managed.flags = dlpack::kReadOnly;
  }
  return &given.release()->managed;
}

}  // namespace

HostMemory dlpack_memory(DLManagedTensorVersioned* tensor, HostCopy copy, std::source_location where) {
  return take_over(reinterpret_cast<Versioned*>(tensor), copy, where);
}
HostMemory dlpack_memory(DLManagedTensor* tensor, HostCopy copy, std::source_location where) {
  return take_over(reinterpret_cast<Unversioned*>(tensor), copy, where);
}

Array from_dlpack(DLManagedTensorVersioned* tensor, HostCopy copy, std::source_location where) {
  return array(dlpack_memory(tensor, copy, where), where);
}
Array from_dlpack(DLManagedTensor* tensor, HostCopy copy, std::source_location where) {
  return array(dlpack_memory(tensor, copy, where), where);
}

void DlpackDeleter::operator()(DLManagedTensorVersioned* tensor) const noexcept {
  delete_managed(reinterpret_cast<Versioned*>(tensor));
}
void DlpackDeleter::operator()(DLManagedTensor* tensor) const noexcept {
  delete_managed(reinterpret_cast<Unversioned*>(tensor));
}

std::unique_ptr<DLManagedTensorVersioned, DlpackDeleter> to_dlpack(const Array& x,
                                                                   std::source_location where) {
  return std::unique_ptr<DLManagedTensorVersioned, DlpackDeleter>(
      reinterpret_cast<DLManagedTensorVersioned*>(give<Versioned>(x, where)));
}

std::unique_ptr<DLManagedTensor, DlpackDeleter> to_unversioned_dlpack(const Array& x,
                                                                      std::source_location where) {
  return std::unique_ptr<DLManagedTensor, DlpackDeleter>(
      reinterpret_cast<DLManagedTensor*>(give<Unversioned>(x, where)));
}

}  // namespace lockstep
