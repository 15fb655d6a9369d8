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

/// nullopt where Lockstep has no such dtype.
std::optional<DType> dtype_of_name(std::string_view name);

struct Tensor {
  std::string name;
  std::string dtype;  ///< as the file says it
  Shape shape;
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t bytes = 0;
};

struct Header {
  std::uint64_t bytes = 0;      ///< the length and the JSON: where the data begins
  std::vector<Tensor> tensors;  ///< in the order of their data
  std::map<std::string, std::string> metadata;
};

/// Reads and checks the header: tensors fill the file from the header's end to its own, without holes.
/// Throws CheckpointError, naming the file and the tensor.
Header read_header(const storage::Reader& file);

/// The length and the JSON of a header, padded to a multiple of 4096 bytes, for these tensors; sets their
/// offsets. They lie in the order given.
std::string make_header(std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace lockstep::checkpoint::safetensors
