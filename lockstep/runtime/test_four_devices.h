// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "lockstep/runtime/initialize.h"

// A test program that includes this has four CPU devices.

namespace lockstep::test {

class FourDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 4}); }
};
[[maybe_unused]] inline const auto* const four_devices = ::testing::AddGlobalTestEnvironment(new FourDevices);

}  // namespace lockstep::test
