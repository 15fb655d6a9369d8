// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/sparse/bcoo.h"
#include "lockstep/sparse/bcsr.h"
#include "lockstep/sparse/grad.h"
#include "lockstep/sparse/row_blocks.h"
