// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/data/loader.h"

namespace lockstep::data::internal {

/// The rows of a batch on this process's devices, and arrays made from them. Thread-safe.
class BatchMaker {
 public:
  /// Throws ShardingError if the batch does not fit the sharding or this process has none of its devices.
  BatchMaker(Shape batch, Sharding sharding, CallSite site);

  const Sharding& sharding() const { return sharding_; }

  /// The rows to be read, ascending, by row-major index over the batch's dimensions.
  const std::vector<std::int64_t>& rows() const { return rows_; }

  /// The arrays of a batch. `records` are those of rows(); the records of rows after the first `valid` ones
  /// of the batch are empty. `like` determines the fields.
  Batch make(const Record& like, const std::vector<Record>& records, std::int64_t valid) const;

 private:
  /// The sharding of arrays with this rank: without the spec's entries for dimensions that they do not have.
  Sharding sharding_of(std::size_t rank) const;

  Shape batch_;
  Sharding sharding_;
  CallSite site_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int32_t> slots_;  // for each row of the batch its index in rows_, or -1
};

}  // namespace lockstep::data::internal
