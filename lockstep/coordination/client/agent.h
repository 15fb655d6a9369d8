// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/protocol/service.h"

namespace lockstep::coordination {

/// The client's logic for any service: implements CoordinationClient. `why_unreachable` returns why the
/// service cannot be reached, "" if it can; `why_never`, if given, returns why waiting will not help. Both
/// may block for a second or two.
std::unique_ptr<CoordinationClient> make_agent(ClientOptions options, std::shared_ptr<Service> service,
                                               std::function<std::string()> why_unreachable,
                                               std::function<std::string()> why_never = {});

}  // namespace lockstep::coordination
