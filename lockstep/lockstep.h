// SPDX-License-Identifier: Apache-2.0
#pragma once

// All of Lockstep:  #include <lockstep/lockstep.h>
// What it includes is public, as are the headers of cmake/public_headers.txt; docs/stability.md says what
// that means. <lockstep/array.h>, <lockstep/jit.h> and <lockstep/train.h> are parts of it, which compile
// faster.

#include "lockstep/base/compiler.h"

#ifndef LOCKSTEP_UNSUPPORTED_COMPILER

#include "lockstep/interop/jax_export.h"
#include "lockstep/sparse/sparse.h"
#include "lockstep/tokenizers/tokenizer.h"
#include "lockstep/train.h"

#endif
