// SPDX-License-Identifier: Apache-2.0
// A plugin that looks like CUDA's to Lockstep and computes with the CPU plugin that GPU_ON_CPU_BEHIND names:
// it takes the CUDA plugin's options, finds the other processes through the key-value callbacks, numbers its
// devices with gaps, runs programs asynchronously and has no memory that the host may read in place. What it
// was given it says on standard error. Of a program for the devices of all processes it runs the replicas
// that are here. Collectives between processes, as NCCL does them, need a folder that all processes share, which
// GPU_ON_CPU_FOLDER names; each job makes one of its own in it. GPU_ON_CPU_DIES=1 kills the process while it
// opens the devices, as a fault of a driver does. GPU_ON_CPU_CANNOT_MAP=1: no memory of the host can be mapped.
#include <dlfcn.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu_on_cpu_calls.h"
#include "gpu_on_cpu_collectives.h"
#include "gpu_on_cpu_replicas.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

struct Refusal {
  PJRT_Error_Code code;
  std::string message;
};

namespace {

const PJRT_Api* cpu = nullptr;
PJRT_Api table;

auto& mutex = *new std::mutex;
auto& refusals = *new std::set<const void*>;

/// An error of this plugin's own; all others are the CPU plugin's.
PJRT_Error* refuse(PJRT_Error_Code code, const std::string& message) {
  auto* refusal = new Refusal{code, message};
  std::lock_guard lock(mutex);
  refusals.insert(refusal);
  return reinterpret_cast<PJRT_Error*>(refusal);
}

const Refusal* own(const PJRT_Error* error) {
  std::lock_guard lock(mutex);
  return refusals.count(error) != 0 ? reinterpret_cast<const Refusal*>(error) : nullptr;
}

void error_destroy(PJRT_Error_Destroy_Args* args) {
  const Refusal* refusal = own(args->error);
  if (refusal == nullptr) return cpu->PJRT_Error_Destroy(args);
  std::lock_guard lock(mutex);
  refusals.erase(refusal);
  delete refusal;
}

void error_message(PJRT_Error_Message_Args* args) {
  const Refusal* refusal = own(args->error);
  if (refusal == nullptr) return cpu->PJRT_Error_Message(args);
  args->message = refusal->message.data();
  args->message_size = refusal->message.size();
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  const Refusal* refusal = own(args->error);
  if (refusal == nullptr) return cpu->PJRT_Error_GetCode(args);
  args->code = refusal->code;
  return nullptr;
}

PJRT_Error* callback_error(PJRT_Error_Code code, const char* message, size_t size) {
  return refuse(code, std::string(message, size));
}
PJRT_CallbackError* make_error = [] {
  static PJRT_CallbackError function = callback_error;
  return &function;
}();

/// The job's dictionary, as Client_Create was given it.
struct Dictionary {
  PJRT_KeyValueGetCallback get = nullptr;
  PJRT_KeyValueTryGetCallback try_get = nullptr;
  PJRT_KeyValuePutCallback put = nullptr;
  void *get_arg = nullptr, *try_get_arg = nullptr, *put_arg = nullptr;
} dictionary;
long long node = 0, nodes = 1, programs = 0;
auto& local_ids = *new std::set<long long>;  ///< as the CPU plugin numbers the devices

PJRT_Error* put(const std::string& key, const std::string& value) {
  PJRT_KeyValuePutCallback_Args call{};
  call.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  call.key = key.data();
  call.key_size = key.size();
  call.value = value.data();
  call.value_size = value.size();
  call.callback_error = make_error;
  call.user_arg = dictionary.put_arg;
  return dictionary.put(&call);
}

PJRT_Error* get(const std::string& key, int timeout_ms, std::string& value) {
  PJRT_KeyValueGetCallback_Args call{};
  call.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  call.key = key.data();
  call.key_size = key.size();
  call.timeout_in_ms = timeout_ms;
  call.callback_error = make_error;
  call.user_arg = dictionary.get_arg;
  if (PJRT_Error* error = dictionary.get(&call)) return error;
  value.assign(call.value, call.value_size);
  call.value_deleter_callback(call.value);
  return nullptr;
}

/// The code of what the dictionary answers at once.
PJRT_Error_Code try_get(const std::string& key, std::string& value) {
  PJRT_KeyValueTryGetCallback_Args call{};
  call.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
  call.key = key.data();
  call.key_size = key.size();
  call.callback_error = make_error;
  call.user_arg = dictionary.try_get_arg;
  if (PJRT_Error* error = dictionary.try_get(&call)) {
    PJRT_Error_Code code = own(error)->code;
    PJRT_Error_Destroy_Args destroy{};
    destroy.error = error;
    error_destroy(&destroy);
    return code;
  }
  value.assign(call.value, call.value_size);
  call.value_deleter_callback(call.value);
  return PJRT_Error_Code_OK;
}

/// Every node tells all others how many devices it has.
PJRT_Error* meet(size_t devices) {
  const std::string mine = "node/" + std::to_string(node);
  std::string value;
  if (PJRT_Error_Code code = try_get(mine, value); code != PJRT_Error_Code_NOT_FOUND)
    return refuse(PJRT_Error_Code_INTERNAL, "a key that is not there gives code " + std::to_string(code));
  // A zero byte within: values are bytes.
  if (PJRT_Error* error = put(mine, std::string("has\0", 4) + std::to_string(devices))) return error;
  if (PJRT_Error_Code code = try_get(mine, value); code != PJRT_Error_Code_OK)
    return refuse(PJRT_Error_Code_INTERNAL, "a key that is there gives code " + std::to_string(code));
  for (int other = 0; other < nodes; ++other) {
    if (PJRT_Error* error = get("node/" + std::to_string(other), 60000, value)) return error;
    std::fprintf(stderr, "gpu_on_cpu: node %lld learns that node %d has %s devices\n", node, other,
                 value.substr(4).c_str());
  }
  return nullptr;
}

/// Prepares the needs of collectives between processes: the job's folder, threads that may wait, the call.
PJRT_Error* prepare_collectives() {
  const char* parent = std::getenv("GPU_ON_CPU_FOLDER");
  if (parent == nullptr) return nullptr;
  std::string folder;
  if (node == 0) {
    folder = std::string(parent) + "/job-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr)
      return refuse(PJRT_Error_Code_INTERNAL, "cannot make " + folder);
    if (PJRT_Error* error = put("folder", folder)) return error;
  } else if (PJRT_Error* error = get("folder", 60000, folder)) {
    return error;
  }
  gpu_on_cpu::set_folder(folder);
  const char* threads = std::getenv("NPROC");
  if (threads == nullptr || std::atoi(threads) < 16) setenv("NPROC", "16", 1);
  for (auto* extension = cpu->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != PJRT_Extension_Type_FFI) continue;
    PJRT_FFI_Register_Handler_Args call{};
    call.struct_size = PJRT_FFI_Register_Handler_Args_STRUCT_SIZE;
    call.target_name = gpu_on_cpu::kTarget;
    call.target_name_size = std::strlen(gpu_on_cpu::kTarget);
    call.handler = gpu_on_cpu::meet();
    call.platform_name = "HOST";
    call.platform_name_size = 4;
    return reinterpret_cast<PJRT_FFI_Extension*>(extension)->register_handler(&call);
  }
  return refuse(PJRT_Error_Code_UNIMPLEMENTED, "the CPU plugin has no calls of the host");
}

PJRT_NamedValue number(const char* name, PJRT_NamedValue_Type type, int64_t value) {
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = name;
  option.name_size = std::strlen(name);
  option.type = type;
  if (type == PJRT_NamedValue_kBool)
    option.bool_value = value != 0;
  else
    option.int64_value = value;
  option.value_size = 1;
  return option;
}

PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  if (std::getenv("GPU_ON_CPU_DIES") != nullptr) std::raise(SIGKILL);
  std::string said;
  size_t devices = 2;
  node = 0;
  nodes = 1;
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    said += " " + name + "=";
    if (name == "node_id" || name == "num_nodes") {
      (name == "node_id" ? node : nodes) = option.int64_value;
      said += std::to_string(option.int64_value);
    } else if (name == "visible_devices") {
      devices = option.value_size;
      for (size_t k = 0; k < devices; ++k)
        said += (k == 0 ? "" : ",") + std::to_string(option.int64_array_value[k]);
    } else if (name == "platform_name" || name == "allocator") {
      said += std::string(option.string_value, option.value_size);
    } else if (name == "memory_fraction") {
      said += std::to_string(option.float_value);
    } else if (name == "preallocate") {
      said += option.bool_value ? "true" : "false";
    } else {
      return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "unknown option " + name);
    }
  }
  std::fprintf(stderr, "gpu_on_cpu: options%s\n", said.c_str());
  dictionary = {args->kv_get_callback, args->kv_try_get_callback, args->kv_put_callback,
                args->kv_get_user_arg, args->kv_try_get_user_arg, args->kv_put_user_arg};
  if (nodes > 1) {
    if (dictionary.get == nullptr || dictionary.try_get == nullptr || dictionary.put == nullptr)
      return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "several nodes, but no key-value callbacks");
    if (PJRT_Error* error = meet(devices)) return error;
    if (PJRT_Error* error = prepare_collectives()) return error;
  }
  // The CPU plugin numbers the devices of a process by its number times a stride, so that these come in
  // another order than the nodes.
  const PJRT_NamedValue options[] = {
      number("cpu_device_count", PJRT_NamedValue_kInt64, static_cast<int64_t>(devices)),
      number("asynchronous", PJRT_NamedValue_kBool, 1),
      number("process_id", PJRT_NamedValue_kInt64, nodes - 1 - node + 3)};
  PJRT_Client_Create_Args behind{};
  behind.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
  behind.create_options = options;
  behind.num_options = 3;
  if (PJRT_Error* error = cpu->PJRT_Client_Create(&behind)) return error;
  args->client = behind.client;
  PJRT_Client_AddressableDevices_Args list{};
  list.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE;
  list.client = behind.client;
  if (PJRT_Error* error = cpu->PJRT_Client_AddressableDevices(&list)) return error;
  for (size_t i = 0; i < list.num_addressable_devices; ++i) {
    PJRT_Device_GetDescription_Args description{};
    description.struct_size = PJRT_Device_GetDescription_Args_STRUCT_SIZE;
    description.device = list.addressable_devices[i];
    if (PJRT_Error* error = cpu->PJRT_Device_GetDescription(&description)) return error;
    PJRT_DeviceDescription_Id_Args id{};
    id.struct_size = PJRT_DeviceDescription_Id_Args_STRUCT_SIZE;
    id.device_description = description.device_description;
    if (PJRT_Error* error = cpu->PJRT_DeviceDescription_Id(&id)) return error;
    local_ids.insert(id.id);
  }
  return nullptr;
}

/// A program with collectives between processes. Of its results, the last is not the caller's: each run hands
/// it to the next one on its device, which so comes behind it, as on a GPU.
struct Meeting {
  unsigned long long program = 0;  ///< the same in all processes
  size_t first = 0, replicas = 0;  ///< its first replica that is here, and how many it has in all
  size_t results = 0;              ///< the caller's
  std::vector<PJRT_Device*> devices;
  bool ran = false;
};
auto& meetings = *new std::map<const PJRT_LoadedExecutable*, Meeting>;
auto& with_one_more = *new std::set<const PJRT_Executable*>;  ///< the descriptions of such programs
auto& streams = *new std::map<PJRT_Device*, PJRT_Buffer*>;    ///< what the last run handed on
std::mutex launching;

unsigned long long digest(const std::string& text) {
  unsigned long long hash = 14695981039346656037ULL;  // FNV-1a
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211ULL;
  return hash >> 1;
}

/// Makes the buffer that a device's first run is given.
PJRT_Error* begin_stream(PJRT_Client* client, PJRT_Device* device) {
  if (streams.count(device) != 0) return nullptr;
  static const unsigned zero = 0;
  PJRT_Client_BufferFromHostBuffer_Args make{};
  make.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
  make.client = client;
  make.data = &zero;
  make.type = PJRT_Buffer_Type_U32;
  make.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  make.device = device;
  if (PJRT_Error* error = cpu->PJRT_Client_BufferFromHostBuffer(&make)) return error;
  PJRT_Event_Destroy_Args done{};
  done.struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE;
  done.event = make.done_with_host_buffer;
  streams[device] = make.buffer;
  return cpu->PJRT_Event_Destroy(&done);
}

PJRT_Error* remember(PJRT_Client* client, PJRT_LoadedExecutable* loaded, Meeting meeting) {
  std::lock_guard lock(launching);
  PJRT_LoadedExecutable_AddressableDevices_Args devices{};
  devices.struct_size = PJRT_LoadedExecutable_AddressableDevices_Args_STRUCT_SIZE;
  devices.executable = loaded;
  if (PJRT_Error* error = cpu->PJRT_LoadedExecutable_AddressableDevices(&devices)) return error;
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    meeting.devices.push_back(devices.addressable_devices[i]);
    if (PJRT_Error* error = begin_stream(client, meeting.devices.back())) return error;
  }
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE;
  get.loaded_executable = loaded;
  if (PJRT_Error* error = cpu->PJRT_LoadedExecutable_GetExecutable(&get)) return error;
  PJRT_Executable_NumOutputs_Args outputs{};
  outputs.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE;
  outputs.executable = get.executable;
  if (PJRT_Error* error = cpu->PJRT_Executable_NumOutputs(&outputs)) return error;
  meeting.results = outputs.num_outputs - 1;
  meetings[loaded] = std::move(meeting);
  PJRT_Executable_Destroy_Args destroy{};
  destroy.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE;
  destroy.executable = get.executable;
  return cpu->PJRT_Executable_Destroy(&destroy);
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  std::unique_lock lock(launching);
  const auto found = meetings.find(args->executable);
  if (found == meetings.end()) {
    lock.unlock();
    return cpu->PJRT_LoadedExecutable_Execute(args);
  }
  Meeting& meeting = found->second;
  const size_t count = meeting.devices.size();
  if (args->num_devices != count)
    return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "a launch on some of a program's devices");
  if (!std::exchange(meeting.ran, true)) {
    for (size_t i = 0; i < count; ++i)
      gpu_on_cpu::make_communicator(meeting.program, meeting.first + i, i + 1 == count ? meeting.replicas : 0);
  }
  std::vector<std::vector<PJRT_Buffer*>> arguments(count), results(count);
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> result_lists;
  for (size_t i = 0; i < count; ++i) {
    arguments[i].assign(args->argument_lists[i], args->argument_lists[i] + args->num_args);
    arguments[i].push_back(streams.at(meeting.devices[i]));
    results[i].resize(meeting.results + 1);
    argument_lists.push_back(arguments[i].data());
    result_lists.push_back(results[i].data());
  }
  PJRT_LoadedExecutable_Execute_Args behind = *args;
  behind.argument_lists = argument_lists.data();
  behind.output_lists = result_lists.data();
  ++behind.num_args;
  if (PJRT_Error* error = cpu->PJRT_LoadedExecutable_Execute(&behind)) return error;
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(results[i].begin(), meeting.results, args->output_lists[i]);
    PJRT_Buffer_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE;
    destroy.buffer = std::exchange(streams.at(meeting.devices[i]), results[i].back());
    if (PJRT_Error* error = cpu->PJRT_Buffer_Destroy(&destroy)) return error;
  }
  return nullptr;
}

PJRT_Error* get_executable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  PJRT_Error* error = cpu->PJRT_LoadedExecutable_GetExecutable(args);
  std::lock_guard lock(launching);
  if (error == nullptr && meetings.count(args->loaded_executable) != 0) with_one_more.insert(args->executable);
  return error;
}

bool has_one_more(const PJRT_Executable* executable) {
  std::lock_guard lock(launching);
  return with_one_more.count(executable) != 0;
}

PJRT_Error* num_outputs(PJRT_Executable_NumOutputs_Args* args) {
  PJRT_Error* error = cpu->PJRT_Executable_NumOutputs(args);
  if (error == nullptr && has_one_more(args->executable)) --args->num_outputs;
  return error;
}

PJRT_Error* output_types(PJRT_Executable_OutputElementTypes_Args* args) {
  PJRT_Error* error = cpu->PJRT_Executable_OutputElementTypes(args);
  if (error == nullptr && has_one_more(args->executable)) --args->num_output_types;
  return error;
}

PJRT_Error* output_dimensions(PJRT_Executable_OutputDimensions_Args* args) {
  PJRT_Error* error = cpu->PJRT_Executable_OutputDimensions(args);
  if (error == nullptr && has_one_more(args->executable)) --args->num_outputs;
  return error;
}

PJRT_Error* destroy_executable(PJRT_Executable_Destroy_Args* args) {
  {
    std::lock_guard lock(launching);
    with_one_more.erase(args->executable);
  }
  return cpu->PJRT_Executable_Destroy(args);
}

PJRT_Error* destroy_loaded(PJRT_LoadedExecutable_Destroy_Args* args) {
  {
    std::lock_guard lock(launching);
    meetings.erase(args->executable);
  }
  return cpu->PJRT_LoadedExecutable_Destroy(args);
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  // As NCCL does, long after the client was made.
  if (nodes > 1) {
    long long count;
    {
      std::lock_guard lock(mutex);
      count = ++programs;
    }
    const std::string key = "compiled/" + std::to_string(node) + "/" + std::to_string(count);
    if (PJRT_Error* error = put(key, "yes")) return error;
  }
  const gpu_on_cpu::Replicas replicas(std::string(args->compile_options, args->compile_options_size), local_ids);
  if (replicas.here.size() == replicas.all.size()) return cpu->PJRT_Client_Compile(args);
  if (replicas.here.empty())
    return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "no replica is on a device here");
  std::string text(args->program->code, args->program->code_size);
  const bool meets = replicas.meets_others(text);
  Meeting meeting;
  meeting.first = replicas.first;
  meeting.replicas = replicas.all.size();
  if (meets) {
    if (gpu_on_cpu::folder().empty()) {
      return refuse(PJRT_Error_Code_UNIMPLEMENTED,
                    "a collective between processes, which needs GPU_ON_CPU_FOLDER");
    }
    std::string devices;
    for (const long long id : replicas.all) devices += " " + std::to_string(id);
    meeting.program = digest(text + devices);
    try {
      text = gpu_on_cpu::with_meetings(text, meeting.program);
    } catch (const std::exception& error) {
      return refuse(PJRT_Error_Code_UNIMPLEMENTED, error.what());
    }
  }
  // The CPU plugin compiles for devices of its own only.
  const std::string options = replicas.options();
  text = replicas.program(text);
  PJRT_Program program = *args->program;
  program.code = text.data();
  program.code_size = text.size();
  PJRT_Client_Compile_Args behind = *args;
  behind.program = &program;
  behind.compile_options = options.data();
  behind.compile_options_size = options.size();
  if (PJRT_Error* error = cpu->PJRT_Client_Compile(&behind)) return error;
  args->executable = behind.executable;
  return meets ? remember(args->client, args->executable, std::move(meeting)) : nullptr;
}

PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "cuda";
  args->platform_name_size = 4;
  return nullptr;
}

PJRT_Error* is_on_cpu(PJRT_Buffer_IsOnCpu_Args* args) {
  args->is_on_cpu = false;
  return nullptr;
}

/// Events that will not happen; destroyed, they would.
auto& never = *new std::set<const PJRT_Event*>;

PJRT_Error* event_destroy(PJRT_Event_Destroy_Args* args) {
  {
    std::lock_guard lock(mutex);
    if (never.count(args->event) != 0) return nullptr;
  }
  return cpu->PJRT_Event_Destroy(args);
}

/// Applies GPU_ON_CPU_RESULTS to all buffers: with "never" none is ever ready, as where a device waits for
/// another that is gone; with "fail" all have failed. Returns whether it is set.
bool told_otherwise(PJRT_Event** event, PJRT_Error** error) {
  const char* results = std::getenv("GPU_ON_CPU_RESULTS");
  if (results == nullptr) return false;
  PJRT_Event_Create_Args create{};
  create.struct_size = PJRT_Event_Create_Args_STRUCT_SIZE;
  if ((*error = cpu->PJRT_Event_Create(&create)) != nullptr) return true;
  *event = create.event;
  if (std::string(results) == "never") {
    std::lock_guard lock(mutex);
    never.insert(create.event);
    return true;
  }
  const std::string message = "the device gave up";
  PJRT_Event_Set_Args set{};
  set.struct_size = PJRT_Event_Set_Args_STRUCT_SIZE;
  set.event = create.event;
  set.error_code = PJRT_Error_Code_INTERNAL;
  set.error_message = message.data();
  set.error_message_size = message.size();
  *error = cpu->PJRT_Event_Set(&set);
  return true;
}

PJRT_Error* ready_event(PJRT_Buffer_ReadyEvent_Args* args) {
  PJRT_Error* error = nullptr;
  return told_otherwise(&args->event, &error) ? error : cpu->PJRT_Buffer_ReadyEvent(args);
}

/// The memory that the "GPU" reads and writes by itself, by its begin; and the bytes that were copied so.
auto& mapped = *new std::map<uintptr_t, size_t>;
long long direct_bytes[2] = {};  // to the device, to the host

PJRT_Error* map(PJRT_Client_DmaMap_Args* args) {
  if (std::getenv("GPU_ON_CPU_CANNOT_MAP") != nullptr)
    return refuse(PJRT_Error_Code_INTERNAL, "Failed to register host memory");
  const auto begin = reinterpret_cast<uintptr_t>(args->data);
  std::lock_guard lock(mutex);
  for (const auto& [other, size] : mapped)
    if (begin < other + size && other < begin + args->size) std::abort();  // mapped already
  mapped[begin] = args->size;
  return nullptr;
}

PJRT_Error* unmap(PJRT_Client_DmaUnmap_Args* args) {
  std::lock_guard lock(mutex);
  if (mapped.erase(reinterpret_cast<uintptr_t>(args->data)) == 0) std::abort();  // not mapped
  return nullptr;
}

/// Whether memory is within what was mapped at once; then its bytes are counted.
bool is_mapped(const void* memory, size_t size, long long& count) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  std::lock_guard lock(mutex);
  auto range = mapped.upper_bound(begin);
  if (range == mapped.begin() || (--range)->first + range->second < begin + size) return false;
  count += static_cast<long long>(size);
  return true;
}

PJRT_Error* to_host_buffer(PJRT_Buffer_ToHostBuffer_Args* args) {
  PJRT_Error* error = nullptr;
  if (told_otherwise(&args->event, &error)) return error;
  if (args->dst != nullptr) is_mapped(args->dst, args->dst_size, direct_bytes[1]);
  return cpu->PJRT_Buffer_ToHostBuffer(args);
}

PJRT_Error* copy_raw_to_host(PJRT_Buffer_CopyRawToHost_Args* args) {
  PJRT_Error* error = nullptr;
  if (told_otherwise(&args->event, &error)) return error;
  if (!is_mapped(args->dst, static_cast<size_t>(args->transfer_size), direct_bytes[1]))
    return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "a part of a buffer is copied to memory that is not mapped");
  return cpu->PJRT_Buffer_CopyRawToHost(args);
}

using gpu_on_cpu::kDeviceMemory;

PJRT_Error* unsafe_pointer(PJRT_Buffer_UnsafePointer_Args* args) {
  PJRT_Error* error = cpu->PJRT_Buffer_UnsafePointer(args);
  if (error == nullptr) args->buffer_pointer |= kDeviceMemory;
  return error;
}

PJRT_Error* view_of_device_memory(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  const auto address = reinterpret_cast<uintptr_t>(args->device_buffer_ptr);
  if ((address & kDeviceMemory) == 0)
    return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "an address that is not in a device's memory");
  PJRT_Client_CreateViewOfDeviceBuffer_Args behind = *args;
  behind.device_buffer_ptr = reinterpret_cast<void*>(address & ~kDeviceMemory);
  PJRT_Error* error = cpu->PJRT_Client_CreateViewOfDeviceBuffer(&behind);
  args->buffer = behind.buffer;
  return error;
}

/// GPU_ON_CPU_MEMORY="IN_USE LIMIT" is the use of every device's memory, in bytes; not set: it is not counted.
PJRT_Error* memory_stats(PJRT_Device_MemoryStats_Args* args) {
  long long in_use = 0, limit = 0;
  const char* memory = std::getenv("GPU_ON_CPU_MEMORY");
  if (memory == nullptr || std::sscanf(memory, "%lld %lld", &in_use, &limit) != 2)
    return refuse(PJRT_Error_Code_UNIMPLEMENTED, "the memory is not counted");
  args->bytes_in_use = in_use;
  args->peak_bytes_in_use = in_use;
  args->bytes_limit = limit;
  args->peak_bytes_in_use_is_set = args->bytes_limit_is_set = true;
  return nullptr;
}

/// With GPU_ON_CPU_FULL=1 no device has memory for anything more.
PJRT_Error* full() {
  if (std::getenv("GPU_ON_CPU_FULL") == nullptr) return nullptr;
  return refuse(PJRT_Error_Code_RESOURCE_EXHAUSTED, "Out of memory while trying to allocate 4096 bytes.");
}

PJRT_Error* execute_if_room(PJRT_LoadedExecutable_Execute_Args* args) {
  PJRT_Error* error = full();
  return error != nullptr ? error : execute(args);
}

PJRT_Error* buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args* args) {
  if (PJRT_Error* error = full()) return error;
  size_t bytes = 1;  // at least: an element has some
  for (size_t i = 0; i < args->num_dims; ++i) bytes *= static_cast<size_t>(args->dims[i]);
  // The plugin copies by itself what must not be read after the call.
  if (args->host_buffer_semantics != PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
    is_mapped(args->data, bytes, direct_bytes[0]);
  return cpu->PJRT_Client_BufferFromHostBuffer(args);
}

PJRT_FFI_Extension calls;  // the first in the list, before the CPU plugin's

/// Handlers for CUDA get the addresses of the devices and a stream. Those for other platforms are not called.
PJRT_Error* register_handler(PJRT_FFI_Register_Handler_Args* args) {
  if (std::string(args->platform_name, args->platform_name_size) != "CUDA")
    return nullptr;
  PJRT_FFI_Register_Handler_Args behind = *args;
  behind.platform_name = "HOST";
  behind.platform_name_size = 4;
  behind.handler = gpu_on_cpu::on_device(args->handler);
  for (auto* extension = cpu->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type == PJRT_Extension_Type_FFI)
      return reinterpret_cast<PJRT_FFI_Extension*>(extension)->register_handler(&behind);
  }
  return refuse(PJRT_Error_Code_UNIMPLEMENTED, "the CPU plugin has no calls of the host");
}

void offer_calls() {
  for (auto* extension = cpu->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != PJRT_Extension_Type_FFI) continue;
    std::memcpy(&calls, extension, std::min(sizeof calls, extension->struct_size));
    calls.base.struct_size = std::min(sizeof calls, extension->struct_size);
    calls.base.next = cpu->extension_start;
    calls.register_handler = register_handler;
    table.extension_start = &calls.base;
  }
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static const PJRT_NamedValue version = number("cuda_version", PJRT_NamedValue_kInt64, 13000);
  args->attributes = &version;
  args->num_attributes = 1;
  return nullptr;
}

}  // namespace

/// For tests: the bytes that were copied to and from memory that was mapped, and how much is mapped.
extern "C" void gpu_on_cpu_direct(long long* to_device, long long* to_host, long long* now_mapped) {
  std::lock_guard lock(mutex);
  *to_device = direct_bytes[0];
  *to_host = direct_bytes[1];
  *now_mapped = 0;
  for (const auto& [begin, size] : mapped) *now_mapped += static_cast<long long>(size);
}

extern "C" const PJRT_Api* GetPjrtApi() {
  const char* path = std::getenv("GPU_ON_CPU_BEHIND");
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) {
    std::fprintf(stderr, "gpu_on_cpu: GPU_ON_CPU_BEHIND names no plugin\n");
    return nullptr;
  }
  cpu = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  std::memcpy(&table, cpu, std::min(sizeof table, cpu->struct_size));
  table.struct_size = std::min(sizeof table, cpu->struct_size);
  table.PJRT_Error_Destroy = error_destroy;
  table.PJRT_Error_Message = error_message;
  table.PJRT_Error_GetCode = error_code;
  table.PJRT_Event_Destroy = event_destroy;
  table.PJRT_Plugin_Attributes = attributes;
  table.PJRT_Client_Create = client_create;
  table.PJRT_Client_PlatformName = platform_name;
  table.PJRT_Client_Compile = compile;
  table.PJRT_LoadedExecutable_Execute = execute_if_room;
  table.PJRT_Client_BufferFromHostBuffer = buffer_from_host;
  table.PJRT_Device_MemoryStats = memory_stats;
  table.PJRT_LoadedExecutable_GetExecutable = get_executable;
  table.PJRT_LoadedExecutable_Destroy = destroy_loaded;
  table.PJRT_Executable_Destroy = destroy_executable;
  table.PJRT_Executable_NumOutputs = num_outputs;
  table.PJRT_Executable_OutputElementTypes = output_types;
  table.PJRT_Executable_OutputDimensions = output_dimensions;
  table.PJRT_Buffer_IsOnCpu = is_on_cpu;
  table.PJRT_Buffer_UnsafePointer = unsafe_pointer;
  table.PJRT_Client_CreateViewOfDeviceBuffer = view_of_device_memory;
  table.PJRT_Buffer_ReadyEvent = ready_event;
  table.PJRT_Buffer_ToHostBuffer = to_host_buffer;
  table.PJRT_Buffer_CopyRawToHost = copy_raw_to_host;
  table.PJRT_Client_DmaMap = map;
  table.PJRT_Client_DmaUnmap = unmap;
  offer_calls();
  return &table;
}
