// SPDX-License-Identifier: Apache-2.0
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

class PinnedMemory;
class SpareBuffers;

/// A plugin's options by name. The CPU plugin has `cpu_device_count` (std::int64_t, default 1),
/// `asynchronous` (bool, default true) and `process_id` (std::int64_t). The CUDA plugin has `platform_name`,
/// `node_id`, `num_nodes`, `visible_devices`, `allocator`, `memory_fraction` and `preallocate`. Give each
/// number its exact type: a plain `4` is ambiguous.
using ClientOptions = std::map<std::string, NamedValue>;

/// A key-value store shared by the clients of all processes. The CUDA plugin's clients use it to find each
/// other when they are made, and later when devices first communicate. Called from any thread, also
/// concurrently.
struct KeyValueCallbacks {
  /// Blocks until the key exists. Throws TimeoutError after the timeout.
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;

  /// The value, or nullopt if the key does not exist now. Does not block.
  std::function<std::optional<std::string>(const std::string& key)> try_get;

  std::function<void(const std::string& key, const std::string& value)> put;
};

/// How a program is compiled: for one device, which each execution chooses, or for several devices at once.
struct CompileOptions {
  /// The devices' ids (Device::id) in all processes: the program is replicated over them, with replica i on
  /// devices[i]. Empty: for any one device.
  std::vector<std::int64_t> devices;

  /// XLA's debug options by name, such as {"xla_cpu_multi_thread_eigen", false}; an unknown name is an error.
  /// Unless it is given here, xla_cpu_enable_fast_min_max is off on CPU, so that maximum and minimum
  /// propagate NaN.
  std::map<std::string, std::variant<bool, std::int64_t, double, std::string>> xla_options;

  /// Names of the backend's own switches, as in XLA_FLAGS' xla_backend_extra_options.
  std::vector<std::string> backend_options;
};

/// How host memory becomes a buffer.
enum class HostUse {
  kCopied,  ///< copied before the call returns: the caller may change or free it at once
  kHeld,    ///< read until the copy is done, which may be after the call returns; `owner` is kept until then
  kZeroCopy,  ///< may become the buffer's memory, and is never written; `owner` is kept as long as needed
  kMutableZeroCopy,  ///< as kZeroCopy, but an execution to which the buffer is donated may write to it
};

/// A plugin's connection to the devices of this process. It must outlive its buffers and executables.
/// Functions may be called from any thread, also concurrently. All throw PjrtError if the plugin returns an
/// error.
class Client {
 public:
  /// May call `key_values`, and may block until other processes make their clients. If the plugin fails
  /// because a callback threw an exception, that exception is thrown.
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

  /// The devices of this process, in the plugin's order. The pointers live as long as this client.
  const std::vector<const Device*>& addressable_devices() const { return addressable_; }

  /// Compiles a module of StableHLO text with one public function `@main`. An argument is donated if it has
  /// the attribute `tf.aliasing_output = N : i32` or `jax.buffer_donor = true` (CPU supports both). Blocks
  /// until compiled (milliseconds to seconds). Throws PjrtError with the compiler's message if the text
  /// cannot be parsed or verified, or an option is unknown.
  std::unique_ptr<Executable> compile(std::string_view mlir, const CompileOptions& options = {}) const;

  /// Loads the result of `Executable::serialize()` of the same plugin version. Throws PjrtError if the plugin
  /// rejects it.
  std::unique_ptr<Executable> deserialize(std::string_view serialized,
                                          const CompileOptions& options = {}) const;

  /// Makes a buffer on `device` from dense row-major host memory. Zero-copy is a permission: the CPU plugin
  /// uses it for data that is aligned to 64 bytes, and copies otherwise. `owner` is released, on any thread,
  /// when the plugin no longer needs the host memory; with kCopied that is before the call returns.
  Buffer buffer_from_host(const void* data, DType dtype, std::span<const std::int64_t> dims,
                          const Device& device, HostUse use = HostUse::kCopied,
                          std::shared_ptr<void> owner = nullptr) const;

  /// From now on large arrays go to and from devices through pinned host memory, of which at most `limit`
  /// bytes are held, if the plugin can pin it. Call it before other threads use the client.
  void pin_host_memory(std::size_t limit);

  /// As buffer.to_host, through pinned memory where that is used.
  void to_host(const Buffer& buffer, void* destination, std::size_t bytes) const;

  /// Begins a copy of a buffer's content, in pinned memory where that is used. Does not block.
  CopyToHost begin_copy_to_host(const Buffer& buffer) const;

  /// A buffer in memory of `device` that another library owns: dense row-major elements at `data`, which are
  /// computed. No execution writes them. `owner` is released, on any thread, when the buffer and the
  /// executions that read it have ended.
  Buffer view_of_device_memory(void* data, DType dtype, std::span<const std::int64_t> dims,
                               const Device& device, std::shared_ptr<const void> owner) const;

  /// Makes a dense row-major buffer on `device` whose elements are undefined until the caller writes them, at
  /// `unsafe_pointer()`: for devices whose memory the host can write, as on CPU. It is ready at once. Its
  /// memory may be that of an earlier one, whose handles are gone (spare_buffers.h).
  Buffer uninitialized_buffer(DType dtype, std::span<const std::int64_t> dims, const Device& device) const;

 private:
  struct KeyValues;
  Client(std::shared_ptr<Plugin> plugin, std::unique_ptr<KeyValues> key_values, PJRT_Client* client);

  std::shared_ptr<Plugin> plugin_;
  std::unique_ptr<KeyValues> key_values_;
  const PJRT_Api* api_;
  PJRT_Client* client_;
  std::unique_ptr<SpareBuffers> spares_;
  std::unique_ptr<PinnedMemory> pinned_;  ///< null: not used
  /// The plugin's default compile options, serialized. Taken from an empty program that is compiled at the
  /// first call: debug options that are given replace all defaults of the plugin.
  const std::string& default_options() const;

  mutable std::once_flag default_options_once_;
  mutable std::string default_options_;
  std::string platform_name_, platform_version_;
  int process_index_ = 0;
  std::deque<Device> devices_;
  std::vector<const Device*> addressable_;
};

}  // namespace lockstep::pjrt
