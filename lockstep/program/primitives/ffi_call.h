// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/program/primitives/callback.h"

namespace lockstep {

/// A call of a kernel by XLA's foreign function interface. Each device calls it on whole operands.
const Primitive& ffi_call_p();

struct FfiCallParams {
  static constexpr std::array<std::string_view, 4> kFields = {"target", "attributes", "results",
                                                              "vmap_method"};
  std::string target;
  std::string attributes;                   ///< MLIR's text: "axis = 1 : i64, scale = 0.5 : f32"
  std::vector<std::vector<int>> results;    ///< for each result: dtype, then sizes
  std::optional<std::int64_t> vmap_method;  ///< a VmapMethod; nullopt: batching is not supported
};

}  // namespace lockstep
