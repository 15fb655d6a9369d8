// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/proxy/host_proxy.h"

#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/proxy/relay_client.h"
#include "lockstep/coordination/server/grpc_server.h"

namespace lockstep::coordination {

std::string reached_at(const std::string& coordinator, const Environment& environment) {
  const std::string proxy = environment.get(kProxyVariable).value_or("");
  const bool same = environment.get("LOCKSTEP_COORDINATOR_ADDRESS") == coordinator;
  return proxy.empty() || !same ? coordinator : proxy;
}

class HostProxy::Impl {
 public:
  explicit Impl(const HostProxyOptions& options)
      : address_(parse_address(options.bind_address)),
        gate_(options.identity, /*allow_jax=*/false),
        coordinator_(make_relay_client(parse_address(options.coordinator), options.identity, options.tls)),
        server_(*coordinator_, gate_, {address_, options.limits, options.num_processes, options.tls}) {
    address_.port = server_.port();
  }

  /// Open calls are answered before the objects that wait for them are destroyed.
  ~Impl() {
    coordinator_->close();
    server_.stop();
  }

  std::string address() const { return address_.to_string(); }

 private:
  HostPort address_;
  const Gate gate_;
  const std::unique_ptr<RelayClient> coordinator_;
  GrpcServer server_;
};

HostProxy::HostProxy(const HostProxyOptions& options) : impl_(std::make_unique<Impl>(options)) {}
HostProxy::~HostProxy() = default;
std::string HostProxy::address() const { return impl_->address(); }

}  // namespace lockstep::coordination
