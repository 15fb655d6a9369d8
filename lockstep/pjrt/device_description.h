// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

struct PJRT_Api;
struct PJRT_DeviceDescription;

namespace lockstep::pjrt {

/// A named value: an attribute or an option of a plugin.
using NamedValue = std::variant<bool, std::int64_t, std::string, float, std::vector<std::int64_t>>;

/// A plugin's description of a device, which may exist or be part of a described topology.
struct DeviceDescription {
  int id = 0;
  int process_index = 0;
  std::string kind;

  /// Further attributes; for a TPU `coords`, `core_on_chip`, `slice_index`, `num_cores`.
  std::map<std::string, NamedValue> attributes;

  /// The attribute if it is an integer; `otherwise` if it does not exist.
  std::int64_t number(const std::string& attribute, std::int64_t otherwise) const;

  /// Its position in the slice's torus: for a TPU x, y and z; empty if the plugin does not report it.
  std::vector<std::int64_t> coords() const;
};

/// Throws PjrtError if the plugin returns an error.
DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* device);

}  // namespace lockstep::pjrt
