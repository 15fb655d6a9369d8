// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/opened.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "lockstep/base/digest.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/run_all.h"
#include "lockstep/checkpoint/tiles.h"
#include "lockstep/storage/url.h"

namespace lockstep::checkpoint {
namespace {

/// Ranges are read together if the gaps between them are at most this fraction of the data, and for object
/// stores, where each read takes long, also if they have fewer bytes than this.
constexpr std::size_t kGapPart = 16, kGapOfObjects = 1 << 20;

constexpr std::size_t kMappedAlignment = 64;

/// A large part is read by all threads, each some of its units.
std::vector<Stripe> stripes_of(const Part& part, DType dtype) {
  constexpr std::size_t kWorthSharing = std::size_t{32} << 20;
  const std::size_t bytes = static_cast<std::size_t>(volume(part.box)) * size_of(dtype);
  const std::size_t count = bytes < kWorthSharing ? 1 : kTasksAtATime;
  std::vector<Stripe> stripes;
  for (std::size_t i = 0; i < count; ++i) stripes.push_back({i, count});
  return stripes;
}

/// Requests mapped bytes at once, because touching them would read little by little. Bytes that cannot be
/// read in this way are read when touched.
void read_ahead(const std::byte* start, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(start) / kPage * kPage;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(start) + bytes;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& path, const Manifest& manifest) {
  std::string nearest;
  std::size_t least = path.size() / 2 + 2;
  for (const auto& [name, array] : manifest.arrays) {
    if (const std::size_t far = distance(path, name); far < least) {
      least = far;
      nearest = name;
    }
  }
  return nearest;
}

const ArrayInfo& Opened::array(const std::string& path) const {
  const auto found = manifest_.arrays.find(path);
  if (found != manifest_.arrays.end()) return found->second;
  const std::string nearest = nearest_name(path, manifest_);
  fail<CheckpointError>("[checkpoint] {} has no array {}{}", url_, path.empty() ? "at its root" : shown(path),
                        nearest.empty() ? "" : "; the nearest name there is " + shown(nearest));
}

const storage::Reader& Opened::file(std::size_t i) const {
  std::lock_guard lock(mutex_);
  File& file = files_[i];
  if (file.reader == nullptr) {
    const FileInfo& info = manifest_.files[i];
    std::unique_ptr<storage::Reader> reader;
    try {
      reader = store_->open(info.name);
    } catch (const StorageError& error) {
      fail<CheckpointError>("[checkpoint] {}: {}", url_, error.what());
    }
    if (reader->size() != info.bytes) {
      fail<CheckpointError>("[checkpoint] {} is damaged: it has {} bytes, expected {}", reader->url(),
                            reader->size(), info.bytes);
    }
    if (!info.header_sum.empty()) {
      std::string header(info.header_bytes, '\0');
      reader->read(0, std::as_writable_bytes(std::span(header)));
      bytes_read_ += header.size();
      if (digest(header) != info.header_sum)
        fail<CheckpointError>("[checkpoint] {} is damaged: the checksum of its header does not match",
                              reader->url());
    }
    file.reader = std::move(reader);
  }
  return *file.reader;
}

void Opened::check_files(const std::string& path, const Box& box) const {
  for (const Part& part : array(path).parts)
    if (intersection(part.box, box)) file(part.file);
}

std::shared_ptr<const std::byte> Opened::mapped(std::size_t i) const {
  const storage::Reader& reader = file(i);
  std::lock_guard lock(mutex_);
  File& file = files_[i];
  if (!std::exchange(file.asked_to_map, true)) file.mapped = reader.map();
  return file.mapped;
}

void Opened::check_tile(const std::string& path, const Part& part, std::size_t tile, const Box& box,
                        const Box& unit, const std::byte* memory, std::size_t element) const {
  if (part.sums.empty()) return;
  if (tile_sum(box, unit, memory, element) == part.sums.substr(tile * kSumDigits, kSumDigits)) return;
  fail<CheckpointError>(
      "[checkpoint] {} is damaged: the checksum of [{}] of {} does not match; restore an earlier step, and "
      "check the disk",
      file(part.file).url(), to_string(placed_in(part.box, box)), shown(path));
}

void Opened::read_part(const std::string& path, const ArrayInfo& array, const Part& part,
                       const Wanted& wanted, const Stripe& stripe) const {
  const auto common = intersection(part.box, wanted.box);
  if (!common) return;
  const std::size_t element = size_of(*array.dtype);
  const Shape shape = shape_of(part.box);
  const Box needed = counted_from(part.box, *common);
  const storage::Reader& reader = file(part.file);
  const bool remote = storage::locate(url_).is_object;
  const Shape tile = part.tile.empty() ? choose_tile(shape, element) : part.tile;
  auto scratch = storage::page_aligned_memory(0);
  std::size_t scratch_bytes = 0, number = 0;
  for_each_unit(shape, tile, element, [&](const Unit& unit) {
    if (!stripe.has(number++) || !intersection(unit.box, needed)) return true;
    std::vector<std::size_t> touched;
    for (std::size_t i = 0; i < unit.tiles.size(); ++i)
      if (intersection(unit.tiles[i], needed)) touched.push_back(i);

    // A unit that is wanted as a whole, and is contiguous in the destination, is read directly into it.
    const Box target = placed_in(part.box, unit.box);
    std::byte* memory = nullptr;
    if (contains(wanted.box, target)) {
      if (const auto at = only_stretch(target, wanted.box, element)) memory = wanted.into + *at;
    }
    const bool in_place = memory != nullptr;
    if (!in_place) {
      if (scratch_bytes < unit.bytes) {
        scratch = storage::page_aligned_memory(unit.bytes);
        scratch_bytes = unit.bytes;
      }
      memory = scratch.get();
    }

    // The stretches of the touched tiles, in the order of the file, and those that are near as one.
    std::vector<std::pair<std::size_t, std::size_t>> stretches;
    if (touched.size() == unit.tiles.size()) {
      stretches.emplace_back(0, unit.bytes);
    } else {
      for (std::size_t i : touched) {
        for_each_stretch(unit.tiles[i], unit.box, unit.tiles[i], element,
                         [&](std::size_t from, std::size_t, std::size_t bytes) {
                           stretches.emplace_back(from, from + bytes);
                         });
      }
      std::ranges::sort(stretches);
    }
    std::size_t from = stretches.front().first, to = stretches.front().second;
    auto flush = [&] {
      const std::span<std::byte> into(memory + from, to - from);
      if (wanted.once)
        reader.read_once(part.offset + unit.offset + from, into);
      else
        reader.read(part.offset + unit.offset + from, into);
      bytes_read_ += to - from;
    };
    for (const auto& [start, end] : stretches) {
      const std::size_t gap = remote ? kGapOfObjects : (to - from) / kGapPart;
      if (start > to + gap) {
        flush();
        from = start;
      }
      to = std::max(to, end);
    }
    flush();
    for (std::size_t i : touched)
      check_tile(path, part, unit.first_tile + i, unit.tiles[i], unit.box, memory, element);
    if (!in_place) copy_common(target, memory, wanted.box, wanted.into, element);
    return true;
  });
}

void Opened::read(const std::vector<Wanted>& wanted) const {
  struct Task {
    const Wanted* wanted;
    const ArrayInfo* array;
    const Part* part;
    Stripe stripe;
  };
  std::vector<Task> tasks;
  for (const Wanted& each : wanted) {
    const ArrayInfo& info = array(each.path);
    if (!info.dtype) {
      fail<CheckpointError>("[checkpoint] {}: {} is {}, a dtype that Lockstep does not have", url_,
                            shown(each.path), describe(info));
    }
    for (const Part& part : info.parts) {
      if (!intersection(part.box, each.box)) continue;
      for (const Stripe& stripe : stripes_of(part, *info.dtype))
        tasks.push_back({&each, &info, &part, stripe});
    }
  }
  // In the order of the files, as disks like it.
  std::ranges::stable_sort(tasks, [](const Task& a, const Task& b) {
    return std::pair(a.part->file, a.part->offset) < std::pair(b.part->file, b.part->offset);
  });
  run_all(tasks.size(), [&](std::size_t i) {
    read_part(tasks[i].wanted->path, *tasks[i].array, *tasks[i].part, *tasks[i].wanted, tasks[i].stripe);
  });
}

std::shared_ptr<const void> Opened::map(const std::string& path, const Box& box) const {
  const ArrayInfo& info = array(path);
  if (!info.dtype || volume(box) == 0) return nullptr;
  const std::size_t element = size_of(*info.dtype);
  for (const Part& part : info.parts) {
    if (!contains(part.box, box)) continue;
    const auto at = only_stretch(box, part.box, element);
    if (!at || (part.offset + *at) % kMappedAlignment != 0) return nullptr;
    const std::shared_ptr<const std::byte> memory = mapped(part.file);
    if (memory == nullptr) return nullptr;
    const Box needed = counted_from(part.box, box);
    const Shape shape = shape_of(part.box);
    const std::byte* start = memory.get() + part.offset;
    if (!part.sums.empty()) {
      const std::vector<Stripe> stripes = stripes_of(part, *info.dtype);
      run_all(stripes.size(), [&](std::size_t stripe) {
        std::size_t number = 0;
        for_each_unit(shape, part.tile, element, [&](const Unit& unit) {
          if (!stripes[stripe].has(number++) || !intersection(unit.box, needed)) return true;
          read_ahead(start + unit.offset, unit.bytes);
          for (std::size_t i = 0; i < unit.tiles.size(); ++i) {
            if (!intersection(unit.tiles[i], needed)) continue;
            check_tile(path, part, unit.first_tile + i, unit.tiles[i], unit.box, start + unit.offset,
                       element);
            bytes_read_ += static_cast<std::size_t>(volume(unit.tiles[i])) * element;
          }
          return true;
        });
      });
    }
    return {memory, start + *at};
  }
  return nullptr;
}

void Opened::verify(const std::function<void(std::uint64_t)>& on_read) const {
  for (std::size_t i = 0; i < manifest_.files.size(); ++i) file(i);
  struct Task {
    const std::string* path;
    const ArrayInfo* array;
    const Part* part;
    Stripe stripe;
  };
  std::vector<Task> tasks;
  for (const auto& [path, info] : manifest_.arrays) {
    if (!info.dtype) continue;
    for (const Part& part : info.parts)
      for (const Stripe& stripe : stripes_of(part, *info.dtype))
        tasks.push_back({&path, &info, &part, stripe});
  }
  std::ranges::stable_sort(tasks, [](const Task& a, const Task& b) {
    return std::pair(a.part->file, a.part->offset) < std::pair(b.part->file, b.part->offset);
  });
  std::mutex mutex;
  run_all(tasks.size(), [&](std::size_t k) {
    const Task& task = tasks[k];
    const std::size_t element = size_of(*task.array->dtype);
    const Shape shape = shape_of(task.part->box);
    const Shape tile = task.part->tile.empty() ? choose_tile(shape, element) : task.part->tile;
    auto memory = storage::page_aligned_memory(0);
    std::size_t memory_bytes = 0, number = 0;
    for_each_unit(shape, tile, element, [&](const Unit& unit) {
      if (!task.stripe.has(number++)) return true;
      if (memory_bytes < unit.bytes) {
        memory = storage::page_aligned_memory(unit.bytes);
        memory_bytes = unit.bytes;
      }
      file(task.part->file).read_once(task.part->offset + unit.offset, {memory.get(), unit.bytes});
      bytes_read_ += unit.bytes;
      for (std::size_t i = 0; i < unit.tiles.size(); ++i) {
        check_tile(*task.path, *task.part, unit.first_tile + i, unit.tiles[i], unit.box, memory.get(),
                   element);
      }
      if (on_read) {
        std::lock_guard lock(mutex);
        on_read(unit.bytes);
      }
      return true;
    });
  });
}

}  // namespace lockstep::checkpoint
