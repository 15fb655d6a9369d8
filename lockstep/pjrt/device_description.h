#pragma once

#include <string>

struct PJRT_Api;
struct PJRT_DeviceDescription;

namespace lockstep::pjrt {

/// What a plugin says of a device, there or only described.
struct DeviceDescription {
  int id = 0;
  int process_index = 0;
  std::string kind;
};

/// Throws PjrtError where the plugin does.
DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* device);

}  // namespace lockstep::pjrt
