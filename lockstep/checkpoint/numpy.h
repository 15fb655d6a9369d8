// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/storage/store.h"

/// Reads NumPy's .npy and .npz files as checkpoints.
namespace lockstep::checkpoint {

/// An array of such a file, and a reader of its bytes, which are at its part's offset.
struct NumpyArray {
  std::string path;
  ArrayInfo info;
  std::unique_ptr<storage::Reader> reader;
};

/// The array of a .npy file; its path is the root.
std::vector<NumpyArray> open_npy(std::unique_ptr<storage::Reader> file);

/// The arrays of a .npz file, by their names. Reads headers only; an array is unpacked, and its checksum
/// verified, when it is read, and stays in memory from then on. Throws CheckpointError, then as well, if the
/// file is damaged.
std::vector<NumpyArray> open_npz(std::unique_ptr<storage::Reader> file);

}  // namespace lockstep::checkpoint
