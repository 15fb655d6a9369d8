// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "lockstep/base/error.h"
#include "lockstep/sharding/test_devices_test.h"

namespace lockstep {
namespace {

using sharding::testing::test_devices;
using sharding::testing::test_mesh;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(Device, PrintsPlatformAndId) { EXPECT_EQ(test_devices(4)[3].to_string(), "CpuDevice(id=3)"); }

TEST(Mesh, KnowsAxesAndPositions) {
  Mesh mesh = test_mesh({4, 2}, {"data", "model"});
  EXPECT_EQ(mesh.to_string(), "Mesh(data=4, model=2)");
  EXPECT_EQ(mesh.axis_size("model"), 2);
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.position(test_devices(8)[5]), 5);
  EXPECT_EQ(mesh.position(test_devices(9)[8]), -1);
}

TEST(Mesh, EqualOnes_HaveTheSameDevicesShapeAndNames) {
  EXPECT_EQ(test_mesh({4, 2}, {"a", "b"}), test_mesh({4, 2}, {"a", "b"}));
  EXPECT_EQ(test_mesh({4, 2}, {"a", "b"}).fingerprint(), test_mesh({4, 2}, {"a", "b"}).fingerprint());
  EXPECT_FALSE(test_mesh({4, 2}, {"a", "b"}) == test_mesh({2, 4}, {"a", "b"}));
  EXPECT_FALSE(test_mesh({4, 2}, {"a", "b"}) == test_mesh({4, 2}, {"b", "a"}));
  std::vector<Device> turned = test_devices(2);
  std::swap(turned[0], turned[1]);
  EXPECT_FALSE(Mesh(turned, {2}, {"a"}) == test_mesh({2}, {"a"}));
}

TEST(Mesh, InvalidOnes_ThrowWithTheNumbers) {
  auto message = [](auto&& make) {
    try {
      make();
    } catch (const ShardingError& error) {
      // Behind the line's number, which changes.
      return std::regex_replace(error.what(), std::regex(R"(sharding_test\.cc:\d+)"), "sharding_test.cc");
    }
    return std::string("no error");
  };
  const std::vector<Device> devices = test_devices(3);
  EXPECT_EQ(message([&] {
              Mesh(devices, {2, 2}, {"a", "b"});
            }),
            "[Mesh] axes (a=2, b=2) make 4 places, but there are 3 devices (at sharding_test.cc); expected "
            "one device for each place");
  EXPECT_EQ(
      message([&] {
        Mesh({devices[0], devices[2], devices[0]}, {3}, {"a"});
      }),
      "[Mesh] CpuDevice(id=0) is at position 0 and again at position 2 (at sharding_test.cc); a mesh has "
      "each device once");
  EXPECT_EQ(message([&] {
              Mesh(devices, {3, 1}, {"a", "a"});
            }),
            "[Mesh] axis 'a' is named 2 times (at sharding_test.cc); every axis needs its own name");
  EXPECT_EQ(message([&] {
              Mesh(devices, {3}, {"a", "b"});
            }),
            "[Mesh] 1 sizes (3) for 2 axes (a, b) (at sharding_test.cc); give one size for each axis");
  EXPECT_EQ(message([&] { test_mesh({2}, {"a"}).axis_size("b"); }), "Mesh(a=2) has no axis 'b'");
}

TEST(Mesh, SubMesh_HasTheDevicesAtOnePositionOfAnAxis) {
  const Mesh mesh = test_mesh({2, 4}, {"stage", "data"});
  const Mesh second = mesh.sub_mesh("stage", 1);
  const std::vector<Device> all = test_devices(8);
  EXPECT_EQ(second, Mesh({all[4], all[5], all[6], all[7]}, {4}, {"data"}));
  EXPECT_EQ(mesh.sub_mesh("data", 2), Mesh({all[2], all[6]}, {2}, {"stage"}));
  EXPECT_EQ(second.sub_mesh("data", 3).devices(), std::vector{all[7]});
  EXPECT_THAT([&] { mesh.sub_mesh("stage", 2); },
              ThrowsMessage<ShardingError>(AllOf(
                  HasSubstr("[sub_mesh] Mesh(stage=2, data=4) has places 0 to 1 along 'stage', not 2 (at "),
                  HasSubstr("sharding_test.cc:"))));
  EXPECT_THAT([&] { mesh.sub_mesh("model", 0); },
              ThrowsMessage<ShardingError>(HasSubstr("has no axis 'model' (at sharding_test.cc:")));
}

TEST(Mesh, LocalMesh_HasTheBlockOfDevicesOfAProcess) {
  const std::vector<Device> all = test_devices(8);  // two in each process
  const Mesh mesh = test_mesh({4, 2}, {"data", "model"});
  EXPECT_EQ(mesh.local_mesh(1), Mesh({all[2], all[3]}, {1, 2}, {"data", "model"}));
  const Mesh columns({all[0], all[2], all[1], all[3]}, {2, 2}, {"data", "model"});
  EXPECT_EQ(columns.local_mesh(0), Mesh({all[0], all[1]}, {2, 1}, {"data", "model"}));
  const Mesh with_others_between({all[0], all[2], all[3], all[1]}, {4}, {"data"});
  EXPECT_EQ(with_others_between.local_mesh(0), Mesh({all[0], all[1]}, {2}, {"data"}));
  EXPECT_THAT([&] { mesh.local_mesh(4); },
              ThrowsMessage<ShardingError>(HasSubstr(
                  "[local_mesh] Mesh(data=4, model=2) has no device of process 4 (at sharding_test.cc:")));
  const Mesh diagonal({all[0], all[2], all[3], all[1]}, {2, 2}, {"data", "model"});
  EXPECT_THAT([&] { diagonal.local_mesh(0); },
              ThrowsMessage<ShardingError>(
                  HasSubstr("[local_mesh] the 2 devices of process 0 are not a block of "
                            "Mesh(data=2, model=2): they have [2,2] places along its axes (at ")));
}

TEST(ResolveAxisSizes, InfersTheSizeGivenAsMinusOne) {
  using Axes = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(sharding::resolve_axis_sizes(Axes{{"data", 4}, {"model", -1}}, 8), (Shape{4, 2}));
  EXPECT_EQ(sharding::resolve_axis_sizes(Axes{{"data", 8}}, 8), (Shape{8}));
  EXPECT_THAT(
      [] {
        sharding::resolve_axis_sizes(Axes{{"data", 3}, {"model", -1}}, 8);
      },
      ThrowsMessage<ShardingError>(HasSubstr("8 devices cannot be divided among 3 places (remainder 2)")));
  EXPECT_THAT(
      [] {
        sharding::resolve_axis_sizes(Axes{{"data", 3}}, 8);
      },
      ThrowsMessage<ShardingError>(HasSubstr("(data=3) make 3 places, but there are 8 devices")));
  EXPECT_THAT(
      [] {
        sharding::resolve_axis_sizes(Axes{{"data", -1}, {"model", -1}}, 8);
      },
      ThrowsMessage<ShardingError>(HasSubstr("only one size may be -1")));
}

TEST(PartitionSpec, ReadsAndPrintsAsInJax) {
  EXPECT_EQ(P().to_string(), "P()");
  EXPECT_EQ(P("data").to_string(), "P('data')");
  EXPECT_EQ(P(nullptr, "model").to_string(), "P(None, 'model')");
  EXPECT_EQ(P({"data", "model"}, none).to_string(), "P(('data', 'model'), None)");
  EXPECT_EQ(P({"data", "model"}).to_string(), "P(('data', 'model'))");
  EXPECT_THAT(P({"data", "model"}).axes(0), ElementsAre("data", "model"));
  EXPECT_THAT(P("data").axes(3), IsEmpty());
  EXPECT_EQ(P("data", none, none).normalized(), P("data"));
  EXPECT_FALSE(P("data", none) == P("data"));
}

TEST(NamedSharding, EqualOnes_ShareOneState) {
  Sharding a = NamedSharding(test_mesh({4}, {"data"}), P("data"));
  Sharding b = NamedSharding(test_mesh({4}, {"data"}), P("data", none));
  Sharding c = NamedSharding(test_mesh({4}, {"data"}), P(none, "data"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.identity(), b.identity());
  EXPECT_EQ(a.fingerprint(), b.fingerprint());
  EXPECT_FALSE(a == c);
  EXPECT_EQ(a.to_string(), "NamedSharding(Mesh(data=4), P('data'))");
}

TEST(NamedSharding, GivesEachDeviceItsPart) {
  NamedSharding s(test_mesh({2, 2}, {"data", "model"}), P({"model", "data"}));
  EXPECT_EQ(s.shard_shape({8, 3}), (Shape{2, 3}));
  std::vector<std::int64_t> starts;
  for (const auto& ranges : s.device_indices({8, 3})) {
    EXPECT_EQ(ranges[0].limit, ranges[0].start + 2);
    EXPECT_EQ(ranges[1], (IndexRange{0, 3}));
    starts.push_back(ranges[0].start);
  }
  EXPECT_THAT(starts, ElementsAre(0, 4, 2, 6));  // model is major
}

TEST(NamedSharding, KnowsWhichPositionsAreAddressable) {
  NamedSharding s(test_mesh({4}, {"data"}), P("data"));  // devices 0 and 1 are process 0's
  EXPECT_THAT(s.addressable_positions(1), ElementsAre(2, 3));
  EXPECT_THAT(s.addressable_positions(7), IsEmpty());
  EXPECT_FALSE(s.is_fully_addressable(0));
  EXPECT_TRUE(NamedSharding(test_mesh({2}, {"data"}), P("data")).is_fully_addressable(0));
  EXPECT_FALSE(s.is_fully_replicated());
  EXPECT_TRUE(NamedSharding(test_mesh({4}, {"data"}), P(none)).is_fully_replicated());
  EXPECT_TRUE(NamedSharding(test_mesh({4, 1}, {"data", "one"}), P("one")).is_fully_replicated());
}

TEST(SingleDeviceSharding, HasTheWholeArrayOnOneDevice) {
  Device device = test_devices(4)[3];
  SingleDeviceSharding s(device);
  EXPECT_EQ(s, SingleDeviceSharding(device));
  EXPECT_TRUE(s.is_single_device());
  EXPECT_TRUE(s.is_fully_replicated());
  EXPECT_TRUE(s.is_fully_addressable(1));
  EXPECT_EQ(s.shard_shape({5, 7}), (Shape{5, 7}));
  EXPECT_EQ(s.to_string(), "SingleDeviceSharding(CpuDevice(id=3))");
}

TEST(Sharding, ThoseWithEqualParts_AreEquivalent) {
  Mesh mesh = test_mesh({4, 1}, {"data", "one"});
  EXPECT_TRUE(NamedSharding(mesh, P("data")).is_equivalent_to(NamedSharding(mesh, P({"data", "one"})), 1));
  EXPECT_TRUE(
      NamedSharding(mesh, P("data")).is_equivalent_to(NamedSharding(test_mesh({4}, {"x"}), P("x")), 2));
  EXPECT_FALSE(NamedSharding(mesh, P("data")).is_equivalent_to(NamedSharding(mesh, P()), 1));
  EXPECT_FALSE(NamedSharding(mesh, P("data")).is_equivalent_to(NamedSharding(mesh, P(none, "data")), 2));
  EXPECT_TRUE(SingleDeviceSharding(test_devices(1)[0])
                  .is_equivalent_to(NamedSharding(test_mesh({1}, {"data"}), P("data")), 1));
  EXPECT_FALSE(SingleDeviceSharding(test_devices(2)[1])
                   .is_equivalent_to(NamedSharding(test_mesh({1}, {"data"}), P("data")), 1));
}

TEST(CheckDivisible, ASizeThatDoesNotDivide_IsAnErrorWithTheNearestSizes) {
  const Mesh mesh = test_mesh({4, 2}, {"data", "model"});
  auto check = [&](Shape shape, P spec) {
    return [&mesh, shape = std::move(shape), spec = std::move(spec)] {
      sharding::check_divisible(Aval{DType::kF32, shape}, spec, mesh, "device_put");
    };
  };
  EXPECT_NO_THROW(check({8, 64}, P("data", "model"))());
  EXPECT_THAT(
      check({10, 64}, P({"data", "model"})),
      ThrowsMessage<ShardingError>("[device_put] dimension 0 of f32[10,64] has 10 elements, which mesh axes "
                                   "'data' and 'model' of 8 devices do not divide (remainder 2); the nearest "
                                   "sizes that fit are 8 and 16"));
  EXPECT_THAT(check({3}, P("data")),
              ThrowsMessage<ShardingError>(HasSubstr("the nearest size that fits is 4")));
  EXPECT_THAT(check({8}, P("data", "model")),
              ThrowsMessage<ShardingError>("[device_put] P('data', 'model') has 2 entries, but f32[8] has 1 "
                                           "dimensions; give at most one entry for each"));
  EXPECT_THAT(check({8}, P("batch")),
              ThrowsMessage<ShardingError>("[device_put] P('batch') names the axis 'batch', which "
                                           "Mesh(data=4, model=2) does not have; name one of its axes"));
  EXPECT_THAT([&] { NamedSharding(mesh, P("data", "data")); },
              ThrowsMessage<ShardingError>(AllOf(HasSubstr("[NamedSharding (at sharding_test.cc:"),
                                                 HasSubstr("names the axis 'data' twice"))));
}

}  // namespace
}  // namespace lockstep
