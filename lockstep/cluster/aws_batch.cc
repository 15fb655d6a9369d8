// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {
namespace {

/// The main node's own address, which Batch tells only to the others; empty if there is none.
std::string own_address(const Environment& environment, const System& system) {
  auto chosen = find_variable(environment, {"LOCKSTEP_INTERFACE"});
  for (const InterfaceAddress& mine : system.interface_addresses()) {
    if (chosen ? mine.interface == chosen->value : !mine.address.starts_with("127.") && mine.address != "::1")
      return mine.address;
  }
  return "";
}

}  // namespace

std::optional<Place> aws_batch_place(const Environment& environment, const System& system) {
  Signs signs(environment);
  auto size = signs.need({"AWS_BATCH_JOB_NUM_NODES"});
  auto index = signs.need({"AWS_BATCH_JOB_NODE_INDEX"});
  auto main = signs.need({"AWS_BATCH_JOB_MAIN_NODE_INDEX"});
  auto address = signs.want({"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"});
  if (signs.there().empty()) return std::nullopt;
  const bool is_main = index && main && index->value == main->value;
  if (!is_main && !address && !given_address(environment))
    signs.need({"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"});
  signs.check_launcher("AWS Batch", "start it without a wrapper that clears its variables");
  Place place = numbered_place("aws-batch", signs, *index, *size);
  check_range(*main, *size);
  // The main node is process 0, which runs the coordinator.
  place.process_id = (place.process_id + place.num_processes - number_in(*main, 0)) % place.num_processes;
  if (auto job = find_variable(environment, {"AWS_BATCH_JOB_ID"}))
    place.job_id = "aws-batch-" + job->value.substr(0, job->value.find('#'));  // "JOB#NODE"
  if (auto attempt = find_variable(environment, {"AWS_BATCH_JOB_ATTEMPT"}))
    place.attempt = number_in(*attempt, 1) - 1;
  const std::string host = address ? address->value : own_address(environment, system);
  if (host.empty() && place.num_processes > 1 && !given_address(environment)) {
    fail<InitializationError>(
        "AWS Batch started this process as the main one ({}), but no interface of this host has an address "
        "for the others; set LOCKSTEP_COORDINATOR_ADDRESS to a host and port of this node",
        place.why);
  }
  place.coordinator_address = coordinator_given_or_at(environment, host, kCoordinatorPort);
  return place;
}

}  // namespace lockstep::cluster
