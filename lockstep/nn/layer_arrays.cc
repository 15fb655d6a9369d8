// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layer_arrays.h"

#include <algorithm>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"

namespace lockstep::nn::internal {

Array made(const Initializer& given, const Initializer& otherwise, const random::KeyOperand& key,
           std::string_view name, const Shape& shape, DType dtype) {
  return (given.valid() ? given : otherwise)(key_at(random::Key(key.as_array()), name), shape, dtype);
}

void check_sizes(std::string_view layer, std::string_view what, const std::vector<std::int64_t>& sizes) {
  if (!sizes.empty() && std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; })) return;
  fail<ShapeError>("[nn::{}] expected {} above 0, got {}{}", layer, what, to_string(Shape(sizes)), ops::at());
}

void check_made(std::string_view layer, const Array& array) {
  if (array.valid()) return;
  fail("[nn::{}] expected a layer with its arrays, got one without{}; make them with nn::init(model, key)",
       layer, ops::at());
}

void check_made(std::string_view layer, const std::optional<Array>& array) {
  check_made(layer, array.value_or(Array()));
}

void check_features(std::string_view layer, const Operand& x, const std::vector<std::int64_t>& sizes) {
  const Shape& shape = x.shape();
  if (shape.size() >= sizes.size() && std::equal(sizes.rbegin(), sizes.rend(), shape.rbegin())) return;
  fail<ShapeError>("[nn::{}] expected an array whose last dimensions are {}, got {}{}", layer,
                   to_string(Shape(sizes)), to_string(x.aval()), ops::at());
}

PartitionSpec last_axes(const PartitionSpec& axes, std::int64_t first, std::int64_t count) {
  std::vector<std::vector<std::string>> entries;
  for (std::int64_t d = first; d < first + count; ++d)
    entries.push_back(axes.axes(static_cast<std::size_t>(d)));
  return PartitionSpec::from_entries(std::move(entries)).normalized();
}

}  // namespace lockstep::nn::internal
