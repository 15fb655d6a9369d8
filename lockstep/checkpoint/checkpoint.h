#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/call_site.h"
#include "lockstep/checkpoint/restore_options.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/tree/tree_type.h"

/// Trees on disk. docs/checkpoints.md has the files, and what is promised of them.
namespace lockstep::checkpoint {

struct SaveOptions {
  /// For all processes together, from the first's start to the last's end.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

/// What save and restore do, without the tree's type; restore_tree fills the tree, which is what `like` is.
void save_tree(const std::string& url, tree::TreeRef tree, const SaveOptions& options);
RestoreReport restore_tree(const std::string& url, tree::TreeRef tree, const RestoreOptions& options);

/// Saves the tree as the folder `url`, a path or "s3://bucket/prefix/name": all arrays, however they are
/// spread, and the numbers, enums, bools and texts beside them. Every process of the job calls it with the
/// same tree; each element is written once. Blocks until all is on disk for good. An array that is on
/// devices of one process only must be the same on all. Throws CheckpointError, with the same message on all
/// processes, where one of them cannot write, the trees differ, or `url` is there already: nothing that is
/// published is overwritten, and of a save that failed nothing is seen.
template <class Tree>
void save(const std::string& url, const Tree& tree, const SaveOptions& options = {},
          std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  save_tree(url, tree::tree_ref(tree), options);
}

/// The saved tree, each array onto the sharding that `like` has there, whatever it was saved on: other
/// processes, devices, meshes. Of an Array without a value in `like` any shape is taken, onto this process's
/// first device. `url` may also be a folder or file of safetensors, as of Hugging Face, or .npy and .npz.
/// Each process reads what its devices need, and every byte that is read is checked where there are
/// checksums. Every process of the job calls it. Throws CheckpointError, with the same first cause on all
/// processes, where something is damaged or missing, or the tree differs: it names the first path, and both
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

/// An array in memory, as no device knows it.
struct HostArray {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;  ///< dense and row-major

  /// The elements. Throws DTypeError where T is not the C++ type of the dtype; read bool as std::uint8_t.
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

/// What a checkpoint has, in this process's memory.
struct Numbers {
  std::map<std::string, HostArray> arrays;  ///< by path
  Values values;
};

/// Reads a checkpoint, or those of its arrays whose path `wanted` says yes to, without devices and other
/// processes: `initialize()` need not have been called. Throws as restore().
Numbers restore_numbers(const std::string& url,
                        const std::function<bool(const std::string& path)>& wanted = {});

}  // namespace lockstep::checkpoint
