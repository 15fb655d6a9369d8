// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fingerprint.h"

#include <xxhash.h>

namespace lockstep {

Fingerprint fingerprint(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Fingerprint combine(Fingerprint first, Fingerprint second) {
  const Fingerprint both[2] = {first, second};
  return XXH3_64bits(both, sizeof both);
}

}  // namespace lockstep
