// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

class RelayAnswer;
class RelayCall;

/// Gets the answer to a call, and the value that belongs to it; null if there is none.
using GiveAnswer = std::function<void(RelayAnswer&& answer, const Value& value)>;

/// Makes the call that a relay has passed on, except RelayCall::CANCEL, under the id `id`. The answer is
/// given once, perhaps later and by another thread; it has the relay's own id of the call.
void make_relayed_call(Service& service, CallId id, const RelayCall& call, const GiveAnswer& give);

}  // namespace lockstep::coordination
