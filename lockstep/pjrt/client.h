#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/pjrt/buffer.h"
#include "lockstep/pjrt/device.h"
#include "lockstep/pjrt/device_description.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/pjrt/plugin.h"

struct PJRT_Client;

namespace lockstep::pjrt {

/// Options that a plugin knows, by name. The CPU plugin: `cpu_device_count` (std::int64_t, 1 if absent),
/// `asynchronous` (bool, true if absent), `process_id` (std::int64_t). The CUDA plugin: `platform_name`,
/// `node_id`, `num_nodes`, `visible_devices`, `allocator`, `memory_fraction`, `preallocate`. Name the type: a
/// plain `4` is no choice.
using ClientOptions = std::map<std::string, NamedValue>;

/// A dictionary that the clients of all processes share. The CUDA plugin's find each other by it when they
/// are made, and later, when devices first speak to each other. Called from any thread, also at the same
/// time.
struct KeyValueCallbacks {
  /// Blocks until the key is there; throws TimeoutError where it does not come in time.
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;

  /// The value, or nullopt where there is none now.
  std::function<std::optional<std::string>(const std::string& key)> try_get;

  std::function<void(const std::string& key, const std::string& value)> put;
};

/// How a program is compiled: for one device, which is chosen at each execution, or for several at once.
struct CompileOptions {
  /// The devices' ids (Device::id), of all processes: the program is replicated over them, replica i on
  /// devices[i]. None: for any one device.
  std::vector<std::int64_t> devices;

  /// XLA's debug options by name, such as {"xla_cpu_multi_thread_eigen", false}; a name XLA does not know is
  /// an error. Where it is not here, xla_cpu_enable_fast_min_max is off on CPU, so that maximum and minimum
  /// keep a NaN.
  std::map<std::string, std::variant<bool, std::int64_t, double, std::string>> xla_options;

  /// Names of switches of the backend's own, as in XLA_FLAGS' xla_backend_extra_options.
  std::vector<std::string> backend_options;
};

/// What becomes of host memory that a buffer is made from.
enum class HostUse {
  kCopied,    ///< copied before the call returns: the caller may change or free it at once
  kHeld,      ///< read until the copy is done, which may be after the call; `owner` keeps it until then
  kZeroCopy,  ///< may itself be the buffer's memory, never written; `owner` keeps it as long as needed
  kMutableZeroCopy,  ///< the same, and an execution that the buffer is donated to may write to it
};

/// A plugin's connection to the devices of this process. Buffers and executables must be gone before it.
/// Functions may be called from any thread, also at the same time. All throw PjrtError where the plugin
/// refuses.
class Client {
 public:
  /// May call `key_values`, and block until other processes make their clients. What a callback throws is
  /// thrown here, where the plugin gives up for it.
  static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin, const ClientOptions& options = {},
                                        KeyValueCallbacks key_values = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::shared_ptr<Plugin>& plugin() const { return plugin_; }

  /// "cpu", "cuda", "tpu".
  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  int process_index() const { return process_index_; }

  /// The devices of this process, in the plugin's order; the pointers live as long as this client.
  const std::vector<const Device*>& addressable_devices() const { return addressable_; }

  /// Compiles a module of StableHLO text with one public function `@main`. Donation is asked for by an
  /// argument's attribute, `tf.aliasing_output = N : i32` or `jax.buffer_donor = true` (CPU honours both).
  /// Blocks for the time of the compilation (milliseconds to seconds). Throws PjrtError with the compiler's
  /// words where the text does not parse or verify or an option is not known.
  std::unique_ptr<Executable> compile(std::string_view mlir, const CompileOptions& options = {}) const;

  /// Loads what `Executable::serialize()` of the same plugin version gave.
  std::unique_ptr<Executable> deserialize(std::string_view serialized,
                                          const CompileOptions& options = {}) const;

  /// Makes a buffer on `device` of dense row-major host memory. Zero-copy is a permission: the CPU plugin
  /// takes it for data that is aligned to 64 bytes and copies otherwise. `owner` is let go, on any thread,
  /// when the plugin needs the host memory no more; with kCopied that is before the call returns.
  Buffer buffer_from_host(const void* data, DType dtype, std::span<const std::int64_t> dims,
                          const Device& device, HostUse use = HostUse::kCopied,
                          std::shared_ptr<void> owner = nullptr) const;

 private:
  struct KeyValues;
  Client(std::shared_ptr<Plugin> plugin, std::unique_ptr<KeyValues> key_values, PJRT_Client* client);

  std::shared_ptr<Plugin> plugin_;
  std::unique_ptr<KeyValues> key_values_;
  const PJRT_Api* api_;
  PJRT_Client* client_;
  /// The compile options that the plugin starts from, serialized. Read off a program of nothing when first
  /// asked for: debug options that one gives replace all of the plugin's own.
  const std::string& default_options() const;

  mutable std::once_flag default_options_once_;
  mutable std::string default_options_;
  std::string platform_name_, platform_version_;
  int process_index_ = 0;
  std::deque<Device> devices_;
  std::vector<const Device*> addressable_;
};

}  // namespace lockstep::pjrt
