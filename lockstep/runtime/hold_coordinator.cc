// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/hold_coordinator.h"

#include <fmt/format.h>

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/client/serves_already.h"
#include "lockstep/coordination/identity/host_port.h"

namespace lockstep::runtime {
std::string coordinator_bind_address(const Settings& settings, const coordination::ClientOptions& client) {
  const coordination::HostPort all = coordination::parse_address(settings.coordinator_bind_address);
  const coordination::HostPort job = coordination::parse_address(client.address);
  const bool open = client.identity.secret.empty() && !client.tls.given();
  if (settings.bind_address_given || all.host != "::" || !open || coordination::is_loopback(job))
    return settings.coordinator_bind_address;
  return coordination::HostPort{job.host, all.port}.to_string();
}

coordination::ServerOptions server_options(const Settings& settings, std::string bind_address) {
  const cluster::Place& place = settings.place;
  return {.bind_address = std::move(bind_address),
          .num_processes = place.num_processes,
          .identity = {place.job_id, place.attempt, place.job_secret},
          .tls = coordination::TlsFiles::from(Environment::process()),
          .held_by = place.process_id,
          .register_timeout = *settings.options.initialization_timeout,
          .heartbeat_timeout = *settings.options.heartbeat_timeout,
          .shutdown_timeout = *settings.options.shutdown_timeout};
}

std::unique_ptr<coordination::CoordinationServer> hold_coordinator(
    const Settings& settings, const coordination::ClientOptions& client) {
  if (settings.coordinator_bind_address.empty()) return nullptr;
  std::string found;
  if (coordination::serves_already(client, &found)) {
    logging::info("joining the coordinator that already serves at {}", client.address);
    return nullptr;
  }
  if (!settings.bind_address_given &&
      !coordination::is_of_this_host(coordination::parse_address(client.address))) {
    logging::warning(
        "{} is not an address of process 0's host, so another program must run the coordinator there; if "
        "none does, set LOCKSTEP_COORDINATOR_ADDRESS to this host's name and a free port, on all processes",
        client.address);
    return nullptr;
  }
  auto server = std::make_unique<coordination::CoordinationServer>();
  try {
    server->start(server_options(settings, coordinator_bind_address(settings, client)));
  } catch (const InitializationError& error) {
    const std::string& cluster = settings.place.cluster;
    const bool by_hand = cluster == "explicit" || cluster == "arguments";
    fail<InitializationError>(
        "[initialize] process 0 of {}, cluster {}: {}{}{}", client.num_processes, cluster, error.what(),
        found.empty() ? "" : fmt::format("; what listens at {} {}", client.address, found),
        by_hand ? "" : "; LOCKSTEP_COORDINATOR_PORT, on all processes, says which");
  }
  return server;
}

}  // namespace lockstep::runtime
