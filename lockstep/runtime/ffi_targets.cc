// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/ffi_targets.h"

#include <map>
#include <mutex>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/runtime/runtime.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::runtime {
namespace {

using Handler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*);

struct Targets {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Handler> handlers;  // by platform and name
  std::map<std::string, pjrt::Plugin*> plugins;                     // by platform, once the devices are open
};

Targets& targets() {
  static Targets& all = *new Targets;
  return all;
}

/// The platforms, with their names in XLA.
const std::map<std::string, std::string>& names_in_xla() {
  static const std::map<std::string, std::string> names = {{"cpu", "Host"}, {"cuda", "CUDA"}};
  return names;
}

void tell(pjrt::Plugin& plugin, const std::string& platform, const std::string& name, Handler handler) {
  plugin.register_ffi_handler(name, names_in_xla().at(platform), reinterpret_cast<void*>(handler));
}

}  // namespace

void register_ffi_target(const std::string& name, const std::string& platform, Handler handler) {
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  if (!names_in_xla().contains(platform)) {
    fail(
        "[register_ffi_target] kernels for the platform \"{}\" cannot be called (at {}); expected cpu or "
        "cuda",
        platform, CallSiteScope::current().to_string());
  }
  const auto [place, is_new] = all.handlers.try_emplace({platform, name}, handler);
  if (!is_new && place->second != handler) {
    fail("[register_ffi_target] there is another kernel \"{}\" for {} (at {}); give each its own name", name,
         platform, CallSiteScope::current().to_string());
  }
  const auto plugin = all.plugins.find(platform);
  if (is_new && plugin != all.plugins.end()) tell(*plugin->second, platform, name, handler);
}

void check_ffi_target(const std::string& name) {
  const std::string platform = Runtime::get().platform().name();
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  if (all.handlers.contains({platform, name})) return;
  if (!names_in_xla().contains(platform)) {
    fail("[ffi_call] the platform {} cannot call kernels such as \"{}\" (at {})", platform, name,
         CallSiteScope::current().to_string());
  }
  fail(
      "[ffi_call] there is no kernel \"{}\" for {} (at {}); register it with ffi::register_ffi_target in "
      "every "
      "process{}",
      name, platform, CallSiteScope::current().to_string(),
      platform == "cpu" ? "" : fmt::format(", with the platform \"{}\"", platform));
}

void open_ffi_targets(pjrt::Plugin& plugin, const std::string& platform) {
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  all.plugins[platform] = &plugin;
  for (const auto& [target, handler] : all.handlers)
    if (target.first == platform) tell(plugin, platform, target.second, handler);
}

XLA_FFI_Error* ffi_error(XLA_FFI_CallFrame* frame, const char* text) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text;
  args.errc = XLA_FFI_Error_Code_ABORTED;
  return frame->api->XLA_FFI_Error_Create(&args);
}

}  // namespace lockstep::runtime
