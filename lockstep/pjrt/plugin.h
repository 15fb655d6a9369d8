// SPDX-License-Identifier: Apache-2.0
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

/// A PJRT plugin: a shared library that compiles and runs StableHLO on one kind of device. It stays loaded
/// until the process ends, because its threads and registered handlers cannot be removed.
///
/// Every function may be called from any thread. If the plugin returns an error, a PjrtError with the
/// request, the name of the plugin's error code and its message is thrown.
class Plugin {
 public:
  /// Opens the plugin, with its symbols hidden from others, and initializes it. The same path returns the
  /// same plugin. Throws PjrtError, with the path, if the file does not exist, cannot be trusted
  /// (lockstep/base/trusted_file.h), is not a shared library, has no `GetPjrtApi`, or has another major
  /// version or an older function table than Lockstep was built for.
  static std::shared_ptr<Plugin> load(const std::string& path);

  const std::string& path() const { return path_; }

  /// The version of its PJRT C API: major, minor.
  std::pair<int, int> api_version() const;

  /// Its attributes, such as {"xla_version", "2"}, in its own order.
  std::vector<std::pair<std::string, std::string>> attributes() const;

  /// The first extension of this type (a value of PJRT_Extension_Type), or nullptr if it has none.
  const void* extension(int type) const;

  /// Makes `stablehlo.custom_call @target_name {api_version = 4 : i32}` call `handler` in programs that are
  /// compiled from now on. `handler` is an `XLA_FFI_Handler*` of `xla/ffi/api/c_api.h`. It is called once
  /// now, for its API version, and must stay valid until the process ends. `platform` is "Host" for CPU and
  /// "CUDA" for NVIDIA. Throws PjrtError if the plugin has no FFI extension or already has another handler
  /// with this name.
  void register_ffi_handler(std::string_view target_name, std::string_view platform, void* handler);

  const PJRT_Api* api() const { return api_; }

  /// As dlopen has returned it.
  void* library() const { return library_; }

 private:
  Plugin(std::string path, std::pair<void*, const PJRT_Api*> opened)
      : path_(std::move(path)), library_(opened.first), api_(opened.second) {}

  std::string path_;
  void* library_;
  const PJRT_Api* api_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, void*> handlers_;  // by target name and platform
};

/// The paths at which the plugin of the platform, "cpu", "cuda" or "tpu", may be: in the folders in which the
/// linked executable looks for libraries, where it exists (an installed Lockstep adds its own folder to
/// these, a build tree its third_party/pjrt), and in the install prefix.
std::vector<std::string> default_plugin_paths(std::string_view platform = "cpu");

/// The first of the paths at which there is a file that can be trusted (lockstep/base/trusted_file.h); empty
/// if there is none. Others before it are logged as warnings.
std::string first_plugin(const std::vector<std::string>& paths);

/// The path of the platform's plugin: LOCKSTEP_PJRT_PLUGIN if it is set and not empty (without a check of the
/// file, which load() makes), otherwise first_plugin(paths). If there is none, throws a PjrtError that lists
/// them, and why those that exist are not used.
std::string find_plugin(const Environment& environment = Environment::process(),
                        const std::vector<std::string>& paths = default_plugin_paths(),
                        std::string_view platform = "cpu");

}  // namespace lockstep::pjrt
