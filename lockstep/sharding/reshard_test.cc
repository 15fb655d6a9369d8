// SPDX-License-Identifier: Apache-2.0
// From any spec to any other: the parts are right, and how much a device receives.

#include "lockstep/sharding/reshard.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/reference_evaluator_test.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/sharding/test_devices_test.h"

namespace lockstep::sharding {
namespace {

using ::testing::ElementsAre;
using testing::Index;
using testing::parts;
using testing::Tensor;

ir::Program identity(const Shape& shape) {
  ir::Builder builder("identity");
  const ir::Value outputs[] = {builder.input(Aval{DType::kF32, shape})};
  return builder.finish(outputs);
}

/// The elements of its new part that a device does not have, of the device that lacks most.
std::int64_t lacking(const Shape& shape, const Mesh& mesh, const PartitionSpec& from,
                     const PartitionSpec& to) {
  const auto had = NamedSharding(mesh, from).device_indices(shape),
             wanted = NamedSharding(mesh, to).device_indices(shape);
  std::int64_t most = 0;
  for (std::size_t p = 0; p < had.size(); ++p) {
    std::int64_t all = 1, here = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const std::int64_t first = std::max(had[p][d].start, wanted[p][d].start),
                         limit = std::min(had[p][d].limit, wanted[p][d].limit);
      all *= wanted[p][d].limit - wanted[p][d].start;
      here *= std::max<std::int64_t>(limit - first, 0);
    }
    most = std::max(most, all - here);
  }
  return most;
}

PartitionSpec random_spec(std::mt19937& engine, std::vector<std::string> axes) {
  std::ranges::shuffle(axes, engine);
  std::vector<std::vector<std::string>> entries(2);
  for (const std::string& axis : axes) {
    if (const std::size_t d = engine() % 3; d < 2) entries[d].push_back(axis);
  }
  return PartitionSpec::from_entries(std::move(entries));
}

std::vector<std::string> kinds(const Shape& mesh_shape, const Shape& shape, const PartitionSpec& from,
                               const PartitionSpec& to) {
  const Mesh mesh = testing::test_mesh(mesh_shape, {"x", "y"});
  std::vector<std::string> all;
  for (const CommunicationLine& line :
       communication(partition(identity(shape), {mesh.axis_env(), {from}, {to}}).program, mesh.axis_env()))
    all.push_back(fmt::format("{} over {}", line.kind, fmt::join(line.axes, ", ")));
  return all;
}

class Resharding : public ::testing::TestWithParam<Shape> {};

TEST_P(Resharding, BetweenAnyTwoSpecs_GivesTheRightParts) {
  static const std::vector<std::string> kNames = {"a", "b", "c"};
  const Mesh mesh = testing::test_mesh(GetParam(), {kNames.begin(), kNames.begin() + GetParam().size()});
  const ir::AxisEnvScope axes(mesh.axis_env());
  const Grid grid(mesh.axis_env());
  const Shape shape = {48, 48};
  const Aval aval{DType::kF32, shape};
  const ir::Program program = identity(shape);
  const Tensor x = testing::make(shape, [](const Index& i) { return static_cast<double>(i[0] * 64 + i[1]); });
  std::mt19937 engine(1);
  for (int i = 0; i < 60; ++i) {
    const PartitionSpec from = random_spec(engine, mesh.axis_names()),
                        to = random_spec(engine, mesh.axis_names());
    SCOPED_TRACE(from.to_string() + " to " + to.to_string());
    const ir::Program local = partition(program, {mesh.axis_env(), {from}, {to}}).program;
    ASSERT_TRUE(testing::evaluate(local, mesh.axis_env(), {parts(x, mesh, from)})[0] == parts(x, mesh, to))
        << to_string(local);
    const Layout before{grid.split(from, 2)}, after{grid.split(to, 2)};
    const double received = received_bytes(plan_reshard(before, after, grid), aval, before, grid),
                 least = 4.0 * static_cast<double>(lacking(shape, mesh, from, to));
    EXPECT_LE(received, 4 * least);
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, Resharding,
                         ::testing::Values(Shape{8}, Shape{4, 2}, Shape{2, 4}, Shape{6, 2}, Shape{3, 4},
                                           Shape{4, 4}, Shape{2, 2, 2}, Shape{2, 4, 2}));

/// An axis of 4 that goes where one of 2 was: half of it moves, and then the parts change their owners.
TEST(Resharding, SwappedAxesOfDifferentSizes_MovePartOfTheLarger) {
  EXPECT_THAT(kinds({4, 2}, {16, 16}, P("x", "y"), P("y", "x")),
              ElementsAre("all-to-all over x:(2)2", "permute over y, x"));
}

TEST(Resharding, ToFewerParts_GathersOverAPartOfTheAxis) {
  EXPECT_THAT(kinds({4, 2}, {16, 16}, P("x"), P("y")),
              ElementsAre("permute over y, x", "all-gather over x:(1)2"));
}

}  // namespace
}  // namespace lockstep::sharding
