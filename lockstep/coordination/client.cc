#include "lockstep/coordination/client.h"

#include <utility>

#include "lockstep/coordination/address.h"
#include "lockstep/coordination/agent.h"
#include "lockstep/coordination/remote_service.h"

namespace lockstep::coordination {

std::unique_ptr<CoordinationClient> make_grpc_client(ClientOptions options) {
  HostPort address = parse_address(options.address);
  std::shared_ptr<Service> service = make_remote_service(address, options.identity, options.tls);
  return make_agent(std::move(options), std::move(service),
                    [address] { return why_unreachable(address, std::chrono::milliseconds(1000)); });
}

}  // namespace lockstep::coordination
