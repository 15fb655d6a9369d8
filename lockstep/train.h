// SPDX-License-Identifier: Apache-2.0
#pragma once

// <lockstep/jit.h>, and what trains models: layers, optimizers, data, checkpoints, metrics.

#include "lockstep/base/compiler.h"

#ifndef LOCKSTEP_UNSUPPORTED_COMPILER

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpointer.h"
#include "lockstep/checkpoint/export.h"
#include "lockstep/checkpoint/hf.h"
#include "lockstep/checkpoint/hf_config.h"
#include "lockstep/checkpoint/keep.h"
#include "lockstep/data/csv.h"
#include "lockstep/data/index_shuffle.h"
#include "lockstep/data/lines.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/mds.h"
#include "lockstep/data/mixture.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/order.h"
#include "lockstep/data/parquet.h"
#include "lockstep/data/record.h"
#include "lockstep/data/source.h"
#include "lockstep/data/tar.h"
#include "lockstep/data/text.h"
#include "lockstep/data/tfrecord.h"
#include "lockstep/data/tokens.h"
#include "lockstep/jit.h"
#include "lockstep/jit/generate.h"
#include "lockstep/metrics/metrics.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/optim.h"

#endif
