// SPDX-License-Identifier: Apache-2.0
#include "gpu_on_cpu_collectives.h"

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace gpu_on_cpu {
namespace {

std::mutex mutex;
std::string shared_folder;

enum Kind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kPermute, kKinds };
constexpr std::string_view kKindNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                           "collective_permute"};
enum Reduction { kAdd, kMultiply, kMinimum, kMaximum, kAnd, kOr, kReductions };
constexpr std::string_view kReductionNames[] = {"add", "multiply", "minimum", "maximum", "and", "or"};

std::string between(const std::string& text, const std::string& before, const std::string& behind) {
  const size_t from = text.find(before), to = text.find(behind, from + before.size());
  if (from == text.npos || to == text.npos) throw std::runtime_error("cannot read the collective " + text);
  return text.substr(from + before.size(), to - from - before.size());
}

/// "1, 2, 3, 4" of "[[1, 2], [3, 4]]".
std::string flat(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']'; });
  return list;
}

/// The call in the place of a collective, which stands in one line in MLIR's generic form.
std::string meeting(const std::string& line, Kind kind, std::uint64_t program, int call) {
  const std::string result = line.substr(0, line.find(" = "));
  const std::string operand = between(line, "\"(", ")");
  const std::string types = line.substr(line.rfind("} : (") + 5);
  const size_t middle = types.find(") -> ");
  const std::string operand_type = types.substr(0, middle), result_type = types.substr(middle + 5);
  const bool permute = kind == kPermute;
  const std::string groups = between(line, permute ? "source_target_pairs = dense<" : "replica_groups = dense<",
                                     ">");
  const std::string shape = between(line, "> : tensor<", "xi64>");
  int reduction = 0;
  if (kind == kAllReduce || kind == kReduceScatter) {
    const std::string name = between(line, "%c = \"stablehlo.", "\"");
    reduction = static_cast<int>(std::ranges::find(kReductionNames, name) - std::begin(kReductionNames));
    if (reduction == kReductions) throw std::runtime_error("a collective reduces by " + name);
  }
  for (const char* dimension : {"all_gather_dim = ", "scatter_dimension = ", "split_dimension = ",
                                "concat_dimension = "}) {
    if (const size_t at = line.find(dimension); at != line.npos && line[at + std::strlen(dimension)] != '0')
      throw std::runtime_error("a collective along another dimension than the first");
  }
  const std::string replica = "%meets" + std::to_string(call);
  std::ostringstream out;
  out << "    " << replica << " = stablehlo.replica_id : tensor<ui32>\n"
      << result << " = \"stablehlo.custom_call\"(" << replica << ", " << operand << ") {call_target_name = \""
      << kTarget << "\", api_version = 4 : i32, has_side_effect = true, backend_config = {program = "
      << static_cast<std::int64_t>(program) << " : i64, call = " << call << " : i64, kind = " << kind
      << " : i64, reduction = " << reduction << " : i64, width = " << shape.substr(shape.find('x') + 1)
      << " : i64, groups = array<i64: " << flat(groups) << ">}} : (tensor<ui32>, " << operand_type << ") -> "
      << result_type;
  return out.str();
}

std::optional<Kind> kind_of(const std::string& line) {
  for (int kind = 0; kind < kKinds; ++kind)
    if (line.find(" = \"stablehlo." + std::string(kKindNames[kind]) + "\"(") != line.npos)
      return static_cast<Kind>(kind);
  return std::nullopt;
}

void replace(std::string& text, size_t from, const std::string& before, const std::string& behind) {
  const size_t at = text.find(before, from);
  if (at == text.npos) throw std::runtime_error("a program without " + before);
  text.replace(at, before.size(), behind);
}

/// main's further argument and result. What is computed for it is enough work for the CPU plugin not to run
/// the program in the call that launches it.
std::string with_stream(std::string text) {
  const std::string head = "func.func public @main(";
  const size_t main = text.find(head), end = text.find("\n    return", main);
  if (main == text.npos || end == text.npos) throw std::runtime_error("a program without main");
  const bool returns = text.compare(end, 12, "\n    return ") == 0;
  const std::string work =
      "\n    %stream_places = stablehlo.iota dim = 0 : tensor<4096xui32>"
      "\n    %stream_all = stablehlo.broadcast_in_dim %stream, dims = [] : (tensor<ui32>) -> tensor<4096xui32>"
      "\n    %stream_sums = stablehlo.add %stream_places, %stream_all : tensor<4096xui32>"
      "\n    %stream_squares = stablehlo.multiply %stream_sums, %stream_sums : tensor<4096xui32>"
      "\n    %stream_least = stablehlo.constant dense<0> : tensor<ui32>"
      "\n    %stream_next = stablehlo.reduce(%stream_squares init: %stream_least) applies stablehlo.maximum "
      "across dimensions = [0] : (tensor<4096xui32>, tensor<ui32>) -> tensor<ui32>";
  if (returns) {
    const size_t stop = text.find('\n', end + 1), colon = text.find(" : ", end);
    text.insert(stop, ", tensor<ui32>");
    text.insert(colon, ", %stream_next");
  } else {
    text.insert(end + std::strlen("\n    return"), " %stream_next : tensor<ui32>");
  }
  text.insert(end, work);
  if (returns) {
    replace(text, main, ") {\n", ", tensor<ui32>) {\n");
  } else {
    replace(text, main, "-> ()", "-> (tensor<ui32>)");
  }
  const bool takes = text[main + head.size()] != ')';
  text.insert(main + head.size(), takes ? "" : "%stream: tensor<ui32>");
  if (takes) replace(text, main, ") -> (", ", %stream: tensor<ui32>) -> (");
  return text;
}

void leave(const std::string& name, const void* bytes, size_t size) {
  const std::string path = folder() + "/" + name;
  {
    std::ofstream out(path + ".part", std::ios::binary);
    out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    if (!out.flush()) throw std::runtime_error("cannot write " + path);
  }
  std::filesystem::rename(path + ".part", path);
}

/// The bytes that another member has left, or will leave.
std::string find(const std::string& name) {
  const std::string path = folder() + "/" + name;
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes that each member of the group brings to the n-th run of a call, in the order of the group.
std::vector<std::string> exchange(std::uint64_t program, std::int64_t call, std::int64_t replica,
                                  const std::vector<std::int64_t>& members, const void* bytes, size_t size) {
  // A device may still wait in a collective when the process ends.
  static auto& runs = *new std::map<std::tuple<std::uint64_t, std::int64_t, std::int64_t>, long long>;
  long long run;
  {
    std::lock_guard lock(mutex);
    run = ++runs[{program, call, replica}];
  }
  const auto name = [&](long long which, std::int64_t whose) {
    return std::to_string(program) + "-" + std::to_string(call) + "-" + std::to_string(which) + "-" +
           std::to_string(whose);
  };
  leave(name(run, replica), bytes, size);
  std::vector<std::string> all;
  for (const std::int64_t member : members) all.push_back(find(name(run, member)));
  // A member that has come to this run has read the files of those before it.
  if (run > 1) std::filesystem::remove(folder() + "/" + name(run - 1, replica));
  return all;
}

template <typename T>
T reduced(T a, T b, int reduction) {
  switch (reduction) {
    case kAdd:
      return a + b;
    case kMultiply:
      return a * b;
    default:
      break;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    // As XLA's, these keep a NaN.
    if (reduction == kMinimum) return a != a || a < b ? a : b;
    if (reduction == kMaximum) return a != a || a > b ? a : b;
  }
  if constexpr (std::is_integral_v<T>) {
    if (reduction == kAnd) return a & b;
    if (reduction == kOr) return a | b;
  }
  throw std::runtime_error("no such reduction for this type");
}

template <typename T>
void reduce_into(std::string& sum, const std::string& more, int reduction) {
  for (size_t at = 0; at < sum.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, sum.data() + at, sizeof a);
    std::memcpy(&b, more.data() + at, sizeof b);
    a = reduced<T>(a, b, reduction);
    std::memcpy(sum.data() + at, &a, sizeof a);
  }
}

void reduce_any(XLA_FFI_DataType dtype, std::string& sum, const std::string& more, int reduction) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_U8:
      return reduce_into<std::uint8_t>(sum, more, reduction);
    case XLA_FFI_DataType_S8:
      return reduce_into<std::int8_t>(sum, more, reduction);
    case XLA_FFI_DataType_S16:
      return reduce_into<std::int16_t>(sum, more, reduction);
    case XLA_FFI_DataType_U16:
      return reduce_into<std::uint16_t>(sum, more, reduction);
    case XLA_FFI_DataType_S32:
      return reduce_into<std::int32_t>(sum, more, reduction);
    case XLA_FFI_DataType_U32:
      return reduce_into<std::uint32_t>(sum, more, reduction);
    case XLA_FFI_DataType_S64:
      return reduce_into<std::int64_t>(sum, more, reduction);
    case XLA_FFI_DataType_U64:
      return reduce_into<std::uint64_t>(sum, more, reduction);
    case XLA_FFI_DataType_F32:
      return reduce_into<float>(sum, more, reduction);
    case XLA_FFI_DataType_F64:
      return reduce_into<double>(sum, more, reduction);
    case XLA_FFI_DataType_C64:
      return reduce_into<std::complex<float>>(sum, more, reduction);
    default:
      throw std::runtime_error("no reduction of type " + std::to_string(dtype));
  }
}

const void* attribute(const XLA_FFI_CallFrame& frame, std::string_view wanted) {
  for (int64_t i = 0; i < frame.attrs.size; ++i) {
    const XLA_FFI_ByteSpan& name = *frame.attrs.names[i];
    if (std::string_view(name.ptr, name.len) == wanted) return frame.attrs.attrs[i];
  }
  throw std::runtime_error("a call lacks " + std::string(wanted));
}

std::int64_t number(const XLA_FFI_CallFrame& frame, std::string_view name) {
  std::int64_t value;
  std::memcpy(&value, static_cast<const XLA_FFI_Scalar*>(attribute(frame, name))->value, sizeof value);
  return value;
}

/// The bytes of results of the same size that lie behind each other.
std::string part_of(const std::string& all, size_t index, size_t count) {
  return all.substr(all.size() / count * index, all.size() / count);
}

std::string joined(const XLA_FFI_CallFrame& frame, std::int64_t replica, const XLA_FFI_Buffer& data,
                   size_t bytes, size_t result_bytes) {
  const auto program = static_cast<std::uint64_t>(number(frame, "program"));
  const std::int64_t call = number(frame, "call"), kind = number(frame, "kind"),
                     width = number(frame, "width");
  const int reduction = static_cast<int>(number(frame, "reduction"));
  const auto& array = *static_cast<const XLA_FFI_Array*>(attribute(frame, "groups"));
  const auto* groups = static_cast<const std::int64_t*>(array.data);
  const auto meet_with = [&](const std::vector<std::int64_t>& members) {
    return exchange(program, call, replica, members, data.data, bytes);
  };
  std::vector<std::int64_t> members;
  if (kind == kPermute) {
    std::optional<std::int64_t> source;
    for (size_t i = 0; i < array.size; i += 2) {
      if (groups[i] == replica) members.push_back(groups[i + 1]);
      if (groups[i + 1] == replica) source = groups[i];
    }
    if (source) members.insert(members.begin(), *source);
    const auto all = meet_with(members);
    return source ? all.front() : std::string(result_bytes, '\0');
  }
  size_t me = 0;
  for (size_t i = 0; i < array.size; i += static_cast<size_t>(width)) {
    const auto* end = std::find(groups + i, groups + i + width, replica);
    if (end == groups + i + width) continue;
    members.assign(groups + i, groups + i + width);
    me = static_cast<size_t>(end - groups) - i;
  }
  if (members.empty()) throw std::runtime_error("a replica in no group");
  const auto all = meet_with(members);
  std::string out;
  switch (kind) {
    case kAllGather:
      for (const std::string& each : all) out += each;
      return out;
    case kAllToAll:
      for (const std::string& each : all) out += part_of(each, me, all.size());
      return out;
    default:
      out = all.front();
      for (size_t i = 1; i < all.size(); ++i) reduce_any(data.dtype, out, all[i], reduction);
      return kind == kAllReduce ? out : part_of(out, me, all.size());
  }
}

size_t elements(const XLA_FFI_Buffer& buffer) {
  size_t count = 1;
  for (int64_t i = 0; i < buffer.rank; ++i) count *= static_cast<size_t>(buffer.dims[i]);
  return count;
}

size_t element_size(XLA_FFI_DataType dtype) {
  switch (dtype) {
    case XLA_FFI_DataType_PRED:
    case XLA_FFI_DataType_U8:
    case XLA_FFI_DataType_S8:
      return 1;
    case XLA_FFI_DataType_S16:
    case XLA_FFI_DataType_U16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_BF16:
      return 2;
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
    case XLA_FFI_DataType_F32:
      return 4;
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_U64:
    case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_C64:
      return 8;
    default:
      throw std::runtime_error("no collective of type " + std::to_string(dtype));
  }
}

XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata& metadata = *reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata.api_version.major_version = XLA_FFI_API_MAJOR;
    metadata.api_version.minor_version = XLA_FFI_API_MINOR;
    metadata.traits = 0;
    return nullptr;
  }
  try {
    const auto& place = *static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
    const auto& data = *static_cast<const XLA_FFI_Buffer*>(frame->args.args[1]);
    const auto& result = *static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[0]);
    std::uint32_t replica;
    std::memcpy(&replica, place.data, sizeof replica);
    const size_t bytes = elements(data) * element_size(data.dtype),
                 result_bytes = elements(result) * element_size(result.dtype);
    const std::string out = joined(*frame, replica, data, bytes, result_bytes);
    if (out.size() != result_bytes) throw std::runtime_error("a collective between programs of other shapes");
    std::memcpy(result.data, out.data(), out.size());
    return nullptr;
  } catch (const std::exception& error) {
    XLA_FFI_Error_Create_Args args{};
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = error.what();
    args.errc = XLA_FFI_Error_Code_ABORTED;
    return frame->api->XLA_FFI_Error_Create(&args);
  }
}

}  // namespace

void set_folder(const std::string& folder) {
  std::lock_guard lock(mutex);
  shared_folder = folder;
}

std::string folder() {
  std::lock_guard lock(mutex);
  return shared_folder;
}

std::string with_meetings(const std::string& program, std::uint64_t key) {
  std::istringstream in(program);
  std::string out;
  int calls = 0;
  for (std::string line; std::getline(in, line);) {
    if (const auto kind = kind_of(line)) line = meeting(line, *kind, key, calls++);
    out += line + "\n";
  }
  return with_stream(out);
}

void make_communicator(std::uint64_t program, std::size_t replica, std::size_t replicas) {
  const auto name = [&](std::size_t whose) {
    return std::to_string(program) + "-first-" + std::to_string(whose);
  };
  leave(name(replica), "", 0);
  for (std::size_t other = 0; other < replicas; ++other) find(name(other));
}

void* meet() { return reinterpret_cast<void*>(&handle); }

}  // namespace gpu_on_cpu
