// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/activations.h"
#include "lockstep/nn/attention.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/initializers.h"
#include "lockstep/nn/kv_cache.h"
#include "lockstep/nn/layer.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/lora.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/multi_head_attention.h"
#include "lockstep/nn/normalization.h"
#include "lockstep/nn/recurrent.h"
#include "lockstep/nn/relative_position.h"
#include "lockstep/nn/rotary.h"
#include "lockstep/nn/sampling.h"
