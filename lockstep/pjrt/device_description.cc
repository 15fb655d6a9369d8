// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/device_description.h"

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/named_values.h"

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
  LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, attributes);
  attributes.device_description = device;
  check(api, api->PJRT_DeviceDescription_Attributes(&attributes), "describing a device");
  return {id.id, process.process_index, std::string(kind.device_kind, kind.device_kind_size),
          values_by_name({attributes.attributes, attributes.num_attributes})};
}

std::int64_t DeviceDescription::number(const std::string& attribute, std::int64_t otherwise) const {
  const auto found = attributes.find(attribute);
  const auto* number = found == attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  return number == nullptr ? otherwise : *number;
}

std::vector<std::int64_t> DeviceDescription::coords() const {
  const auto found = attributes.find("coords");
  const auto* list =
      found == attributes.end() ? nullptr : std::get_if<std::vector<std::int64_t>>(&found->second);
  return list == nullptr ? std::vector<std::int64_t>() : *list;
}

}  // namespace lockstep::pjrt
