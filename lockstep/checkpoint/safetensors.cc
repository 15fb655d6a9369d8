// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"

namespace lockstep::checkpoint::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, as all memory here");

using Json = nlohmann::json;

constexpr std::array<std::pair<DType, std::string_view>, kNumDTypes> kNames{{{DType::kBool, "BOOL"},
                                                                             {DType::kI8, "I8"},
                                                                             {DType::kI16, "I16"},
                                                                             {DType::kI32, "I32"},
                                                                             {DType::kI64, "I64"},
                                                                             {DType::kU8, "U8"},
                                                                             {DType::kU16, "U16"},
                                                                             {DType::kU32, "U32"},
                                                                             {DType::kU64, "U64"},
                                                                             {DType::kF16, "F16"},
                                                                             {DType::kBF16, "BF16"},
                                                                             {DType::kF32, "F32"},
                                                                             {DType::kF64, "F64"},
                                                                             {DType::kC64, "C64"},
                                                                             {DType::kC128, "C128"},
                                                                             {DType::kF8E4M3FN, "F8_E4M3"},
                                                                             {DType::kF8E5M2, "F8_E5M2"}}};

/// Bits of an element of the dtypes that the format has and Lockstep has not.
constexpr std::array<std::pair<std::string_view, unsigned>, 6> kForeign{
    {{"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

/// Limits of the format.
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::size_t kPadding = 4096;

/// nullopt if the dtype is unknown, or the product is too large for any file.
std::optional<std::uint64_t> bytes_of(const std::string& dtype, const Shape& shape) {
  unsigned bits = 0;
  if (const auto known = dtype_of_name(dtype)) bits = static_cast<unsigned>(size_of(*known)) * 8;
  for (const auto& [name, size] : kForeign) bits = name == dtype ? size : bits;
  if (bits == 0) return std::nullopt;
  std::uint64_t elements = 1;
  for (std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) return std::nullopt;
  }
  if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(bits), &elements)) return std::nullopt;
  return elements % 8 == 0 ? std::optional(elements / 8) : std::nullopt;
}

}  // namespace

std::string_view name_of(DType dtype) {
  return std::ranges::find(kNames, dtype, [](const auto& each) { return each.first; })->second;
}

std::optional<DType> dtype_of_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name, [](const auto& each) { return each.second; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

Header read_header(const storage::Reader& file) {
  auto damaged = [&](const std::string& what) {
    fail<CheckpointError>("[checkpoint] {} is damaged, or not a safetensors file: {}", file.url(), what);
  };
  std::uint64_t length = 0;
  if (file.size() < sizeof length) damaged(fmt::format("it has {} bytes", file.size()));
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLargestHeader || length > file.size() - sizeof length)
    damaged(fmt::format("its header of {} bytes does not fit the {} of the file", length, file.size()));
  std::string text(length, '\0');
  file.read(sizeof length, std::as_writable_bytes(std::span(text)));
  Header header;
  header.bytes = sizeof length + length;
  if (!text.starts_with('{')) damaged("its header is not a JSON object");
  try {
    const Json json = parse_json(text);
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        if (!entry.is_null()) header.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const auto from = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto to = entry.at("data_offsets").at(1).get<std::uint64_t>();
      Tensor tensor{name, entry.at("dtype"), entry.at("shape"), from, to - from};
      if (to < from || to > file.size() - header.bytes || bytes_of(tensor.dtype, tensor.shape) != to - from) {
        damaged(fmt::format("the tensor {}, {}{}, does not fit its bytes {} to {}", name, tensor.dtype,
                            lockstep::to_string(tensor.shape), from, to));
      }
      tensor.offset += header.bytes;
      header.tensors.push_back(std::move(tensor));
    }
  } catch (const Json::exception& error) {
    damaged(error.what());
  }
  std::ranges::stable_sort(header.tensors, [](const Tensor& a, const Tensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  std::uint64_t at = header.bytes;
  for (const Tensor& tensor : header.tensors) {
    if (tensor.offset != at)
      damaged(fmt::format("the tensor {} begins at byte {}, expected {}", tensor.name, tensor.offset, at));
    at += tensor.bytes;
  }
  if (at != file.size()) damaged(fmt::format("its tensors end at byte {} of {}", at, file.size()));
  return header;
}

std::string make_header(std::vector<Tensor>& tensors, const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (Tensor& tensor : tensors) {
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.bytes}}};
    tensor.offset = at;
    at += tensor.bytes;
  }
  std::string text = json_text(json);
  std::uint64_t length = text.size();
  length += (kPadding - (length + sizeof length) % kPadding) % kPadding;
  if (length > kLargestHeader) {
    fail<CheckpointError>(
        "[checkpoint] the header of {} tensors has {} bytes, but the format allows {}; save fewer, larger "
        "arrays",
        tensors.size(), length, kLargestHeader);
  }
  text.resize(length, ' ');
  for (Tensor& tensor : tensors) tensor.offset += sizeof length + length;
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

}  // namespace lockstep::checkpoint::safetensors
