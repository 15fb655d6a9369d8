// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/scratch_folder.h"

namespace lockstep::testing {

/// A new folder below the system's folder for temporary files, which is removed with its contents by the
/// destructor.
class TemporaryFolder : public ScratchFolder {
 public:
  TemporaryFolder() : ScratchFolder("lockstep-test") {}
};

}  // namespace lockstep::testing
