#pragma once

// All of Lockstep:  #include <lockstep/lockstep.h>

#include "lockstep/array/array.h"
#include "lockstep/array/device_put.h"
#include "lockstep/base/error.h"
#include "lockstep/base/progress.h"
#include "lockstep/data/csv.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optim.h"
#include "lockstep/random/random.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/preemption.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/tree/tree.h"
