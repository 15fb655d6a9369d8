// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/saving.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "lockstep/array/parts.h"
#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/json.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/check_url.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/part_writer.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/storage/store.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPage = 4096, kHugePage = 2 << 20;

/// The time after which a save that begins now does not publish; with a margin for its last requests.
std::optional<std::time_t> expiry(std::time_t now, std::chrono::milliseconds timeout) {
  constexpr std::chrono::hours kMargin(1), kLongest(24 * 365);
  if (timeout > kLongest) return std::nullopt;
  return now + std::chrono::duration_cast<std::chrono::seconds>(timeout + kMargin).count();
}

/// Above that of all steps that are there, and, because another job may save at the same time, no less than
/// the time in microseconds.
std::int64_t order_after(std::int64_t highest, std::chrono::system_clock::time_point now) {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return std::min(kLargestOrder, std::max<std::int64_t>(time.count(), highest + 1));
}

std::string to_string(std::time_t time) {
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void check_path(const std::string& path, std::set<std::string>& taken) {
  try {
    [[maybe_unused]] const std::string valid = json_text(Json(path));
  } catch (const Json::exception&) {
    fail<CheckpointError>("[checkpoint] the path {} is not UTF-8 text: choose another key", path);
  }
  if (!taken.insert(path).second) {
    fail<CheckpointError>("[checkpoint] two places of the tree have the path {}: choose other keys",
                          path.empty() ? "\"\"" : path);
  }
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
  std::optional<LiveAttempt> live;
};

Saving::Saving(Job job, std::string url, Contents contents, SavingOptions options)
    : job_(std::move(job)),
      url_(std::move(url)),
      contents_(std::move(contents)),
      options_(std::move(options)),
      round_(job_, "save " + url_, options_.timeout),
      loads_(static_cast<std::size_t>(job_.num_processes)),
      open_(std::make_shared<Open>()) {
  try {
    std::tie(parent_, name_) = split_url(url_);
    if (const std::string_view ending = ending_of_file(name_); !ending.empty()) {
      fail<CheckpointError>(
          "[checkpoint] save {}: a checkpoint is a folder, and `restore` reads what ends with {} as one "
          "file; choose another name, or write safetensors files with checkpoint::export_hf",
          url_, ending);
    }
    std::set<std::string> taken;
    for (const Leaf& leaf : contents_.arrays) {
      check_path(leaf.path, taken);
      leaf.array.block_until_ready();
    }
    for (const auto& [path, value] : contents_.values) check_path(path, taken);
    owners_ = owners_of(contents_.arrays);
    auto spread = plan_spread(contents_.arrays, owners_, loads_);
    for (Piece& piece : spread[static_cast<std::size_t>(job_.process_index)])
      mine_.push_back(mine_of(std::move(piece)));
    if (job_.num_processes > 1) {
      described_ = describe_tree(contents_.arrays, owners_);
      // Whether the others have such a leaf, too, is known when all have come.
      for (std::size_t i = 0; i < contents_.arrays.size(); ++i) {
        if (owners_[i] == job_.process_index)
          mine_.push_back(mine_of({i, whole(contents_.arrays[i].array.shape())}));
      }
    }
    for (const Mine& mine : mine_) bytes_ += mine.bytes;
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
    round_.report_error(message);
    if (job_.leads()) round_.conclude_error(message);
    throw;
  }
}

Saving::Mine Saving::mine_of(Piece piece) const {
  const std::size_t bytes =
      static_cast<std::size_t>(volume(piece.box)) * size_of(contents_.arrays[piece.leaf].array.dtype());
  return {std::move(piece), bytes};
}

const std::byte* Saving::elements(const Piece& piece, const Box& rows, std::byte* scratch) const {
  const Array& array = contents_.arrays[piece.leaf].array;
  const std::size_t element = size_of(array.dtype());
  const Box wanted = placed_in(piece.box, rows);
  const auto [first, last] = staged_.equal_range(piece.leaf);
  for (auto each = first; each != last; ++each) {
    const Staged& staged = each->second;
    if (!contains(staged.box, wanted)) continue;
    if (const auto at = only_stretch(wanted, staged.box, element)) return staged.memory + *at;
    copy_common(staged.box, staged.memory, wanted, scratch, element);
    return scratch;
  }
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
                          to_string(wanted), contents_.arrays[piece.leaf].path);
  }
  return scratch;
}

/// The digest of this process's elements of an array.
std::string Saving::digest_of(std::size_t leaf) const {
  const Array& array = contents_.arrays[leaf].array;
  const std::size_t element = size_of(array.dtype());
  const Piece all{leaf, whole(array.shape())};
  std::string sums;
  std::vector<std::byte> scratch;
  for_each_unit(array.shape(), choose_tile(array.shape(), element), element, [&](const Unit& unit) {
    scratch.resize(std::max(scratch.size(), unit.bytes));
    const auto* bytes = reinterpret_cast<const char*>(elements(all, unit.box, scratch.data()));
    sums += digest({bytes, unit.bytes});
    return true;
  });
  return digest(sums);
}

void Saving::stage(Staging& staging, std::uint64_t most) {
  std::size_t total = 0;
  for (const Mine& mine : mine_)
    if (total + mine.bytes <= most) total += mine.bytes;
  std::byte* at = staging.reserve(total);
  std::set<std::size_t> held;
  std::multimap<std::size_t, Staged> staged;
  std::size_t used = 0;
  for (const Mine& mine : mine_) {
    if (used + mine.bytes > most) {
      held.insert(mine.piece.leaf);
      continue;
    }
    const Array& array = contents_.arrays[mine.piece.leaf].array;
    const std::size_t element = size_of(array.dtype());
    const Shape shape = shape_of(mine.piece.box);
    std::byte* part = at + used;
    for_each_unit(shape, choose_tile(shape, element), element, [&](const Unit& unit) {
      const std::byte* from = elements(mine.piece, unit.box, part + unit.offset);
      if (from != part + unit.offset) std::memcpy(part + unit.offset, from, unit.bytes);
      return true;
    });
    staged.emplace(mine.piece.leaf, Staged{mine.piece.box, part});
    used += mine.bytes;
  }
  staged_ = std::move(staged);
  for (std::size_t i = 0; i < contents_.arrays.size(); ++i) {
    Array& array = contents_.arrays[i].array;
    if (held.contains(i)) array = internal::sharing(array);
  }
}

std::string Saving::write(const std::string& folder) {
  std::vector<PartSource> sources;
  for (const Mine& mine : mine_) {
    const Leaf& leaf = contents_.arrays[mine.piece.leaf];
    PartSource source{leaf.path, leaf.array.dtype(), leaf.array.shape(), mine.piece.box, {}};
    source.elements = [this, &mine](const Box& rows, std::byte* scratch) {
      return elements(mine.piece, rows, scratch);
    };
    sources.push_back(std::move(source));
  }
  Json report{{"url", url_}, {"same", Json::array()}};
  for (std::size_t leaf : each_) report["same"].push_back(digest_of(leaf));
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
  return json_text(report);
}

/// Throws unless all files that were written are where this process publishes them: if their processes write
/// somewhere else, or if another job has taken the attempt for a leftover.
void Saving::check_there(const std::vector<std::string>& reports) const {
  std::map<std::string, std::uint64_t> there;
  for (const storage::Entry& entry : open_->store->list(open_->attempt.folder))
    there[entry.name] = entry.bytes;
  for (std::size_t process = 0; process < reports.size(); ++process) {
    const Json report = parse_json(reports[process]);
    if (!report.contains("file")) continue;
    const auto name = report.at("file").at("name").get<std::string>();
    const auto bytes = report.at("file").at("bytes").get<std::uint64_t>();
    const auto found = there.find(name);
    if (found != there.end() && found->second == bytes) continue;
    const std::string who = job_.num_processes == 1 ? "" : " of " + job_.who(static_cast<int>(process));
    fail<CheckpointError>(
        "[checkpoint] save {}: expected the file {}{} with {} bytes in {}, got {}; write to the same storage "
        "on all processes, and remove nothing there while a save runs",
        url_, name, who, bytes, open_->store->url(open_->attempt.folder),
        found == there.end() ? "none" : fmt::format("{} bytes", found->second));
  }
}

void Saving::publish(const std::vector<std::string>& reports) {
  Manifest manifest;
  manifest.nonce = open_->nonce;
  manifest.step = options_.step;
  manifest.metric = options_.metric;
  manifest.order =
      order_after(options_.highest_order ? options_.highest_order(*open_->store) : 0, job_.now());
  manifest.created = to_string(std::chrono::system_clock::to_time_t(job_.now()));
  manifest.num_processes = job_.num_processes;
  manifest.values = contents_.values;
  for (const Leaf& leaf : contents_.arrays) {
    ArrayInfo& array = manifest.arrays[leaf.path];
    array.dtype = leaf.array.dtype();
    array.dtype_name = safetensors::name_of(leaf.array.dtype());
    array.shape = leaf.array.shape();
    array.weak_type = leaf.array.aval().weak_type;
  }
  const Json first = parse_json(reports.front());
  for (std::size_t process = 0; process < reports.size(); ++process) {
    const Json report = parse_json(reports[process]);
    const std::string who = job_.who(static_cast<int>(process));
    for (const auto& [path, value] : first.at("values").items()) {
      if (!report.at("values").contains(path) || report.at("values").at(path) != value) {
        fail<CheckpointError>(
            "[checkpoint] save {}: the value {} of process 0 is different on {}; save the same on all "
            "processes",
            url_, path, who);
      }
    }
    for (std::size_t i = 0; i < each_.size(); ++i) {
      if (report.at("same").at(i) == first.at("same").at(i)) continue;
      fail<CheckpointError>(
          "[checkpoint] save {}: {} is on devices of one process only, and has different elements on {} than "
          "on process 0; make it a global array, or the same on all processes",
          url_, contents_.arrays[each_[i]].path, who);
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
  check_there(reports);
  saved_ = {manifest.step.value_or(-1), manifest.order, manifest.metric, manifest.nonce};
  if (open_->store->publish(open_->attempt, name_, kManifestName, to_json(manifest))) return;
  if (open_->store->exists(name_ + "/" + kManifestName)) fail_there_already();
  fail<CheckpointError>(
      "[checkpoint] save {}: there is a folder of this name that is not a checkpoint; move it away, or "
      "choose another name or step",
      url_);
}

void Saving::fail_there_already() const {
  fail<CheckpointError>(
      "[checkpoint] save {}: it exists already, and a published checkpoint is not overwritten; choose "
      "another name or step, or remove it first",
      url_);
}

void Saving::give_up(const std::string& message) {
  if (!open_->attempt.folder.empty()) {
    std::vector<std::string> names{kManifestName};
    for (int i = 0; i < job_.num_processes; ++i) names.push_back(part_name(i, job_.num_processes));
    try {
      open_->store->discard(open_->attempt, names);
    } catch (const std::exception& error) {
      logging::warning("[checkpoint] could not remove the files of a failed save: {}", error.what());
    }
  }
  round_.conclude_error(message);
  throw CheckpointError(message);
}

void Saving::plan_the_rest(const std::vector<Place>& places) {
  if (job_.num_processes == 1) return;
  const auto mine = static_cast<std::size_t>(job_.process_index);
  std::erase_if(mine_, [&](const Mine& each) { return places[each.piece.leaf] != Place::kSpread; });
  auto others = plan_others(contents_.arrays, owners_, places, loads_);
  for (Piece& piece : others[mine]) mine_.push_back(mine_of(std::move(piece)));
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] == Place::kEach) each_.push_back(i);
  std::uint64_t bytes = 0;
  for (const Mine& each : mine_) bytes += each.bytes;
  bytes_ = bytes;
}

/// On process 0: begins the attempt, and tells the others where it is, and what the trees of all say.
void Saving::begin() {
  std::vector<Place> places;
  if (job_.num_processes > 1) places = places_of(contents_.arrays, round_.offers(), "save " + url_);
  plan_the_rest(places);
  open_->store = storage::open_store(parent_, /*make=*/true);
  if (open_->store->exists(name_ + "/" + kManifestName)) fail_there_already();
  finish_removal(*open_->store, name_);
  open_->nonce =
      new_nonce(job_.id, expiry(std::chrono::system_clock::to_time_t(job_.now()), options_.timeout));
  open_->live.emplace(job_.live, open_->nonce);
  open_->attempt = open_->store->begin(name_, open_->nonce);
  round_.tell(json_text(Json{{"folder", open_->attempt.folder},
                             {"prefix", open_->attempt.prefix},
                             {"url", url_},
                             {"places", places}}));
}

void Saving::join() {
  const Json told = parse_json(round_.hear());
  open_->attempt = {told.at("folder"), told.at("prefix")};
  plan_the_rest(told.at("places").get<std::vector<Place>>());
  open_->store = storage::open_store(parent_);
  if (open_->store->has(open_->attempt)) return;
  fail<CheckpointError>(
      "[checkpoint] save {}: process 0 has made {}, but {}, which saves to {}, does not find it there; save "
      "to the same URL on all processes, in storage that all of them reach",
      told.at("url").get<std::string>(), open_->attempt.folder, job_.who(job_.process_index), url_);
}

void Saving::run() {
  const watch::Doing saving(watch::Kind::kSave, name_);
  try {
    if (job_.num_processes > 1) round_.offer(described_);
    job_.leads() ? begin() : join();
    round_.report(write(open_->attempt.folder));
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& error) {
    const std::string who = job_.num_processes == 1 ? "" : job_.who(job_.process_index) + ": ";
    const std::string message = dynamic_cast<const CheckpointError*>(&error) != nullptr
                                    ? error.what()
                                    : fmt::format("[checkpoint] save {}: {}{}", url_, who, error.what());
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
  open_->live.reset();
  round_.conclude("published");
}

}  // namespace lockstep::checkpoint
