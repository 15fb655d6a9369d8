// SPDX-License-Identifier: Apache-2.0
#pragma once

// Processes, devices, meshes, shardings, arrays and the operations on them. A program that only needs these
// compiles faster with it than with <lockstep/lockstep.h>.

#include "lockstep/base/compiler.h"

#ifndef LOCKSTEP_UNSUPPORTED_COMPILER

#include "lockstep/array/array.h"
#include "lockstep/array/array_view.h"
#include "lockstep/array/computation_text.h"
#include "lockstep/array/device_put.h"
#include "lockstep/array/disable_jit.h"
#include "lockstep/array/host_memory.h"
#include "lockstep/array/host_view.h"
#include "lockstep/array/make_array.h"
#include "lockstep/array/multihost.h"
#include "lockstep/array/print.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/array/visualize.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/dtype.h"
#include "lockstep/base/error.h"
#include "lockstep/base/half.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/progress.h"
#include "lockstep/ops/ops.h"
#include "lockstep/program/aval.h"
#include "lockstep/program/axis_names.h"
#include "lockstep/program/gather_scatter_mode.h"
#include "lockstep/program/padding.h"
#include "lockstep/program/precision.h"
#include "lockstep/program/vmap_method.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/preemption.h"
#include "lockstep/sharding/communication_line.h"
#include "lockstep/sharding/device_mesh.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/sharding/visualize.h"
#include "lockstep/tree/placement.h"
#include "lockstep/tree/tree.h"
#include "lockstep/watch/phase.h"

#endif
