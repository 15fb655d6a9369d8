// SPDX-License-Identifier: Apache-2.0
// Logs steps 0 to 5, then fails; started again it goes on from step 3 to 7. For tensorboard_reads.py.

#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace ls = lockstep;

int main() {
  ls::initialize();
  const bool first = std::string(std::getenv("LOCKSTEP_ATTEMPT")) == "0";
  const int begin = first ? 0 : 3, end = first ? 6 : 8;
  auto loss = ls::jit([](ls::Array step) { return step / 4; });
  for (int step = begin; step < end; ++step) {
    ls::metrics::log(
        step, {{"loss", loss(step)}, {"lives/attempt", first ? 0 : 1}, {"not a number", std::nan("")}});
  }
  ls::multihost::sync_global_devices("logged");
  return first ? 1 : 0;
}
