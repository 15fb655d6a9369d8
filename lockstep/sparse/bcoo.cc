// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sparse/bcoo.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/ops.h"

namespace lockstep::sparse {
namespace {

constexpr IndexOptions kZeroOutside = {.mode = GatherScatterMode::kFillOrDrop, .fill_value = 0};

/// The indices of each dimension.
std::vector<Array> by_dimension(const BCOO& x) {
  std::vector<Array> all;
  for (std::int64_t d = 0; d < x.ndim(); ++d) all.push_back(x.indices[{slice(), d}]);
  return all;
}

std::vector<Index> places(const std::vector<Array>& by_dimension) {
  return {by_dimension.begin(), by_dimension.end()};
}

IndexUpdate at(const Array& x, const std::vector<Array>& by_dimension) {
  return IndexUpdate(x, places(by_dimension));
}

/// Stacks as BCOO::indices; of no dimensions, too.
Array joined(const std::vector<Array>& by_dimension, std::int64_t nse) {
  return by_dimension.empty() ? zeros({nse, 0}, int32) : astype(stack(by_dimension, 1), int32);
}

internal::Elements elements_of(const BCOO& x) {
  return {x.data, x.indices[{slice(), 0}], x.indices[{slice(), 1}]};
}

/// The indices counted from 0; those out of bounds are the size.
std::vector<Array> counted_from_0(const BCOO& x) {
  std::vector<Array> all = by_dimension(x);
  for (std::size_t d = 0; d < all.size(); ++d) {
    const std::int64_t size = x.shape[d];
    all[d] = where(all[d] < 0, all[d] + size, all[d]);
    all[d] = where((all[d] < 0) | (all[d] > size), size, all[d]);
  }
  return all;
}

/// Of elements whose indices are sorted, whether each has other indices than the one before.
Array begins(const std::vector<Array>& sorted, std::int64_t nse) {
  Array differs = arange(nse) == 0;
  for (const Array& index : sorted) differs = differs | (index != roll(index, 1, 0));
  return differs;
}

/// lexsort takes the most significant key last.
Array order_of(std::vector<Array> by_dimension) {
  std::ranges::reverse(by_dimension);
  return lexsort(by_dimension);
}

}  // namespace

BCOO BCOO::fromdense(const Operand& operand, std::optional<std::int64_t> nse) {
  CallSiteScope scope(operand.site());
  const Array x = operand.as_array();
  const Array is_there = x != 0;
  if (!nse && x.is_tracer()) {
    fail<TraceError>(
        "[sparse] how many elements are not 0 is not known while a function is traced; pass nse to fromdense "
        "(at {})",
        operand.site().to_string());
  }
  const Array count = sum(astype(is_there, int64));
  if (!nse) nse = count.item<std::int64_t>();
  std::vector<Array> index = nonzero(is_there, *nse);
  const Array counts = arange(*nse) < count;
  for (std::size_t d = 0; d < index.size(); ++d) index[d] = where(counts, index[d], x.shape()[d]);
  const Array data = x.ndim() == 0 ? broadcast_to(x, {*nse}) : at(x, index).get(kZeroOutside);
  return {data, joined(index, *nse), x.shape(), true, true};
}

BCOO BCOO::from_coo(const HostView& data, const HostView& rows, const HostView& columns, const Shape& shape) {
  internal::check_matrix(shape);
  if (data.shape().size() != 1 || rows.shape() != data.shape() || columns.shape() != data.shape()) {
    fail<ShapeError>(
        "[sparse] expected vectors of one size for the data, rows and columns, got {}, {} and {} (at {})",
        to_string(data.shape()), to_string(rows.shape()), to_string(columns.shape()),
        CallSiteScope::current().to_string());
  }
  return {array(data), joined({array(rows), array(columns)}, data.shape()[0]), shape};
}

Array BCOO::todense() const {
  if (shape.empty()) return sum(data);
  return at(zeros(shape, data.dtype()), by_dimension(*this)).add(data, {.unique_indices = unique_indices});
}

BCOO BCOO::sort_indices() const {
  if (indices_sorted || shape.empty()) return *this;
  const std::vector<Array> index = counted_from_0(*this);
  const Array order = order_of(index);
  return {take(data, order, 0), take(joined(index, nse()), order, 0), shape, true, unique_indices};
}

BCOO BCOO::sum_duplicates(std::optional<std::int64_t> size) const {
  std::vector<Array> index = counted_from_0(*this);
  Array is_within = data != 0;
  for (std::size_t d = 0; d < index.size(); ++d) is_within = is_within & (index[d] < shape[d]);
  // Zeros and those out of bounds come last.
  for (std::size_t d = 0; d < index.size(); ++d) index[d] = where(is_within, index[d], shape[d]);
  const Array order = index.empty() ? arange(nse()) : order_of(index);
  for (Array& each : index) each = take(each, order, 0);
  is_within = take(is_within, order, 0);
  const Array first = begins(index, nse());
  if (!size) {
    size = nse();
    const Array count = sum(astype(first & is_within, int64));
    if (!count.is_tracer()) size = count.item<std::int64_t>();
  }
  const Array place = where(is_within, cumsum(astype(first, int32), 0) - 1, *size);
  for (std::size_t d = 0; d < index.size(); ++d)
    index[d] = full({*size}, shape[d], index[d].dtype()).at(place).set(index[d]);
  return {segment_sum(take(data, order, 0), place, *size), joined(index, *size), shape, true, true};
}

BCOO BCOO::transpose(const std::vector<std::int64_t>& given) const {
  std::vector<std::int64_t> axes = given;
  if (axes.empty())
    for (std::int64_t d = ndim(); d-- > 0;) axes.push_back(d);
  std::vector<std::int64_t> sorted = axes;
  std::ranges::sort(sorted);
  bool is_permutation = sorted.size() == shape.size();
  for (std::size_t d = 0; is_permutation && d < sorted.size(); ++d)
    is_permutation = sorted[d] == static_cast<std::int64_t>(d);
  if (!is_permutation) {
    fail<ShapeError>("[sparse] transpose expects a permutation of the {} dimensions, got {} (at {})",
                     shape.size(), to_string(Shape(axes)), CallSiteScope::current().to_string());
  }
  const std::vector<Array> index = by_dimension(*this);
  std::vector<Array> moved;
  Shape moved_shape;
  for (std::int64_t axis : axes) {
    moved.push_back(index[static_cast<std::size_t>(axis)]);
    moved_shape.push_back(shape[static_cast<std::size_t>(axis)]);
  }
  return {data, joined(moved, nse()), moved_shape, false, unique_indices};
}

BCOO BCOO::with_values(const Values& values) const {
  BCOO result = *this;
  result.data = values;
  return result;
}

Array matmul(const BCOO& a, const Operand& x) {
  CallSiteScope scope(x.site());
  const Array right = internal::checked_operand(a.shape, x, false);
  return internal::product(elements_of(a), right, a.shape[0]);
}

Array matmul(const Operand& x, const BCOO& a) {
  CallSiteScope scope(x.site());
  internal::check_matrix(a.shape);
  return internal::product(x, elements_of(a), a.shape);
}

namespace internal {

Array product(const Elements& elements, const Array& x, std::int64_t num_rows) {
  const Array factors = x.at(elements.columns).get(kZeroOutside);
  const Array terms = (x.ndim() == 1 ? elements.values : expand_dims(elements.values, 1)) * factors;
  Shape shape = x.shape();
  shape[0] = num_rows;
  return zeros(shape, terms.dtype()).at(elements.rows).add(terms);
}

Array product(const Operand& x, const Elements& elements, const Shape& shape) {
  const Array left = checked_operand(shape, x, true);
  return transpose(product({elements.values, elements.columns, elements.rows}, left, shape[1]));
}

void check_matrix(const Shape& shape) {
  if (shape.size() == 2) return;
  fail<ShapeError>("[sparse] expected a matrix, got a sparse array of shape {} (at {})", to_string(shape),
                   CallSiteScope::current().to_string());
}

Array checked_operand(const Shape& shape, const Operand& operand, bool left) {
  check_matrix(shape);
  const Array x = operand.as_array();
  const std::int64_t size = shape[left ? 0 : 1];
  if (x.ndim() < 1 || x.ndim() > 2 || x.shape()[left ? static_cast<std::size_t>(x.ndim() - 1) : 0] != size) {
    fail<ShapeError>(
        "[sparse] the product of a {} matrix expects a vector of {} or a matrix of as many {} {}, "
        "got shape {} (at {})",
        to_string(shape), size, left ? "columns" : "rows", left ? "to its left" : "to its right",
        to_string(x.shape()), operand.site().to_string());
  }
  return left ? transpose(x) : x;
}

}  // namespace internal
}  // namespace lockstep::sparse
