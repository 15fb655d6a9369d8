// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/indexed_dims.h"

#include <fmt/ranges.h>

#include "lockstep/base/fail.h"
#include "lockstep/program/primitives/rules.h"

namespace lockstep::ir {
namespace indexed {
namespace {

using Integers = std::vector<std::int64_t>;

void check_dims(const Integers& dims, const Aval& of, std::string_view what, bool rising) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool again = std::ranges::count(dims, dims[i]) > 1;
    if (dims[i] < 0 || dims[i] >= of.rank() || again || (rising && i != 0 && dims[i] < dims[i - 1])) {
      fail<ShapeError>("expected dimensions of {}, each once{}, as {}, got {}", to_string(of),
                       rising ? " and rising" : "", what, to_string(dims));
    }
  }
}

}  // namespace

bool contains(const Integers& dims, std::int64_t d) { return std::ranges::find(dims, d) != dims.end(); }

Integers window_dims(std::int64_t rank, const GatherDimensionNumbers& numbers) {
  Integers dims;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(numbers.collapsed_slice_dims, d) && !contains(numbers.operand_batching_dims, d))
      dims.push_back(d);
  }
  return dims;
}

Integers batch_dims(std::int64_t rank, const Integers& offset_dims) {
  Integers dims;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(offset_dims, d)) dims.push_back(d);
  }
  return dims;
}

std::array<std::optional<Value>, 3> split_at(const Value& indices, std::int64_t k) {
  const Shape& shape = indices.aval().shape;
  const std::array<std::int64_t, 4> ends = {0, k, k + 1, shape.back()};
  std::array<std::optional<Value>, 3> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (ends[i] == ends[i + 1]) continue;
    Shape from(shape.size()), to = shape;
    from.back() = ends[i];
    to.back() = ends[i + 1];
    parts[i] = from.back() == 0 && to.back() == shape.back() ? indices : lax::slice(indices, from, to);
  }
  return parts;
}

Value joined(const std::array<std::optional<Value>, 3>& parts, const Value& numbers) {
  std::vector<Value> all;
  if (parts[0]) all.push_back(*parts[0]);
  all.push_back(numbers);
  if (parts[2]) all.push_back(*parts[2]);
  return all.size() == 1 ? numbers : lax::concatenate(std::span<const Value>(all), numbers.aval().rank() - 1);
}

void check(const Aval& operand, const Aval& indices, const GatherDimensionNumbers& numbers) {
  if (!is_integer(indices.dtype)) {
    fail<DTypeError>("expected whole numbers as indices, got {}; convert with astype", to_string(indices));
  }
  const auto count = static_cast<std::int64_t>(numbers.start_index_map.size());
  if (indices.shape.empty() || indices.shape.back() != count) {
    fail<ShapeError>(
        "expected indices whose last dimension has {} numbers, one for each of the dimensions {} of {}, got "
        "{}",
        count, to_string(numbers.start_index_map), to_string(operand), to_string(indices));
  }
  check_dims(numbers.start_index_map, operand, "those that indices name", false);
  check_dims(numbers.collapsed_slice_dims, operand, "those that go", true);
  check_dims(numbers.operand_batching_dims, operand, "batching dimensions", false);
  check_dims(numbers.start_indices_batching_dims, indices, "batching dimensions", false);
  if (numbers.operand_batching_dims.size() != numbers.start_indices_batching_dims.size()) {
    fail<ShapeError>("expected the same number of batching dimensions of {} and {}, got {} and {}",
                     to_string(operand), to_string(indices), to_string(numbers.operand_batching_dims),
                     to_string(numbers.start_indices_batching_dims));
  }
  for (std::size_t i = 0; i < numbers.operand_batching_dims.size(); ++i) {
    const std::int64_t d = numbers.operand_batching_dims[i], j = numbers.start_indices_batching_dims[i];
    if (contains(numbers.start_index_map, d) || contains(numbers.collapsed_slice_dims, d) ||
        j == indices.rank() - 1) {
      fail<ShapeError>("dimension {} of {} is batching, and cannot be indexed or collapsed as well", d,
                       to_string(operand));
    }
    if (operand.shape[static_cast<std::size_t>(d)] != indices.shape[static_cast<std::size_t>(j)]) {
      fail<ShapeError>(
          "expected batching dimensions of one size, got dimension {} of {} and dimension {} of {}", d,
          to_string(operand), j, to_string(indices));
    }
  }
}

void check_offsets(const Integers& offset_dims, std::size_t count, std::size_t rank, std::string_view what) {
  bool fits = offset_dims.size() == count && std::ranges::is_sorted(offset_dims);
  for (std::int64_t d : offset_dims) {
    fits = fits && d >= 0 && d < static_cast<std::int64_t>(rank) && std::ranges::count(offset_dims, d) == 1;
  }
  if (!fits) {
    fail<ShapeError>("expected {} {}, rising and below {}, got {}", count, what, rank,
                     to_string(offset_dims));
  }
}

GatherDimensionNumbers batched(GatherDimensionNumbers numbers, bool operand, bool indices) {
  numbers.offset_dims = rules::shifted(std::move(numbers.offset_dims));
  if (operand) {
    numbers.collapsed_slice_dims = rules::shifted(std::move(numbers.collapsed_slice_dims));
    numbers.start_index_map = rules::shifted(std::move(numbers.start_index_map));
    numbers.operand_batching_dims = rules::shifted(std::move(numbers.operand_batching_dims));
  }
  if (indices) {
    numbers.start_indices_batching_dims = rules::shifted(std::move(numbers.start_indices_batching_dims));
  } else {
    numbers.offset_dims = rules::prepended(0, std::move(numbers.offset_dims));
  }
  if (operand && indices) {
    numbers.operand_batching_dims = rules::prepended(0, std::move(numbers.operand_batching_dims));
    numbers.start_indices_batching_dims = rules::prepended(0, std::move(numbers.start_indices_batching_dims));
  }
  return numbers;
}

std::string mlir(
    const std::vector<std::pair<std::string_view, const std::vector<std::int64_t>*>>& dimension_lists,
    std::int64_t index_vector_dim) {
  std::string text;
  for (const auto& [name, dims] : dimension_lists) {
    if (!dims->empty()) text += fmt::format("{} = [{}], ", name, fmt::join(*dims, ", "));
  }
  return text + fmt::format("index_vector_dim = {}", index_vector_dim);
}

}  // namespace indexed

GatherDimensionNumbers as_gather(const ScatterDimensionNumbers& numbers) {
  return {numbers.update_window_dims, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims,
          numbers.operand_batching_dims, numbers.scatter_indices_batching_dims};
}

Shape scatter_slice_sizes(const Shape& operand, const Shape& updates,
                          const ScatterDimensionNumbers& numbers) {
  Shape sizes(operand.size(), 1);
  const std::vector<std::int64_t> windows =
      indexed::window_dims(static_cast<std::int64_t>(operand.size()), as_gather(numbers));
  for (std::size_t w = 0; w < windows.size() && w < numbers.update_window_dims.size(); ++w) {
    const auto from = static_cast<std::size_t>(numbers.update_window_dims[w]);
    if (from < updates.size()) sizes[static_cast<std::size_t>(windows[w])] = updates[from];
  }
  return sizes;
}

}  // namespace lockstep::ir
