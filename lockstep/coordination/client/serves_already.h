// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/coordination/client/client.h"

namespace lockstep::coordination {

/// Whether a coordinator of this job serves at `options.address` already, Lockstep's or JAX's own; blocks for
/// at most some 10 seconds, and very briefly if nothing listens. False if nothing listens or answers, or the
/// answer is not a coordinator's; `found` then says what is known of what listens there, "" if nothing does.
/// Throws InitializationError if the coordinator there serves another job or another start of this one,
/// naming both, if it cannot prove that it has the job's secret, and if the address is invalid. Of the
/// options, the address, the identity and the TLS files count.
bool serves_already(const ClientOptions& options, std::string* found = nullptr);

}  // namespace lockstep::coordination
