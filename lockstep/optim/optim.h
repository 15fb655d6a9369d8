// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/optim/accumulation.h"
#include "lockstep/optim/adafactor.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/chain.h"
#include "lockstep/optim/inject_hyperparams.h"
#include "lockstep/optim/lookahead.h"
#include "lockstep/optim/loss_scale.h"
#include "lockstep/optim/masked.h"
#include "lockstep/optim/multi_steps.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/optim/scaling.h"
#include "lockstep/optim/schedules.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/transformation.h"
