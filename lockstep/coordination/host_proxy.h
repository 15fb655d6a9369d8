#pragma once

#include <memory>
#include <string>

#include "lockstep/coordination/identity.h"
#include "lockstep/coordination/limits.h"

namespace lockstep::coordination {

/// In a process's environment, where the host has a proxy: its address.
inline constexpr char kProxyVariable[] = "LOCKSTEP_COORDINATOR_PROXY";

struct HostProxyOptions {
  std::string coordinator;                   ///< "host:port".
  std::string bind_address = "127.0.0.1:0";  ///< Port 0: the kernel picks one.
  int num_processes = 1;                     ///< That will call it.
  Identity identity;
  TlsFiles tls;  ///< All three or none.
  Limits limits;
};

/// Stands for the coordinator on one host: its processes speak to it as to the coordinator, and all of what
/// they say goes to the coordinator over one stream. It lets in and refuses as the coordinator does. Serves
/// from threads of its own. Where the stream ends, because the coordinator has ended or cannot be reached,
/// the processes are told so as if they had been connected to it.
class HostProxy {
 public:
  /// Throws InitializationError where an option makes no sense or the address cannot be bound.
  explicit HostProxy(const HostProxyOptions& options);
  ~HostProxy();
  HostProxy(const HostProxy&) = delete;
  HostProxy& operator=(const HostProxy&) = delete;

  /// "host:port", with the port bound.
  std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
