// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/array_view.h"

#include "lockstep/array/parts.h"
#include "lockstep/base/fail.h"

namespace lockstep::internal {

Elements elements_in_place(const Array& x, std::string_view what, DType dtype) {
  const void* data = x.in_place(what, dtype);
  return {data, data_of(sharing(x))};
}

void fail_view_rank(std::size_t indices, const Shape& shape) {
  fail<ShapeError>("[view] expected {} indices for an array of shape {}, got {}", shape.size(),
                   to_string(shape), indices);
}

}  // namespace lockstep::internal
