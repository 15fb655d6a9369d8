#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/environment.h"

struct PJRT_Api;

namespace lockstep::pjrt {

/// A PJRT plugin: a shared library that compiles and runs StableHLO on one kind of device. Once opened it
/// stays in the process until the end, because its threads and its registered handlers cannot be taken back.
///
/// Every function may be called from any thread. A refused call throws PjrtError with what was asked, the
/// plugin's code by name and the plugin's message.
class Plugin {
 public:
  /// Opens the plugin with its symbols kept to itself, and initializes it. The same path gives the same
  /// plugin. Throws PjrtError, with the path, where the file does not exist, is no shared library, has no
  /// `GetPjrtApi`, or speaks a major version or an older table of functions than Lockstep was built for.
  static std::shared_ptr<Plugin> load(const std::string& path);

  const std::string& path() const { return path_; }

  /// The version of the PJRT C API that it speaks: major, minor.
  std::pair<int, int> api_version() const;

  /// What it says of itself, such as {"xla_version", "2"}, in its own order.
  std::vector<std::pair<std::string, std::string>> attributes() const;

  /// The first extension of this type (a value of PJRT_Extension_Type), or nullptr where it has none.
  const void* extension(int type) const;

  /// Makes `stablehlo.custom_call @target_name {api_version = 4 : i32}` call `handler`, in programs that are
  /// compiled from now on. `handler` is an `XLA_FFI_Handler*` of `xla/ffi/api/c_api.h`; it is called once
  /// now, to ask for its API version, and must stay valid until the process ends. `platform` is "Host" for
  /// CPU and "CUDA" for NVIDIA. Throws PjrtError where the plugin has no FFI extension or has another handler
  /// under this name.
  void register_ffi_handler(std::string_view target_name, std::string_view platform, void* handler);

  const PJRT_Api* api() const { return api_; }

 private:
  Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}

  std::string path_;
  const PJRT_Api* api_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, void*> handlers_;  // by target name and platform
};

/// Where the plugin of the platform, "cpu", "cuda" or "tpu", is looked for: relative to this executable, in
/// the folders that it was linked to look for libraries in (an installed Lockstep adds its own), in the
/// install prefix, in the source tree.
std::vector<std::string> default_plugin_paths(std::string_view platform = "cpu");

/// The first of the paths that exists; empty where none does.
std::string first_existing(const std::vector<std::string>& paths);

/// The path of the platform's plugin: LOCKSTEP_PJRT_PLUGIN where it is set and not empty (whether the file
/// exists is not asked here); otherwise the first of `paths` that exists. Throws PjrtError that lists them
/// where there is none.
std::string find_plugin(const Environment& environment = Environment::process(),
                        const std::vector<std::string>& paths = default_plugin_paths(),
                        std::string_view platform = "cpu");

}  // namespace lockstep::pjrt
