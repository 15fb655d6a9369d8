// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "lockstep/checkpoint/export.h"
#include "lockstep/checkpoint/layout.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/saving.h"

namespace lockstep::checkpoint {

/// A tensor to be written, and what it is made of.
struct ExportTensor {
  struct Part {
    std::size_t leaf = 0;  ///< of the contents
    Link link;
  };
  std::string name;
  DType dtype = DType::kF32;  ///< the arrays' own or one that they can be converted to
  Shape shape;
  std::vector<Part> parts;  ///< which have each element once
};

/// Throws CheckpointError if an array has no value.
void check_values(const Contents& contents);

/// Writes the tensors, as export_hf says, and files of these names and texts beside them. Of the options
/// `rename` is not used.
void export_contents(const std::string& folder, const Contents& contents,
                     const std::vector<ExportTensor>& tensors,
                     const std::map<std::string, std::string>& texts, const ExportOptions& options);

}  // namespace lockstep::checkpoint
