// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/order.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/data/index_shuffle.h"

namespace lockstep::data {

Order::Order(std::vector<std::uint64_t> sizes, Mixture mixture, std::optional<std::uint64_t> epochs,
             std::optional<std::uint64_t> seed)
    : sizes_(std::move(sizes)), mixture_(std::move(mixture)), seed_(seed), end_(kForever) {
  if (epochs == 0) fail<DataError>("[Loader] expected at least one epoch, got 0");
  for (std::uint32_t source = 0; source < sizes_.size(); ++source) {
    if (sizes_[source] == 0) fail<DataError>("[Loader] source {} has no records", source);
    std::uint64_t records;
    if (epochs && !__builtin_mul_overflow(*epochs, sizes_[source], &records))
      end_ = std::min(end_, mixture_.position(source, records));
  }
}

Order::Place Order::at(std::uint64_t position) const {
  const auto [source, count] = mixture_.at(position);
  const std::uint64_t size = sizes_[source], epoch = count / size;
  std::uint64_t record = count % size;
  if (seed_) record = index_shuffle(record, size, combine(combine(*seed_, source), epoch));
  return {source, epoch, record};
}

bool Order::differs_from_format_1() const {
  return seed_ && std::ranges::any_of(sizes_, [](std::uint64_t size) { return size > 16 && size <= 128; });
}

}  // namespace lockstep::data
