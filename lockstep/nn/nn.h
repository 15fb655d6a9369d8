#pragma once

#include "lockstep/nn/activations.h"
#include "lockstep/nn/attention.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/normalization.h"
