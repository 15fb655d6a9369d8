// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "lockstep/coordination/client/client.h"
#include "lockstep/coordination/client/in_memory_test.h"
#include "lockstep/coordination/client/remote_service.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/proxy/host_proxy.h"
#include "lockstep/coordination/server/server.h"

// The ways in which a client may be connected with its coordinator, for tests of what is the same in all of
// them.

namespace lockstep::coordination {

class Grpc {
 public:
  explicit Grpc(const ServerOptions& options) {
    server_.start(options);
    service_ = make_remote_service(parse_address(server_.address()));
  }
  std::unique_ptr<CoordinationClient> make_client(ClientOptions options) {
    options.address = server_.address();
    return make_grpc_client(std::move(options));
  }
  CoordinationServer& coordinator() { return server_; }
  Service& service() { return *service_; }

 private:
  CoordinationServer server_;
  std::unique_ptr<Service> service_;
};

/// Clients that speak to a proxy of their host.
class Proxied {
 public:
  explicit Proxied(ServerOptions options) {
    options.identity.secret = kSecret;
    server_.start(options);
    HostProxyOptions proxy;
    proxy.coordinator = server_.address();
    proxy.num_processes = options.num_processes;
    proxy.identity.secret = kSecret;
    proxy_ = std::make_unique<HostProxy>(proxy);
    service_ = make_remote_service(parse_address(proxy_->address()), proxy.identity);
  }
  std::unique_ptr<CoordinationClient> make_client(ClientOptions options) {
    options.address = proxy_->address();
    options.identity.secret = kSecret;
    return make_grpc_client(std::move(options));
  }
  CoordinationServer& coordinator() { return server_; }
  Service& service() { return *service_; }

 private:
  static constexpr char kSecret[] = "of the test";
  CoordinationServer server_;
  std::unique_ptr<HostProxy> proxy_;
  std::unique_ptr<Service> service_;
};

class Memory {
 public:
  explicit Memory(const ServerOptions& options) : coordinator_(options) {}
  std::unique_ptr<CoordinationClient> make_client(ClientOptions options) {
    return coordinator_.make_client(std::move(options));
  }
  InMemoryCoordinator& coordinator() { return coordinator_; }
  Service& service() { return coordinator_.service(); }

 private:
  InMemoryCoordinator coordinator_;
};

}  // namespace lockstep::coordination
