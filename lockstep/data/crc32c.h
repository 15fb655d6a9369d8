#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::data::internal {

/// The Castagnoli CRC, and TFRecord's form of it: rotated and added to, so that a CRC of data that holds CRCs
/// is a good one.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace lockstep::data::internal
