// SPDX-License-Identifier: Apache-2.0
// Orders of devices in meshes, against those that JAX gives (device_meshes.py).

#include "lockstep/sharding/device_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const json& written() {
  static const json& all = *new json(json::parse(std::ifstream(LOCKSTEP_DEVICE_MESHES)));
  return all;
}

/// The devices of a topology as the file describes them.
class Slice {
 public:
  explicit Slice(const json& topology) {
    for (const json& each : topology["devices"]) {
      DeviceInfo& info = infos_.emplace_back();
      info.id = static_cast<int>(infos_.size()) - 1;
      info.platform = "tpu";
      info.kind = topology["kind"].get<std::string>();
      info.coords = each[0].get<std::vector<std::int64_t>>();
      info.core_on_chip = each[1].get<int>();
      info.process_index = each[2].get<int>();
      info.slice_index = each[3].get<int>();
      devices.push_back(Device(&info));
    }
  }
  std::vector<Device> devices;

 private:
  std::deque<DeviceInfo> infos_;
};

/// The ids of what `make` gives; null where it refuses.
json ids(const std::function<std::vector<Device>()>& make) {
  try {
    json all = json::array();
    for (const Device device : make()) all.push_back(device.id());
    return all;
  } catch (const ShardingError&) {
    return nullptr;
  }
}

TEST(DeviceMesh, OrdersTheChipsOfASliceAsJaxDoes) {
  int cases = 0;
  for (const json& topology : written()["create_device_mesh"]) {
    const Slice slice(topology);
    for (const json& each : topology["cases"]) {
      const Shape shape = each["shape"].get<Shape>();
      EXPECT_EQ(ids([&] { return create_device_mesh(shape, slice.devices, {each["split"].get<bool>()}); }),
                each["order"])
          << topology["topology"] << " " << each["shape"] << (each["split"] ? ", axes split" : "");
      ++cases;
    }
  }
  EXPECT_GT(cases, 170);
}

TEST(DeviceMesh, PutsSlicesTogetherAsJaxDoes) {
  int cases = 0;
  for (const json& topology : written()["create_hybrid_device_mesh"]) {
    const Slice slices(topology);
    for (const json& each : topology["cases"]) {
      EXPECT_EQ(ids([&] {
                  return create_hybrid_device_mesh(each["shape"].get<Shape>(), each["outer"].get<Shape>(),
                                                   slices.devices, {.allow_split_physical_axes = true});
                }),
                each["order"])
          << topology["topology"] << " " << each["shape"] << " " << each["outer"];
      ++cases;
    }
  }
  EXPECT_GT(cases, 25);
}

TEST(DeviceMesh, ProcessesOfGpus_AreKeptTogether) {
  std::deque<DeviceInfo> infos;
  std::vector<Device> devices;
  for (int i = 0; i < 8; ++i) {
    infos.push_back({.id = i, .process_index = i / 4, .platform = "cuda"});
    devices.push_back(Device(&infos.back()));
  }
  EXPECT_EQ(ids([&] { return create_device_mesh({2, 4}, devices); }), json({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ids([&] {
              return create_hybrid_device_mesh({2, 2}, {1, 2}, devices, {.process_is_granule = true});
            }),
            json({0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(DeviceMesh, ShapesThatDoNotFitTheSlice_AreRefused) {
  const Slice slice(written()["create_device_mesh"].at(7));  // v5e:4x4
  const auto error_of = [](const std::function<void()>& action) {
    return testing::error_of<ShardingError>(action);
  };
  EXPECT_THAT(error_of([&] { create_device_mesh({3, 5}, slice.devices); }), HasSubstr("do not multiply to"));
  EXPECT_THAT(error_of([&] {
                create_device_mesh({8, 2}, slice.devices);
              }),
              HasSubstr("set allow_split_physical_axes"));
  std::vector<Device> some(slice.devices.begin(), slice.devices.begin() + 6);
  some.erase(some.begin());
  EXPECT_THAT(error_of([&] { create_device_mesh({5}, some); }), HasSubstr("not a whole box of a torus"));
  EXPECT_THAT(error_of([&] { create_hybrid_device_mesh({16}, {2}, slice.devices); }),
              HasSubstr("does not multiply to the number of slices, 1"));
  EXPECT_THAT(error_of([&] {
                create_hybrid_device_mesh({16}, {1, 1}, slice.devices);
              }),
              HasSubstr("different lengths"));
}

}  // namespace
}  // namespace lockstep
