// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/box.h"

/// How a stored part is divided into tiles, each with its own checksum. A reader that needs a portion of a
/// part reads and verifies the tiles that it touches. Tiles end at the boundaries of two, four or eight equal
/// parts of an array along any dimension, so that readers with other shardings read little unneeded data.
namespace lockstep::checkpoint {

/// The size of the tiles for a part of this shape. A tile has 4 KiB to 16 MiB, unless the part is smaller: at
/// least about a thousandth of a part of up to 1 GiB, and 1 MiB for larger parts.
Shape choose_tile(const Shape& shape, std::size_t element);

/// Tiles that are contiguous in the part's memory, at most 16 MiB with sizes from choose_tile: the unit of
/// reading, writing and verifying.
struct Unit {
  Box box;                 ///< within the part, whose coordinates begin at 0
  std::size_t offset = 0;  ///< of its first byte in the part's memory
  std::size_t bytes = 0;
  std::size_t first_tile = 0;  ///< in the row-major order of all tiles
  std::vector<Box> tiles;
};

/// Calls visit for each unit, in the order of memory. Stops if visit returns false.
void for_each_unit(const Shape& shape, const Shape& tile, std::size_t element,
                   const std::function<bool(const Unit&)>& visit);

std::size_t num_tiles(const Shape& shape, const Shape& tile);

/// 32 hexadecimal digits: XXH3-128 of the tile's bytes in row-major order; `memory` has the bytes of the
/// unit.
std::string tile_sum(const Box& tile, const Box& unit, const std::byte* memory, std::size_t element);

/// Hexadecimal digits of a tile's checksum.
inline constexpr std::size_t kSumDigits = 32;

}  // namespace lockstep::checkpoint
