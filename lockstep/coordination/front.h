#pragma once

#include <memory>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/credential.h"
#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/limits.h"
#include "lockstep/coordination/service.h"

namespace lockstep::coordination {

struct FrontOptions {
  HostPort address;  ///< Port 0: the kernel picks one.
  Limits limits;
  int num_processes = 1;  ///< That may call over one connection.
  TlsFiles tls;
};

/// A service as processes see it over the network: JAX's coordination service over gRPC, and Lockstep's own
/// beside it. Whom the gate refuses is told why at its first call. Serves from threads of its own.
class Front {
 public:
  /// Binds and serves; `service` and `gate` must outlive it. Throws InitializationError where the address
  /// cannot be bound, and as read_certificates.
  Front(Service& service, const Gate& gate, const FrontOptions& options);
  ~Front();  ///< Stops.
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  int port() const;

  /// Ends service. The service should answer what is still open, and is waited for 2 s. A second call does
  /// nothing.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
