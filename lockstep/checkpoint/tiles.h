#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/checkpoint/box.h"

/// How a stored part is cut into tiles, each with a checksum of its own. A reader that needs some of a part
/// reads and checks the tiles that it touches. They are cut so that parts of an array in two, four or eight
/// along any dimension end where tiles do; so who reads with other shardings reads little that it does not
/// need.
namespace lockstep::checkpoint {

/// The tiles' sizes for a part of this shape. A tile has 4 KiB to 16 MiB, unless the part has less; about a
/// thousandth of a part of up to 1 GiB at least, and of larger ones 1 MiB.
Shape choose_tile(const Shape& shape, std::size_t element);

/// Tiles that lie in one stretch of the part's memory, 16 MiB at most where choose_tile chose: what is read,
/// written and checked at a time.
struct Unit {
  Box box;                 ///< in the part, which begins at 0
  std::size_t offset = 0;  ///< of its first byte in the part's memory
  std::size_t bytes = 0;
  std::size_t first_tile = 0;  ///< in the row-major order of all tiles
  std::vector<Box> tiles;
};

/// Calls visit for each unit, in the order of the memory. Stops where visit gives false.
void for_each_unit(const Shape& shape, const Shape& tile, std::size_t element,
                   const std::function<bool(const Unit&)>& visit);

std::size_t num_tiles(const Shape& shape, const Shape& tile);

/// 32 hexadecimal digits: XXH3-128 of the tile's bytes, row by row, where `memory` has those of the unit.
std::string tile_sum(const Box& tile, const Box& unit, const std::byte* memory, std::size_t element);

/// Hexadecimal digits of a tile's checksum.
inline constexpr std::size_t kSumDigits = 32;

}  // namespace lockstep::checkpoint
