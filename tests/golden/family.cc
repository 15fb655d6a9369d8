// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/family.h"

#include <gtest/gtest.h>

#include <vector>

#include "lockstep/ops/ops.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep::golden {
namespace {

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kTwoDevices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

}  // namespace

Array numbers(const Shape& shape, int seed) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 5) % 13 - 6) / 8;
  return array(values, shape);
}

std::set<std::string>& compared() {
  static std::set<std::string> names;
  return names;
}

void expect_named(const std::string& name, const Array& found, const Tolerance& tolerance) {
  SCOPED_TRACE(name);
  ASSERT_TRUE(file().contains(name));
  compared().insert(name);
  expect_stored(found, Stored(file()[name]), tolerance);
}

}  // namespace lockstep::golden
