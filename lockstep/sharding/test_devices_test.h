// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/sharding/mesh.h"

namespace lockstep::sharding::testing {

/// Devices 0 to n-1 (n at most 16), two in each process.
inline std::vector<Device> test_devices(std::int64_t n) {
  static const auto infos = [] {
    std::array<DeviceInfo, 16> all;
    for (int i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = {i, i / 2, i % 2, "cpu", "cpu", "host"};
    return all;
  }();
  std::vector<Device> devices;
  for (std::int64_t i = 0; i < n; ++i) devices.emplace_back(&infos[static_cast<std::size_t>(i)]);
  return devices;
}

inline Mesh test_mesh(Shape shape, std::vector<std::string> names) {
  const std::int64_t n = num_elements(shape);
  return Mesh(test_devices(n), std::move(shape), std::move(names));
}

}  // namespace lockstep::sharding::testing
