#pragma once

#include "lockstep/coordination/client.h"

namespace lockstep::coordination {

/// Whether a coordinator of this job serves at `options.address` already, Lockstep's or JAX's own; blocks for
/// at most a few seconds, and hardly where nobody listens. False where nobody listens, nothing answers, or
/// what answers is no coordinator. Throws InitializationError where the coordinator there serves another job
/// or another start of this one, naming both, and where the address is none. Of the options, the address, the
/// identity and the TLS files count.
bool serves_already(const ClientOptions& options);

/// Whether the process with id 0 has to hold the coordinator: where its address is one of this host's and
/// nobody serves the job there already. Throws and blocks as `serves_already`.
bool must_hold_coordinator(const ClientOptions& options);

}  // namespace lockstep::coordination
