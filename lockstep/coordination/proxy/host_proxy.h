// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "lockstep/base/environment.h"
#include "lockstep/coordination/identity/identity.h"
#include "lockstep/coordination/protocol/limits.h"

namespace lockstep::coordination {

/// The environment variable with the address of the host's proxy; empty or not set: there is none.
inline constexpr char kProxyVariable[] = "LOCKSTEP_COORDINATOR_PROXY";

/// Where a process reaches the coordinator at this address: at its host's proxy, if the environment has one
/// for this coordinator (LOCKSTEP_COORDINATOR_ADDRESS), and otherwise at the address itself.
std::string reached_at(const std::string& coordinator, const Environment& environment);

struct HostProxyOptions {
  std::string coordinator;                   ///< "host:port"
  std::string bind_address = "127.0.0.1:0";  ///< port 0: the kernel chooses one
  int num_processes = 1;                     ///< the number of processes that will call it
  Identity identity;
  TlsFiles tls;  ///< all three or none
  Limits limits;
};

/// Represents the coordinator on one host: its processes call it like the coordinator, and it forwards all
/// their calls to the coordinator over one stream. It accepts and rejects processes as the coordinator does.
/// Serves on threads of its own. If the stream ends, because the coordinator has ended or cannot be reached,
/// the processes are told so as if they had been connected to it.
class HostProxy {
 public:
  /// Throws InitializationError if an option is invalid or the address cannot be bound.
  explicit HostProxy(const HostProxyOptions& options);
  ~HostProxy();
  HostProxy(const HostProxy&) = delete;
  HostProxy& operator=(const HostProxy&) = delete;

  /// "host:port", with the bound port.
  std::string address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::coordination
