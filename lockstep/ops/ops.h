// SPDX-License-Identifier: Apache-2.0
#pragma once

// All operations on arrays.

#include "lockstep/ops/arithmetic.h"
#include "lockstep/ops/collectives.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/fft.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/linalg.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/rearrange.h"
#include "lockstep/ops/reduction.h"
#include "lockstep/ops/shape.h"
#include "lockstep/ops/signal.h"
#include "lockstep/ops/sorting.h"
#include "lockstep/ops/special.h"
#include "lockstep/ops/statistics.h"
#include "lockstep/ops/trigonometric.h"
