// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sparse/row_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/ops.h"

namespace lockstep::sparse {
namespace {

/// What an element of the rest costs, in padded elements of rows: it is added by a scatter.
constexpr std::int64_t kCostOfRest = 8;

/// Each element of a row more is a part of the program.
constexpr std::int64_t kWidest = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A matrix on the host, in blocks.
class Blocks {
 public:
  Blocks(const BCSR& matrix, std::int64_t count)
      : pointers_(matrix.indptr.to_host<std::int32_t>()),
        columns_(matrix.indices.to_host<std::int32_t>()),
        num_rows_(matrix.shape[0]),
        num_columns_(matrix.shape[1]),
        count_(count),
        rows_(std::max<std::int64_t>(1, ceil_div(num_rows_, count))) {
    for (std::int32_t& column : columns_)
      if (column < 0) column += static_cast<std::int32_t>(num_columns_);
    choose_width();
    find_halo();
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t width() const { return width_; }
  std::int64_t rest() const { return rest_; }
  std::int64_t halo() const { return halo_; }

  /// put(place, element, index) for each element among the first of its row, and rest(place, element, row of
  /// the block, index) for the others.
  template <class Put, class Rest>
  void place(Put put, Rest rest) const {
    for (std::int64_t block = 0; block < count_; ++block) {
      std::int64_t next = block * rest_;
      for_each_row(block, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          if (k - begin < width_)
            put(((k - begin) * count_ + block) * rows_ + row, k, index(block, k));
          else
            rest(next++, k, row, index(block, k));
        }
      });
    }
  }

  /// An index out of bounds.
  std::int32_t padding() const {
    return static_cast<std::int32_t>(halo_ < 0 ? num_columns_ : rows_ + 2 * halo_);
  }

 private:
  template <class F>
  void for_each_row(std::int64_t block, F f) const {
    const std::int64_t first = block * rows_, limit = std::min(first + rows_, num_rows_);
    for (std::int64_t row = first; row < limit; ++row) {
      const auto at = static_cast<std::size_t>(row);
      f(row - first, pointers_[at], pointers_[at + 1]);
    }
  }

  void choose_width() {
    std::int64_t least = -1;
    std::vector<std::int64_t> beyond(static_cast<std::size_t>(kWidest) + 1);
    for (std::int64_t block = 0; block < count_; ++block) {
      std::vector<std::int64_t> here(beyond.size());  // for each width, the elements besides
      for_each_row(block, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t width = 0; width <= kWidest && width < end - begin; ++width)
          here[static_cast<std::size_t>(width)] += end - begin - width;
      });
      for (std::size_t i = 0; i < here.size(); ++i) beyond[i] = std::max(beyond[i], here[i]);
    }
    for (std::int64_t width = 0; width <= kWidest; ++width) {
      const std::int64_t rest = beyond[static_cast<std::size_t>(width)];
      const std::int64_t cost = width * rows_ + kCostOfRest * rest;
      if (least >= 0 && cost >= least) continue;
      least = cost;
      width_ = width;
      rest_ = rest;
    }
  }

  void find_halo() {
    if (num_rows_ != num_columns_) return;
    std::int64_t most = 0;
    for (std::int64_t block = 0; block < count_; ++block) {
      const std::int64_t first = block * rows_;
      for_each_row(block, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) {
          const std::int64_t column = columns_[static_cast<std::size_t>(k)];
          if (column < 0 || column >= num_columns_) continue;
          most = std::max({most, first - column, column + 1 - (first + rows_)});
        }
      });
    }
    if (most <= rows_) halo_ = most;
  }

  std::int32_t index(std::int64_t block, std::int64_t k) const {
    const std::int64_t column = columns_[static_cast<std::size_t>(k)];
    if (column < 0 || column >= num_columns_) return padding();
    return static_cast<std::int32_t>(halo_ < 0 ? column : column - block * rows_ + halo_);
  }

  std::vector<std::int32_t> pointers_, columns_;
  std::int64_t num_rows_, num_columns_, count_, rows_;
  std::int64_t width_ = 0, rest_ = 0, halo_ = -1;
};

/// For each block, the elements of x that its columns may be: [blocks, …], or x itself without a halo.
Array reachable(const RowBlocks& a, const Array& x) {
  if (a.halo < 0) return x;
  const std::int64_t blocks = a.data.shape()[1], rows = a.data.shape()[2];
  std::vector<std::pair<std::int64_t, std::int64_t>> behind(static_cast<std::size_t>(x.ndim()));
  behind[0] = {0, blocks * rows - x.shape()[0]};
  Shape split = x.shape();
  split[0] = rows;
  split.insert(split.begin(), blocks);
  const Array own = reshape(pad(x, behind), split);
  if (a.halo == 0) return own;
  // A pad and a slice of the blocks is a permute between neighbours.
  const Array last = own[{slice(), slice(rows - a.halo, none)}], first = own[{slice(), slice(none, a.halo)}];
  std::vector<std::pair<std::int64_t, std::int64_t>> around(split.size());
  around[0] = {1, 1};
  return concatenate({pad(last, around)[{slice(none, -2)}], own, pad(first, around)[{slice(2, none)}]}, 1);
}

/// values * x[index]: for [blocks, n] of both, [blocks, n], with the columns of x behind.
Array terms(const RowBlocks& a, const Array& values, const Array& index, const Array& reachable) {
  constexpr GatherScatterMode kFill = GatherScatterMode::kFillOrDrop;
  if (reachable.ndim() == 2 && a.halo >= 0)  // a loop of half the time of the one below
    return values * take_along_axis(reachable, index, 1, kFill, 0);
  const TakeOptions zero_outside = {.axis = 0, .mode = kFill, .fill_value = 0};
  const Array factors =
      a.halo < 0 ? take(reachable, index, zero_outside) : vmap([&](const Array& x, const Array& index) {
        return take(x, index, zero_outside);
      })(reachable, index);
  return (factors.ndim() == 2 ? values : expand_dims(values, 2)) * factors;
}

}  // namespace

RowBlocks RowBlocks::with_values(const Values& values) const {
  RowBlocks result = *this;
  result.data = values.first;
  result.rest_data = values.second;
  return result;
}

RowBlocks split_rows(const BCSR& matrix, const Sharding& rows) {
  const std::vector<std::string>& axes = rows.spec().axes(0);
  if (rows.spec().entries().size() > 1) {
    fail<ShardingError>("[sparse] split_rows expects the sharding of a vector, got {} (at {})",
                        rows.to_string(), CallSiteScope::current().to_string());
  }
  std::int64_t count = 1;
  for (const std::string& axis : axes) count *= rows.mesh().axis_size(axis);
  const Blocks blocks(matrix, count);

  const DType dtype = matrix.dtype();
  const std::size_t itemsize = size_of(dtype);
  const auto own = static_cast<std::size_t>(blocks.width() * count * blocks.rows());
  const auto besides = static_cast<std::size_t>(count * blocks.rest());
  std::vector<std::byte> data(own * itemsize), rest_data(besides * itemsize);
  std::vector<std::byte> given(static_cast<std::size_t>(matrix.data.nbytes()));
  matrix.data.copy_to_host(given.data(), dtype);
  std::vector<std::int32_t> indices(own, blocks.padding()), rest_indices(besides, blocks.padding());
  std::vector<std::int32_t> rest_rows(besides, static_cast<std::int32_t>(blocks.rows()));
  auto copy = [&](std::vector<std::byte>& to, std::int64_t place, std::int64_t element) {
    std::memcpy(to.data() + static_cast<std::size_t>(place) * itemsize,
                given.data() + static_cast<std::size_t>(element) * itemsize, itemsize);
  };
  blocks.place(
      [&](std::int64_t place, std::int64_t element, std::int32_t index) {
        copy(data, place, element);
        indices[static_cast<std::size_t>(place)] = index;
      },
      [&](std::int64_t place, std::int64_t element, std::int64_t row, std::int32_t index) {
        copy(rest_data, place, element);
        rest_rows[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(row);
        rest_indices[static_cast<std::size_t>(place)] = index;
      });

  auto placed = [&](const void* elements, DType type, const Shape& shape) {
    std::vector<std::vector<std::string>> entries(shape.size() - 2);
    entries.push_back(axes);
    return device_put(HostView(elements, type, shape, nullptr, CallSiteScope::current()),
                      NamedSharding(rows.mesh(), PartitionSpec::from_entries(entries)));
  };
  const Shape by_row = {blocks.width(), count, blocks.rows()}, in_list = {count, blocks.rest()};
  return {placed(data.data(), dtype, by_row),
          placed(indices.data(), int32, by_row),
          placed(rest_data.data(), dtype, in_list),
          placed(rest_rows.data(), int32, in_list),
          placed(rest_indices.data(), int32, in_list),
          matrix.shape,
          blocks.halo()};
}

Array matmul(const RowBlocks& a, const Operand& operand) {
  CallSiteScope scope(operand.site());
  const Array x = internal::checked_operand(a.shape, operand, false);
  const std::int64_t blocks = a.data.shape()[1], rows = a.data.shape()[2];
  const Array within_reach = reachable(a, x);
  Shape shape = x.shape();
  shape[0] = rows;
  shape.insert(shape.begin(), blocks);
  // One loop over the rows for all k.
  Array y;
  for (std::int64_t k = 0; k < a.data.shape()[0]; ++k) {
    const Array term = terms(a, a.data[k], a.indices[k], within_reach);
    y = k == 0 ? term : y + term;
  }
  if (a.rest_data.size() > 0 || !y.valid()) {
    const Array rest = vmap([&](const Array& term, const Array& row) {
      return segment_sum(term, row, rows);
    })(terms(a, a.rest_data, a.rest_indices, within_reach), a.rest_rows);
    y = y.valid() ? y + rest : rest;
  }
  shape = x.shape();
  shape[0] = blocks * rows;
  y = reshape(y, shape);
  return shape[0] == a.shape[0] ? y : y[{slice(none, a.shape[0])}];
}

Array matmul(const Operand& operand, const RowBlocks& a) {
  CallSiteScope scope(operand.site());
  const Array x = internal::checked_operand(a.shape, operand, true);
  // The product with the other side is linear; this is its transpose.
  Shape shape = x.shape();
  shape[0] = a.shape[1];
  const DType dtype = multiply(zeros({}, x.dtype()), zeros({}, a.dtype())).dtype();
  const auto back = vjp([&](const Array& right) { return matmul(a, right); }, zeros(shape, dtype)).second;
  return transpose(std::get<0>(back(astype(x, dtype))));
}

}  // namespace lockstep::sparse
