// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/saving.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "lockstep/array/parts.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/part_writer.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/storage/store.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPage = 4096, kHugePage = 2 << 20;

std::string part_name(int process, int processes) {
  return fmt::format("part-{:05}-of-{:05}.safetensors", process, processes);
}

std::string new_nonce(const std::string& job) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", attempt_prefix(job.empty() ? "job" : job), random(), random());
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void check_path(const std::string& path, std::set<std::string>& taken) {
  try {
    [[maybe_unused]] const std::string valid = Json(path).dump();
  } catch (const Json::exception&) {
    fail<CheckpointError>("[checkpoint] the path {} is not UTF-8 text: choose another key", path);
  }
  if (!taken.insert(path).second) {
    fail<CheckpointError>("[checkpoint] two places of the tree have the path {}: choose other keys",
                          path.empty() ? "\"\"" : path);
  }
}

/// Of all elements that this process has.
std::string digest_of(const Array& array) {
  std::map<std::string, std::string> of_parts;
  for (const Shard& shard : array.addressable_shards()) {
    std::string& sum = of_parts[to_string(shard.index)];
    const auto bytes = static_cast<std::size_t>(num_elements(shard.shape)) * size_of(shard.dtype);
    if (sum.empty()) sum = digest({static_cast<const char*>(shard.data), bytes});
  }
  std::string all;
  for (const auto& [index, sum] : of_parts) all += index + " " + sum + "\n";
  return digest(all);
}

Json json_of(const Box& box) {
  Json json = Json::array();
  for (const IndexRange& range : box) json.push_back({range.start, range.limit});
  return json;
}

Box box_of(const Json& json) {
  Box box;
  for (const Json& range : json) box.push_back({range.at(0), range.at(1)});
  return box;
}

}  // namespace

std::string attempt_prefix(const std::string& job_id) {
  std::string name;
  for (char c : job_id.substr(0, 40)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name + "-";
}

std::byte* Staging::reserve(std::size_t bytes) {
  if (bytes > capacity_) {
    memory_.reset();
    capacity_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = nullptr;
    if (::posix_memalign(&memory, kHugePage, capacity_) != 0) {
      capacity_ = 0;
      throw std::bad_alloc();
    }
    ::madvise(memory, capacity_, MADV_HUGEPAGE);
    memory_ = {memory, std::free};
  }
  return static_cast<std::byte*>(memory_.get());
}

struct Saving::Open {
  std::unique_ptr<storage::Store> store;
  storage::Attempt attempt;
  std::string nonce;
  bool begun = false;
};

Saving::Saving(Job job, std::string url, Contents contents, SavingOptions options)
    : job_(std::move(job)),
      url_(std::move(url)),
      contents_(std::move(contents)),
      options_(std::move(options)),
      round_(job_, "save " + url_, options_.timeout),
      open_(std::make_shared<Open>()) {
  try {
    std::tie(parent_, name_) = storage::split_url(url_);
    if (name_.empty() || name_ == "." || name_ == "..")
      fail<CheckpointError>("[checkpoint] {} is no name for a checkpoint's folder", url_);
    std::set<std::string> taken;
    for (const Leaf& leaf : contents_.arrays) {
      check_path(leaf.path, taken);
      leaf.array.block_until_ready();
    }
    for (const auto& [path, value] : contents_.values) check_path(path, taken);
    plan_ = plan_writes(contents_.arrays, job_.process_index, job_.num_processes);
    for (std::size_t i = 0; i < contents_.arrays.size(); ++i)
      if (plan_.is_local[i]) local_digests_.push_back(digest_of(contents_.arrays[i].array));
    for (Piece& piece : plan_.of_process[static_cast<std::size_t>(job_.process_index)]) {
      const std::size_t bytes =
          static_cast<std::size_t>(volume(piece.box)) * size_of(contents_.arrays[piece.leaf].array.dtype());
      bytes_ += bytes;
      mine_.push_back({piece, bytes, nullptr});
    }
    // Staged in the order of the file, so that large parts are aligned.
    std::vector<std::size_t> sizes;
    for (const Mine& mine : mine_) sizes.push_back(mine.bytes);
    std::vector<Mine> sorted;
    for (std::size_t i : file_order(sizes)) sorted.push_back(std::move(mine_[i]));
    mine_ = std::move(sorted);
  } catch (const std::exception& error) {
    // The others must not wait for this one.
    const std::string message = job_.num_processes == 1
                                    ? error.what()
                                    : fmt::format("{}: {}", job_.who(job_.process_index), error.what());
    if (job_.leads()) {
      round_.tell_error(message);
      round_.conclude_error(message);
    } else {
      round_.report_error(message);
    }
    throw;
  }
}

const std::byte* Saving::elements(const Mine& mine, const Box& rows, std::byte* scratch) const {
  const Array& array = contents_.arrays[mine.piece.leaf].array;
  const std::size_t element = size_of(array.dtype());
  const Box wanted = placed_in(mine.piece.box, rows);
  std::int64_t found = 0;
  std::vector<Box> seen;
  for (const Shard& shard : array.addressable_shards()) {
    if (std::ranges::find(seen, shard.index) != seen.end()) continue;
    seen.push_back(shard.index);
    const auto common = intersection(shard.index, wanted);
    if (!common) continue;
    const auto* memory = static_cast<const std::byte*>(shard.data);
    if (*common == wanted) {
      if (const auto at = only_stretch(wanted, shard.index, element)) return memory + *at;
    }
    copy_common(shard.index, memory, wanted, scratch, element);
    found += volume(*common);
  }
  if (found != volume(wanted)) {
    fail<CheckpointError>("[checkpoint] {} of {} is not on this process: the processes' shardings differ",
                          to_string(wanted), contents_.arrays[mine.piece.leaf].path);
  }
  return scratch;
}

void Saving::stage(Staging& staging, std::uint64_t most) {
  std::size_t total = 0;
  for (const Mine& mine : mine_)
    if (total + mine.bytes <= most) total += mine.bytes;
  std::byte* at = staging.reserve(total);
  std::set<std::size_t> held;
  std::size_t used = 0;
  for (Mine& mine : mine_) {
    if (used + mine.bytes > most) {
      held.insert(mine.piece.leaf);
      continue;
    }
    const Array& array = contents_.arrays[mine.piece.leaf].array;
    const std::size_t element = size_of(array.dtype());
    const Shape shape = shape_of(mine.piece.box);
    std::byte* part = at + used;
    for_each_unit(shape, choose_tile(shape, element), element, [&](const Unit& unit) {
      const std::byte* from = elements(mine, unit.box, part + unit.offset);
      if (from != part + unit.offset) std::memcpy(part + unit.offset, from, unit.bytes);
      return true;
    });
    mine.staged = part;
    used += mine.bytes;
  }
  for (std::size_t i = 0; i < contents_.arrays.size(); ++i) {
    Array& array = contents_.arrays[i].array;
    if (held.contains(i)) array = internal::sharing(array);
  }
}

std::string Saving::write(const std::string& folder) {
  std::vector<PartSource> sources;
  for (const Mine& mine : mine_) {
    const Leaf& leaf = contents_.arrays[mine.piece.leaf];
    const std::size_t element = size_of(leaf.array.dtype());
    PartSource source{leaf.path, leaf.array.dtype(), leaf.array.shape(), mine.piece.box, {}};
    source.elements = [this, &mine, element](const Box& rows, std::byte* scratch) {
      if (mine.staged == nullptr) return elements(mine, rows, scratch);
      return mine.staged + only_stretch(rows, whole(shape_of(mine.piece.box)), element).value();
    };
    sources.push_back(std::move(source));
  }
  Json report{{"tree", plan_.fingerprint}, {"locals", local_digests_}};
  Json values = Json::object();
  for (const auto& [path, value] : contents_.values) values[path] = fingerprint(to_string(value));
  report["values"] = std::move(values);
  if (!sources.empty()) {
    const WrittenFile file = write_parts(
        *open_->store, folder, part_name(job_.process_index, job_.num_processes), sources, on_written);
    report["file"] = {{"name", file.file.name},
                      {"bytes", file.file.bytes},
                      {"header_bytes", file.file.header_bytes},
                      {"header_sum", file.file.header_sum}};
    Json parts = Json::array();
    for (std::size_t i = 0; i < file.parts.size(); ++i) {
      const Part& part = file.parts[i];
      parts.push_back({{"leaf", mine_[i].piece.leaf},
                       {"box", json_of(part.box)},
                       {"offset", part.offset},
                       {"key", part.key},
                       {"tile", part.tile},
                       {"sums", part.sums}});
    }
    report["parts"] = std::move(parts);
  }
  return report.dump();
}

void Saving::publish(const std::vector<std::string>& reports) {
  Manifest manifest;
  manifest.nonce = open_->nonce;
  manifest.step = options_.step;
  manifest.metric = options_.metric;
  manifest.created = now();
  manifest.num_processes = job_.num_processes;
  manifest.values = contents_.values;
  for (const Leaf& leaf : contents_.arrays) {
    ArrayInfo& array = manifest.arrays[leaf.path];
    array.dtype = leaf.array.dtype();
    array.dtype_name = safetensors::name_of(leaf.array.dtype());
    array.shape = leaf.array.shape();
    array.weak_type = leaf.array.aval().weak_type;
  }
  const Json first = Json::parse(reports.front());
  for (std::size_t process = 0; process < reports.size(); ++process) {
    const Json report = Json::parse(reports[process]);
    const std::string who = job_.who(static_cast<int>(process));
    if (report.at("tree") != first.at("tree")) {
      fail<CheckpointError>(
          "[checkpoint] save {}: {} saves another tree than process 0: other paths, shapes or shardings; "
          "save "
          "the same on all processes",
          url_, who);
    }
    for (const auto& [path, value] : first.at("values").items()) {
      if (!report.at("values").contains(path) || report.at("values").at(path) != value) {
        fail<CheckpointError>(
            "[checkpoint] save {}: the value {} of process 0 is another one on {}; save the same on all "
            "processes",
            url_, path, who);
      }
    }
    for (std::size_t i = 0, local = 0; i < contents_.arrays.size(); ++i) {
      if (!plan_.is_local[i]) continue;
      if (report.at("locals").at(local) != first.at("locals").at(local)) {
        fail<CheckpointError>(
            "[checkpoint] save {}: {} is on devices of one process only, and has other elements on {} than "
            "on "
            "process 0; make it a global array, or the same everywhere",
            url_, contents_.arrays[i].path, who);
      }
      ++local;
    }
    if (!report.contains("file")) continue;
    const Json& file = report.at("file");
    manifest.files.push_back({open_->attempt.prefix + file.at("name").get<std::string>(), file.at("bytes"),
                              file.at("header_bytes"), file.at("header_sum")});
    for (const Json& part : report.at("parts")) {
      const auto leaf = part.at("leaf").get<std::size_t>();
      manifest.arrays[contents_.arrays[leaf].path].parts.push_back(
          {box_of(part.at("box")), manifest.files.size() - 1, part.at("offset"), part.at("key"),
           part.at("tile"), part.at("sums")});
    }
  }
  for (const auto& [path, array] : manifest.arrays) check_coverage(path, array, url_);
  if (!open_->store->publish(open_->attempt, name_, kManifestName, to_json(manifest))) {
    fail<CheckpointError>(
        "[checkpoint] save {}: it is there already, and nothing that is published is overwritten; choose "
        "another name or step, or remove it first",
        url_);
  }
}

void Saving::give_up(const std::string& message) {
  if (open_->begun) {
    std::vector<std::string> names{kManifestName};
    for (int i = 0; i < job_.num_processes; ++i) names.push_back(part_name(i, job_.num_processes));
    try {
      open_->store->discard(open_->attempt, names);
    } catch (const std::exception& error) {
      logging::warning("[checkpoint] what is left of a failed save stays: {}", error.what());
    }
  }
  round_.conclude_error(message);
  throw CheckpointError(message);
}

void Saving::run() {
  const watch::Doing saving(watch::Kind::kSave, name_);
  bool told = false;
  try {
    if (job_.leads()) {
      open_->store = storage::open_store(parent_, /*make=*/true);
      if (open_->store->exists(name_ + "/" + kManifestName)) {
        fail<CheckpointError>(
            "it is there already, and nothing that is published is overwritten; choose another name or step, "
            "or remove it first");
      }
      open_->nonce = new_nonce(job_.id);
      open_->attempt = open_->store->begin(name_, open_->nonce);
      open_->begun = true;
      round_.tell(open_->attempt.folder);
      told = true;
    } else {
      open_->attempt.folder = round_.hear();
      open_->store = storage::open_store(parent_);
    }
    round_.report(write(open_->attempt.folder));
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& error) {
    const std::string who = job_.num_processes == 1 ? "" : job_.who(job_.process_index) + ": ";
    const std::string message = dynamic_cast<const CheckpointError*>(&error) != nullptr && !job_.leads()
                                    ? error.what()
                                    : fmt::format("[checkpoint] save {}: {}{}", url_, who, error.what());
    if (job_.leads() && !told) round_.tell_error(message);
    round_.report_error(message);
  }
  if (!job_.leads()) {
    round_.conclusion();
    return;
  }
  try {
    publish(round_.reports());
  } catch (const PeerFailure&) {
    throw;
  } catch (const CheckpointError& error) {
    give_up(error.what());
  } catch (const std::exception& error) {
    const std::string who = job_.num_processes == 1 ? "" : job_.who(0) + ": ";
    give_up(fmt::format("[checkpoint] save {}: {}{}", url_, who, error.what()));
  }
  round_.conclude("published");
}

}  // namespace lockstep::checkpoint
