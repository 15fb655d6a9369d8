// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/sort_of_parts.h"

#include <algorithm>
#include <utility>

#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

/// Merges of one round: Batcher's numbers p and k.
struct Round {
  std::int64_t p, k;

  bool is_lower(std::int64_t device, std::int64_t parts) const {
    const std::int64_t offset = device - k % p;
    return offset >= 0 && offset % (2 * k) < k && device + k < parts && device % (2 * p) + k < 2 * p;
  }

  /// The pairs (lower, higher) that merge.
  std::vector<std::pair<std::int64_t, std::int64_t>> merges(std::int64_t parts) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::int64_t device = 0; device < parts; ++device)
      if (is_lower(device, parts)) pairs.emplace_back(device, device + k);
    return pairs;
  }
};

std::vector<Round> rounds_of(std::int64_t parts) {
  std::vector<Round> rounds;
  for (std::int64_t p = 1; p < parts; p *= 2) {
    for (std::int64_t k = p; k >= 1; k /= 2) {
      const Round round{p, k};
      if (!round.merges(parts).empty()) rounds.push_back(round);
    }
  }
  return rounds;
}

/// Whether elements with equal keys can differ, so that their places must be sorted too.
bool needs_places(const SortParams& params, std::size_t num_operands) {
  return params.is_stable && static_cast<std::int64_t>(num_operands) > params.num_keys;
}

/// Whether an all-gather of the operands moves less than the rounds of merges.
bool gathers(const SortParams& params, std::size_t num_operands, std::int64_t parts) {
  const auto arrays = static_cast<std::int64_t>(num_operands);
  const std::int64_t merged = arrays + (needs_places(params, num_operands) ? 1 : 0);
  return num_merge_rounds(parts) * merged > (parts - 1) * arrays;
}

class PartsSort {
 public:
  PartsSort(const SortParams& params, const PartPlaces& places, int factor)
      : params_(params),
        places_(places),
        factor_(factor),
        along_(static_cast<std::size_t>(params.dimension)),
        parts_(places.num_parts(factor)) {}

  std::vector<Value> run(std::vector<Value> operands) {
    return gathers(params_, operands.size(), parts_) ? gathered(std::move(operands))
                                                     : merged(std::move(operands));
  }

 private:
  std::vector<Value> sorted(const std::vector<Value>& operands) {
    return lax::sort(std::span<const Value>(operands), params_.dimension, params_.num_keys, params_.is_stable,
                     params_.descending);
  }

  std::vector<Value> gathered(std::vector<Value> operands) {
    const Shape part = operands[0].aval().shape;
    const DType dtype = place_dtype(part[along_] * parts_);
    std::vector<Value> starts(part.size(), number(operands[0], 0, dtype));
    starts[along_] = places_.start(factor_, dtype);
    for (Value& each : operands) each = places_.all_gather(each, along_, factor_);
    operands = sorted(operands);
    for (Value& each : operands) each = lax::dynamic_slice(each, std::span<const Value>(starts), part);
    return operands;
  }

  std::vector<Value> merged(std::vector<Value> operands) {
    const bool with_places = needs_places(params_, operands.size());
    const auto last_key = static_cast<std::ptrdiff_t>(params_.num_keys);
    if (with_places) {
      operands.insert(operands.begin() + last_key, order_of(operands[0]));
      ++params_.num_keys;
    }
    operands = sorted(operands);
    for (const Round& round : rounds_of(parts_)) operands = after(round, operands);
    if (with_places) operands.erase(operands.begin() + last_key);
    return operands;
  }

  /// Each element's place in the whole dimension, such that the comparison leaves equal elements in their
  /// order.
  Value order_of(const Value& like) {
    const Shape& shape = like.aval().shape;
    const std::int64_t size = shape[along_] * parts_;
    const DType dtype = place_dtype(size);
    const Value place = lax::add(lax::iota(like, dtype, shape, params_.dimension),
                                 lax::broadcast_in_dim(places_.start(factor_, dtype), shape, {}));
    if (!params_.descending) return place;
    return lax::sub(lax::full_like(place, static_cast<double>(size)), place);
  }

  std::vector<Value> after(const Round& round, const std::vector<Value>& own) {
    std::vector<std::pair<int, int>> pairs;
    for (const auto& [lower, higher] : round.merges(parts_)) {
      pairs.emplace_back(static_cast<int>(lower), static_cast<int>(higher));
      pairs.emplace_back(static_cast<int>(higher), static_cast<int>(lower));
    }
    const bool all_merge = std::ssize(pairs) == parts_;
    const DType dtype = place_dtype(2 * parts_ + 2 * own[0].aval().shape[along_]);
    const Value device = places_.number(factor_, dtype);
    const Value lower = is_lower(round, device);
    std::vector<Value> both;
    for (const Value& each : own) {
      const Value two[] = {each, places_.permute(each, factor_, pairs)};
      both.push_back(lax::concatenate(std::span<const Value>(two), params_.dimension));
    }
    both = sorted(both);
    const Shape part = own[0].aval().shape;
    std::vector<Value> starts(part.size(), number(device, 0, dtype));
    starts[along_] = lax::select(lower, number(device, 0, dtype), number(device, part[along_], dtype));
    std::optional<Value> merges;
    if (!all_merge) {
      const Value higher = is_lower(round, lax::sub(device, number(device, round.k, dtype)));
      merges = lax::broadcast_in_dim(lax::logical_or(lower, higher), part, {});
    }
    for (std::size_t i = 0; i < both.size(); ++i) {
      both[i] = lax::dynamic_slice(both[i], std::span<const Value>(starts), part);
      if (merges) both[i] = lax::select(*merges, both[i], own[i]);
    }
    return both;
  }

  /// Round::is_lower of the device at hand. A device below 0 is none.
  Value is_lower(const Round& round, const Value& device) {
    const auto n = [&](std::int64_t value) { return number(device, value, device.aval().dtype); };
    const Value offset = lax::sub(device, n(round.k % round.p));
    const Value in_lower_half = lax::lt(lax::rem(offset, n(2 * round.k)), n(round.k));
    const Value in_one_block = lax::lt(lax::rem(device, n(2 * round.p)), n(2 * round.p - round.k));
    return lax::logical_and(lax::logical_and(lax::ge(offset, n(0)), in_lower_half),
                            lax::logical_and(lax::lt(device, n(parts_ - round.k)), in_one_block));
  }

  static Value number(const Value& like, std::int64_t value, DType dtype) {
    return lax::full(like, Scalar::of(value), dtype, {});
  }

  SortParams params_;
  const PartPlaces& places_;
  const int factor_;
  const std::size_t along_;
  const std::int64_t parts_;
};

}  // namespace

std::int64_t num_merge_rounds(std::int64_t parts) {
  return static_cast<std::int64_t>(rounds_of(parts).size());
}

std::vector<std::pair<std::int64_t, std::int64_t>> merges_of_round(std::int64_t round, std::int64_t parts) {
  return rounds_of(parts).at(static_cast<std::size_t>(round)).merges(parts);
}

Exchanged exchanged_by_sort(const SortParams& params, std::size_t operand, std::size_t num_operands,
                            std::int64_t size, std::int64_t parts) {
  const std::int64_t part = size / parts;
  if (gathers(params, num_operands, parts)) return {(parts - 1) * part, 1};
  const std::int64_t arrays = operand == 0 && needs_places(params, num_operands) ? 2 : 1;
  return {arrays * num_merge_rounds(parts) * part, arrays * num_merge_rounds(parts)};
}

std::vector<Value> sort_of_parts(const SortParams& params, std::span<const Value> operands,
                                 const PartPlaces& places, int factor) {
  return PartsSort(params, places, factor).run({operands.begin(), operands.end()});
}

}  // namespace lockstep::ir
