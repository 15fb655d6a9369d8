// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::data::internal {

/// The Castagnoli CRC, and TFRecord's masked form of it, rotated and with a constant added, so that CRCs of
/// data that contains CRCs are reliable.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace lockstep::data::internal
