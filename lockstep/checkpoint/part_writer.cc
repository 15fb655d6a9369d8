// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/part_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <span>

#include "lockstep/array/host.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/json.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/tiles.h"

namespace lockstep::checkpoint {
namespace {

/// No two tensors of a file have one name, and none has the name of the header's own entry.
std::string unique_key(const PartSource& source, std::set<std::string>& taken) {
  std::string key = source.path;
  if (source.box != whole(source.shape)) key += "@" + to_string(source.box);
  while (key == "__metadata__" || !taken.insert(key).second) key += "'";
  return key;
}

}  // namespace

std::vector<std::size_t> file_order(const std::vector<std::size_t>& bytes) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0);
  auto rank = [&](std::size_t i) { return bytes[i] % 4096 == 0 ? 0 : bytes[i] % 64 == 0 ? 1 : 2; };
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

WrittenFile write_parts(storage::Store& store, const std::string& folder, const std::string& name,
                        const std::vector<PartSource>& sources,
                        const std::function<void(std::uint64_t)>& written) {
  std::vector<std::size_t> bytes;
  for (const PartSource& source : sources)
    bytes.push_back(static_cast<std::size_t>(volume(source.box)) * size_of(source.dtype));
  const std::vector<std::size_t> order = file_order(bytes);

  std::set<std::string> taken;
  std::vector<safetensors::Tensor> tensors;
  nlohmann::json slices = nlohmann::json::object();
  for (std::size_t i : order) {
    const PartSource& source = sources[i];
    const std::string key = unique_key(source, taken);
    tensors.push_back(
        {key, std::string(safetensors::name_of(source.dtype)), shape_of(source.box), 0, bytes[i]});
    if (source.box != whole(source.shape)) {
      slices[key] = {{"array", source.path}, {"shape", source.shape}, {"range", to_string(source.box)}};
    }
  }
  std::map<std::string, std::string> metadata{{"format", kFormatOfParts}};
  if (!slices.empty()) metadata["slices"] = json_text_of_any(slices);
  const std::string header = safetensors::make_header(tensors, metadata);

  WrittenFile result;
  result.file = {name, header.size(), header.size(), digest(header)};
  result.parts.resize(sources.size());
  auto writer = store.create(folder + "/" + name);
  writer->write(std::as_bytes(std::span(header)));
  std::shared_ptr<void> scratch;
  std::size_t scratch_bytes = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const PartSource& source = sources[order[k]];
    const std::size_t element = size_of(source.dtype);
    const Shape shape = shape_of(source.box);
    Part& part = result.parts[order[k]];
    part = {source.box, 0, tensors[k].offset, tensors[k].name, choose_tile(shape, element), ""};
    for_each_unit(shape, part.tile, element, [&](const Unit& unit) {
      if (unit.bytes > scratch_bytes) {
        scratch = internal::aligned_memory(unit.bytes);
        scratch_bytes = unit.bytes;
      }
      const std::byte* memory = source.elements(unit.box, static_cast<std::byte*>(scratch.get()));
      for (const Box& tile : unit.tiles) part.sums += tile_sum(tile, unit.box, memory, element);
      writer->write({memory, unit.bytes});
      if (written) written(unit.bytes);
      return true;
    });
    result.file.bytes += bytes[order[k]];
  }
  writer->finish();
  return result;
}

}  // namespace lockstep::checkpoint
