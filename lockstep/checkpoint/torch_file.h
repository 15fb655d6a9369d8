// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/checkpoint/pickle.h"
#include "lockstep/storage/store.h"

namespace lockstep::checkpoint {

/// What torch.save wrote (torch 1.6 or later).
struct TorchFile {
  struct Tensor {
    PickledTensor about;
    std::uint64_t begin = 0;  ///< of its storage in the file
  };
  std::vector<Tensor> tensors;
  Values values;
};

/// Reads what is in the file, without the tensors' elements. Nothing of the file is executed. Throws
/// CheckpointError if it is damaged, or has something else than tensors, numbers and texts in it.
TorchFile read_torch(const storage::Reader& file);

}  // namespace lockstep::checkpoint
