// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/sharding/communication_line.h"

namespace lockstep {

/// The stages of a computation as text, and its collectives.
struct ComputationText {
  std::string program;      ///< as traced
  std::string partitioned;  ///< the program of each device, with each collective and its bytes
  std::string stablehlo;    ///< the text that the compiler gets

  /// Each collective that a device does, in order: its axes, bytes and the user's line that caused it.
  std::vector<sharding::CommunicationLine> communication() const;
  std::vector<sharding::CommunicationLine> collectives;

  /// The same as text, each with its reason: the value, its split before and after, and what the alternative
  /// would have moved.
  std::string explain() const { return sharding::explain(collectives); }
};

/// The cost of one call of a computation, for each device.
struct Cost {
  double flops = 0;           ///< of its program, as ProgramCost counts them
  double bytes_accessed = 0;  ///< the same
  std::int64_t communicated_bytes =
      0;  ///< of all collectives that communication() lists, as often as they run
  std::int64_t argument_bytes = 0, output_bytes = 0,
               temporary_bytes = 0;  ///< of memory, by the compiler's plan
};

}  // namespace lockstep
