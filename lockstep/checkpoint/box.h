// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sharding/sharding.h"

namespace lockstep::checkpoint {

/// A part of an array: a range for each dimension; empty for a scalar.
using Box = std::vector<IndexRange>;

/// The whole array.
Box whole(const Shape& shape);

Shape shape_of(const Box& box);
std::int64_t volume(const Box& box);

/// The intersection; nullopt if it is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Whether all of `inner` is in `outer`.
bool contains(const Box& outer, const Box& inner);

/// "0:512,0:1024"; "" for a scalar.
std::string to_string(const Box& box);

/// Calls run(from, to, bytes) for each contiguous range of `common`, which is in both boxes, with the range's
/// offset in the dense row-major elements of `from` and in those of `to`. The ranges are as long as possible.
void for_each_stretch(const Box& common, const Box& from, const Box& to, std::size_t element,
                      const std::function<void(std::size_t from, std::size_t to, std::size_t bytes)>& run);

/// The offset in bytes of the elements of `box` in the dense row-major elements of `all`, which contains it;
/// nullopt unless they are contiguous there.
std::optional<std::size_t> only_stretch(const Box& box, const Box& all, std::size_t element);

/// counted_from: the box, relative to the start of `outer`. placed_in: the inverse.
Box placed_in(const Box& outer, Box box);
Box counted_from(const Box& outer, Box box);

/// Copies the elements in both boxes.
void copy_common(const Box& from_box, const std::byte* from, const Box& to_box, std::byte* to,
                 std::size_t element);

}  // namespace lockstep::checkpoint
