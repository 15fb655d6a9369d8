#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sharding/sharding.h"

namespace lockstep::checkpoint {

/// A part of an array: a range for each dimension. Of a scalar, none.
using Box = std::vector<IndexRange>;

/// The whole of an array.
Box whole(const Shape& shape);

Shape shape_of(const Box& box);
std::int64_t volume(const Box& box);

/// What both have; nullopt if that is nothing.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Whether all of `inner` is in `outer`.
bool contains(const Box& outer, const Box& inner);

/// "0:512,0:1024"; "" of a scalar.
std::string to_string(const Box& box);

/// Calls run(from, to, bytes) for each stretch of memory of `common`, which is in both boxes: with its offset
/// in the dense row-major elements of `from` and in those of `to`. The stretches are as long as they can be.
void for_each_stretch(const Box& common, const Box& from, const Box& to, std::size_t element,
                      const std::function<void(std::size_t from, std::size_t to, std::size_t bytes)>& run);

/// Where the elements of `box` begin in the dense row-major elements of `all`, which has it, in bytes;
/// nullopt if they are not one stretch there.
std::optional<std::size_t> only_stretch(const Box& box, const Box& all, std::size_t element);

/// A box that counts from the start of `outer`, as one that counts as `outer` does; and the reverse.
Box placed_in(const Box& outer, Box box);
Box counted_from(const Box& outer, Box box);

/// Copies what both boxes have.
void copy_common(const Box& from_box, const std::byte* from, const Box& to_box, std::byte* to,
                 std::size_t element);

}  // namespace lockstep::checkpoint
