// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::checkpoint {
namespace {

std::int64_t length(const IndexRange& range) { return range.limit - range.start; }

}  // namespace

Box whole(const Shape& shape) {
  Box box;
  for (std::int64_t size : shape) box.push_back({0, size});
  return box;
}

Shape shape_of(const Box& box) {
  Shape shape;
  for (const IndexRange& range : box) shape.push_back(length(range));
  return shape;
}

std::int64_t volume(const Box& box) { return num_elements(shape_of(box)); }

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common;
  for (std::size_t d = 0; d < a.size(); ++d) {
    common.push_back({std::max(a[d].start, b[d].start), std::min(a[d].limit, b[d].limit)});
    if (length(common.back()) <= 0) return std::nullopt;
  }
  return common;
}

bool contains(const Box& outer, const Box& inner) {
  for (std::size_t d = 0; d < outer.size(); ++d) {
    if (inner[d].start < outer[d].start || inner[d].limit > outer[d].limit) return false;
  }
  return true;
}

std::string to_string(const Box& box) {
  std::string text;
  for (const IndexRange& range : box)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", range.start, range.limit);
  return text;
}

void for_each_stretch(const Box& common, const Box& from, const Box& to, std::size_t element,
                      const std::function<void(std::size_t, std::size_t, std::size_t)>& run) {
  if (volume(common) == 0) return;
  // Dimensions after `last` are whole in both, so the common part is contiguous in them.
  std::size_t bytes = element, last = common.size();
  while (last > 0) {
    --last;
    bytes *= static_cast<std::size_t>(length(common[last]));
    if (common[last] != from[last] || common[last] != to[last]) break;
  }
  std::vector<std::size_t> from_stride(common.size()), to_stride(common.size());
  std::size_t from_size = element, to_size = element, from_at = 0, to_at = 0;
  for (std::size_t d = common.size(); d-- > 0;) {
    from_stride[d] = from_size;
    to_stride[d] = to_size;
    from_at += static_cast<std::size_t>(common[d].start - from[d].start) * from_size;
    to_at += static_cast<std::size_t>(common[d].start - to[d].start) * to_size;
    from_size *= static_cast<std::size_t>(length(from[d]));
    to_size *= static_cast<std::size_t>(length(to[d]));
  }
  std::vector<std::int64_t> index(last, 0);
  for (;;) {
    run(from_at, to_at, bytes);
    std::size_t d = last;
    for (;; --d) {
      if (d == 0) return;
      from_at += from_stride[d - 1];
      to_at += to_stride[d - 1];
      if (++index[d - 1] < length(common[d - 1])) break;
      from_at -= static_cast<std::size_t>(index[d - 1]) * from_stride[d - 1];
      to_at -= static_cast<std::size_t>(index[d - 1]) * to_stride[d - 1];
      index[d - 1] = 0;
    }
  }
}

std::optional<std::size_t> only_stretch(const Box& box, const Box& all, std::size_t element) {
  std::size_t at = 0;
  int count = 0;
  for_each_stretch(box, all, box, element, [&](std::size_t from, std::size_t, std::size_t) {
    if (count++ == 0) at = from;
  });
  return count == 1 ? std::optional(at) : std::nullopt;
}

Box placed_in(const Box& outer, Box box) {
  for (std::size_t d = 0; d < box.size(); ++d) {
    box[d].start += outer[d].start;
    box[d].limit += outer[d].start;
  }
  return box;
}

Box counted_from(const Box& outer, Box box) {
  for (std::size_t d = 0; d < box.size(); ++d) {
    box[d].start -= outer[d].start;
    box[d].limit -= outer[d].start;
  }
  return box;
}

void copy_common(const Box& from_box, const std::byte* from, const Box& to_box, std::byte* to,
                 std::size_t element) {
  const std::optional<Box> common = intersection(from_box, to_box);
  if (!common || volume(*common) == 0) return;
  for_each_stretch(*common, from_box, to_box, element,
                   [&](std::size_t at, std::size_t there, std::size_t bytes) {
                     std::memcpy(to + there, from + at, bytes);
                   });
}

}  // namespace lockstep::checkpoint
