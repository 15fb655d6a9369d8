// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/file_descriptor.h"

namespace lockstep::collectives {
using lockstep::FileDescriptor;
}
