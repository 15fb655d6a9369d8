// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/client/client.h"

#include <utility>

#include "lockstep/coordination/client/agent.h"
#include "lockstep/coordination/client/remote_service.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/coordination/tls/tls_probe.h"

namespace lockstep::coordination {

std::unique_ptr<CoordinationClient> make_grpc_client(ClientOptions options) {
  HostPort address = parse_address(options.address);
  std::shared_ptr<RemoteService> service = make_remote_service(address, options.identity, options.tls);
  const TlsFiles tls = options.tls;
  const auto why_never = [service, address, tls] {
    return service->is_connected() ? "" : why_no_common_tls(address, tls, std::chrono::milliseconds(1000));
  };
  return make_agent(
      std::move(options), service,
      [address] { return why_unreachable(address, std::chrono::milliseconds(1000)); }, why_never);
}

}  // namespace lockstep::coordination
