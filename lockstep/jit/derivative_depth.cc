// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/derivative_depth.h"

#include <utility>

namespace lockstep::internal {
namespace {

thread_local int depth = 0;

}  // namespace

int DerivativeDepth::current() { return depth; }

DerivativeDepth::DerivativeDepth(int now) : saved_(std::exchange(depth, now)) {}

DerivativeDepth::~DerivativeDepth() { depth = saved_; }

}  // namespace lockstep::internal
