#pragma once

#include "lockstep/nn/activations.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/losses.h"
