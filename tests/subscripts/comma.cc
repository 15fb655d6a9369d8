// SPDX-License-Identifier: Apache-2.0
// x[1, 2]: an error before C++23, where it would be x[2]; from C++23 on x[{1, 2}].
#include "lockstep/ops/indexing.h"

lockstep::Array element(const lockstep::Array& x) { return x[1, 2]; }
lockstep::Array column(const lockstep::Array& x) { return x[lockstep::slice(), 0, lockstep::newaxis]; }
