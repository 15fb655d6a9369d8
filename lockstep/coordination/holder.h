#pragma once

#include "lockstep/coordination/client.h"

namespace lockstep::coordination {

/// Whether a coordinator of this job serves at `options.address` already, Lockstep's or JAX's own; blocks for
/// at most a few seconds, and hardly where nobody listens. False if nobody listens, nothing answers, or
/// what answers is no coordinator. Throws InitializationError if the coordinator there serves another job
/// or another start of this one, naming both, where it cannot prove to have the job's secret, and where the
/// address is none. Of the options, the address, the identity and the TLS files count.
bool serves_already(const ClientOptions& options);

}  // namespace lockstep::coordination
