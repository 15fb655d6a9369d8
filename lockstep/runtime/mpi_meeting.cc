// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/mpi_meeting.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/hex.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/world.h"
#include "lockstep/coordination/identity/credential.h"
#include "lockstep/coordination/identity/host_port.h"
#include "lockstep/runtime/hold_coordinator.h"
#include "lockstep/runtime/topology.h"

namespace lockstep::runtime {
namespace {

/// Calls f with so many bytes, and returns them. If f throws, they stay: MPI may still write there.
template <class F>
std::string exchanged(std::size_t bytes, const F& f) {
  auto memory = std::make_unique<std::string>(bytes, '\0');
  try {
    f(memory->data());
  } catch (...) {
    memory.release();
    throw;
  }
  return std::move(*memory);
}

/// The numbers of the ranks on this host, in order.
std::vector<int> ranks_of_this_host(const MpiCommunicator& mpi, std::chrono::seconds timeout) {
  const std::string mine = packed_digest(collectives::host_identity());
  const std::size_t each = mine.size(), all = each * static_cast<std::size_t>(mpi.size);
  const std::string hosts = exchanged(all + each, [&](char* memory) {
    mine.copy(memory + all, each);
    mpi.all_gather(memory + all, memory, each, timeout);
  });
  std::vector<int> ranks;
  for (int rank = 0; rank < mpi.size; ++rank)
    if (hosts.compare(each * static_cast<std::size_t>(rank), each, mine) == 0) ranks.push_back(rank);
  return ranks;
}

/// What rank 0 tells the others, as lines: its error, or else the coordinator's address, the job's id and its
/// secret.
struct Invitation {
  std::string error, address, job_id, secret;

  static constexpr std::size_t kBytes = 2048;

  std::string encode() const {
    constexpr std::size_t kShown = 1024;
    std::string text = "\n" + address + "\n" + job_id + "\n" + secret + "\n";
    if (!error.empty()) {
      text = error.substr(0, kShown) + "\n\n\n\n";
      std::replace(text.begin(), text.end() - 4, '\n', ' ');
    }
    if (text.size() > kBytes) {
      fail<InitializationError>(
          "[initialize] the job's id and secret have {} bytes, more than the {} that ranks of MPI are sent; "
          "give shorter ones in LOCKSTEP_JOB_ID and LOCKSTEP_JOB_SECRET",
          job_id.size() + secret.size(), kBytes - address.size() - 4);
    }
    text.resize(kBytes);
    return text;
  }

  static Invitation decode(const std::string& text) {
    Invitation invitation;
    std::size_t at = 0;
    for (std::string* line : {&invitation.error, &invitation.address, &invitation.job_id}) {
      const std::size_t end = text.find('\n', at);
      *line = text.substr(at, end - at);
      at = end + 1;
    }
    invitation.secret = text.substr(at, text.rfind('\n') - at);  // which may have several lines
    return invitation;
  }
};

/// Starts the coordinator, and puts its address into the place.
std::unique_ptr<coordination::CoordinationServer> serve(Settings& settings, bool one_host) {
  cluster::Place& place = settings.place;
  if (place.job_secret.empty()) place.job_secret = random_hex(16);
  if (place.job_id.empty()) place.job_id = "mpi-" + random_hex(8);
  coordination::refuse_short_secret(place.job_secret);
  std::string host = "127.0.0.1";
  if (!one_host)
    host = coordination::parse_address(collectives::own_address(*settings.options.interface, "").to_string())
               .host;
  std::string bind = settings.coordinator_bind_address;
  if (bind.empty()) bind = coordination::HostPort{one_host ? host : "::", 0}.to_string();
  auto server = std::make_unique<coordination::CoordinationServer>();
  server->start(server_options(settings, bind));
  place.coordinator_address = coordination::HostPort{host, server->port()}.to_string();
  return server;
}

}  // namespace

std::unique_ptr<coordination::CoordinationServer> meet_by_mpi(Settings& settings) {
  const MpiCommunicator& mpi = *settings.mpi();
  cluster::Place& place = settings.place;
  const std::vector<int> here = ranks_of_this_host(mpi, *settings.options.initialization_timeout);
  place.local_process_id = static_cast<int>(std::ranges::find(here, mpi.rank) - here.begin());

  std::unique_ptr<coordination::CoordinationServer> server;
  Invitation invitation;
  if (mpi.rank == 0) {
    try {
      server = serve(settings, here.size() == static_cast<std::size_t>(mpi.size));
      invitation = {"", place.coordinator_address, place.job_id, place.job_secret};
      invitation.encode();
    } catch (const std::exception& error) {
      invitation = {error.what(), "", "", ""};
    }
  }
  const std::string told = exchanged(Invitation::kBytes, [&](char* memory) {
    if (mpi.rank == 0) invitation.encode().copy(memory, Invitation::kBytes);
    mpi.broadcast(memory, Invitation::kBytes, *settings.options.initialization_timeout);
  });
  invitation = Invitation::decode(told);
  if (!invitation.error.empty()) {
    fail<InitializationError>("[initialize] rank 0 of the communicator cannot hold the coordinator: {}",
                              invitation.error);
  }
  place.coordinator_address = invitation.address;
  place.job_id = invitation.job_id;
  place.job_secret = invitation.secret;
  return server;
}

}  // namespace lockstep::runtime
