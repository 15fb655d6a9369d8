// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/callback.h"

#include "lockstep/array/trace.h"
#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/callback.h"

namespace lockstep {

HostArray::HostArray(DType dtype, Shape shape, const void* data)
    : dtype_(dtype), shape_(std::move(shape)), bytes_(static_cast<std::size_t>(size()) * size_of(dtype)) {
  if (data != nullptr && !bytes_.empty()) std::memcpy(bytes_.data(), data, bytes_.size());
}

Shape HostArray::checked(Shape shape, std::size_t given) {
  if (num_elements(shape) != static_cast<std::int64_t>(given))
    fail<ShapeError>("[HostArray] expected {} elements for the shape {}, got {}", num_elements(shape),
                     to_string(shape), given);
  return shape;
}

void HostArray::check(DType asked) const {
  if (asked != dtype_)
    fail<DTypeError>("[HostArray] the elements are {}, and cannot be read as {}", name(dtype_), name(asked));
}

namespace internal {

std::vector<Array> call_back(const ir::Primitive& primitive, AnyCallback function,
                             const std::vector<lockstep::ResultType>& results, const CallbackOptions& options,
                             const std::vector<Array>& operands, const CallSite& site) {
  CallSiteScope scope(site);
  const std::string place = CallSiteScope::current().to_string();
  ir::CallbackParams params;
  params.vmap_method = static_cast<std::int64_t>(options.vmap_method);
  for (const lockstep::ResultType& result : results) {
    std::vector<int>& numbers = params.results.emplace_back();
    numbers.push_back(static_cast<int>(result.dtype));
    for (const std::int64_t size : result.shape) numbers.push_back(static_cast<int>(size));
  }
  params.function = ir::NamedHostFunction(
      [function = std::move(function), name = primitive.name, place](
          std::span<const ir::HostBuffer> given, std::span<const ir::HostBuffer> results) {
        std::vector<HostArray> arguments;
        for (const ir::HostBuffer& each : given) arguments.emplace_back(each.dtype, each.shape, each.data);
        const std::vector<HostArray> found = function(std::move(arguments));
        if (found.size() != results.size()) {
          fail<ShapeError>("[{}] expected {} arrays from the function, got {} (at {})", name, results.size(),
                           found.size(), place);
        }
        for (std::size_t i = 0; i < found.size(); ++i) {
          const Aval said = {results[i].dtype, results[i].shape}, is = {found[i].dtype(), found[i].shape()};
          if (said.dtype != is.dtype || said.shape != is.shape) {
            fail<ShapeError>("[{}] expected result {} of the function as {}, got {} (at {})", name, i,
                             to_string(said), to_string(is), place);
          }
          std::memcpy(results[i].data, found[i].data(), static_cast<std::size_t>(said.bytes()));
        }
      },
      place);
  return apply_primitive(primitive, ir::OpParams::of(std::move(params)), operands);
}

}  // namespace internal
}  // namespace lockstep
