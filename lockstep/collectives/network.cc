// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/network.h"

#include <cstdlib>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/networks.h"

namespace lockstep::collectives {

std::shared_ptr<Network> Network::open(const NetworkOptions& options) {
  if (options.network == "ucx" && options.tls != nullptr) {
    fail(
        "LOCKSTEP_NETWORK is \"ucx\", but the data between hosts must be encrypted, which UCX cannot do: set "
        "it to tcp, or do not ask for encryption (lockstep run --encrypt, LOCKSTEP_DATA_TLS)");
  }
  if (options.network == "ucx") return open_ucx_network(options);
  if (options.network == "tcp") return open_tcp_network(options);
  if (!options.network.empty())
    fail("LOCKSTEP_NETWORK is \"{}\": the networks between hosts are tcp and ucx", options.network);
  const bool for_ucx = std::getenv("UCX_TLS") != nullptr || !rdma_devices().empty();
  return for_ucx && options.tls == nullptr ? open_ucx_network(options) : open_tcp_network(options);
}

void throw_other_network(std::string_view own, std::string_view other) {
  fail(
      "this process sends data to other hosts by {}, but the other one by {}: set LOCKSTEP_NETWORK to the "
      "same (tcp or ucx) in all processes of the job",
      own, other);
}

void throw_other_encryption(bool own) {
  const auto does = [](bool encrypts) { return encrypts ? "encrypts" : "does not encrypt"; };
  fail(
      "this process {} the data that it sends to other hosts, but the other one {} its own: give all "
      "processes of the job LOCKSTEP_DATA_TLS=1 (lockstep run --encrypt), or none",
      does(own), does(!own));
}

}  // namespace lockstep::collectives
