// SPDX-License-Identifier: Apache-2.0
// Whether the programs' text is what XLA's TPU compiler takes, and what it says of devices. Nothing is run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "lockstep/cluster/system.h"
#include "lockstep/lockstep.h"
#include "lockstep/pjrt/topology.h"
#include "lockstep/program/test_examples.h"
#include "lockstep/runtime/platforms/platform.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"
#include "lockstep/transforms/test_nested_examples.h"
#include "tests/plan/plans.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_processes;
using testing::say;

runtime::DescribedDevices describe(const std::string& topology) {
  const runtime::Platform& tpu = runtime::tpu_platform();
  tpu.set_environment({}, Environment::process(), cluster::System::real(), /*described=*/true);
  return tpu.describe(topology, pjrt::Plugin::load(pjrt::first_plugin(pjrt::default_plugin_paths("tpu"))));
}

pjrt::CompileOptions on_all(const runtime::DescribedDevices& described) {
  pjrt::CompileOptions options;
  for (const auto& device : described.devices) options.devices.push_back(device.id);
  return options;
}

class Tpu : public ::testing::Test {
  void SetUp() override {
    if (const std::string reason = test::no_tpu_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(Tpu, CompilesPrimitives) {
  const std::set<std::string_view> some = {"dot_general", "conv_general_dilated", "gather", "scatter_add",
                                           "sort",        "reduce_sum",           "cumsum", "threefry2x32",
                                           "erf_inv",     "reduce_window",        "tanh",   "dynamic_slice"};
  const std::set<std::string_view> only_on_cpus = {"eig", "schur", "complex_schur", "sqrtm"};
  std::set<std::string_view> compiled;
  for (const std::string& topology : test::topologies()) {
    const auto described = describe(topology);
    pjrt::CompileOptions one;
    one.devices = {described.devices.front().id};
    for (const test::Example& example : test::all_examples()) {
      const std::string_view name = example.primitive->name;
      if (!test::all_asked() && (some.count(name) == 0 || compiled.count(name) != 0)) continue;
      ir::LowerOptions options;
      options.axes = test::example_axes();
      options.native_collectives = true;
      options.for_cpu = false;
      SCOPED_TRACE(topology + " " + std::string(name));
      if (only_on_cpus.count(name) != 0) {
        EXPECT_THAT(testing::error_of<Error>([&] { lower(test::program_of(example), options); }),
                    HasSubstr("and this program is for other devices"));
        continue;
      }
      // libtpu: "UNIMPLEMENTED: While rewriting computation to not contain X{64|128} element types".
      if (name == "reduce_precision" && example.inputs.front().dtype == float64) continue;
      EXPECT_NO_THROW(described.topology->compile(lower(test::program_of(example), options).stablehlo, one));
      compiled.insert(name);
    }
  }
  EXPECT_GE(compiled.size(), some.size() - 3) << "names have changed";
}

TEST_F(Tpu, CompilesCollectivesOverGroupsOfTwoAndThreeDimensions) {
  using Function = std::function<ir::Value(ir::Value)>;
  const std::pair<const char*, Function> all[] = {
      {"psum",
       [](ir::Value x) {
         return ir::lax::psum(x, {"a", "c"});
       }},
      {"pmax", [](ir::Value x) { return ir::lax::pmax(x, "b"); }},
      {"pmin", [](ir::Value x) { return ir::lax::pmin(x, "a"); }},
      {"all_gather", [](ir::Value x) { return ir::lax::all_gather(x, "b", 1); }},
      {"psum_scatter", [](ir::Value x) { return ir::lax::psum_scatter(x, "b", 0); }},
      {"all_to_all", [](ir::Value x) { return ir::lax::all_to_all(x, "b", 0, 1); }},
      {"ppermute",
       [](ir::Value x) {
         return ir::lax::ppermute(x, "b", {{0, 1}, {1, 0}});
       }},
      {"axis_index", [](ir::Value x) { return ir::lax::axis_index(x, "a"); }},
  };
  for (const std::string& topology : test::topologies()) {
    const auto described = describe(topology);
    const auto size = static_cast<std::int64_t>(described.devices.size());
    const ir::AxisEnv mesh({{"a", size / 8}, {"b", 4}, {"c", 2}});
    for (const auto& [name, function] : all) {
      SCOPED_TRACE(topology + " " + name);
      ir::AxisEnvScope axes(mesh);
      ir::Builder builder(name);
      const ir::Value x = builder.input({DType::kF32, {8, 4}, false, {"a", "b", "c"}});
      const ir::Program program = builder.finish(std::vector{function(x)});
      ir::LowerOptions options;
      options.axes = mesh;
      options.native_collectives = true;
      const auto compiled = described.topology->compile(lower(program, options).stablehlo, on_all(described));
      EXPECT_GT(compiled->memory_stats().arguments, 0);
      EXPECT_FALSE(compiled->cost_analysis().empty());
    }
  }
}

LOCKSTEP_CHILD(looks_at_tpus) {
  initialize();
  const auto places = [](const std::vector<Device>& devices) {
    std::set<std::vector<std::int64_t>> all;
    for (const Device device : devices) all.insert(device.coords());
    return all;
  };
  EXPECT_EQ(device_count(), 32);
  EXPECT_EQ(process_count(), 8);
  EXPECT_EQ(devices().front().device_kind(), "TPU v5 lite");
  EXPECT_EQ(devices().front().platform(), "tpu");
  EXPECT_EQ(devices().front().memory_bytes(), std::int64_t{16} << 30);
  EXPECT_EQ(places(devices()).size(), 16u);
  EXPECT_THAT(devices()[3].coords(), ElementsAre(1, 1, 0));
  EXPECT_EQ(devices()[15].slice_index(), 0);
  EXPECT_EQ(devices()[16].slice_index(), 1);
  EXPECT_EQ(devices()[31].process_index(), 7);
  EXPECT_EQ(devices()[5].to_string(), "TpuDevice(id=5)");

  // Over all slices, and within each.
  const Mesh mesh = make_mesh({{"slice", 2}, {"chip", 16}});
  auto sums = shard_map([](Array x) { return psum(psum(x, "chip"), "slice"); },
                        {.mesh = mesh, .in_specs = {P({"slice", "chip"})}, .out_specs = {P()}});
  jit([&](Array x) { return sums(x); })(zeros({32}));
  const auto planned = runtime::Runtime::get().plan().computations().at(0);
  ASSERT_EQ(planned->collectives.size(), 2u);
  EXPECT_FALSE(planned->collectives[0].crosses_slices);
  EXPECT_TRUE(planned->collectives[0].crosses_hosts);
  EXPECT_TRUE(planned->collectives[1].crosses_slices);
  say("looked");
}

TEST_F(Tpu, TwoSlices_AreDescribedByManyProcessesAtOnce) {
  const bool logs = std::filesystem::exists("/tmp/tpu_logs"),
             lock = std::filesystem::exists("/tmp/libtpu_lockfile");
  for (const auto& result :
       run_processes({.count = 3, .child = "looks_at_tpus", .env = {{"LOCKSTEP_TOPOLOGY", "2*v5e:4x4"}}})) {
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.log, HasSubstr("looked"));
    EXPECT_THAT(result.log, ::testing::Not(HasSubstr("libtpu.so")));
  }
  EXPECT_EQ(std::filesystem::exists("/tmp/tpu_logs"), logs);
  EXPECT_EQ(std::filesystem::exists("/tmp/libtpu_lockfile"), lock);
}

}  // namespace
}  // namespace lockstep
