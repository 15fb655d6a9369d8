// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/callback.h"

namespace lockstep::ir {

/// A call of a kernel by XLA's foreign function interface. Each device calls it on whole operands, or, with a
/// sharding rule, on its parts of them.
const Primitive& ffi_call_p();

struct FfiCallParams {
  static constexpr std::array<std::string_view, 6> kFields = {"target",      "attributes", "results",
                                                              "vmap_method", "dimensions", "reduced"};
  std::string target;
  std::string attributes;                   ///< MLIR's text: "axis = 1 : i64, scale = 0.5 : f32"
  std::vector<std::vector<int>> results;    ///< for each result: dtype, then sizes
  std::optional<std::int64_t> vmap_method;  ///< a VmapMethod; nullopt: batching is not supported

  /// The sharding rule: for each operand, then for each result, the factor of each dimension, from 0, or
  /// ShardingRule::kWhole. nullopt: there is none.
  std::optional<std::vector<std::vector<int>>> dimensions = std::nullopt;
  std::optional<std::vector<std::int64_t>> reduced = std::nullopt;  ///< factors over which results are summed
};

}  // namespace lockstep::ir
