#pragma once

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/transformation.h"
