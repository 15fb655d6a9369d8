#include "lockstep/cluster/types.h"
#include "lockstep/cluster/variables.h"

namespace lockstep::cluster {

std::optional<Place> single_place(const Environment& environment) {
  Place place;
  place.cluster = "single";
  place.why = "no variable of a launcher or a cluster is set";
  if (auto ids = find_variable(environment, {"LOCKSTEP_LOCAL_DEVICE_IDS", "JAX_LOCAL_DEVICE_IDS"})) {
    place.local_device_ids = numbers_in(*ids);
    place.why += ", but " + ids->to_string();
  }
  return place;
}

}  // namespace lockstep::cluster
