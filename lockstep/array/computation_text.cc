// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/computation_text.h"

namespace lockstep {

std::vector<sharding::CommunicationLine> ComputationText::communication() const { return collectives; }

}  // namespace lockstep
