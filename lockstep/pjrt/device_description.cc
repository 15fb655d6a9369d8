#include "lockstep/pjrt/device_description.h"

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {

DeviceDescription describe(const PJRT_Api* api, PJRT_DeviceDescription* device) {
  LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, id);
  id.device_description = device;
  check(api, api->PJRT_DeviceDescription_Id(&id), "describing a device");

  LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, process);
  process.device_description = device;
  check(api, api->PJRT_DeviceDescription_ProcessIndex(&process), "describing a device");

  LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, kind);
  kind.device_description = device;
  check(api, api->PJRT_DeviceDescription_Kind(&kind), "describing a device");
  return {id.id, process.process_index, std::string(kind.device_kind, kind.device_kind_size)};
}

}  // namespace lockstep::pjrt
