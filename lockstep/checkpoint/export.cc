// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/export.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/plan.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/storage/file_calls.h"
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

struct Layout {
  std::vector<File> files;
};

/// `tensors` with names, dtypes, shapes and sizes, in the order of the arrays.
Layout lay_out(const std::vector<safetensors::Tensor>& tensors, std::uint64_t largest) {
  Layout layout;
  std::uint64_t in_file = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (layout.files.empty() || (in_file > 0 && in_file + tensors[i].bytes > largest)) {
      layout.files.emplace_back();
      in_file = 0;
    }
    layout.files.back().arrays.push_back(i);
    layout.files.back().tensors.push_back(tensors[i]);
    in_file += tensors[i].bytes;
  }
  for (std::size_t i = 0; i < layout.files.size(); ++i) {
    File& file = layout.files[i];
    file.name = layout.files.size() == 1
                    ? "model.safetensors"
                    : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, layout.files.size());
    file.header = safetensors::make_header(file.tensors, {{"format", "pt"}});
  }
  return layout;
}

/// The index of the files, whose names in the published folder begin with the prefix.
std::string index_of(const Layout& layout, const std::string& prefix) {
  std::uint64_t total = 0;
  nlohmann::json weights = nlohmann::json::object();
  for (const File& file : layout.files) {
    for (const safetensors::Tensor& tensor : file.tensors) {
      weights[tensor.name] = prefix + file.name;
      total += tensor.bytes;
    }
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weights)}}.dump(2) +
         "\n";
}

std::string renamed(const std::string& path, const ExportOptions& options) {
  return options.rename ? options.rename(path) : path;
}

void check_names(const std::vector<safetensors::Tensor>& tensors) {
  std::map<std::string, int> count;
  for (const safetensors::Tensor& tensor : tensors) {
    if (++count[tensor.name] > 1)
      fail<CheckpointError>("[checkpoint] two arrays would have the name {}", tensor.name);
  }
}

[[noreturn]] void fail_there_already(const std::string& folder) {
  fail<CheckpointError>("[checkpoint] export {}: it is there already; choose another name", folder);
}

/// Writes into a file that several processes write into.
class SharedFile {
 public:
  explicit SharedFile(const std::string& path) : path_(path) {
    file_ = storage::file_calls().open(path.c_str(), O_WRONLY, 0);
    if (file_ < 0) fail<StorageError>("cannot open {}: {}", path, std::strerror(errno));
  }
  ~SharedFile() {
    if (file_ >= 0) storage::file_calls().close(file_);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write(const std::byte* from, std::size_t bytes, std::uint64_t at) {
    while (bytes > 0) {
      const ssize_t written = storage::file_calls().pwrite(file_, from, bytes, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail<StorageError>("cannot write {}: {}", path_, std::strerror(errno));
      from += written;
      bytes -= static_cast<std::size_t>(written);
      at += static_cast<std::uint64_t>(written);
    }
  }

  void finish() {
    if (storage::file_calls().fsync(file_) < 0)
      fail<StorageError>("cannot bring {} to disk: {}", path_, std::strerror(errno));
    if (storage::file_calls().close(std::exchange(file_, -1)) < 0)
      fail<StorageError>("cannot close {}: {}", path_, std::strerror(errno));
  }

 private:
  std::string path_;
  int file_ = -1;
};

/// What this process has of its piece, stretch by stretch.
void write_piece(SharedFile& file, std::uint64_t offset, const Array& array, const Box& piece,
                 const std::function<void(std::uint64_t)>& on_written) {
  const std::size_t element = size_of(array.dtype());
  const Box all = whole(array.shape());
  std::vector<Box> seen;
  for (const Shard& shard : array.addressable_shards()) {
    if (std::ranges::find(seen, shard.index) != seen.end()) continue;
    seen.push_back(shard.index);
    const auto common = intersection(shard.index, piece);
    if (!common || volume(*common) == 0) continue;
    const auto* memory = static_cast<const std::byte*>(shard.data);
    for_each_stretch(*common, shard.index, all, element,
                     [&](std::size_t from, std::size_t to, std::size_t bytes) {
                       file.write(memory + from, bytes, offset + to);
                       if (on_written) on_written(bytes);
                     });
  }
}

}  // namespace

void export_contents(const Job& job, const std::string& folder, const Contents& contents,
                     const ExportOptions& options) {
  check_url(folder);
  Round round(job, "export " + folder, options.timeout);
  const auto [parent, name] = storage::split_url(folder);
  std::unique_ptr<storage::Store> store;
  storage::Attempt attempt;
  Layout layout;
  bool offered = false, told = false, begun = false;
  std::string error;
  try {
    if (storage::locate(folder).is_object) {
      fail<CheckpointError>(
          "[checkpoint] export {}: several processes cannot write one object; save a checkpoint there, and "
          "use "
          "lockstep ckpt export",
          folder);
    }
    std::vector<safetensors::Tensor> tensors;
    for (const Leaf& leaf : contents.arrays) {
      leaf.array.block_until_ready();
      tensors.push_back({renamed(leaf.path, options), std::string(safetensors::name_of(leaf.array.dtype())),
                         leaf.array.shape(), 0, static_cast<std::uint64_t>(leaf.array.aval().bytes())});
    }
    check_names(tensors);
    layout = lay_out(tensors, options.largest_file);
    if (job.num_processes > 1) round.offer(describe_tree(contents.arrays));
    offered = true;
    std::vector<Place> places;
    if (job.leads()) {
      if (job.num_processes > 1) places = places_of(contents.arrays, round.offers(), "export " + folder);
      store = storage::open_store(parent, /*make=*/true);
      if (store->exists(name + "/" + kIndexName)) fail_there_already(folder);
      attempt = store->begin(name, new_nonce("export", std::nullopt));
      begun = true;
      for (const File& file : layout.files) {
        auto writer = store->create(attempt.folder + "/" + file.name);
        writer->write(std::as_bytes(std::span(file.header)));
        writer->finish();
      }
      round.tell(nlohmann::json{{"folder", attempt.folder}, {"places", places}}.dump());
      told = true;
    } else {
      const nlohmann::json heard = nlohmann::json::parse(round.hear());
      attempt.folder = heard.at("folder");
      places = heard.at("places").get<std::vector<Place>>();
      store = storage::open_store(parent);
    }
    Loads loads(static_cast<std::size_t>(job.num_processes));
    const auto me = static_cast<std::size_t>(job.process_index);
    std::vector<Piece> mine = plan_spread(contents.arrays, loads)[me];
    if (job.num_processes > 1)
      std::ranges::move(plan_others(contents.arrays, owners_of(contents.arrays), places, loads)[me],
                        std::back_inserter(mine));
    for (const File& file : layout.files) {
      SharedFile shared(store->url(attempt.folder + "/" + file.name));
      for (std::size_t k = 0; k < file.arrays.size(); ++k) {
        for (const Piece& piece : mine) {
          if (piece.leaf != file.arrays[k]) continue;
          write_piece(shared, file.tensors[k].offset, contents.arrays[piece.leaf].array, piece.box,
                      options.on_written);
        }
      }
      shared.finish();
    }
    round.report("written");
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& failed) {
    error = job.num_processes == 1 ? failed.what()
                                   : fmt::format("{}: {}", job.who(job.process_index), failed.what());
    if (!offered) round.offer_error(error);
    if (job.leads() && !told) round.tell_error(error);
    round.report_error(error);
  }
  if (!job.leads()) {
    round.conclusion();
    return;
  }
  try {
    round.reports();
    if (!store->publish(attempt, name, kIndexName, index_of(layout, attempt.prefix)))
      fail_there_already(folder);
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& failed) {
    if (begun) {
      std::vector<std::string> names{kIndexName};
      for (const File& file : layout.files) names.push_back(file.name);
      store->discard(attempt, names);
    }
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
                            path, describe(info));
    tensors.push_back({renamed(path, options), info.dtype_name, info.shape, 0, bytes_of(info)});
    arrays.emplace_back(path, &info);
  }
  check_names(tensors);
  const Layout layout = lay_out(tensors, options.largest_file);
  const auto [parent, name] = storage::split_url(folder);
  const auto store = storage::open_store(parent, /*make=*/true);
  if (store->exists(name + "/" + kIndexName)) fail_there_already(folder);
  const storage::Attempt attempt = store->begin(name, new_nonce("export", std::nullopt));
  std::vector<std::string> names{kIndexName};
  for (const File& file : layout.files) names.push_back(file.name);
  try {
    for (const File& file : layout.files) {
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
    if (!store->publish(attempt, name, kIndexName, index_of(layout, attempt.prefix)))
      fail_there_already(folder);
  } catch (...) {
    store->discard(attempt, names);
    throw;
  }
}

}  // namespace lockstep::checkpoint
