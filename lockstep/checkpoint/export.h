// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "lockstep/base/call_site.h"
#include "lockstep/base/durations.h"
#include "lockstep/base/function.h"
#include "lockstep/tree/tree_type.h"

namespace lockstep::checkpoint {

struct ExportOptions {
  /// The tensor's name for the array at this path; the path itself, if not given.
  std::function<std::string(const std::string& path)> rename;

  /// The largest size of a file, unless a single tensor is larger.
  std::uint64_t largest_file = 5'000'000'000;

  std::chrono::milliseconds timeout = std::chrono::minutes(60);

  /// Called with the number of bytes as this process writes them.
  std::function<void(std::uint64_t bytes)> on_written;
};

void export_tree(const std::string& folder, tree::TreeRef tree, const ExportOptions& options);

/// Writes the tree's arrays in Hugging Face's format: model-00001-of-00002.safetensors and so on, each tensor
/// in one file, and model.safetensors.index.json. `folder` is a path that must not exist. Every process of
/// the job calls it, and writes its share into the same files, which all must be able to access. Other values
/// of the tree are left out. Throws CheckpointError as checkpoint::save does.
template <class Tree>
void export_hf(const std::string& folder, const Tree& tree, const ExportOptions& options = {},
               std::source_location where = std::source_location::current()) {
  CallSiteScope scope(CallSite::from(where));
  export_tree(folder, tree::tree_ref(tree), options);
}

/// The same for a checkpoint, by this process alone and without devices. `folder` may be "s3://...".
void export_checkpoint(const std::string& checkpoint, const std::string& folder,
                       const ExportOptions& options = {});

}  // namespace lockstep::checkpoint
