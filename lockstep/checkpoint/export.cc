// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/export.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/contents.h"
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
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weights)}}.dump(2) +
         "\n";
}

/// All that an export writes.
std::vector<std::string> names_of(const std::vector<File>& files) {
  std::vector<std::string> names{kIndexName};
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

/// Writes this process's part of the piece, stretch by stretch.
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

void export_tree(const std::string& folder, tree::TreeRef tree, const ExportOptions& options) {
  const Job job = Job::current();
  const Contents contents = contents_of(tree);
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
    for (const Leaf& leaf : contents.arrays) {
      leaf.array.block_until_ready();
      tensors.push_back({renamed(leaf.path, options), std::string(safetensors::name_of(leaf.array.dtype())),
                         leaf.array.shape(), 0, static_cast<std::uint64_t>(leaf.array.aval().bytes())});
    }
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
      round.tell(nlohmann::json{{"folder", attempt.folder}, {"places", places}}.dump());
    } else {
      const nlohmann::json heard = nlohmann::json::parse(round.hear());
      attempt.folder = heard.at("folder");
      places = heard.at("places").get<std::vector<Place>>();
      store = storage::open_store(parent);
    }
    Loads loads(static_cast<std::size_t>(job.num_processes));
    const auto me = static_cast<std::size_t>(job.process_index);
    std::vector<Piece> mine = plan_spread(contents.arrays, owners, loads)[me];
    if (job.num_processes > 1)
      std::ranges::move(plan_others(contents.arrays, owners, places, loads)[me], std::back_inserter(mine));
    for (const File& file : files) {
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
    if (!attempt.folder.empty()) store->discard(attempt, names_of(files));
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
    store->discard(attempt, names_of(files));
    throw;
  }
}

}  // namespace lockstep::checkpoint
