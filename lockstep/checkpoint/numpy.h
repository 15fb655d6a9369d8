#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/manifest.h"
#include "lockstep/storage/store.h"

/// NumPy's .npy and .npz files, to be read as checkpoints.
namespace lockstep::checkpoint {

/// An array of such a file, and the bytes that have it: at its part's offset.
struct NumpyArray {
  std::string path;
  ArrayInfo info;
  std::unique_ptr<storage::Reader> reader;
};

/// The array of a .npy file, at the root.
std::vector<NumpyArray> open_npy(std::unique_ptr<storage::Reader> file);

/// The arrays of a .npz file, by their names. The whole file is read into memory. Throws CheckpointError
/// where it is damaged; all of its checksums are checked.
std::vector<NumpyArray> open_npz(const storage::Reader& file);

}  // namespace lockstep::checkpoint
