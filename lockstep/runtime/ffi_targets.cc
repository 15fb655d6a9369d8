// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/ffi_targets.h"

#include <map>
#include <mutex>

#include "lockstep/base/call_site.h"
#include "lockstep/base/fail.h"
#include "lockstep/pjrt/plugin.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::runtime {
namespace {

using Handler = XLA_FFI_Error* (*)(XLA_FFI_CallFrame*);

struct Targets {
  std::mutex mutex;
  std::map<std::string, Handler> handlers;
  pjrt::Plugin* plugin = nullptr;  // once the devices are open
};

Targets& targets() {
  static Targets& all = *new Targets;
  return all;
}

void tell(pjrt::Plugin& plugin, const std::string& name, Handler handler) {
  plugin.register_ffi_handler(name, "Host", reinterpret_cast<void*>(handler));
}

}  // namespace

void register_ffi_target(const std::string& name, Handler handler) {
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  const auto [place, is_new] = all.handlers.try_emplace(name, handler);
  if (!is_new && place->second != handler) {
    fail("[register_ffi_target] there is another kernel \"{}\" (at {}); give each its own name", name,
         CallSiteScope::current().to_string());
  }
  if (is_new && all.plugin != nullptr) tell(*all.plugin, name, handler);
}

void check_ffi_target(const std::string& name) {
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  if (all.handlers.contains(name)) return;
  fail(
      "[ffi_call] there is no kernel \"{}\" (at {}); register it with ffi::register_ffi_target in every "
      "process",
      name, CallSiteScope::current().to_string());
}

void open_ffi_targets(pjrt::Plugin& plugin) {
  Targets& all = targets();
  std::lock_guard lock(all.mutex);
  all.plugin = &plugin;
  for (const auto& [name, handler] : all.handlers) tell(plugin, name, handler);
}

XLA_FFI_Error* ffi_error(XLA_FFI_CallFrame* frame, const char* text) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = text;
  args.errc = XLA_FFI_Error_Code_ABORTED;
  return frame->api->XLA_FFI_Error_Create(&args);
}

}  // namespace lockstep::runtime
