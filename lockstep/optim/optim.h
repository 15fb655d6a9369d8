#pragma once

#include "lockstep/optim/adam.h"
#include "lockstep/optim/chain.h"
#include "lockstep/optim/multi_steps.h"
#include "lockstep/optim/schedules.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/transformation.h"
