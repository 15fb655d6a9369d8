// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// A 64-bit digest that is the same in every process, on every machine and in every run (XXH3).
using Fingerprint = std::uint64_t;

Fingerprint fingerprint(std::string_view bytes);

/// The digest of two digests, in order.
Fingerprint combine(Fingerprint first, Fingerprint second);

}  // namespace lockstep
