// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tree/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/array/host_view.h"
#include "lockstep/runtime/devices.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

struct Layer {
  Array w, b;
};

Array counted(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return array(HostView(values));
}

TEST(Placement, OfATree_GivesEachArrayTheSharding) {
  const auto devices = static_cast<int>(local_devices().size());
  const NamedSharding split(make_mesh({{"x", -1}}), P("x"));
  const std::vector<Layer> layers =
      device_put(std::vector<Layer>{{counted(devices), counted(2 * devices)}}, split);
  EXPECT_EQ(layers[0].w.sharding(), Sharding(split));
  EXPECT_EQ(layers[0].b.sharding(), Sharding(split));
  EXPECT_EQ(layers[0].b.addressable_shards()[0].shape, (Shape{2}));
  EXPECT_EQ(&block_until_ready(layers), &layers);
  EXPECT_EQ(device_put(std::vector<Array>{counted(devices)}, split)[0].sharding(), Sharding(split));
  EXPECT_EQ(device_put(counted(devices), split).sharding(), Sharding(split));
}

TEST(Placement, OfATreeInOneProcess_GathersAndBroadcastsEachArray) {
  const auto gathered = multihost::process_allgather(std::pair(counted(2), counted(3)));
  EXPECT_EQ(gathered.first.shape(), (Shape{1, 2}));
  EXPECT_EQ(gathered.second.shape(), (Shape{1, 3}));
  EXPECT_EQ(multihost::process_allgather(std::vector<Array>{counted(2)}, true)[0].shape(), (Shape{2}));
  const Layer same = multihost::broadcast_one_to_all(Layer{counted(2), counted(3)});
  EXPECT_THAT(same.w.to_host<float>(), ElementsAre(0, 1));
  EXPECT_THAT(same.b.to_host<float>(), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace lockstep
