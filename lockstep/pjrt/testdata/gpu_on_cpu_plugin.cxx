// A plugin that looks like CUDA's to Lockstep and computes with the CPU plugin that GPU_ON_CPU_BEHIND names:
// it takes the CUDA plugin's options, finds the other processes through the key-value callbacks, numbers its
// devices with gaps, runs programs asynchronously and has no memory that the host may read in place. What it
// was given it says on standard error. Of a program for the devices of all processes it runs the replicas
// that are here; their collectives must stay within the process.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

struct Refusal {
  PJRT_Error_Code code;
  std::string message;
};

namespace {

const PJRT_Api* cpu = nullptr;
PJRT_Api table;

std::mutex mutex;
std::set<const void*> refusals;

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
std::set<long long> local_ids;  ///< as the CPU plugin numbers the devices

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

// The wire format of protocol buffers, as far as CompileOptionsProto needs it.
unsigned long long varint(const std::string& bytes, size_t& at) {
  unsigned long long value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= static_cast<unsigned long long>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// The last bytes that the message has for the field; empty where it has none.
std::string field(const std::string& message, unsigned wanted) {
  std::string found;
  for (size_t at = 0; at < message.size();) {
    const unsigned long long key = varint(message, at), size = key % 8 == 1 ? 8 : varint(message, at);
    if (key % 8 == 1) at += 8;
    if (key % 8 != 2) continue;
    if (key / 8 == wanted) found = message.substr(at, size);
    at += size;
  }
  return found;
}

std::string number_field(unsigned field, unsigned long long value) {
  std::string out(1, static_cast<char>(field * 8));
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string bytes_field(unsigned field, const std::string& bytes) {
  std::string out = number_field(field, bytes.size());
  out[0] = static_cast<char>(field * 8 + 2);
  return out + bytes;
}

/// The devices, by the plugin's numbers, that the options assign replicas to, and those of them that are
/// here.
struct Replicas {
  std::vector<long long> all, here;
  size_t first = 0;  ///< the number of the first replica that is here; the others follow it

  Replicas(const std::string& options, const std::set<long long>& local) {
    const std::string ids = field(field(field(field(options, 3), 9), 3), 1);
    for (size_t at = 0; at < ids.size();) all.push_back(static_cast<long long>(varint(ids, at)));
    for (size_t i = 0; i < all.size(); ++i) {
      if (local.count(all[i]) == 0) continue;
      if (here.empty()) first = i;
      here.push_back(all[i]);
    }
  }

  /// CompileOptionsProto for those that are here.
  std::string options() const {
    std::string ids;
    for (long long id : here) ids += number_field(0, static_cast<unsigned long long>(id)).substr(1);
    const std::string assignment =
        number_field(1, here.size()) + number_field(2, 1) + bytes_field(3, bytes_field(1, ids));
    return bytes_field(3, number_field(4, here.size()) + number_field(5, 1) + bytes_field(9, assignment));
  }

  /// The program for those that are here: groups of replicas that are elsewhere are left out. Empty where a
  /// group is here in part.
  std::string program(std::string text) const {
    static const std::regex groups("replica_groups = dense<\\[(.*?)\\]> : tensor<[0-9]+x[0-9]+xi64>");
    static const std::regex group("\\[([0-9, ]+)\\]");
    std::string out;
    std::smatch match;
    while (std::regex_search(text, match, groups)) {
      const std::string list = match[1];
      std::string kept;
      size_t count = 0, size = 0;
      for (std::sregex_iterator it(list.begin(), list.end(), group), end; it != end; ++it) {
        std::istringstream numbers((*it)[1]);
        std::string renumbered;
        size_t inside = 0, members = 0;
        for (std::string number; std::getline(numbers, number, ','); ++members) {
          const size_t replica = std::stoul(number);
          if (replica < first || replica >= first + here.size()) continue;
          renumbered += (inside++ == 0 ? "" : ", ") + std::to_string(replica - first);
        }
        if (inside == 0) continue;
        if (inside != members) return "";
        kept += (count++ == 0 ? "[" : ", [") + renumbered + "]";
        size = members;
      }
      out += match.prefix().str() + "replica_groups = dense<[" + kept + "]> : tensor<" +
             std::to_string(count) + "x" + std::to_string(size) + "xi64>";
      text = match.suffix();
    }
    out += text;
    static const std::regex replica("%([0-9a-z]+) = stablehlo.replica_id : tensor<ui32>");
    return std::regex_replace(out, replica,
                              "%here_$1 = stablehlo.replica_id : tensor<ui32>\n"
                              "    %first_$1 = stablehlo.constant dense<" +
                                  std::to_string(first) +
                                  "> : tensor<ui32>\n"
                                  "    %$1 = stablehlo.add %here_$1, %first_$1 : tensor<ui32>");
  }
};

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
  const Replicas replicas(std::string(args->compile_options, args->compile_options_size), local_ids);
  if (replicas.here.size() == replicas.all.size()) return cpu->PJRT_Client_Compile(args);
  if (replicas.here.empty())
    return refuse(PJRT_Error_Code_INVALID_ARGUMENT, "no replica is on a device here");
  // The CPU plugin compiles for devices of its own only.
  const std::string options = replicas.options();
  std::string text = replicas.program(std::string(args->program->code, args->program->code_size));
  if (text.empty()) return refuse(PJRT_Error_Code_UNIMPLEMENTED, "a collective between processes");
  PJRT_Program program = *args->program;
  program.code = text.data();
  program.code_size = text.size();
  PJRT_Client_Compile_Args behind = *args;
  behind.program = &program;
  behind.compile_options = options.data();
  behind.compile_options_size = options.size();
  PJRT_Error* error = cpu->PJRT_Client_Compile(&behind);
  args->executable = behind.executable;
  return error;
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
std::set<const PJRT_Event*> never;

PJRT_Error* event_destroy(PJRT_Event_Destroy_Args* args) {
  {
    std::lock_guard lock(mutex);
    if (never.count(args->event) != 0) return nullptr;
  }
  return cpu->PJRT_Event_Destroy(args);
}

/// What GPU_ON_CPU_RESULTS says of all buffers: "never" and none is ever ready, as where a device waits for
/// another that is gone; "fail" and all have failed. Gives whether it says anything.
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

PJRT_Error* to_host_buffer(PJRT_Buffer_ToHostBuffer_Args* args) {
  PJRT_Error* error = nullptr;
  return told_otherwise(&args->event, &error) ? error : cpu->PJRT_Buffer_ToHostBuffer(args);
}

PJRT_Error* unsafe_pointer(PJRT_Buffer_UnsafePointer_Args*) {
  return refuse(PJRT_Error_Code_UNIMPLEMENTED, "the host cannot read the memory of this device");
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static const PJRT_NamedValue version = number("cuda_version", PJRT_NamedValue_kInt64, 13000);
  args->attributes = &version;
  args->num_attributes = 1;
  return nullptr;
}

}  // namespace

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
  table.PJRT_Buffer_IsOnCpu = is_on_cpu;
  table.PJRT_Buffer_UnsafePointer = unsafe_pointer;
  table.PJRT_Buffer_ReadyEvent = ready_event;
  table.PJRT_Buffer_ToHostBuffer = to_host_buffer;
  return &table;
}
