// SPDX-License-Identifier: Apache-2.0
#pragma once

// <lockstep/array.h>, and what transforms functions: jit, grad, vmap, shard_map, pmap, loops, callbacks;
// random numbers.

#include "lockstep/base/compiler.h"

#ifndef LOCKSTEP_UNSUPPORTED_COMPILER

#include "lockstep/array.h"
#include "lockstep/jit/associative_scan.h"
#include "lockstep/jit/callback.h"
#include "lockstep/jit/checkpointed_while_loop.h"
#include "lockstep/jit/clear_caches.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/custom_solve.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/ffi_call.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/iterative_solvers.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/make_program.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/remat.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/static.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/random/binomial.h"
#include "lockstep/random/distributions.h"
#include "lockstep/random/gamma.h"
#include "lockstep/random/matrices.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/random.h"

#endif
