// SPDX-License-Identifier: Apache-2.0
// Tests of mistakes with meshes, shardings and their arrays: each is an error that names the user's line and
// says what to do.

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/array/make_array.h"
#include "lockstep/array/multihost.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct BadInput {
  const char* name;
  std::function<void()> use;
  std::vector<std::string> said;  ///< besides the place
};

Array same(Array x) { return x; }

Mesh turned_mesh() {
  std::vector<Device> all = devices();
  std::ranges::reverse(all);
  return Mesh(all, {4}, {"x"});
}

std::vector<BadInput> bad_inputs() {
  const Mesh mesh = line_mesh();
  const NamedSharding rows(mesh, P("x")), columns(mesh, P(nullptr, "x"));
  return {
      {"DevicePut_SpecOfMoreDimensions",
       [=] { device_put(waves({4}), columns); },
       {"[device_put] P(None, 'x') has 2 entries, but f32[4] has 1 dimensions",
        "at most one entry for each"}},
      {"DevicePut_SizeNotDivided",
       [=] { device_put(waves({6}), rows); },
       {"[device_put] dimension 0 of f32[6] has 6 elements, which mesh axis 'x' of 4 devices does not divide "
        "(remainder 2)",
        "the nearest sizes that fit are 4 and 8"}},
      {"InShardings_SpecOfMoreDimensions",
       [=] { jit(same, {.in_shardings = {columns}})(waves({4})); },
       {"[jit, argument array 0] P(None, 'x') has 2 entries, but f32[4] has 1 dimensions"}},
      {"InShardings_SizeNotDivided",
       [=] { jit(same, {.in_shardings = {rows}})(waves({6})); },
       {"[jit, argument array 0] dimension 0 of f32[6] has 6 elements", "are 4 and 8"}},
      {"OutShardings_SizeNotDivided",
       [=] { jit(same, {.out_shardings = {rows}})(waves({6})); },
       {"[jit, result] dimension 0 of f32[6] has 6 elements", "are 4 and 8"}},
      {"Constraint_SpecOfMoreDimensions",
       [=] { jit([=](Array x) { return with_sharding_constraint(x, columns); })(waves({4})); },
       {"with_sharding_constraint", "P(None, 'x') has 2 entries, but f32[4] has 1 dimensions"}},
      {"ShardMap_SpecOfMoreDimensions",
       [=] {
         shard_map(same, {.mesh = mesh, .in_specs = {P(nullptr, "x")}, .out_specs = {P()}})(waves({4}));
       },
       {"[shard_map, argument 0", "P(None, 'x') has 2 entries, but f32[4] has 1 dimensions"}},
      {"Spec_AxisTwice",
       [=] { NamedSharding(mesh, P("x", "x")); },
       {"[NamedSharding", "P('x', 'x') names the axis 'x' twice", "an axis splits an array once"}},
      {"Spec_UnknownAxis",
       [=] { NamedSharding(mesh, P("rows")); },
       {"P('rows') names the axis 'rows', which Mesh(x=4) does not have", "name one of its axes"}},
      {"ShardMap_UnknownAxis",
       [=] { shard_map(same, {.mesh = mesh, .in_specs = {P("rows")}, .out_specs = {P()}})(waves({4})); },
       {"Mesh(x=4) has no axis 'rows'"}},
      {"Collective_UnknownAxis",
       [=] {
         shard_map([](Array x) { return psum(x, "rows"); },
                   {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P()}})(waves({4}));
       },
       {"[psum] there is no mesh axis 'rows' here; the axes are (x)"}},
      {"Mesh_DeviceTwice",
       [=] {
         Mesh({devices()[0], devices()[1], devices()[0], devices()[2]}, {2, 2}, {"a", "b"});
       },
       {"[Mesh] CpuDevice(id=0) is at position 0 and again at position 2", "a mesh has each device once"}},
      {"Mesh_OtherNumberOfDevices",
       [=] { Mesh(devices(), {3}, {"a"}); },
       {"[Mesh] axes (a=3) make 3 places, but there are 4 devices"}},
      {"MakeMesh_SizesThatDoNotDivide",
       [=] {
         make_mesh({{"a", 3}, {"b", -1}});
       },
       {"[make_mesh] axes (a=3, b=-1): 4 devices cannot be divided among 3 places (remainder 1)"}},
      {"MakeMesh_TwoToWorkOut",
       [=] {
         make_mesh({{"a", -1}, {"b", -1}});
       },
       {"only one size may be -1"}},
      {"LocalData_ThatThePartsDoNotDivide",
       [=] { make_array_from_process_local_data(rows, std::vector<float>(6), {6}); },
       {"[make_array_from_process_local_data] dimension 0 of the local data of shape [6] has 6 elements",
        "process 0 of 1", "the nearest sizes that fit are 4 and 8"}},
      {"LocalData_ThatDoesNotFitTheGlobalShape",
       [=] { make_array_from_process_local_data(rows, std::vector<float>(8), {8}, Shape{16}); },
       {"the local data of shape [8] has 8 elements, but with the global shape [16] this process holds 16",
        "process 0 of 1"}},
      {"LocalData_OfAnotherNumberOfElements",
       [=] { make_array_from_process_local_data(rows, std::vector<float>(7), {8}); },
       {"the data has 7 elements, but the shape [8] needs 8"}},
      {"Jit_ArraysOverDifferentMeshes",
       [=] {
         Array x = device_put(waves({4}), rows),
               y = device_put(waves({4}), NamedSharding(square_mesh(), P("x")));
         jit([](Array x, Array y) { return x + y; })(x, y);
       },
       {"[jit] argument array 0 has NamedSharding(Mesh(x=4), P('x')) on devices 0,1,2,3, but argument array "
        "1 has NamedSharding(Mesh(x=2, y=2), P('x'))",
        "Move one with device_put"}},
      {"Jit_ArraysOverTheDevicesInAnotherOrder",
       [=] {
         Array x = device_put(waves({4}), rows),
               y = device_put(waves({4}), NamedSharding(turned_mesh(), P("x")));
         jit([](Array x, Array y) { return x + y; })(x, y);
       },
       {"on devices 0,1,2,3", "on devices 3,2,1,0", "Move one with device_put"}},
      {"Jit_ArgumentElsewhereThanInShardings",
       [=] { jit(same, {.in_shardings = {rows}})(device_put(waves({4}), NamedSharding(mesh, P()))); },
       {"argument array 0 (f32[4]) has NamedSharding(Mesh(x=4), P()), but in_shardings asks for "
        "NamedSharding(Mesh(x=4), P('x'))",
        "move it with device_put"}},
      {"ShardMap_ResultThatIsNotReplicated",
       [=] { shard_map(same, {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P()}})(waves({4})); },
       {"result 0 (f32[1]{x}) differs between the devices along 'x', but its out_spec P() says that it is "
        "the same on all of them",
        "name 'x' in the spec, or reduce over it with psum or pmean"}},
      {"ShardMap_SizeNotDivided",
       [=] { shard_map(same, {.mesh = mesh, .in_specs = {P("x")}, .out_specs = {P("x")}})(waves({6})); },
       {"[shard_map, argument 0", "dimension 0 of f32[6] has 6 elements", "are 4 and 8"}},
      {"Pmap_MoreRowsThanDevices",
       [=] {
         pmap([](Array x) { return x; })(waves({5, 2}));
       },
       {"[pmap] expected arrays with a leading dimension of 4, the number of local devices, got f32[5,2]",
        "in_axes"}},
      {"Pmap_DeviceTwice",
       [=] {
         pmap([](Array x) { return x; }, {.devices = {devices()[0], devices()[0]}})(waves({2}));
       },
       {"[Mesh] CpuDevice(id=0) is at position 0 and again at position 1"}},
      {"Pmap_ResultThatIsNotTheSame",
       [=] { pmap([](Array x) { return x; }, {.out_axes = {std::nullopt}})(waves({4})); },
       {"differs between the devices along 'i'", "reduce it with psum or pmean"}},
      {"Donated_AndUsed",
       [=] {
         Array x = device_put(waves({4}), rows);
         jit(same, {.donate_argnums = {0}})(x);
         x.to_host<float>();
       },
       {"[to_host] the array f32[4] was donated to a computation (at bad_input_test.cc:", "and is used (at"}},
      {"Donated_AndGivenTwice",
       [=] {
         Array x = device_put(waves({4}), rows);
         jit([](Array x, Array y) { return x + y; }, {.donate_argnums = {0}})(x, x);
       },
       {"an array f32[4] is donated and is given twice, as arrays 0 and 1 of the arguments (at "
        "bad_input_test.cc:",
        "give a copy, or do not donate it"}},
      {"Argument_WithoutAValue",
       [=] { jit(same)(Array()); },
       {"[jit] an argument: an Array without a value is used (at bad_input_test.cc:", "assign it first"}},
      {"Traced_ReadForABranch",
       [] { jit([](Array x) { return x.item<float>() > 0 ? x : -x; })(waves({})); },
       {"[to_host] a f32[] of a function that is being traced has no elements yet (at",
        "with where, cond or while_loop"}},
      {"Traced_UsedAfterwards",
       [] {
         Array leaked;
         jit([&](Array x) { return leaked = x * 2; })(waves({4}));
         leaked + 1;
       },
       {"[add] a traced f32[4] made in jit@bad_input_test.cc:", "it has leaked. Return it"}},
      {"Traced_UsedInAnotherFunction",
       [] {
         Array leaked;
         jit([&](Array x) { return leaked = x * 2; })(waves({4}));
         jit([&](Array x) { return x + leaked; })(waves({4}));
       },
       {"[jit@bad_input_test.cc:", "a traced f32[4] made in jit@bad_input_test.cc:", "it has leaked"}},
  };
}

TEST(BadInput, EachOne_IsAnErrorWithTheUsersLineAndWhatToDo) {
  for (const BadInput& each : bad_inputs()) {
    SCOPED_TRACE(each.name);
    const std::string message = test::error_of<Error>(each.use);
    EXPECT_THAT(message, HasSubstr("bad_input_test.cc:"));
    for (const std::string& part : each.said) EXPECT_THAT(message, HasSubstr(part));
  }
}

/// Two processes with two devices each.
LOCKSTEP_CHILD(bad_input) {
  initialize();
  const NamedSharding rows(make_mesh({{"x", 4}}), P("x"));
  const int here = process_index();
  Array x = make_array_from_process_local_data(rows, std::vector<float>(4), {4});
  EXPECT_THAT(
      test::error_of<ShardingError>([&] { x.to_host<float>(); }),
      AllOf(HasSubstr(fmt::format("[to_host] process {} of 2 holds 4 of the 8 elements of f32[8]", here)),
            HasSubstr("(at bad_input_test.cc:"), HasSubstr("multihost::process_allgather")));
  // Each process's error has its own local shape.
  const std::int64_t size = here == 0 ? 3 : 5;
  EXPECT_THAT(test::error_of<ShardingError>([&] {
                make_array_from_process_local_data(rows, std::vector<float>(static_cast<std::size_t>(size)),
                                                   {size});
              }),
              AllOf(HasSubstr(fmt::format("the local data of shape [{}]", size)),
                    HasSubstr(fmt::format("process {} of 2, at bad_input_test.cc:", here))));
  EXPECT_THAT(
      test::error_of<ShardingError>(
          [&] { make_array_from_process_local_data(rows, std::vector<float>(4), {4}, Shape{12}); }),
      HasSubstr(
          "the local data of shape [4] has 4 elements, but with the global shape [12] this process holds 6"));
  EXPECT_THAT(test::error_of<ShardingError>([&] { pmap([](Array x) { return x; })(waves({4})); }),
              HasSubstr("a leading dimension of 2, the number of local devices"));
  // A mesh over one process's devices only is not the other's to compute on.
  const Mesh first = make_mesh({{"x", -1}}, {devices()[0], devices()[1]});
  EXPECT_EQ(first, make_mesh({{"p", 2}, {"x", 2}}).sub_mesh("p", 0));
  if (here == 0) {
    Array y = device_put(waves({4}), NamedSharding(first, P("x")));
    EXPECT_EQ((y + y).to_host<float>(), (waves({4}) * 2).to_host<float>());
  }
  multihost::sync_global_devices("end");
}

TEST(BadInput, InTwoProcesses_IsAnErrorThatNamesTheProcess) {
  for (const auto& result : testing::run_processes({.count = 2,
                            .child = "bad_input",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}},
                            .coordinator = true}))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep
