#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/data/loader.h"

namespace lockstep::data::internal {

/// Which rows of a batch this process's devices hold, and arrays made of them. May be used by several threads
/// at a time.
class BatchMaker {
 public:
  /// Throws ShardingError if the batch does not fit the sharding or this process has none of its devices.
  BatchMaker(Shape batch, Sharding sharding, CallSite site);

  const Sharding& sharding() const { return sharding_; }

  /// Of a batch's rows, counted row-major over its dimensions: those to be read, rising.
  const std::vector<std::int64_t>& rows() const { return rows_; }

  /// The arrays of a batch: `records` are of rows(), empty ones for rows behind the `valid` first of the
  /// batch. Fields are as `like` has them.
  Batch make(const Record& like, const std::vector<Record>& records, std::int64_t valid) const;

 private:
  /// For arrays of this rank: without the spec's entries that it has no dimension for.
  Sharding sharding_of(std::size_t rank) const;

  Shape batch_;
  Sharding sharding_;
  CallSite site_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> slots_;  // For each row of the batch its place in rows_, or -1.
};

}  // namespace lockstep::data::internal
