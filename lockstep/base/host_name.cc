// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/host_name.h"

#include <unistd.h>

#include <climits>

#include "lockstep/base/text.h"

namespace lockstep {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 && *name != 0 ? shown(name) : "unknown";
}

}  // namespace lockstep
