// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/dlpack.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/array/dlpack_layout.h"
#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"

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

/// The elements of the tensor.
HostView view_of(const Tensor& tensor, std::source_location where) {
  const std::string here = CallSiteScope::current().to_string();
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
  if (tensor.strides == nullptr) return {data, dtype, shape, nullptr, site};
  const std::vector<std::int64_t> strides(tensor.strides, tensor.strides + tensor.ndim);
  return {data, dtype, shape, &strides, site};
}

bool is_in_host_memory(const Tensor& tensor) {
  return tensor.device_type == dlpack::kCpu || tensor.device_type == dlpack::kCudaHost ||
         tensor.device_type == dlpack::kRocmHost;
}

/// This process's device with the memory of the tensor.
Device device_of(const Tensor& tensor) {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  for (Device device : runtime.local_devices()) {
    if (tensor.device_type == dlpack::kCuda && device.platform() == "cuda" &&
        runtime.pjrt_device(device).local_hardware_id() == tensor.device_id)
      return device;
  }
  fail(
      "[from_dlpack] the tensor is in the memory of {} {}, which process {} of {} does not use: its devices "
      "are {} (at {}); copy the tensor to one of them or to the host first",
      tensor.device_type == dlpack::kCuda ? "CUDA GPU"
                                          : fmt::format("a device of DLPack's type {}:", tensor.device_type),
      tensor.device_id, runtime.process_index(), runtime.process_count(),
      fmt::join(runtime.local_devices() | std::views::transform(&Device::to_string), ", "),
      CallSiteScope::current().to_string());
}

/// An array in the tensor's memory, which the owner keeps, on a GPU.
Array array_on_device(const Tensor& tensor, std::shared_ptr<const void> owner, std::source_location where) {
  constexpr std::uintptr_t kAlignment = 16;  // of arguments: kEntryParameterAlignBytes of XLA for GPUs
  const HostView view = view_of(tensor, where);
  const Aval aval{view.dtype(), view.shape(), false, {}};
  runtime::Runtime& runtime = runtime::Runtime::get();
  const Device first = runtime.local_devices().front();
  if (runtime.described()) return internal::without_elements(aval, SingleDeviceSharding(first), false);
  const Device device = device_of(tensor);
  const internal::ArrayTypeRef type = internal::intern(aval, SingleDeviceSharding(device), device != first);
  std::vector<pjrt::Buffer> shards;
  if (num_elements(view.shape()) == 0) {
    shards.push_back(runtime.put(view.data(), view.dtype(), view.shape(), device));
    return internal::make_array(type, std::move(shards));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(view.data());
  if (!view.is_row_major() || address % kAlignment != 0) {
    fail(
        "[from_dlpack] expected dense row-major elements at a multiple of {} bytes in the memory of {}, got "
        "strides [{}] for shape {}, {} bytes behind a multiple (at {}); make the tensor contiguous, or "
        "copy it, first",
        kAlignment, device.to_string(), fmt::join(view.strides(), ", "), to_string(view.shape()),
        address % kAlignment, CallSiteScope::current().to_string());
  }
  shards.push_back(runtime.client().view_of_device_memory(const_cast<void*>(view.data()), view.dtype(),
                                                          view.shape(), runtime.pjrt_device(device),
                                                          std::move(owner)));
  return internal::make_array(type, std::move(shards));
}

template <class Managed>
void delete_managed(Managed* managed) noexcept {
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

/// Takes the tensor over: deletes it with the owner.
template <class Managed>
std::shared_ptr<const void> owner_of(Managed* managed) {
  if (managed == nullptr)
    fail("[from_dlpack] expected a tensor, got a null pointer (at {})", CallSiteScope::current().to_string());
  std::shared_ptr<const void> owner(managed, [](Managed* owned) { delete_managed(owned); });
  if constexpr (std::is_same_v<Managed, Versioned>) {
    if (managed->major != 1) {
      fail("[from_dlpack] expected a tensor of DLPack 1, got version {}.{} (at {}); export it as version 1",
           managed->major, managed->minor, CallSiteScope::current().to_string());
    }
  }
  return owner;
}

template <class Managed>
HostMemory memory_of(Managed* managed, HostCopy copy, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  std::shared_ptr<const void> owner = owner_of(managed);
  const Tensor& tensor = managed->tensor;
  if (!is_in_host_memory(tensor)) {
    fail(
        "[dlpack_memory] expected a tensor in host memory, got one of DLPack's device type {}{} (at {}); "
        "copy it to the host first, or give it to from_dlpack",
        tensor.device_type, tensor.device_type == dlpack::kCuda ? ", a CUDA GPU" : "",
        CallSiteScope::current().to_string());
  }
  return {view_of(tensor, where), std::move(owner), copy, where};
}

template <class Managed>
Array array_of(Managed* managed, HostCopy copy, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  std::shared_ptr<const void> owner = owner_of(managed);
  const Tensor& tensor = managed->tensor;
  if (!is_in_host_memory(tensor)) return array_on_device(tensor, std::move(owner), where);
  return array(HostMemory(view_of(tensor, where), std::move(owner), copy, where), where);
}

/// A tensor that was given away, with what it points to.
template <class Managed>
struct GivenTensor {
  Managed managed{};
  Shape shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<const void> keeper;
};

/// DLPack's type and number of this process's first device that holds x.
std::pair<dlpack::DeviceType, std::int32_t> place_of(const Array& x) {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  const Sharding& sharding = x.sharding();
  const int position = sharding.addressable_positions(runtime.process_index()).front();
  const Device device = sharding.devices()[static_cast<std::size_t>(position)];
  if (device.platform() == "cpu") return {dlpack::kCpu, 0};
  if (device.platform() == "cuda") return {dlpack::kCuda, runtime.pjrt_device(device).local_hardware_id()};
  fail(
      "[to_dlpack] DLPack has no type of device for {}, which holds {} (at {}); copy the elements with "
      "to_host",
      device.to_string(), to_string(x.aval()), CallSiteScope::current().to_string());
}

template <class Managed>
Managed* give(const Array& x, std::source_location where) {
  CallSiteScope scope(CallSite::from(where));
  auto given = std::make_unique<GivenTensor<Managed>>();
  const pjrt::Buffer& whole = internal::whole_shard(x, "[to_dlpack]");
  const auto [device_type, device_id] = place_of(x);
  void* const data = whole.device_pointer();
  if (data == nullptr && x.size() != 0) {
    fail(
        "[to_dlpack] the elements of {} are not dense and row-major in its device's memory (at {}); copy "
        "them with to_host",
        to_string(x.aval()), CallSiteScope::current().to_string());
  }
  given->keeper = internal::data_of(internal::sharing(x));
  given->shape = x.shape();
  given->strides = internal::row_major_strides(x.shape());
  Managed& managed = given->managed;
  managed.tensor = {.data = data,
                    .device_type = device_type,
                    .device_id = device_id,
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
  return memory_of(reinterpret_cast<Versioned*>(tensor), copy, where);
}
HostMemory dlpack_memory(DLManagedTensor* tensor, HostCopy copy, std::source_location where) {
  return memory_of(reinterpret_cast<Unversioned*>(tensor), copy, where);
}

Array from_dlpack(DLManagedTensorVersioned* tensor, HostCopy copy, std::source_location where) {
  return array_of(reinterpret_cast<Versioned*>(tensor), copy, where);
}
Array from_dlpack(DLManagedTensor* tensor, HostCopy copy, std::source_location where) {
  return array_of(reinterpret_cast<Unversioned*>(tensor), copy, where);
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
