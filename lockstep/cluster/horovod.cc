// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> horovod_place(const Environment& environment, const System&) {
  Signs signs(environment);
  auto rank = signs.need({"HOROVOD_RANK"});
  auto size = signs.need({"HOROVOD_SIZE"});
  auto local_rank = signs.want({"HOROVOD_LOCAL_RANK"});
  auto local_size = signs.want({"HOROVOD_LOCAL_SIZE"});
  if (signs.there().empty()) return std::nullopt;
  std::optional<Variable> host, port;
  if (!given_address(environment)) {
    host = signs.need({"HOROVOD_GLOO_RENDEZVOUS_ADDR"});
    port = signs.need({"HOROVOD_GLOO_RENDEZVOUS_PORT"});
  }
  signs.check_launcher("horovodrun",
                       "start it with horovodrun itself, without a wrapper that clears its variables");
  if (auto elastic = find_variable(environment, {"HOROVOD_ELASTIC"}); elastic && elastic->value != "0") {
    fail<InitializationError>(
        "{} says that the number of processes may change, which Lockstep does not support; start horovodrun "
        "with -np alone, or set LOCKSTEP_CLUSTER=none for jobs of one process each",
        elastic->to_string());
  }

  Place place = numbered_place("horovod", signs, *rank, *size);
  if (local_rank) place.local_process_id = number_in(*local_rank, 0);
  meet_at_launcher(environment, host, port, local_size, place);
  return place;
}

}  // namespace lockstep::cluster
