#include "lockstep/cluster/detect.h"

#include "lockstep/base/fail.h"
#include "lockstep/cluster/types.h"

namespace lockstep::cluster {

const std::vector<ClusterType>& cluster_types() {
  static const std::vector<ClusterType> types = {
      {"launcher", launcher_place},
      {"explicit", explicit_place},
      {"single", single_place},
  };
  return types;
}

Place detect(const Environment& environment, const std::string& forced) {
  std::string names;
  for (const ClusterType& type : cluster_types()) {
    names += (names.empty() ? "" : ", ") + std::string(type.name);
    if (!forced.empty() && forced != type.name) continue;
    if (auto place = type.place(environment)) return *place;
    if (!forced.empty()) {
      fail<InitializationError>(
          "the cluster type '{}' was asked for, but the environment shows no sign of it; leave the type out "
          "to have it "
          "detected",
          forced);
    }
  }
  fail<InitializationError>("there is no cluster type '{}'; the types are {}", forced, names);
}

}  // namespace lockstep::cluster
