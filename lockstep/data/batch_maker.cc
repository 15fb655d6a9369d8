// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/batch_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/array/make_array.h"
#include "lockstep/array/regions.h"
#include "lockstep/base/fail.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::data::internal {
namespace {

/// Calls f(row) for each row of the batch within the ranges, in row-major order.
template <class F>
void for_each_row(const Shape& batch, const std::vector<IndexRange>& ranges, const F& f,
                  std::size_t dimension = 0, std::int64_t row = 0) {
  if (dimension == batch.size()) return f(row);
  for (std::int64_t i = ranges[dimension].start; i < ranges[dimension].limit; ++i)
    for_each_row(batch, ranges, f, dimension + 1, row * batch[dimension] + i);
}

}  // namespace

BatchMaker::BatchMaker(Shape batch, Sharding sharding, CallSite site)
    : batch_(std::move(batch)), sharding_(std::move(sharding)), site_(site) {
  CallSiteScope scope(site_);
  const Sharding of_rows = sharding_of(batch_.size());
  sharding::check_divisible({DType::kBool, batch_}, of_rows.spec(), of_rows.mesh(), "Loader");
  const int process = runtime::Runtime::get().process_index();
  const auto& positions = of_rows.addressable_positions(process);
  if (positions.empty()) {
    fail<ShardingError>(
        "[Loader] {} has no device of process {} (at {}): only processes that have one make a "
        "loader",
        sharding_.to_string(), process, site_.to_string());
  }
  slots_.assign(static_cast<std::size_t>(num_elements(batch_)), -1);
  const auto indices = of_rows.device_indices(batch_);
  for (int position : positions) {
    for_each_row(batch_, indices[static_cast<std::size_t>(position)],
                 [&](std::int64_t row) { slots_[static_cast<std::size_t>(row)] = 0; });
  }
  for (std::size_t row = 0; row < slots_.size(); ++row) {
    if (slots_[row] < 0) continue;
    slots_[row] = static_cast<std::int32_t>(rows_.size());
    rows_.push_back(static_cast<std::int64_t>(row));
  }
}

Sharding BatchMaker::sharding_of(std::size_t rank) const {
  std::vector<std::vector<std::string>> entries = sharding_.spec().entries();
  if (sharding_.is_single_device() || entries.size() <= rank) return sharding_;
  entries.resize(rank);
  return NamedSharding(sharding_.mesh(), PartitionSpec::from_entries(std::move(entries)));
}

Batch BatchMaker::make(const Record& like, const std::vector<Record>& records, std::int64_t valid) const {
  CallSiteScope scope(site_);
  Batch made;
  std::vector<std::byte> part;
  for (const auto& [name, kind] : like) {
    Shape shape = batch_;
    shape.insert(shape.end(), kind.shape.begin(), kind.shape.end());
    const std::size_t element = size_of(kind.dtype);
    const std::string& field = name;
    const Shape& own = kind.shape;
    made.fields[field] = lockstep::internal::from_callback(
        shape, sharding_of(shape.size()), kind.dtype,
        [&](const std::vector<IndexRange>& index, std::size_t elements) -> const void* {
          part.assign(elements * element, std::byte{0});
          const std::vector<IndexRange> inner(index.begin() + std::ssize(batch_), index.end());
          std::size_t row_bytes = element;
          for (const IndexRange& range : inner)
            row_bytes *= static_cast<std::size_t>(range.limit - range.start);
          std::byte* next = part.data();
          for_each_row(batch_, index, [&](std::int64_t row) {
            const Record& record = records[static_cast<std::size_t>(slots_[static_cast<std::size_t>(row)])];
            if (auto found = record.find(field); found != record.end() && row_bytes > 0) {
              lockstep::internal::for_each_run(
                  own, inner, element, [&](std::size_t whole, std::size_t at, std::size_t size) {
                    std::memcpy(next + at, found->second.bytes.data() + whole, size);
                  });
            }
            next += row_bytes;
          });
          return part.data();
        },
        site_);
  }
  made.valid = lockstep::internal::from_callback(
      batch_, sharding_of(batch_.size()), DType::kBool,
      [&](const std::vector<IndexRange>& index, std::size_t elements) -> const void* {
        part.clear();
        part.reserve(elements);
        for_each_row(batch_, index, [&](std::int64_t row) {
          part.push_back(std::byte{row < valid ? std::uint8_t{1} : std::uint8_t{0}});
        });
        return part.data();
      },
      site_);
  return made;
}

}  // namespace lockstep::data::internal
