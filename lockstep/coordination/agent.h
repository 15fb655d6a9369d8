#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/coordination/client.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

/// The client's logic over any service: implements CoordinationClient. `why_unreachable` says why the service
/// cannot be reached, "" if it can, and `why_never`, if given, why waiting will not help; both may block for
/// a second or two.
std::unique_ptr<CoordinationClient> make_agent(ClientOptions options, std::shared_ptr<Service> service,
                                               std::function<std::string()> why_unreachable,
                                               std::function<std::string()> why_never = {});

}  // namespace lockstep::coordination
