// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/plugin.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/pjrt/api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace lockstep::pjrt {
namespace fs = std::filesystem;
namespace {

/// The plugin's file of a platform, and the command that fetches it.
struct Fetched {
  std::string_view platform, title, file, option;
};
constexpr Fetched kFetched[] = {
    {"cpu", "CPU", "pjrt_c_api_cpu_plugin.so", ""},
    {"cuda", "CUDA", "xla_cuda_plugin.so", " --cuda"},
    {"tpu", "TPU", "libtpu.so", " --tpu"},
};

const Fetched& fetched_for(std::string_view platform) {
  for (const Fetched& each : kFetched)
    if (each.platform == platform) return each;
  fail<PjrtError>("[pjrt] there is no platform '{}': expected cpu, cuda or tpu", platform);
}

/// The last function of the table that this layer calls; all others that it calls are before it.
constexpr std::size_t kLeastApiSize = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Executable_GetCompileOptions);

std::pair<void*, const PJRT_Api*> open(const std::string& path) {
  const TrustedFile file = open_trusted_file(path);
  if (!file.why_not.empty()) fail<PjrtError>("[pjrt] the plugin {} is not used: {}", path, file.why_not);
  if (!file) {
    fail<PjrtError>(
        "[pjrt] there is no plugin at {}: run scripts/setup, or set LOCKSTEP_PJRT_PLUGIN to the path of one",
        path);
  }
  // XLA writes informational messages to standard error unless this is set before it is loaded.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);
  // A path without a slash would be searched for among the system's libraries.
  void* library = dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    fail<PjrtError>("[pjrt] {} cannot be opened as a shared library: {}", path,
                    reason ? reason : "no reason given");
  }
  using GetPjrtApi = const PJRT_Api*();
  auto* get_api = reinterpret_cast<GetPjrtApi*>(dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    dlclose(library);
    fail<PjrtError>("[pjrt] {} is a shared library but not a PJRT plugin: it has no function GetPjrtApi",
                    path);
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) fail<PjrtError>("[pjrt] GetPjrtApi of {} returned nothing", path);
  const PJRT_Api_Version& version = api->pjrt_api_version;
  if (api->struct_size < PJRT_STRUCT_SIZE(PJRT_Api, pjrt_api_version) ||
      version.major_version != PJRT_API_MAJOR) {
    fail<PjrtError>(
        "[pjrt] the plugin {} speaks PJRT API {}.{}; Lockstep was built for major version {}: use a plugin "
        "of that version",
        path, version.major_version, version.minor_version, PJRT_API_MAJOR);
  }
  if (api->struct_size < kLeastApiSize) {
    fail<PjrtError>(
        "[pjrt] the plugin {} is too old: its table of functions (PJRT API {}.{}) has {} bytes, Lockstep "
        "needs at least {}; use a newer plugin",
        path, version.major_version, version.minor_version, api->struct_size, kLeastApiSize);
  }
  LOCKSTEP_PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
  check(api, api->PJRT_Plugin_Initialize(&args), fmt::format("initializing the plugin {}", path));
  return {library, api};
}

std::string to_text(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return fmt::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List:
      return fmt::format("{}",
                         fmt::join(value.int64_array_value, value.int64_array_value + value.value_size, "."));
    case PJRT_NamedValue_kFloat:
      return fmt::to_string(value.float_value);
    case PJRT_NamedValue_kBool:
      return fmt::to_string(value.bool_value);
  }
  return "";
}

}  // namespace

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  static std::mutex mutex;
  static auto* plugins = new std::map<std::string, std::shared_ptr<Plugin>>();
  std::lock_guard lock(mutex);
  std::shared_ptr<Plugin>& plugin = (*plugins)[path];
  if (plugin == nullptr) plugin.reset(new Plugin(path, open(path)));
  return plugin;
}

std::pair<int, int> Plugin::api_version() const {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

std::vector<std::pair<std::string, std::string>> Plugin::attributes() const {
  LOCKSTEP_PJRT_ARGS(PJRT_Plugin_Attributes_Args, args);
  check(api_, api_->PJRT_Plugin_Attributes(&args), "reading the plugin's attributes");
  std::vector<std::pair<std::string, std::string>> attributes;
  for (std::size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& value = args.attributes[i];
    attributes.emplace_back(std::string(value.name, value.name_size), to_text(value));
  }
  return attributes;
}

const void* Plugin::extension(int type) const {
  for (const PJRT_Extension_Base* it = api_->extension_start; it != nullptr; it = it->next)
    if (it->type == type) return it;
  return nullptr;
}

void Plugin::register_ffi_handler(std::string_view target_name, std::string_view platform, void* handler) {
  const auto* ffi = static_cast<const PJRT_FFI_Extension*>(extension(PJRT_Extension_Type_FFI));
  if (ffi == nullptr || ffi->base.struct_size < PJRT_FFI_Extension_STRUCT_SIZE) {
    fail<PjrtError>(
        "[pjrt] the plugin {} cannot call handlers of custom calls: it has no FFI extension of version {}",
        path_, PJRT_API_FFI_EXTENSION_VERSION);
  }
  std::lock_guard lock(mutex_);
  void*& registered = handlers_[{std::string(target_name), std::string(platform)}];
  if (registered == handler) return;
  if (registered != nullptr) {
    fail<PjrtError>("[pjrt] registering the custom call {} for {}: it already has another handler",
                    target_name, platform);
  }
  LOCKSTEP_PJRT_ARGS(PJRT_FFI_Register_Handler_Args, args);
  args.target_name = target_name.data();
  args.target_name_size = target_name.size();
  args.handler = handler;
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  check(api_, ffi->register_handler(&args), fmt::format("registering the custom call {}", target_name));
  registered = handler;
}

std::vector<std::string> default_plugin_paths(std::string_view platform) {
  const std::string file(fetched_for(platform).file);
  std::vector<std::string> paths = library_paths(file);
  paths.push_back(fs::path(LOCKSTEP_PLUGIN_INSTALL_DIR) / file);
  return paths;
}

std::string first_plugin(const std::vector<std::string>& paths) {
  TrustedPath found = first_trusted(paths);
  for (const std::string& refused : found.refused) logging::warning("[pjrt] {}", refused);
  return found.path;
}

std::string find_plugin(const Environment& environment, const std::vector<std::string>& paths,
                        std::string_view platform) {
  if (auto path = environment.get("LOCKSTEP_PJRT_PLUGIN"); path && !path->empty()) return *path;
  TrustedPath found = first_trusted(paths);
  const Fetched& wanted = fetched_for(platform);
  if (found.path.empty()) {
    found.refused.insert(found.refused.begin(), paths.begin(), paths.end());
    fail<PjrtError>(
        "[pjrt] no {} plugin found: run scripts/setup{}, or set LOCKSTEP_PJRT_PLUGIN to the path of a PJRT "
        "plugin. Looked for\n  {}",
        wanted.title, wanted.option, fmt::join(found.refused, "\n  "));
  }
  for (const std::string& refused : found.refused) logging::warning("[pjrt] {}", refused);
  return found.path;
}

}  // namespace lockstep::pjrt
