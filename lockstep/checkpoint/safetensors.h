// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/program/aval.h"
#include "lockstep/storage/store.h"

/// The file format of Hugging Face's safetensors: a length, a header of JSON, and the tensors' bytes.
namespace lockstep::checkpoint::safetensors {

/// "F32", "BF16", "BOOL", ...
std::string_view name_of(DType dtype);

/// nullopt if Lockstep has no such dtype.
std::optional<DType> dtype_of_name(std::string_view name);

struct Tensor {
  std::string name;
  std::string dtype;  ///< as in the file
  Shape shape;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t bytes = 0;
};

struct Header {
  std::uint64_t bytes = 0;      ///< the size of the length and the JSON, after which the data begins
  std::vector<Tensor> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Reads and checks the header: the tensors must fill the file from the header's end to the end, without
/// gaps. Throws CheckpointError, with the file and the tensor.
Header read_header(const storage::Reader& file);

/// The length and the JSON of a header for these tensors, padded to a multiple of 4096 bytes; sets their
/// offsets. Their data is in the given order.
std::string make_header(std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::checkpoint::safetensors
