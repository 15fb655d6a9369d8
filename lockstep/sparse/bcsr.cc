// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sparse/bcsr.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/ops/ops.h"

namespace lockstep::sparse {
namespace {

/// Up to here the product takes an element of each row at a time, in a loop that is unrolled.
constexpr std::int64_t kShort = 32;

std::int64_t longest_of(const Array& indptr) {
  if (indptr.is_tracer() || !indptr.is_fully_addressable()) return 0;
  const std::vector<std::int32_t> pointers = indptr.to_host<std::int32_t>();
  std::int64_t longest = 0;
  for (std::size_t i = 1; i < pointers.size(); ++i)
    longest = std::max<std::int64_t>(longest, pointers[i] - pointers[i - 1]);
  return longest;
}

internal::Elements elements_of(const BCSR& x) {
  const Array ones_where_rows_begin = zeros({x.nse()}, int32).at(x.indptr).add(1);
  return {x.data, cumsum(ones_where_rows_begin, 0) - 1, x.indices};
}

/// The same sum, without a scatter: element k of each row for one k after the other, which XLA makes one loop
/// over the rows.
Array product_by_rows(const BCSR& a, const Array& x) {
  const Array begin = a.indptr[{slice(none, -1)}], end = a.indptr[{slice(1, none)}];
  const IndexOptions within = {.mode = GatherScatterMode::kPromiseInBounds};
  const IndexOptions zero_outside = {.mode = GatherScatterMode::kFillOrDrop, .fill_value = 0};
  Array y;
  for (std::int64_t k = 0; k < a.longest_row; ++k) {
    const Array place = begin + k;
    Array is_there = place < end, value = a.data.at(place).get(within);
    const Array factor = x.at(a.indices.at(place).get(within)).get(zero_outside);
    if (x.ndim() == 2) {
      is_there = expand_dims(is_there, 1);
      value = expand_dims(value, 1);
    }
    const Array term = where(is_there, value * factor, 0);
    y = k == 0 ? term : y + term;
  }
  return y;
}

}  // namespace

BCSR BCSR::fromdense(const Operand& x, std::optional<std::int64_t> nse) {
  internal::check_matrix(x.shape());
  return from_bcoo(BCOO::fromdense(x, nse));
}

BCSR BCSR::from_csr(const HostView& data, const HostView& indices, const HostView& indptr,
                    const Shape& shape) {
  internal::check_matrix(shape);
  if (data.shape().size() != 1 || indices.shape() != data.shape() || indptr.shape() != Shape{shape[0] + 1}) {
    fail<ShapeError>(
        "[sparse] expected data and indices of one size, and {} row pointers, got {}, {} and {} (at {})",
        shape[0] + 1, to_string(data.shape()), to_string(indices.shape()), to_string(indptr.shape()),
        CallSiteScope::current().to_string());
  }
  BCSR result{array(data), astype(array(indices), int32), astype(array(indptr), int32), shape};
  const std::vector<std::int32_t> pointers = result.indptr.to_host<std::int32_t>();
  if (pointers.front() != 0 || !std::ranges::is_sorted(pointers) || pointers.back() > result.nse()) {
    fail<ShapeError>("[sparse] row pointers ascend from 0 to at most the number of elements, {} (at {})",
                     result.nse(), CallSiteScope::current().to_string());
  }
  result.longest_row = longest_of(result.indptr);
  return result;
}

BCSR BCSR::from_bcoo(const BCOO& x) {
  internal::check_matrix(x.shape);
  const BCOO sorted = x.sort_indices();
  const Array rows = sorted.indices[{slice(), 0}];
  const Array pointers = astype(searchsorted(rows, arange(x.shape[0] + 1)), int32);
  return {sorted.data, sorted.indices[{slice(), 1}], pointers, x.shape, longest_of(pointers)};
}

BCOO BCSR::to_bcoo() const {
  const internal::Elements all = elements_of(*this);
  return {data, stack({all.rows, all.columns}, 1), shape};
}

BCSR BCSR::sort_indices() const { return from_bcoo(to_bcoo().sort_indices()); }

BCSR BCSR::sum_duplicates(std::optional<std::int64_t> nse) const {
  return from_bcoo(to_bcoo().sum_duplicates(nse));
}

BCSR BCSR::with_values(const Values& values) const {
  BCSR result = *this;
  result.data = values;
  return result;
}

Array matmul(const BCSR& a, const Operand& operand) {
  CallSiteScope scope(operand.site());
  const Array x = internal::checked_operand(a.shape, operand, false);
  const std::int64_t rows = a.shape[0];
  if (a.longest_row < 1 || a.longest_row > kShort) return internal::product(elements_of(a), x, rows);
  // The derivative of the fast form would be a scatter for each k.
  using Pair = std::tuple<Array, Array>;
  const auto fast = custom_jvp(
      [&a](const Array& data, const Array& x) { return product_by_rows(a.with_values(data), x); },
      [&a, rows](const Pair& at, const Pair& change) {
        const auto& [data, x] = at;
        const auto& [data_change, x_change] = change;
        internal::Elements all = elements_of(a.with_values(data));
        const Array by_x = internal::product(all, x_change, rows);
        all.values = data_change;
        return std::pair(product_by_rows(a.with_values(data), x), internal::product(all, x, rows) + by_x);
      });
  return fast(a.data, x);
}

Array matmul(const Operand& operand, const BCSR& a) {
  CallSiteScope scope(operand.site());
  return internal::product(operand, elements_of(a), a.shape);
}

}  // namespace lockstep::sparse
