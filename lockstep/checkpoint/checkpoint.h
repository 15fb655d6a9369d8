// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/base/durations.h"
#include "lockstep/base/function.h"
#include "lockstep/checkpoint/restore_options.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/tree/tree_type.h"

/// Trees on disk. docs/checkpoints.md describes the files and the guarantees.
namespace lockstep::checkpoint {

struct SaveOptions {
  /// The limit for the whole save, from the start of the first process to the end of the last.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// The implementation of save and restore, without the tree's type.
void save_tree(const std::string& url, tree::TreeRef tree, const SaveOptions& options);
RestoreReport restore_tree(const std::string& url, tree::TreeRef tree, const RestoreOptions& options);

/// Saves the tree as the folder `url`, a path or "s3://bucket/prefix/name": all arrays, with any sharding,
/// and the numbers, enums, bools and strings of the tree. Every process of the job calls it with the same
/// tree; each element is written once. Blocks until everything is durable on disk. An array on devices of one
/// process only must be the same on all processes. Throws CheckpointError, with the same message on all
/// processes, if one of them cannot write, the trees differ, or `url` already exists: nothing published is
/// overwritten, and a failed save leaves nothing visible.
template <class Tree>
void save(const std::string& url, const Tree& tree, const SaveOptions& options = {},
          std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  save_tree(url, tree::tree_ref(tree), options);
}

/// The saved tree, each array with the sharding of the array in `like`, even if it was saved from other
/// processes, devices or meshes. An Array without a value in `like` accepts any shape and is restored to this
/// process's first device. `url` may also be a safetensors folder or file, as from Hugging Face, or .npy and
/// .npz. Each process reads what its devices need, and checks every byte that it reads if there are
/// checksums. Every process of the job calls it. Throws CheckpointError, with the same first cause on all
/// processes, if something is damaged or missing, or the tree differs: it names the first path, and both
/// shapes and dtypes.
template <class Tree>
Tree restore(const std::string& url, const Tree& like, const RestoreOptions& options = {},
             RestoreReport* report = nullptr, std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  Tree tree = like;
  const RestoreReport read = restore_tree(url, tree::tree_ref(tree), options);
  if (report != nullptr) *report = read;
  return tree;
}

/// An array in host memory, without a device.
struct HostArray {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;  ///< dense and row-major

  /// The elements. Throws DTypeError if T is not the C++ type of the dtype; read bool as std::uint8_t.
  template <class T>
  std::vector<T> elements() const {
    check_dtype(dtype_of<T>);
    std::vector<T> all(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    return all;
  }

 private:
  void check_dtype(DType asked) const;
};

/// The contents of a checkpoint, in this process's memory.
struct Numbers {
  std::map<std::string, HostArray> arrays;  ///< by path
  Values values;
};

/// Reads a checkpoint, or only the arrays for whose path `wanted` returns true, without devices or other
/// processes: `initialize()` is not needed. Throws as restore().
Numbers restore_numbers(const std::string& url,
                        const std::function<bool(const std::string& path)>& wanted = {});

}  // namespace lockstep::checkpoint
