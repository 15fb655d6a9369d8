// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/platform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "lockstep/coordination/server/server.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/runtime/platforms/cuda.h"
#include "lockstep/runtime/platforms/tpu.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"

namespace lockstep::runtime {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_processes;
using testing::say;

MapEnvironment environment(std::map<std::string, std::string> variables) {
  return MapEnvironment(std::move(variables));
}

/// A machine with these files in /dev.
struct Devices : cluster::System {
  explicit Devices(std::vector<std::string> files) : files(std::move(files)) {}
  std::optional<std::string> read_file(const std::string&) const override { return std::nullopt; }
  std::vector<std::string> list_folder(const std::string& path) const override {
    return path == "/dev" ? files : std::vector<std::string>();
  }
  std::vector<cluster::InterfaceAddress> interface_addresses() const override { return {}; }
  std::optional<std::string> metadata(const std::string&, const std::string&) const override {
    return std::nullopt;
  }
  std::vector<std::string> files;
};

const Devices kNoGpu({"null", "nvidia-caps", "zero"});
const Devices kFourGpus({"null", "nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm"});
const Devices kWindows({"dxg", "null"});

TEST(VisibleGpus, AreCountedFromDeviceFilesOrTheVariable) {
  EXPECT_EQ(visible_gpus(environment({}), kNoGpu), 0);
  EXPECT_EQ(visible_gpus(environment({}), kFourGpus), 4);
  EXPECT_EQ(visible_gpus(environment({}), kWindows), std::nullopt);
  EXPECT_EQ(visible_gpus(environment({{"CUDA_VISIBLE_DEVICES", "2,0"}}), kFourGpus), 2);
  EXPECT_EQ(visible_gpus(environment({{"CUDA_VISIBLE_DEVICES", "GPU-8a1,MIG-77"}}), kFourGpus), 2);
  EXPECT_EQ(visible_gpus(environment({{"CUDA_VISIBLE_DEVICES", "1,-1,2"}}), kFourGpus), 1);
  EXPECT_EQ(visible_gpus(environment({{"CUDA_VISIBLE_DEVICES", ""}}), kFourGpus), 0);
}

TEST(Resolve, Platform_IsTheArgumentOrTheVariablesFirst) {
  EXPECT_EQ(resolve({}, environment({})).options.platform, "auto");
  EXPECT_EQ(resolve({}, environment({{"JAX_PLATFORMS", "cuda,cpu"}})).options.platform, "cuda");
  EXPECT_EQ(
      resolve({}, environment({{"JAX_PLATFORMS", "cuda"}, {"LOCKSTEP_PLATFORM", "cpu"}})).options.platform,
      "cpu");
  EXPECT_EQ(resolve({.platform = "gpu"}, environment({{"LOCKSTEP_PLATFORM", "cpu"}})).options.platform,
            "cuda");
  EXPECT_EQ(error_of<InitializationError>([] {
              resolve({}, environment({{"LOCKSTEP_PLATFORM", "rocm"}}));
            }),
            "[initialize] LOCKSTEP_PLATFORM is 'rocm': expected cpu, cuda, tpu or auto");
  EXPECT_EQ(resolve({}, environment({{"JAX_PLATFORMS", "tpu,cpu"}})).options.platform, "tpu");
  EXPECT_EQ(error_of<InitializationError>([] { resolve({.platform = "metal"}, environment({})); }),
            "[initialize] platform is 'metal': expected cpu, cuda, tpu or auto");
}

constexpr const char *kTherePath = "/proc/self/exe", *kMissingPath = "/nowhere/plugin.so";
std::vector<std::string> kThere(std::string_view) { return {kTherePath}; }
std::vector<std::string> kMissing(std::string_view platform) {
  return platform == "cpu" ? std::vector<std::string>{kTherePath} : std::vector<std::string>{kMissingPath};
}

/// A machine with so many chips of a TPU, as the kernel shows them.
struct Tpus : Devices {
  explicit Tpus(int chips) : Devices({"null", "vfio"}), chips(chips) {}
  std::vector<std::string> list_folder(const std::string& path) const override {
    if (path != "/sys/bus/pci/devices/") return Devices::list_folder(path);
    std::vector<std::string> names;
    for (int i = 0; i < chips; ++i) names.push_back("0000:00:0" + std::to_string(i) + ".0");
    return names;
  }
  std::optional<std::string> read_file(const std::string& path) const override {
    return path.ends_with("/vendor") ? "0x1ae0\n" : path.ends_with("/device") ? "0x0063\n" : "";
  }
  int chips;
};

std::string platform_of(const PluginChoice& choice) { return choice.platform->name(); }

TEST(ChoosePlugin, Auto_TakesThePlatformThatHasADeviceAndAPlugin) {
  PluginChoice choice = choose_plugin("auto", environment({}), kFourGpus, kThere);
  EXPECT_EQ(platform_of(choice), "cuda");
  EXPECT_EQ(choice.path, kTherePath);
  EXPECT_EQ(platform_of(choose_plugin("auto", environment({}), kNoGpu, kThere)), "cpu");
  EXPECT_EQ(platform_of(choose_plugin("auto", environment({}), kFourGpus, kMissing)), "cpu");
  EXPECT_EQ(
      platform_of(choose_plugin("auto", environment({{"CUDA_VISIBLE_DEVICES", ""}}), kFourGpus, kThere)),
      "cpu");
  EXPECT_EQ(platform_of(choose_plugin("auto", environment({}), Tpus(4), kThere)), "tpu");
  EXPECT_EQ(platform_of(choose_plugin("auto", environment({}), Tpus(4), kMissing)), "cpu");
  choice = choose_plugin("auto", environment({{"TPU_LIBRARY_PATH", kTherePath}}), Tpus(4), kMissing);
  EXPECT_EQ(platform_of(choice), "tpu");
  EXPECT_EQ(choice.path, kTherePath);
}

TEST(ChoosePlugin, AnExplicitPlatform_IsNeverReplaced) {
  EXPECT_EQ(platform_of(choose_plugin("cpu", environment({}), kFourGpus, kThere)), "cpu");
  EXPECT_EQ(platform_of(choose_plugin("cuda", environment({}), kNoGpu, kThere)), "cuda");
  EXPECT_EQ(platform_of(choose_plugin("tpu", environment({}), kNoGpu, kThere)), "tpu");
  EXPECT_THAT(error_of<PjrtError>([] { choose_plugin("cuda", environment({}), kFourGpus, kMissing); }),
              AllOf(HasSubstr("no CUDA plugin"), HasSubstr("scripts/setup --cuda"), HasSubstr(kMissingPath)));
  EXPECT_THAT(error_of<PjrtError>([] { choose_plugin("tpu", environment({}), kNoGpu, kMissing); }),
              AllOf(HasSubstr("no TPU plugin"), HasSubstr("scripts/setup --tpu"), HasSubstr(kMissingPath)));
}

TEST(ChoosePlugin, AGivenPath_TakesItsPlatformFromThePlugin) {
  setenv("GPU_ON_CPU_BEHIND", pjrt::find_plugin().c_str(), 1);
  auto given = [](const std::string& path) { return environment({{"LOCKSTEP_PJRT_PLUGIN", path}}); };
  EXPECT_EQ(platform_of(choose_plugin("auto", given(GPU_ON_CPU_PLUGIN), kNoGpu)), "cuda");
  EXPECT_EQ(platform_of(choose_plugin("auto", given(pjrt::find_plugin()), kFourGpus, kThere)), "cpu");
}

TEST(TpuEnvironment, HasTheVariablesJaxSets_UnlessAlreadySet) {
  using ::testing::Pair;
  using ::testing::UnorderedElementsAre;
  // GKE's worker 1 of 2, in slice 1 of 2: libtpu reads what is there.
  EXPECT_THAT(tpu_environment(environment({{"TPU_WORKER_ID", "1"},
                                           {"TPU_WORKER_HOSTNAMES", "10.0.0.1,10.0.0.2"},
                                           {"TPU_HOST_BOUNDS", "1,2,1"},
                                           {"MEGASCALE_SLICE_ID", "1"}}),
                              Tpus(4), false),
              UnorderedElementsAre(Pair("GRPC_VERBOSITY", "ERROR"),
                                   Pair("LIBTPU_INIT_ARGS", "--xla_tpu_use_enhanced_launch_barrier=true")));
  EXPECT_THAT(
      tpu_environment(environment({{"GRPC_VERBOSITY", "INFO"}, {"LIBTPU_INIT_ARGS", "--a=1"}}), Tpus(1),
                      false),
      UnorderedElementsAre(Pair("LIBTPU_INIT_ARGS", "--a=1 --xla_tpu_use_enhanced_launch_barrier=true")));
  EXPECT_THAT(
      tpu_environment(environment({{"GRPC_VERBOSITY", ""},
                                   {"LIBTPU_INIT_ARGS", "--xla_tpu_use_enhanced_launch_barrier=false"}}),
                      Tpus(1), false),
      ::testing::IsEmpty());
  // Nobody is asked where there is no chip, or none is used.
  EXPECT_EQ(tpu_environment(environment({}), kNoGpu, false).at("TPU_SKIP_MDS_QUERY"), "1");
  EXPECT_EQ(tpu_environment(environment({}), Tpus(4), true).at("TPU_LOG_DIR"), "disabled");
}

std::vector<std::int64_t> visible(const pjrt::ClientOptions& options) {
  auto it = options.find("visible_devices");
  return it == options.end() ? std::vector<std::int64_t>{-1}
                             : std::get<std::vector<std::int64_t>>(it->second);
}

TEST(CudaOptions, WithALocalProcessId_EachProcessGetsOneGpu) {
  cluster::Place place;
  EXPECT_THAT(visible(cuda_options(place, environment({}), kFourGpus)), ElementsAre(-1));
  place.local_process_id = 2;
  EXPECT_THAT(visible(cuda_options(place, environment({}), kFourGpus)), ElementsAre(2));
  EXPECT_THAT(visible(cuda_options(place, environment({}), kWindows)), ElementsAre(2));
  // The launcher shows the process one of its own.
  EXPECT_THAT(visible(cuda_options(place, environment({{"CUDA_VISIBLE_DEVICES", "3"}}), kFourGpus)),
              ElementsAre(-1));
  EXPECT_THAT(error_of<InitializationError>([&] {
                cuda_options(place, environment({{"CUDA_VISIBLE_DEVICES", "0,1"}}), kFourGpus);
              }),
              AllOf(HasSubstr("its host's process 2"), HasSubstr("has 2 (0 to 1)")));
  place.local_device_ids = {{3, 1}};
  EXPECT_THAT(visible(cuda_options(place, environment({}), kFourGpus)), ElementsAre(3, 1));
}

TEST(CudaOptions, AreTheOptionsThatJaxPasses) {
  cluster::Place place;
  pjrt::ClientOptions options = cuda_options(place, environment({}), kFourGpus);
  EXPECT_EQ(options.size(), 1u);
  EXPECT_EQ(std::get<std::string>(options.at("platform_name")), "cuda");
  place.num_processes = 4;
  place.process_id = 3;
  options = cuda_options(place,
                         environment({{"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"},
                                      {"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5"},
                                      {"XLA_PYTHON_CLIENT_PREALLOCATE", "true"},
                                      {"LOCKSTEP_CUDA_PREALLOCATE", "false"}}),
                         kFourGpus);
  EXPECT_EQ(std::get<std::int64_t>(options.at("node_id")), 3);
  EXPECT_EQ(std::get<std::int64_t>(options.at("num_nodes")), 4);
  EXPECT_EQ(std::get<std::string>(options.at("allocator")), "platform");
  EXPECT_EQ(std::get<float>(options.at("memory_fraction")), 0.5f);
  EXPECT_FALSE(std::get<bool>(options.at("preallocate")));
  EXPECT_EQ(
      error_of<InitializationError>([&] {
        cuda_options(place, environment({{"LOCKSTEP_CUDA_ALLOCATOR", "malloc"}}), kFourGpus);
      }),
      "[initialize] LOCKSTEP_CUDA_ALLOCATOR=malloc: expected default, platform, bfc, cuda_async or vmm");
  EXPECT_THAT(error_of<InitializationError>([&] {
                cuda_options(place, environment({{"LOCKSTEP_CUDA_MEMORY_FRACTION", "most"}}), kFourGpus);
              }),
              HasSubstr("LOCKSTEP_CUDA_MEMORY_FRACTION=most: expected a fraction"));
}

testing::Variables on_gpus(testing::Variables others = {}) {
  others["GPU_ON_CPU_BEHIND"] = pjrt::find_plugin();
  others["LOCKSTEP_PJRT_PLUGIN"] = GPU_ON_CPU_PLUGIN;
  return others;
}

LOCKSTEP_CHILD(meets_on_gpus) {
  initialize();
  Runtime& runtime = Runtime::get();
  EXPECT_TRUE(runtime.native_collectives());
  std::string ids;
  for (Device device : devices()) {
    EXPECT_EQ(device.platform(), "cuda");
    ids += " " + std::to_string(device.id()) + ":" + std::to_string(runtime.plugin_id(device));
  }
  for (Device device : local_devices()) {
    EXPECT_EQ(runtime.pjrt_device(device).id(), runtime.plugin_id(device));
    EXPECT_EQ(device.process_index(), process_index());
  }
  say("devices" + ids + " in all");
  shutdown();
}

/// The plugin's numbers of the devices 0, 1, 2, … as the child above has said them.
std::vector<int> plugin_ids(const std::string& log) {
  std::vector<int> ids;
  std::istringstream words(log.substr(std::min(log.find("devices 0:"), log.size())));
  words.ignore(8);
  for (std::string word; words >> word && word.starts_with(std::to_string(ids.size()) + ":");)
    ids.push_back(std::stoi(word.substr(word.find(':') + 1)));
  return ids;
}

TEST(Cuda, ProcessesMeetThroughTheCoordinator_AndNumberTheDevicesDensely) {
  auto results = run_processes({.count = 2, .child = "meets_on_gpus", .env = on_gpus(), .coordinator = true});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].exit_code, 0);
    const std::string node = "gpu_on_cpu: node " + std::to_string(i) + " learns that node ";
    EXPECT_THAT(
        results[i].log,
        AllOf(HasSubstr("node_id=" + std::to_string(i) + " num_nodes=2"), HasSubstr(node + "0 has 2 devices"),
              HasSubstr(node + "1 has 2 devices"), Not(HasSubstr("visible_devices"))));
    const std::vector<int> ids = plugin_ids(results[i].log);
    ASSERT_EQ(ids.size(), 4u);
    EXPECT_EQ(ids[1], ids[0] + 1);
    EXPECT_EQ(ids[3], ids[2] + 1);
    EXPECT_GT(ids[2], 3) << "the plugin's numbers are not the positions";
    EXPECT_GT(ids[0], ids[3]) << "and not in the order of the processes";
  }
}

TEST(Cuda, UnderOpenMpi_EachProcessHasTheGpuOfItsNumberOnTheHost) {
  coordination::CoordinationServer server;
  server.start({.num_processes = 2});
  auto results = run_processes({.count = 2,
                                .child = "meets_on_gpus",
                                .env = on_gpus({{"LOCKSTEP_COORDINATOR_ADDRESS", server.address()},
                                                {"CUDA_VISIBLE_DEVICES", "4,5,6"},
                                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
                                .env_of = [](int i) {
                                  return testing::Variables{
                                      {"OMPI_COMM_WORLD_RANK", std::to_string(i)},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(i)},
                                  };
                                }});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(results[i].exit_code, 0);
    EXPECT_THAT(results[i].log, AllOf(HasSubstr("visible_devices=" + std::to_string(i) + "\n")));
    EXPECT_EQ(plugin_ids(results[i].log).size(), 2u);
  }
}

TEST(Cuda, LibrariesOfPrograms_FollowTheWeakestGpuAndTheVariables) {
  const auto gpu = [](pjrt::NamedValue capability) {
    pjrt::DeviceDescription description;
    description.attributes["compute_capability"] = std::move(capability);
    return description;
  };
  const auto features = [](const std::vector<pjrt::DeviceDescription>& gpus,
                           std::map<std::string, std::string> variables = {}) {
    ir::LowerOptions options;
    set_libraries(options, gpus, environment(std::move(variables)));
    EXPECT_TRUE(options.for_cuda);
    return std::pair(options.cudnn_features, options.solver);
  };
  using Pair = std::pair<std::int64_t, bool>;
  const auto h100 = gpu("9.0"), a10 = gpu("8.6"), t4 = gpu("7.5"), b200 = gpu("10.0");
  EXPECT_EQ(features({h100}), Pair(256, true));
  EXPECT_EQ(features({b200, h100}), Pair(256, true));
  EXPECT_EQ(features({h100, a10}), Pair(128, true));
  EXPECT_EQ(features({a10, t4}), Pair(0, true));
  EXPECT_EQ(features({gpu(std::int64_t{9})}), Pair(0, true));
  EXPECT_EQ(features({pjrt::DeviceDescription()}), Pair(0, true));
  EXPECT_EQ(features({}), Pair(0, false));
  EXPECT_EQ(features({h100}, {{"LOCKSTEP_CUDNN_ATTENTION", "0"}}), Pair(0, true));
  EXPECT_EQ(features({h100}, {{"LOCKSTEP_CUSOLVER", "0"}}), Pair(256, false));
}

TEST(Cuda, APluginOfAnotherPlatform_IsRefused) {
  // Asked for CPU, the plugin is given the CPU's options, which it does not know.
  auto result = run_processes({.child = "plain_cpu", .env = on_gpus({{"LOCKSTEP_PLATFORM", "cpu"}})})[0];
  EXPECT_THAT(result.log, HasSubstr("unknown option"));
}

LOCKSTEP_CHILD(plain_cpu) {
  say(error_of<PjrtError>([] { initialize(); }));
}

}  // namespace
}  // namespace lockstep::runtime
