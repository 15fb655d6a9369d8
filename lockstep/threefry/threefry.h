// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lockstep/collectives/ffi_call.h"

/// The Threefry-2x32 block function with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", 2011) on CPUs. XLA writes its 120 operations out for each use, and compiles them for 50 ms each time.
namespace lockstep::threefry {

/// The target of the custom calls:
///   operands    two words of key and two of counter, each u32 of one shape or a number for all elements
///   results     two arrays of u32 of that shape
/// It computes on XLA's threads.
inline constexpr std::string_view kThreefryTarget = "lockstep_threefry2x32";

/// By how many bits each round rotates: the two rows alternate, a row for each injection of the key.
inline constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

/// The third word of the key is this one and the first two, by exclusive or.
inline constexpr std::uint32_t kKeyParity = 0x1BD11BDA;

/// Words of which element i is at data[i], or at data[0] for all.
struct Words {
  const std::uint32_t* data;
  bool is_one = false;
};

/// The two keys, then the two counters.
using Operands = std::array<Words, 4>;

/// Writes `count` elements of the two results.
void threefry2x32(const Operands& operands, std::uint32_t* first, std::uint32_t* second, std::int64_t count,
                  const collectives::ForEach& for_each);

/// The handler, an `XLA_FFI_Handler*`, for pjrt::Plugin::register_ffi_handler.
void* threefry_handler();

}  // namespace lockstep::threefry
