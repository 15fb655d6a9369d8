// SPDX-License-Identifier: Apache-2.0
// A library of a user that has Lockstep within. PART is the name of its function.
#include <lockstep/lockstep.h>

extern "C" int PART() {
  static const auto total = lockstep::jit([](lockstep::Array x) { return lockstep::sum(x); });
  return static_cast<int>(total(lockstep::ones({4})).item<float>());
}
