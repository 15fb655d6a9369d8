#include "lockstep/runtime/platform.h"

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/cluster/variables.h"

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

bool is_cuda_plugin(const pjrt::Plugin& plugin) {
  return std::ranges::any_of(plugin.attributes(), [](const auto& entry) {
    return entry.first == "cuda_version" || entry.first == "cuda_runtime_version";
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
    // CUDA takes the entries before the first that is no device.
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

PluginChoice choose_plugin(const std::string& platform, const Environment& environment,
                           const cluster::System& system, const std::vector<std::string>& cuda_paths) {
  if (auto given = find_variable(environment, {"LOCKSTEP_PJRT_PLUGIN"})) {
    if (platform != "auto") return {given->value, platform};
    return {given->value, is_cuda_plugin(*pjrt::Plugin::load(given->value)) ? "cuda" : "cpu"};
  }
  if (platform == "cuda" || (platform == "auto" && sees_gpu(environment, system))) {
    if (platform == "cuda") return {pjrt::find_plugin(environment, cuda_paths, "cuda"), "cuda"};
    if (std::string path = pjrt::first_existing(cuda_paths); !path.empty()) return {path, "cuda"};
    logging::warning(
        "a GPU is seen, but there is no CUDA plugin: computing on CPU. Run scripts/setup --cuda, or set "
        "LOCKSTEP_PLATFORM=cpu");
  }
  return {pjrt::find_plugin(environment), "cpu"};
}

pjrt::ClientOptions cuda_options(const cluster::Place& place, const Environment& environment,
                                 const cluster::System& system) {
  pjrt::ClientOptions options = {{"platform_name", std::string("cuda")}};
  if (place.num_processes > 1) {
    options["node_id"] = std::int64_t{place.process_id};
    options["num_nodes"] = std::int64_t{place.num_processes};
  }
  // Where it is not known how many there are, the plugin says whether it has those that are asked for.
  const std::optional<int> count = visible_gpus(environment, system);
  if (place.local_device_ids || (place.local_process_id && count != 1)) {
    const std::vector<int> chosen = count.value_or(0) > 0    ? chosen_devices(place, "cuda", *count)
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

pjrt::KeyValueCallbacks key_values_of(coordination::KeyValueStore& store) {
  const std::string folder = "lockstep/plugin/";
  return {
      .get = [&store, folder](const std::string& key,
                              std::chrono::milliseconds timeout) { return store.get(folder + key, timeout); },
      .try_get = [&store, folder](const std::string& key) { return store.try_get(folder + key); },
      .put = [&store, folder](const std::string& key,
                              const std::string& value) { store.set(folder + key, value); }};
}

}  // namespace lockstep::runtime
