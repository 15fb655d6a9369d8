// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/edges.h"

#include <fmt/ranges.h>
#include <zlib.h>

#include <complex>
#include <cstring>

#include "lockstep/array/host.h"
#include "lockstep/base/half.h"
#include "tests/golden/stored.h"

namespace lockstep::golden {
namespace {

constexpr std::uint64_t kNan = ~std::uint64_t{0};

std::uint64_t nan_bits(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x7e00;
    case DType::kBF16:
      return 0x7fc0;
    case DType::kF32:
      return 0x7fc00000;
    case DType::kF64:
      return 0x7ff8000000000000;
    default:  // of 8 bits
      return dtype == DType::kF8E4M3FN ? 0x7f : 0x7e;
  }
}

std::string unpacked_file() {
  gzFile file = gzopen(LOCKSTEP_EDGES_FILE, "rb");
  std::string text;
  char buffer[1 << 16];
  for (int n; file != nullptr && (n = gzread(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  gzclose(file);
  return text;
}

std::vector<std::uint64_t> bits_in(const std::string& text) {
  std::vector<std::uint64_t> bits;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = const_cast<char*>(at) + 1;
    bits.push_back(*at == 'n' ? kNan : std::strtoull(at, &end, 16));
    at = *end == ' ' ? end + 1 : end;
  }
  return bits;
}

std::vector<EdgeArray> arrays_in(const Json& json, DType dtype) {
  std::vector<EdgeArray> all;
  for (std::size_t i = 0; i < json["v"].size(); ++i) {
    const DType type = json.contains("t") ? dtype_of_numpys(json["t"][i].get<std::string>()) : dtype;
    all.push_back({type, json["s"][i].get<Shape>(), bits_in(json["v"][i].get<std::string>())});
  }
  return all;
}

EdgeCase case_of(const std::string& name, const std::string& kind, const std::string& dtype,
                 const std::vector<EdgeArray>& inputs, const Json& json) {
  const auto function = edge_functions().find(name);
  EdgeCase c{name,    kind, dtype, function == edge_functions().end() ? Function() : function->second,
             &inputs, {}};
  c.parts["v"] = arrays_in(json, DType::kBool);
  std::string before;
  for (const char* part : {"j", "r", "jj", "rr"}) {
    if (!json.contains(part)) continue;
    if (json[part].is_string()) {
      c.parts[part] = c.parts.at(before);
    } else {
      for (const Json& text : json[part])
        c.parts[part].push_back({DType::kBool, {}, bits_in(text.get<std::string>())});
    }
    before = part;
  }
  return c;
}

struct File {
  std::map<std::string, std::map<std::string, std::vector<EdgeArray>>> inputs;  // by dtype and kind
  std::vector<EdgeCase> cases;
  std::set<std::string> names;
};

const File& edges_file() {
  static const File& file = *[] {
    auto* file = new File;
    const Json json = Json::parse(unpacked_file());
    for (const auto& [dtype, kinds] : json["inputs"].items())
      for (const auto& [kind, arrays] : kinds.items())
        file->inputs[dtype][kind] = arrays_in(arrays, dtype_of_numpys(dtype));
    for (const auto& [name, kinds] : json["cases"].items()) {
      file->names.insert(name);
      for (const auto& [kind, dtypes] : kinds.items())
        for (const auto& [dtype, stored] : dtypes.items())
          file->cases.push_back(case_of(name, kind, dtype, file->inputs.at(dtype).at(kind), stored));
    }
    return file;
  }();
  return file;
}

}  // namespace

Array EdgeArray::array() const {
  const DType part = real_dtype(dtype);
  const std::size_t width = size_of(part);
  std::vector<std::byte> bytes(bits.size() * width);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const std::uint64_t one = is_floating(part) && bits[i] == kNan ? nan_bits(part) : bits[i];
    std::memcpy(&bytes[i * width], &one, width);
  }
  return internal::array_from_host(bytes.data(), dtype, shape);
}

Arrays EdgeCase::operands() const {
  Arrays all;
  for (const EdgeArray& x : *inputs) all.push_back(x.array());
  return all;
}

const std::vector<EdgeCase>& edge_cases() { return edges_file().cases; }
const std::set<std::string>& edge_names() { return edges_file().names; }

}  // namespace lockstep::golden
