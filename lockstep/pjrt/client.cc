// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/client.h"

#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/compile_options.h"
#include "lockstep/pjrt/key_values.h"
#include "lockstep/pjrt/named_values.h"
#include "lockstep/pjrt/pinned_memory.h"
#include "lockstep/pjrt/spare_buffers.h"

namespace lockstep::pjrt {
namespace {

PJRT_HostBufferSemantics to_pjrt(HostUse use) {
  switch (use) {
    case HostUse::kCopied:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostUse::kHeld:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostUse::kZeroCopy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostUse::kMutableZeroCopy:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  fail<PjrtError>("[pjrt] unknown use of host memory: {}", static_cast<int>(use));
}

struct Held {
  const PJRT_Api* api;
  std::shared_ptr<void> owner;
};

void release_held(PJRT_Error* error, void* held) {
  std::unique_ptr<Held> owned(static_cast<Held*>(held));
  ignore(owned->api, error);
}

}  // namespace

std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin, const ClientOptions& options,
                                       KeyValueCallbacks key_values) {
  const std::vector<PJRT_NamedValue> values = named_values(options);
  auto shared = std::make_unique<KeyValues>(std::move(key_values));
  LOCKSTEP_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = values.data();
  args.num_options = values.size();
  shared->offer(args);
  const PJRT_Api* api = plugin->api();
  if (PJRT_Error* error = api->PJRT_Client_Create(&args)) {
    if (std::exception_ptr cause = shared->first_error()) {
      ignore(api, error);
      std::rethrow_exception(cause);
    }
    throw_error(api, error, fmt::format("creating a client of {}", plugin->path()));
  }
  return std::shared_ptr<Client>(new Client(std::move(plugin), std::move(shared), args.client));
}

Client::Client(std::shared_ptr<Plugin> plugin, std::unique_ptr<KeyValues> key_values, PJRT_Client* client)
    : plugin_(std::move(plugin)),
      key_values_(std::move(key_values)),
      api_(plugin_->api()),
      client_(client),
      spares_(std::make_unique<SpareBuffers>(api_)) {
  LOCKSTEP_PJRT_ARGS(PJRT_Client_PlatformName_Args, name);
  name.client = client_;
  check(api_, api_->PJRT_Client_PlatformName(&name), "asking for the platform's name");
  platform_name_.assign(name.platform_name, name.platform_name_size);

  LOCKSTEP_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, version);
  version.client = client_;
  check(api_, api_->PJRT_Client_PlatformVersion(&version), "asking for the platform's version");
  platform_version_.assign(version.platform_version, version.platform_version_size);

  LOCKSTEP_PJRT_ARGS(PJRT_Client_ProcessIndex_Args, process);
  process.client = client_;
  check(api_, api_->PJRT_Client_ProcessIndex(&process), "asking for the process index");
  process_index_ = process.process_index;

  LOCKSTEP_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, devices);
  devices.client = client_;
  check(api_, api_->PJRT_Client_AddressableDevices(&devices), "listing the devices");
  for (std::size_t i = 0; i < devices.num_addressable_devices; ++i) {
    Device device;
    device.api_ = api_;
    device.device_ = devices.addressable_devices[i];
    device.local_ordinal_ = static_cast<int>(i);

    LOCKSTEP_PJRT_ARGS(PJRT_Device_LocalHardwareId_Args, hardware);
    hardware.device = device.device_;
    check(api_, api_->PJRT_Device_LocalHardwareId(&hardware), "asking for a device's number");
    device.local_hardware_id_ = hardware.local_hardware_id;

    LOCKSTEP_PJRT_ARGS(PJRT_Device_GetDescription_Args, description);
    description.device = device.device_;
    check(api_, api_->PJRT_Device_GetDescription(&description), "describing a device");

    device.description_ = describe(api_, description.device_description);

    LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_ToString_Args, text);
    text.device_description = description.device_description;
    check(api_, api_->PJRT_DeviceDescription_ToString(&text), "describing a device");
    device.to_string_.assign(text.to_string, text.to_string_size);

    LOCKSTEP_PJRT_ARGS(PJRT_DeviceDescription_DebugString_Args, debug);
    debug.device_description = description.device_description;
    check(api_, api_->PJRT_DeviceDescription_DebugString(&debug), "describing a device");
    device.debug_string_.assign(debug.debug_string, debug.debug_string_size);

    if (const auto memory = device.memory_stats()) device.memory_bytes_ = memory->bytes_limit;
    devices_.push_back(std::move(device));
    addressable_.push_back(&devices_.back());
  }
}

Client::~Client() {
  spares_.reset();
  pinned_.reset();
  LOCKSTEP_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client_;
  ignore(api_, api_->PJRT_Client_Destroy(&args));
}

std::unique_ptr<Executable> Client::compile(std::string_view mlir, const CompileOptions& options) const {
  constexpr std::string_view kFormat = "mlir";
  LOCKSTEP_PJRT_ARGS(PJRT_Program, program);
  program.code = const_cast<char*>(mlir.data());
  program.code_size = mlir.size();
  program.format = kFormat.data();
  program.format_size = kFormat.size();
  std::string serialized = serialize(options, platform_name_);
  if (!options.backend_options.empty())
    serialized.insert(0, default_options());  // messages merge by concatenation
  LOCKSTEP_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client_;
  args.program = &program;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  check(api_, api_->PJRT_Client_Compile(&args), "compiling a program");
  return std::unique_ptr<Executable>(new Executable(api_, args.executable));
}

const std::string& Client::default_options() const {
  std::call_once(default_options_once_, [this] {
    default_options_ = compile("func.func public @main() { return }")->compile_options();
  });
  return default_options_;
}

std::unique_ptr<Executable> Client::deserialize(std::string_view serialized,
                                                const CompileOptions& options) const {
  const std::string overridden = serialize(options, platform_name_);
  LOCKSTEP_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  args.overridden_serialized_compile_options = overridden.data();
  args.overridden_serialized_compile_options_size = overridden.size();
  check(api_, api_->PJRT_Executable_DeserializeAndLoad(&args), "loading a compiled program");
  std::unique_ptr<Executable> executable(new Executable(api_, args.loaded_executable));
  executable->deserialized_ = true;
  return executable;
}

Buffer Client::buffer_from_host(const void* data, DType dtype, std::span<const std::int64_t> dims,
                                const Device& device, HostUse use, std::shared_ptr<void> owner) const {
  if (pinned_ != nullptr) {
    const std::size_t bytes = bytes_of(dtype, dims);
    if (std::shared_ptr<void> copy =
            bytes < PinnedMemory::kLeastBytes ? nullptr : pinned_->copy_of(data, bytes)) {
      data = copy.get();
      use = HostUse::kHeld;
      owner = std::move(copy);
    }
  }
  LOCKSTEP_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client_;
  args.data = data;
  args.type = to_pjrt(dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = to_pjrt(use);
  args.device = device.get();
  check(api_, api_->PJRT_Client_BufferFromHostBuffer(&args), "making a buffer of host memory");
  Buffer buffer(api_, args.buffer);
  if (owner != nullptr && use != HostUse::kCopied) {
    LOCKSTEP_PJRT_ARGS(PJRT_Event_OnReady_Args, on_ready);
    on_ready.event = args.done_with_host_buffer;
    on_ready.callback = release_held;
    on_ready.user_arg = new Held{api_, std::move(owner)};
    check(api_, api_->PJRT_Event_OnReady(&on_ready), "making a buffer of host memory");
  }
  destroy(api_, args.done_with_host_buffer);
  return buffer;
}

void Client::pin_host_memory(std::size_t limit) {
  pinned_ = std::make_unique<PinnedMemory>(api_, client_, limit);
}

void Client::to_host(const Buffer& buffer, void* destination, std::size_t bytes) const {
  const bool by_pieces = pinned_ != nullptr && bytes >= PinnedMemory::kLeastBytes &&
                         bytes == buffer.size_bytes() && buffer.is_row_major();
  if (by_pieces) {
    buffer.await();
    if (pinned_->to_host(buffer.get(), destination, bytes)) return;
  }
  buffer.to_host(destination, bytes);
}

CopyToHost Client::begin_copy_to_host(const Buffer& buffer) const {
  const std::size_t bytes = buffer.size_bytes();
  const bool is_pinned = pinned_ != nullptr && bytes >= PinnedMemory::kLeastBytes;
  return CopyToHost(buffer, is_pinned ? pinned_->take(bytes) : nullptr);
}

Buffer Client::view_of_device_memory(void* data, DType dtype, std::span<const std::int64_t> dims,
                                     const Device& device, std::shared_ptr<const void> owner) const {
  using Owner = std::shared_ptr<const void>;
  RowMajorLayout layout(dims.size(), "using a device's memory in place");
  auto held = std::make_unique<Owner>(std::move(owner));
  LOCKSTEP_PJRT_ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, args);
  args.client = client_;
  args.device_buffer_ptr = data;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.element_type = to_pjrt(dtype);
  args.layout = layout.get();
  args.device = device.get();
  args.on_delete_callback = [](void*, void* held) { delete static_cast<Owner*>(held); };
  args.on_delete_callback_arg = held.get();
  check(api_, api_->PJRT_Client_CreateViewOfDeviceBuffer(&args), "using a device's memory in place");
  held.release();
  Buffer buffer(api_, args.buffer);
  buffer.foreign_ = true;
  return buffer;
}

Buffer Client::uninitialized_buffer(DType dtype, std::span<const std::int64_t> dims,
                                    const Device& device) const {
  if (Buffer spare = spares_->take(dtype, dims, device)) return spare;
  LOCKSTEP_PJRT_ARGS(PJRT_Client_CreateUninitializedBuffer_Args, args);
  args.client = client_;
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = to_pjrt(dtype);
  args.device = device.get();
  check(api_, api_->PJRT_Client_CreateUninitializedBuffer(&args), "making a buffer for a result");
  return spares_->own(Buffer(api_, args.buffer), dtype, dims, device);
}

}  // namespace lockstep::pjrt
