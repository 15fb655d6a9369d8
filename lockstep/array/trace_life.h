// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

#include "lockstep/array/trace.h"

namespace lockstep {

/// Outlives the trace, held by its tracers, to tell that it has ended.
struct Trace::Life {
  Trace* trace;
  std::string name;
  std::unordered_map<ir::Var, Array> doubles =
      {};  ///< values in f64 of numbers of the trace (exact_number.h)
};

}  // namespace lockstep
