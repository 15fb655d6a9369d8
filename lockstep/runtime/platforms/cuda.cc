// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/platforms/cuda.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <ranges>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/variables.h"
#include "lockstep/cuda/host_call.h"
#include "lockstep/cuda/libraries.h"
#include "lockstep/cuda/solver.h"
#include "lockstep/lapack/lapack.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/runtime/callback_calls.h"
#include "lockstep/runtime/debug_calls.h"
#include "lockstep/runtime/ffi_targets.h"
#include "lockstep/runtime/platforms/platform.h"

namespace lockstep::runtime {
namespace {

using cluster::find_variable;
using cluster::Variable;

constexpr std::string_view kDevices = "/dev";

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_gpu_file(const std::string& name) {
  return name.starts_with("nvidia") && is_number(std::string_view(name).substr(6));
}

bool sees_gpu(const Environment& environment, const cluster::System& system) {
  if (visible_gpus(environment, system) == 0) return false;
  return std::ranges::any_of(system.list_folder(std::string(kDevices)), [](const std::string& name) {
    return is_gpu_file(name) || name == "nvidiactl" || name == "dxg";
  });
}

float fraction_in(const Variable& variable) {
  float value = 0;
  const char* end = variable.value.data() + variable.value.size();
  auto [rest, error] = std::from_chars(variable.value.data(), end, value);
  if (error != std::errc() || rest != end || value <= 0) {
    fail<InitializationError>(
        "[initialize] {}: expected a fraction of the GPU's memory above 0, such as 0.75",
        variable.to_string());
  }
  return value;
}

}  // namespace

std::optional<int> visible_gpus(const Environment& environment, const cluster::System& system) {
  if (auto listed = environment.get("CUDA_VISIBLE_DEVICES")) {
    // CUDA uses the entries before the first invalid one.
    int count = 0;
    for (std::size_t start = 0; start < listed->size();) {
      const std::size_t end = std::min(listed->find(',', start), listed->size());
      const std::string_view entry = std::string_view(*listed).substr(start, end - start);
      if (!is_number(entry) && !entry.starts_with("GPU-") && !entry.starts_with("MIG-")) break;
      ++count;
      start = end + 1;
    }
    return count;
  }
  const std::vector<std::string> files = system.list_folder(std::string(kDevices));
  const auto count = static_cast<int>(std::ranges::count_if(files, is_gpu_file));
  if (count > 0) return count;
  const bool hidden = std::ranges::any_of(
      files, [](const std::string& name) { return name == "nvidiactl" || name == "dxg"; });
  if (hidden) return std::nullopt;
  return 0;
}

pjrt::ClientOptions cuda_options(const cluster::Place& place, const Environment& environment,
                                 const cluster::System& system) {
  pjrt::ClientOptions options = {{"platform_name", std::string("cuda")}};
  if (place.num_processes > 1) {
    options["node_id"] = std::int64_t{place.process_id};
    options["num_nodes"] = std::int64_t{place.num_processes};
  }
  // If the number is unknown, the plugin checks whether it has the requested ones.
  const std::optional<int> count = visible_gpus(environment, system);
  if (place.local_device_ids || (place.local_process_id && count != 1)) {
    const std::vector<int> chosen = count.value_or(0) > 0 ? chosen_devices(place, /*one_each=*/true, *count)
                                    : place.local_device_ids ? *place.local_device_ids
                                                             : std::vector<int>{*place.local_process_id};
    options["visible_devices"] = std::vector<std::int64_t>(chosen.begin(), chosen.end());
  }
  if (auto allocator =
          find_variable(environment, {"LOCKSTEP_CUDA_ALLOCATOR", "XLA_PYTHON_CLIENT_ALLOCATOR"})) {
    const std::vector<std::string_view> known = {"default", "platform", "bfc", "cuda_async", "vmm"};
    if (std::ranges::find(known, allocator->value) == known.end()) {
      fail<InitializationError>("[initialize] {}: expected default, platform, bfc, cuda_async or vmm",
                                allocator->to_string());
    }
    options["allocator"] = allocator->value;
  }
  if (auto fraction = find_variable(environment, {"LOCKSTEP_CUDA_MEMORY_FRACTION", "XLA_CLIENT_MEM_FRACTION",
                                                  "XLA_PYTHON_CLIENT_MEM_FRACTION"})) {
    options["memory_fraction"] = fraction_in(*fraction);
  }
  if (auto preallocate =
          find_variable(environment, {"LOCKSTEP_CUDA_PREALLOCATE", "XLA_PYTHON_CLIENT_PREALLOCATE"})) {
    const std::string& value = preallocate->value;
    options["preallocate"] = value != "0" && value != "false" && value != "False";
  }
  return options;
}

std::int64_t cudnn_features(const pjrt::DeviceDescription& gpu) {
  const auto found = gpu.attributes.find("compute_capability");
  const auto* text = found == gpu.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  int major = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), major);
  return major >= 9 ? 256 : major >= 8 ? 128 : 0;
}

void set_libraries(ir::LowerOptions& options, std::span<const pjrt::DeviceDescription> gpus,
                   const Environment& environment) {
  const auto is_wanted = [&](const char* variable) {
    return !gpus.empty() && environment.get(variable) != "0";
  };
  options.for_cuda = true;
  options.solver = is_wanted("LOCKSTEP_CUSOLVER");
  options.cudnn_features = 0;
  if (is_wanted("LOCKSTEP_CUDNN_ATTENTION"))
    options.cudnn_features = std::ranges::min(gpus | std::views::transform(cudnn_features));
}

namespace {

/// A GPU's properties from its vendor's data sheet and XLA's own description.
struct Gpu {
  const char *name, *description;
  int capability, cores, units, l2_mib;
  double clock_ghz;
  std::int64_t memory_bytes, bandwidth;
  int shared_memory;
  double peak_flops;  ///< of dense bf16
};

constexpr Gpu kGpus[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 108, 64, 40, 1.41, 85100068864, 2039040000000, 167936, 312e12},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 132, 128, 50, 1.98, 84942979072, 3352320000000, 233472, 989e12},
    {"h200", "NVIDIA H200 141GB HBM3e", 9, 132, 128, 50, 1.98, 151397597184, 4800000000000, 233472, 989e12},
    {"b200", "NVIDIA B200", 10, 148, 128, 126, 1.965, 191514411008, 7672320000000, 233472, 2250e12},
};

/// The text form of XLA's GpuTargetConfigProto.
std::string target_config(const Gpu& gpu) {
  return fmt::format(
      "platform_name: \"CUDA\" device_description_str: \"{}\"\n"
      "dnn_version_info {{ major: 9 minor: 10 patch: 0 }}\n"
      "gpu_device_info {{\n"
      "  cuda_compute_capability {{ major: {} }}\n"
      "  core_count: {} fpus_per_core: {} clock_rate_ghz: {}\n"
      "  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048\n"
      "  registers_per_core_limit: 65536 registers_per_block_limit: 65536\n"
      "  shared_memory_per_core: {} shared_memory_per_block: 49152 shared_memory_per_block_optin: {}\n"
      "  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535\n"
      "  device_memory_size: {} l2_cache_size: {} memory_bandwidth: {}\n"
      "}}\n",
      gpu.description, gpu.capability, gpu.cores, gpu.units, gpu.clock_ghz, gpu.shared_memory,
      gpu.shared_memory - 1024, gpu.memory_bytes, gpu.l2_mib << 20, gpu.bandwidth);
}

class Cuda : public Platform {
 public:
  const char* name() const override { return "cuda"; }
  const char* title() const override { return "CUDA"; }
  const char* device_title() const override { return "a GPU"; }
  const char* setup() const override { return "scripts/setup --cuda"; }

  bool is_seen(const Environment& environment, const cluster::System& system) const override {
    return sees_gpu(environment, system);
  }

  bool owns(const pjrt::Plugin& plugin) const override {
    return std::ranges::any_of(plugin.attributes(), [](const auto& entry) {
      return entry.first == "cuda_version" || entry.first == "cuda_runtime_version";
    });
  }

  void register_handlers(pjrt::Plugin& plugin) const override {
    cuda::search_as(plugin.library());
    plugin.register_ffi_handler(cuda::kSolverTarget, "CUDA", cuda::solver_handler());
    plugin.register_ffi_handler(lapack::kLapackTarget, "CUDA", cuda::on_host<lapack::lapack_handler>());
    plugin.register_ffi_handler(ir::kDebugTarget, "CUDA", cuda::on_host<debug_handler>());
    plugin.register_ffi_handler(ir::kCallbackTarget, "CUDA", cuda::on_host<callback_handler>());
    open_ffi_targets(plugin, name());
  }

  pjrt::ClientOptions client_options(const Settings& settings, const Environment& environment,
                                     const cluster::System& system) const override {
    return cuda_options(settings.place, environment, system);
  }

  /// The client shows those of visible_devices.
  std::vector<int> used_devices(const Settings&, int shown) const override {
    std::vector<int> all(static_cast<std::size_t>(shown));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void set_lowering(ir::LowerOptions& options, std::span<const pjrt::Device* const> devices) const override {
    std::vector<pjrt::DeviceDescription> gpus;
    for (const pjrt::Device* device : devices) gpus.push_back(device->description());
    set_libraries(options, gpus, Environment::process());
  }

  bool copies_pinned_memory() const override { return true; }

  bool describes(std::string_view topology) const override { return find(topology) != nullptr; }

  DescribedDevices describe(const std::string& topology,
                            const std::shared_ptr<pjrt::Plugin>& plugin) const override {
    const Gpu* gpu = find(topology);
    const std::vector<std::int64_t> sizes =
        sizes_in(std::string_view(topology).substr(topology.find(':') + 1));
    if (gpu == nullptr || sizes.size() != 2) {
      fail<InitializationError>("[initialize] the topology '{}': expected one like {}", topology,
                                known_topologies());
    }
    DescribedDevices described;
    described.topology = pjrt::Topology::create(
        plugin, gpu->name,
        {{"target_config", target_config(*gpu)}, {"topology", fmt::format("1x{}x{}", sizes[0], sizes[1])}});
    described.devices = described.topology->devices();
    described.memory_bytes = gpu->memory_bytes;
    described.peak_flops = gpu->peak_flops;
    return described;
  }

  std::string known_topologies() const override {
    std::string all;
    for (const Gpu& gpu : kGpus) all += fmt::format("{}{}:16x8", all.empty() ? "" : ", ", gpu.name);
    return all + " (hosts x GPUs)";
  }

 private:
  static const Gpu* find(std::string_view topology) {
    for (const Gpu& gpu : kGpus)
      if (topology.substr(0, topology.find(':')) == gpu.name) return &gpu;
    return nullptr;
  }
};

}  // namespace

const Platform& cuda_platform() {
  static const Cuda& platform = *new Cuda;
  return platform;
}

}  // namespace lockstep::runtime
