// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json_depth.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/program/aval.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lockstep checkpoint";
constexpr int kVersion = 1;
constexpr std::size_t kDeepest = 100;
constexpr std::string_view kSumLine = "{\"xxh3_128\":\"";

/// The largest count that is accepted: it can be added to, and multiplied by the size of an element.
constexpr std::int64_t kLargest = std::int64_t{1} << 58;
constexpr std::size_t kMostDimensions = 255;

bool is_possible(const Shape& shape) {
  std::int64_t elements = 1;
  for (std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
        elements > kLargest)
      return false;
  return shape.size() <= kMostDimensions;
}

/// Whether the part lies within its file, and has a checksum for each of its tiles.
bool fits(const Part& part, const ArrayInfo& array, const std::vector<FileInfo>& files) {
  if (part.file >= files.size() || part.tile.size() != array.shape.size()) return false;
  const Shape shape = shape_of(part.box);
  if (!is_possible(shape)) return false;
  const bool empty = num_elements(shape) == 0;
  for (std::size_t d = 0; d < shape.size() && !empty; ++d)
    if (part.tile[d] < 1 || part.tile[d] > shape[d]) return false;
  const std::uint64_t bytes =
      array.dtype ? static_cast<std::uint64_t>(num_elements(shape)) * size_of(*array.dtype) : 0;
  const FileInfo& file = files[part.file];
  return file.header_bytes <= file.bytes && part.offset <= file.bytes && bytes <= file.bytes - part.offset &&
         part.sums.size() % kSumDigits == 0 && part.sums.size() / kSumDigits == num_tiles(shape, part.tile);
}

// JSON has no NaN, no infinities and no bytes that are not UTF-8: such values are texts in a special form.

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& each) -> Json {
        using T = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<T, double>) {
          if (!std::isfinite(each)) return {{"f64", fmt::format("{}", each)}};
          return {{"f64", each}};
        } else if constexpr (std::is_same_v<T, std::uint64_t>) {
          return {{"u64", each}};
        } else if constexpr (std::is_same_v<T, std::string>) {
          try {
            [[maybe_unused]] const std::string valid = Json(each).dump();
            return each;
          } catch (const Json::exception&) {
            std::string digits;
            for (unsigned char byte : each) digits += fmt::format("{:02x}", byte);
            return {{"bytes", digits}};
          }
        } else {
          return each;
        }
      },
      value);
}

Value value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.contains("u64")) return json.at("u64").get<std::uint64_t>();
  if (json.contains("bytes")) {
    const auto digits = json.at("bytes").get<std::string>();
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return bytes;
  }
  const Json& number = json.at("f64");
  if (number.is_string()) return std::strtod(number.get<std::string>().c_str(), nullptr);
  return number.get<double>();
}

Json json_of(const Box& box) {
  Json starts = Json::array(), limits = Json::array();
  for (const IndexRange& range : box) {
    starts.push_back(range.start);
    limits.push_back(range.limit);
  }
  return {starts, limits};
}

Box box_of(const Json& json) {
  const auto starts = json.at(0).get<Shape>(), limits = json.at(1).get<Shape>();
  if (starts.size() != limits.size()) throw std::invalid_argument("a range without an end");
  Box box;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    if (starts[d] < 0 || limits[d] < starts[d] || limits[d] > kLargest)
      throw std::invalid_argument(fmt::format("the range {}:{}", starts[d], limits[d]));
    box.push_back({starts[d], limits[d]});
  }
  return box;
}

Json body_of(const Manifest& manifest) {
  Json files = Json::array(), arrays = Json::object(), values = Json::object();
  for (const FileInfo& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"header_bytes", file.header_bytes},
                     {"header_xxh3_128", file.header_sum}});
  }
  for (const auto& [path, array] : manifest.arrays) {
    Json parts = Json::array();
    for (const Part& part : array.parts) {
      parts.push_back({{"range", json_of(part.box)},
                       {"file", part.file},
                       {"offset", part.offset},
                       {"key", part.key},
                       {"tile", part.tile},
                       {"tiles_xxh3_128", part.sums}});
    }
    Json entry{{"dtype", array.dtype_name}, {"shape", array.shape}};
    if (array.weak_type) entry["weak_type"] = true;
    entry["parts"] = std::move(parts);
    arrays[path] = std::move(entry);
  }
  for (const auto& [path, value] : manifest.values) values[path] = json_of(value);
  Json body{{"format", kFormat}, {"version", kVersion}, {"nonce", manifest.nonce}};
  if (manifest.step) body["step"] = *manifest.step;
  if (manifest.order > 0) body["order"] = manifest.order;
  if (manifest.metric) body["metric"] = json_of(Value(*manifest.metric));
  body["created"] = manifest.created;
  body["num_processes"] = manifest.num_processes;
  body["values"] = std::move(values);
  body["files"] = std::move(files);
  body["arrays"] = std::move(arrays);
  return body;
}

/// Whether the boxes, of which no two overlap if this is true, fill the whole; by sweeping along a dimension.
std::optional<std::string> gap_or_overlap(std::vector<Box> boxes, const Box& all, std::size_t d = 0) {
  std::erase_if(boxes, [](const Box& box) { return volume(box) == 0; });
  if (volume(all) == 0) return std::nullopt;
  if (boxes.empty()) return fmt::format("[{}] is missing", to_string(all));
  if (d == all.size()) {
    if (boxes.size() > 1) return fmt::format("[{}] is there twice", to_string(all));
    return std::nullopt;
  }
  std::vector<std::int64_t> ends;
  for (const Box& box : boxes) {
    ends.push_back(box[d].start);
    ends.push_back(box[d].limit);
  }
  ends.push_back(all[d].start);
  ends.push_back(all[d].limit);
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<Box> before;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    std::vector<Box> here;
    for (const Box& box : boxes) {
      if (box[d].start <= ends[i] && box[d].limit >= ends[i + 1]) here.push_back(box);
    }
    Box slab = all;
    slab[d] = {ends[i], ends[i + 1]};
    // A box that covers several slabs alike is looked at once in each.
    if (auto found = gap_or_overlap(here, slab, d + 1)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t bytes_of(const ArrayInfo& array) {
  return array.dtype ? static_cast<std::uint64_t>(num_elements(array.shape)) * size_of(*array.dtype) : 0;
}

std::string describe(const ArrayInfo& array) {
  if (array.dtype) return lockstep::to_string(Aval{*array.dtype, array.shape, array.weak_type, {}});
  return shown(array.dtype_name) + lockstep::to_string(array.shape);
}

void check_file_name(const std::string& name, const std::string& url) {
  bool within = !name.empty() && std::ranges::none_of(name, [](unsigned char c) { return c < ' '; });
  for (std::size_t begin = 0; within && begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = std::string_view(name).substr(begin, end - begin);
    within = !part.empty() && part != "." && part != "..";
    begin = end + 1;
  }
  if (within) return;
  fail<CheckpointError>(
      "[checkpoint] {} is damaged: it names the file \"{}\", expected one in its own folder", url,
      shown(name));
}

void check_coverage(const std::string& path, const ArrayInfo& array, const std::string& url) {
  const Box all = whole(array.shape);
  std::vector<Box> boxes;
  for (const Part& part : array.parts) {
    if (part.box.size() != all.size() || (volume(part.box) > 0 && !contains(all, part.box))) {
      fail<CheckpointError>("[checkpoint] {} is damaged: {} is {}, but has a part [{}] outside of it", url,
                            shown(path), describe(array), to_string(part.box));
    }
    boxes.push_back(part.box);
  }
  if (const auto wrong = gap_or_overlap(std::move(boxes), all)) {
    fail<CheckpointError>("[checkpoint] {} is damaged: of {}, {}, {}", url, shown(path), describe(array),
                          *wrong);
  }
}

std::string to_json(const Manifest& manifest) {
  const std::string body = "\"checkpoint\":" + body_of(manifest).dump(1, ' ') + "}\n";
  return fmt::format("{}{}\",\n{}", kSumLine, digest(body), body);
}

Manifest parse_manifest(std::string_view json, const std::string& url) {
  const std::size_t line = json.find('\n');
  const std::size_t expected = kSumLine.size() + kSumDigits + 2;
  if (line != expected || !json.starts_with(kSumLine)) {
    fail<CheckpointError>("[checkpoint] {} is not a checkpoint's manifest, or its first line is damaged",
                          url);
  }
  if (digest(json.substr(line + 1)) != json.substr(kSumLine.size(), kSumDigits) ||
      json.substr(line - 2, 2) != "\",") {
    fail<CheckpointError>("[checkpoint] {} is damaged: its checksum does not match; restore an earlier step",
                          url);
  }
  Manifest manifest;
  if (json_depth(json) > kDeepest)
    fail<CheckpointError>("[checkpoint] {} is damaged: its JSON is nested {} deep", url, json_depth(json));
  try {
    const Json body = Json::parse(json).at("checkpoint");
    if (body.at("format") != kFormat || body.at("version") != kVersion) {
      fail<CheckpointError>(
          "[checkpoint] {} has format '{}', version {}; this Lockstep reads '{}', version {}", url,
          shown(body.at("format").get<std::string>()), body.at("version").get<int>(), kFormat, kVersion);
    }
    manifest.nonce = body.at("nonce");
    if (body.contains("step")) manifest.step = body.at("step").get<std::int64_t>();
    manifest.order = body.value("order", std::int64_t{0});
    if (body.contains("metric")) manifest.metric = std::get<double>(value_of(body.at("metric")));
    manifest.created = body.at("created");
    manifest.num_processes = body.at("num_processes");
    for (const auto& [path, value] : body.at("values").items()) manifest.values[path] = value_of(value);
    for (const Json& file : body.at("files")) {
      manifest.files.push_back(
          {file.at("name"), file.at("bytes"), file.at("header_bytes"), file.at("header_xxh3_128")});
      check_file_name(manifest.files.back().name, url);
    }
    for (const auto& [path, entry] : body.at("arrays").items()) {
      ArrayInfo& array = manifest.arrays[path];
      array.dtype_name = entry.at("dtype");
      array.dtype = safetensors::dtype_of_name(array.dtype_name);
      array.shape = entry.at("shape").get<Shape>();
      array.weak_type = entry.value("weak_type", false);
      if (!is_possible(array.shape)) throw std::invalid_argument("the shape of " + path);
      for (const Json& part : entry.at("parts"))
        array.parts.push_back({box_of(part.at("range")), part.at("file"), part.at("offset"), part.at("key"),
                               part.at("tile"), part.at("tiles_xxh3_128")});
      check_coverage(path, array, url);
      for (const Part& part : array.parts) {
        if (!fits(part, array, manifest.files)) {
          fail<CheckpointError>("[checkpoint] {} is damaged: the part [{}] of {} does not fit its file", url,
                                to_string(part.box), shown(path));
        }
      }
    }
    if (manifest.order < 0 || manifest.order > kLargestOrder) throw std::invalid_argument("the order");
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {
    fail<CheckpointError>("[checkpoint] {} is damaged: {}", url, error.what());
  }
  return manifest;
}

}  // namespace lockstep::checkpoint
