// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/export.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/array/host_view.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/contents.h"
#include "lockstep/checkpoint/elements.h"
#include "lockstep/checkpoint/exporting.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/plan.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/storage/open_file.h"
#include "lockstep/storage/store.h"
#include "lockstep/storage/url.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";

/// A file to be written, and the numbers of its arrays.
struct File {
  std::string name, header;
  std::vector<std::size_t> arrays;
  std::vector<safetensors::Tensor> tensors;
};

/// `tensors` with names, dtypes, shapes and sizes, in the order of the arrays.
std::vector<File> lay_out(const std::vector<safetensors::Tensor>& tensors, std::uint64_t largest) {
  std::vector<File> files;
  std::uint64_t in_file = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (files.empty() || (in_file > 0 && in_file + tensors[i].bytes > largest)) {
      files.emplace_back();
      in_file = 0;
    }
    files.back().arrays.push_back(i);
    files.back().tensors.push_back(tensors[i]);
    in_file += tensors[i].bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    File& file = files[i];
    file.name = files.size() == 1 ? "model.safetensors"
                                  : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
    file.header = safetensors::make_header(file.tensors, {{"format", "pt"}});
  }
  return files;
}

/// The index of the files, whose names in the published folder begin with the prefix.
std::string index_of(const std::vector<File>& files, const std::string& prefix) {
  std::uint64_t total = 0;
  nlohmann::json weights = nlohmann::json::object();
  for (const File& file : files) {
    for (const safetensors::Tensor& tensor : file.tensors) {
      weights[tensor.name] = prefix + file.name;
      total += tensor.bytes;
    }
  }
  return json_text(nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weights)}},
                   2) +
         "\n";
}

/// All that an export writes.
std::vector<std::string> names_of(const std::vector<File>& files,
                                  const std::map<std::string, std::string>& texts) {
  std::vector<std::string> names{kIndexName};
  for (const auto& [name, text] : texts) names.push_back(name);
  for (const File& file : files) names.push_back(file.name);
  return names;
}

std::string renamed(const std::string& path, const ExportOptions& options) {
  return options.rename ? options.rename(path) : path;
}

void check_names(const std::vector<safetensors::Tensor>& tensors) {
  std::map<std::string, int> count;
  for (const safetensors::Tensor& tensor : tensors) {
    if (++count[tensor.name] > 1)
      fail<CheckpointError>("[checkpoint] two arrays would have the name {}", shown(tensor.name));
  }
}

[[noreturn]] void fail_there_already(const std::string& folder) {
  fail<CheckpointError>("[checkpoint] export {}: it exists already; choose another name", folder);
}

/// Writes into a file that several processes write into.
class SharedFile {
 public:
  explicit SharedFile(const std::string& path) : path_(path), file_(path, O_WRONLY, "open") {}

  void write(const std::byte* from, std::size_t bytes, std::uint64_t at) {
    while (bytes > 0) {
      const ssize_t written = storage::retried(
          [&] { return storage::file_calls().pwrite(file_.get(), from, bytes, static_cast<off_t>(at)); });
      if (written <= 0) storage::fail_with(written < 0 ? errno : EIO, "write", path_);
      from += written;
      bytes -= static_cast<std::size_t>(written);
      at += static_cast<std::uint64_t>(written);
    }
  }

  void finish() {
    file_.sync();
    file_.close();
  }

 private:
  std::string path_;
  storage::OpenFile file_;
};

/// Elements in memory are moved in parts of this size.
constexpr std::uint64_t kMostMoved = std::uint64_t{16} << 20;

/// Writes the elements at these axes of a link from memory that has the box of the array.
void write_axes(SharedFile& file, std::uint64_t offset, DType dtype, const Link& link, const Box& axes,
                DType from_dtype, const std::byte* memory, const Box& box,
                const std::function<void(std::uint64_t)>& on_written) {
  const Strides from = strides_in(link.array, axes, box);
  const Strides to = strides_in(link.tensor, axes, whole(tensor_shape(link)));
  Shape shape;
  std::vector<std::int64_t> from_strides, to_strides;
  for (std::size_t axis : tensor_order(link)) {
    if (axes[axis].limit - axes[axis].start == 1) continue;
    shape.push_back(axes[axis].limit - axes[axis].start);
    from_strides.push_back(from.by_axis[axis]);
    to_strides.push_back(to.by_axis[axis]);
  }
  // The inner axes that are contiguous in the file are written at once.
  std::int64_t run = 1;
  std::size_t outer = shape.size();
  bool in_place = dtype == from_dtype;
  for (; outer > 0 && to_strides[outer - 1] == run; --outer) {
    in_place = in_place && from_strides[outer - 1] == run;
    run *= shape[outer - 1];
  }
  const std::byte* start = memory + static_cast<std::size_t>(from.offset) * size_of(from_dtype);
  const std::size_t element = size_of(dtype), run_bytes = static_cast<std::size_t>(run) * element;
  std::vector<std::byte> ordered;
  if (!in_place) {
    const auto count = static_cast<std::size_t>(num_elements(shape));
    ordered.resize(count * size_of(from_dtype));
    copy_elements(shape, size_of(from_dtype), start, from_strides, ordered.data(),
                  internal::row_major_strides(shape));
    if (dtype != from_dtype) {
      std::vector<std::byte> converted(count * element);
      convert(ordered.data(), from_dtype, converted.data(), dtype, count);
      ordered = std::move(converted);
    }
  }
  std::vector<std::int64_t> index(outer, 0);
  std::int64_t from_at = 0, to_at = to.offset;
  for (std::size_t number = 0;; ++number) {
    file.write(
        in_place ? start + static_cast<std::size_t>(from_at) * element : ordered.data() + number * run_bytes,
        run_bytes, offset + static_cast<std::uint64_t>(to_at) * element);
    if (on_written) on_written(run_bytes);
    std::size_t d = outer;
    for (;; --d) {
      if (d == 0) return;
      from_at += from_strides[d - 1];
      to_at += to_strides[d - 1];
      if (++index[d - 1] < shape[d - 1]) break;
      from_at -= index[d - 1] * from_strides[d - 1];
      to_at -= index[d - 1] * to_strides[d - 1];
      index[d - 1] = 0;
    }
  }
}

/// Writes this process's part of the piece of an array.
void write_piece(SharedFile& file, std::uint64_t offset, DType dtype, const Link& link, const Array& array,
                 const Box& piece, const std::function<void(std::uint64_t)>& on_written) {
  const std::size_t element = std::max(size_of(dtype), size_of(array.dtype()));
  std::vector<Box> seen;
  for (const Shard& shard : array.addressable_shards()) {
    if (std::ranges::find(seen, shard.index) != seen.end()) continue;
    seen.push_back(shard.index);
    const auto common = intersection(shard.index, piece);
    if (!common || volume(*common) == 0) continue;
    for (const Box& axes : axes_in_array(link, *common))
      for (const Box& part : parts_of(link, axes, element, kMostMoved))
        write_axes(file, offset, dtype, link, part, array.dtype(), static_cast<const std::byte*>(shard.data),
                   shard.index, on_written);
  }
}

}  // namespace

void export_tree(const std::string& folder, tree::TreeRef tree, const ExportOptions& options) {
  const Contents contents = contents_of(tree);
  check_values(contents);
  std::vector<ExportTensor> tensors;
  for (std::size_t i = 0; i < contents.arrays.size(); ++i) {
    const auto& [path, array] = contents.arrays[i];
    tensors.push_back({renamed(path, options), array.dtype(), array.shape(), {{i, identity(array.shape())}}});
  }
  export_contents(folder, contents, tensors, {}, options);
}

void check_values(const Contents& contents) {
  for (const Leaf& leaf : contents.arrays)
    if (!leaf.array.valid())
      fail<CheckpointError>("[checkpoint] cannot export {}: it has no value", shown(leaf.path));
}

void export_contents(const std::string& folder, const Contents& contents,
                     const std::vector<ExportTensor>& all, const std::map<std::string, std::string>& texts,
                     const ExportOptions& options) {
  const Job job = Job::current();
  check_url(folder);
  Round round(job, "export " + folder, options.timeout);
  const auto [parent, name] = split_url(folder);
  std::unique_ptr<storage::Store> store;
  storage::Attempt attempt;
  std::vector<File> files;
  try {
    if (storage::locate(folder).is_object) {
      fail<CheckpointError>(
          "[checkpoint] export {}: several processes cannot write one object; save a checkpoint there, and "
          "use lockstep ckpt export",
          folder);
    }
    std::vector<safetensors::Tensor> tensors;
    for (const Leaf& leaf : contents.arrays) leaf.array.block_until_ready();
    for (const ExportTensor& each : all)
      tensors.push_back({each.name, std::string(safetensors::name_of(each.dtype)), each.shape, 0,
                         static_cast<std::uint64_t>(num_elements(each.shape)) * size_of(each.dtype)});
    check_names(tensors);
    files = lay_out(tensors, options.largest_file);
    const std::vector<int> owners = owners_of(contents.arrays);
    if (job.num_processes > 1) round.offer(describe_tree(contents.arrays, owners));
    std::vector<Place> places;
    if (job.leads()) {
      if (job.num_processes > 1) places = places_of(contents.arrays, round.offers(), "export " + folder);
      store = storage::open_store(parent, /*make=*/true);
      if (store->exists(name + "/" + kIndexName)) fail_there_already(folder);
      attempt = store->begin(name, new_nonce("export", std::nullopt));
      for (const File& file : files) {
        auto writer = store->create(attempt.folder + "/" + file.name);
        writer->write(std::as_bytes(std::span(file.header)));
        writer->finish();
      }
      for (const auto& [text_name, text] : texts) {
        auto writer = store->create(attempt.folder + "/" + text_name);
        writer->write(std::as_bytes(std::span(text)));
        writer->finish();
      }
      round.tell(json_text(nlohmann::json{{"folder", attempt.folder}, {"places", places}}));
    } else {
      const nlohmann::json heard = parse_json(round.hear());
      attempt.folder = heard.at("folder");
      places = heard.at("places").get<std::vector<Place>>();
      store = storage::open_store(parent);
    }
    Loads loads(static_cast<std::size_t>(job.num_processes));
    const auto me = static_cast<std::size_t>(job.process_index);
    std::vector<Piece> mine = plan_spread(contents.arrays, owners, loads)[me];
    if (job.num_processes > 1)
      std::ranges::move(plan_others(contents.arrays, owners, places, loads)[me], std::back_inserter(mine));
    std::vector<std::vector<Box>> boxes(contents.arrays.size());
    for (const Piece& piece : mine) boxes[piece.leaf].push_back(piece.box);
    for (const File& file : files) {
      SharedFile shared(store->url(attempt.folder + "/" + file.name));
      for (std::size_t k = 0; k < file.arrays.size(); ++k) {
        const ExportTensor& tensor = all[file.arrays[k]];
        for (const ExportTensor::Part& part : tensor.parts) {
          for (const Box& box : boxes[part.leaf])
            write_piece(shared, file.tensors[k].offset, tensor.dtype, part.link,
                        contents.arrays[part.leaf].array, box, options.on_written);
        }
      }
      shared.finish();
    }
    round.report("written");
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& failed) {
    round.report_error(job.num_processes == 1
                           ? failed.what()
                           : fmt::format("{}: {}", job.who(job.process_index), failed.what()));
  }
  if (!job.leads()) {
    round.conclusion();
    return;
  }
  try {
    round.reports();
    if (!store->publish(attempt, name, kIndexName, index_of(files, attempt.prefix)))
      fail_there_already(folder);
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& failed) {
    if (!attempt.folder.empty()) store->discard(attempt, names_of(files, texts));
    round.conclude_error(failed.what());
    throw CheckpointError(failed.what());
  }
  round.conclude("exported");
}

void export_checkpoint(const std::string& checkpoint, const std::string& folder,
                       const ExportOptions& options) {
  check_url(checkpoint);
  check_url(folder);
  const auto opened = Opened::open(checkpoint);
  std::vector<safetensors::Tensor> tensors;
  std::vector<std::pair<std::string, const ArrayInfo*>> arrays;
  for (const auto& [path, info] : opened->manifest().arrays) {
    if (!info.dtype)
      fail<CheckpointError>("[checkpoint] {}: {} is {}, a dtype that Lockstep does not have", checkpoint,
                            shown(path), describe(info));
    tensors.push_back({renamed(path, options), info.dtype_name, info.shape, 0, bytes_of(info)});
    arrays.emplace_back(path, &info);
  }
  check_names(tensors);
  const std::vector<File> files = lay_out(tensors, options.largest_file);
  const auto [parent, name] = split_url(folder);
  const auto store = storage::open_store(parent, /*make=*/true);
  if (store->exists(name + "/" + kIndexName)) fail_there_already(folder);
  const storage::Attempt attempt = store->begin(name, new_nonce("export", std::nullopt));
  try {
    for (const File& file : files) {
      auto writer = store->create(attempt.folder + "/" + file.name);
      writer->write(std::as_bytes(std::span(file.header)));
      std::vector<std::byte> memory;
      for (std::size_t i : file.arrays) {
        const auto& [path, info] = arrays[i];
        const std::size_t element = size_of(*info->dtype);
        for_each_unit(info->shape, choose_tile(info->shape, element), element, [&](const Unit& unit) {
          memory.resize(unit.bytes);
          opened->read({{path, unit.box, memory.data()}});
          writer->write(memory);
          if (options.on_written) options.on_written(unit.bytes);
          return true;
        });
      }
      writer->finish();
    }
    if (!store->publish(attempt, name, kIndexName, index_of(files, attempt.prefix)))
      fail_there_already(folder);
  } catch (...) {
    store->discard(attempt, names_of(files, {}));
    throw;
  }
}

}  // namespace lockstep::checkpoint
