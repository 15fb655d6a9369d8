// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/program/aval.h"

/// Python's pickle, as far as torch.save needs it for tensors. Nothing is executed: of the functions that a
/// pickle may call, those that make tensors and dictionaries are known, and all others are refused.
namespace lockstep::checkpoint {

/// A tensor, and where its elements are.
struct PickledTensor {
  std::string name;  ///< the keys and numbers on the way to it, with dots
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::int64_t> strides;  ///< in elements, none negative
  std::int64_t offset = 0;            ///< of its first element in the storage, in elements
  std::string storage;                ///< the key of the storage
  std::uint64_t storage_bytes = 0;    ///< within which all elements are
};

struct Pickled {
  std::vector<PickledTensor> tensors;
  Values values;  ///< the numbers, bools and texts, by name
};

/// What cannot be read. `is_foreign`: it may be a pickle, but one with other things than tensors.
using Refusal = std::function<void(const std::string& what, bool is_foreign)>;

/// Reads dictionaries and lists of tensors. `refuse` must throw.
Pickled read_pickle(std::string_view bytes, const Refusal& refuse);

}  // namespace lockstep::checkpoint
