// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/interop/bytes.h"
#include "lockstep/interop/module.h"

namespace lockstep::interop {

/// The strings, attributes and types that the operations of a module name by number. An attribute or type is
/// decoded when it is first asked for. All throw Error where the module is damaged.
class Tables {
 public:
  struct Entry {
    std::size_t dialect = 0;
    bool encoded = false;  ///< by the dialect; else it is text
    std::string_view bytes = {};
  };

  std::vector<std::string_view> strings;
  std::vector<std::string> dialects;
  std::vector<Entry> attribute_entries, type_entries;

  std::string string(std::uint64_t index) const;
  AttributePtr attribute(std::uint64_t index);
  TypePtr type(std::uint64_t index);

 private:
  std::vector<AttributePtr> attributes_;
  std::vector<TypePtr> types_;
  int depth_ = 0;
};

/// One attribute (type) of a dialect, in the dialect's own encoding; of another dialect one that says so.
AttributePtr decode_attribute(std::string_view dialect, Bytes& bytes, Tables& tables);
TypePtr decode_type(std::string_view dialect, Bytes& bytes, Tables& tables);

}  // namespace lockstep::interop
