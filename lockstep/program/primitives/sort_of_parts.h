// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/program/part_windows.h"
#include "lockstep/program/primitives/sort.h"
#include "lockstep/program/sharding_rule.h"

/// Sorting along a dimension that is split over devices: each device sorts its part, then pairs of devices
/// merge theirs, in the order of Batcher's odd-even merge sort (K. E. Batcher, Sorting networks and their
/// applications, 1968). The lower device of a pair keeps the first half. A device holds no more than two
/// parts at a time.
namespace lockstep::ir {

/// How many rounds of merges `parts` devices need. The rounds are numbered from 0.
std::int64_t num_merge_rounds(std::int64_t parts);

/// The pairs (lower, higher) of devices that merge in a round. No device is in two of them.
std::vector<std::pair<std::int64_t, std::int64_t>> merges_of_round(std::int64_t round, std::int64_t parts);

/// How much a device receives along operand `operand` of a dimension of `size` elements. Where the rounds
/// move more than an all-gather does, as between 3 or 5 devices, it is an all-gather.
Exchanged exchanged_by_sort(const SortParams& params, std::size_t operand, std::size_t num_operands,
                            std::int64_t size, std::int64_t parts);

/// The device's part of the sorted operands. Equal elements keep their order if `params` is stable. `factor`
/// is the one of the rule that splits the dimension.
std::vector<Value> sort_of_parts(const SortParams& params, std::span<const Value> operands,
                                 const PartPlaces& places, int factor);

}  // namespace lockstep::ir
