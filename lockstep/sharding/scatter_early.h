#pragma once

#include "lockstep/program/program.h"
#include "lockstep/sharding/communication.h"

namespace lockstep::sharding {

/// Of a device's program, and of those that it holds: each reduce-scatter that the partitioner wrote (one
/// with a reason) is done as soon as its operand is there. The operand, a term of the sum as large as the
/// whole, is then freed at once; a training step would else keep the terms of all gradients until it updates
/// the parameters.
Program scatter_early(Program program, CommunicationReasons& reasons);

}  // namespace lockstep::sharding
