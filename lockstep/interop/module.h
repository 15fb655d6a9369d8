// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/program/aval.h"

/// A StableHLO module as a portable artifact has it: the operations of the VHLO dialect, with their
/// attributes.
namespace lockstep::interop {

struct Type;
using TypePtr = std::shared_ptr<const Type>;

struct Type {
  enum class Kind : std::uint8_t { kElement, kTensor, kOther };
  Kind kind = Kind::kOther;
  std::string name;  ///< of an element "f32"; of other kinds what they are, for messages
  Shape shape = {};  ///< of a tensor
  TypePtr element = nullptr;
};

struct Attribute;
using AttributePtr = std::shared_ptr<const Attribute>;

struct Attribute {
  enum class Kind : std::uint8_t {
    kInteger,     ///< `integer`; bools and enums too
    kFloat,       ///< `real`
    kString,      ///< `text`
    kArray,       ///< `elements`
    kDictionary,  ///< `entries`
    kTensor,      ///< `type`, and the elements' bytes in `text`
    kType,        ///< `type`
    kSharding,    ///< `text` is the mesh's name, `splits` the axes of each dimension, `open` which are open
    kMesh,        ///< `splits` has the axes' names, one a list, `numbers` their sizes
    kLocation,    ///< `text`, as a person reads it
    kOther,       ///< `text` says what
  };
  Kind kind = Kind::kOther;
  std::int64_t integer = 0;
  double real = 0;
  std::string text = {};
  std::vector<AttributePtr> elements = {};
  std::map<std::string, AttributePtr> entries = {};
  TypePtr type = nullptr;
  std::vector<std::vector<std::string>> splits = {};
  std::vector<bool> open = {};
  std::vector<std::int64_t> numbers = {};
};

struct Region;

/// Values are numbered over the whole module.
struct Operation {
  std::string name;  ///< with its dialect: "vhlo.add_v1"
  std::vector<std::size_t> operands, results;
  std::vector<TypePtr> result_types;
  std::map<std::string, AttributePtr> attributes;
  std::vector<AttributePtr> properties;  ///< of dialects that keep them apart
  std::vector<Region> regions;
  AttributePtr location;

  /// The attribute, or null.
  const Attribute* find(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? nullptr : found->second.get();
  }
};

/// A list of operations, with arguments; of those of several blocks, which no portable artifact has, none.
struct Region {
  std::vector<std::size_t> arguments;
  std::vector<TypePtr> argument_types;
  std::vector<Operation> operations;
};

struct Module {
  std::string producer;  ///< "StableHLO_v1.15.0"
  Region body;
  std::size_t num_values = 0;
};

}  // namespace lockstep::interop
