#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

struct PJRT_Api;
struct PJRT_DeviceDescription;

namespace lockstep::pjrt {

/// A value that a plugin names, or is given by name.
using NamedValue = std::variant<bool, std::int64_t, std::string, float, std::vector<std::int64_t>>;

/// What a plugin says of a device, there or only described.
struct DeviceDescription {
  int id = 0;
  int process_index = 0;
  std::string kind;

  /// What else: of a TPU `coords`, `core_on_chip`, `slice_index`, `num_cores`.
  std::map<std::string, NamedValue> attributes;

  /// The attribute where it is a whole number; `otherwise` where it is not there.
  std::int64_t number(const std::string& attribute, std::int64_t otherwise) const;

  /// Its place in the slice's torus: of a TPU x, y and z; empty where the plugin tells none.
  std::vector<std::int64_t> coords() const;
};

/// Throws PjrtError where the plugin does.
DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* device);

}  // namespace lockstep::pjrt
