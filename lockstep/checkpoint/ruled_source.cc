// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/ruled_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/elements.h"
#include "lockstep/checkpoint/names.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/run_all.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMostShown = 5;

/// The memory for what is read before its order or dtype is changed, of each thread.
constexpr std::uint64_t kMostRead = std::uint64_t{16} << 20;

/// Where the elements of a box of the axes are in the tensor, and where in memory that has a box of the
/// array; `at` if they are the same dense bytes in both: their offset in the latter, in elements.
struct Spot {
  Box tensor;
  Strides from, to;
  std::optional<std::int64_t> at;
};

Spot spot_of(const Link& link, const Box& axes, const Box& array) {
  Spot spot{in_tensor(link, axes), {}, {}, std::nullopt};
  spot.from = strides_in(link.tensor, axes, spot.tensor);
  spot.to = strides_in(link.array, axes, array);
  if (volume(spot.tensor) != volume(axes)) return spot;
  for (std::size_t a = 0; a < axes.size(); ++a)
    if (axes[a].limit - axes[a].start > 1 && spot.from.by_axis[a] != spot.to.by_axis[a]) return spot;
  spot.at = spot.to.offset;
  return spot;
}

std::string missing_text(const std::string& url, const std::vector<std::string>& missing) {
  std::string text = fmt::format("[checkpoint] {} lacks tensors for the tree:", url);
  for (std::size_t i = 0; i < std::min(missing.size(), kMostShown); ++i) text += "\n  " + missing[i];
  if (missing.size() > kMostShown) text += fmt::format("\n  and {} more", missing.size() - kMostShown);
  return text;
}

}  // namespace

RuledSource::RuledSource(std::shared_ptr<const Source> tensors, const Contents& contents,
                         const hf::Rules& rules, const RestoreOptions& options)
    : tensors_(std::move(tensors)) {
  manifest_.nonce = tensors_->manifest().nonce;
  for (const auto& [path, value] : contents.values)
    manifest_.values[options.rename ? options.rename(path) : path] = value;
  std::vector<std::string> missing;
  for (const Leaf& leaf : contents.arrays)
    find(options.rename ? options.rename(leaf.path) : leaf.path, leaf, rules, missing);
  if (options.partial) return;
  if (!missing.empty()) throw CheckpointError(internal::shown_message(missing_text(url(), missing)));
  std::set<std::string> used;
  for (const auto& [path, entry] : entries_)
    for (const Tensor& tensor : entry.tensors) used.insert(tensor.name);
  std::vector<std::string> left;
  for (const auto& [name, info] : tensors_->manifest().arrays)
    if (!used.contains(name) && !ignores(rules, name)) left.push_back(shown(name) + ", " + describe(info));
  if (left.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(left.size(), kMostShown); ++i) text += "\n  " + left[i];
  if (left.size() > kMostShown) text += fmt::format("\n  and {} more", left.size() - kMostShown);
  fail<CheckpointError>(
      "[checkpoint] {} has tensors for which neither the tree nor a rule has a place; name them in "
      "Rules::ignore, or set `partial`:{}",
      url(), text);
}

void RuledSource::find(const std::string& path, const Leaf& leaf, const hf::Rules& rules,
                       std::vector<std::string>& missing) {
  const Named found = named(rules, path);
  const auto& arrays = tensors_->manifest().arrays;
  const std::string shown_path = path.empty() ? "the root" : shown(path);
  const std::size_t before = missing.size();
  auto miss = [&](const std::string& tensor) {
    std::string nearest;
    if (missing.size() < kMostShown) nearest = nearest_name(tensor, tensors_->manifest());
    missing.push_back(fmt::format("{}: no {} ({}{})", shown_path, shown(tensor), found.why,
                                  nearest.empty() ? "" : "; the nearest name there is " + shown(nearest)));
  };
  try {
    const TensorName name(found.tensor, found.rule == 0);
    Layout layout(found.layout, name.axes());
    std::vector<std::size_t> at(name.running().size(), 0);
    const std::string first = name.at(at);
    const auto tensor = arrays.find(first);
    if (tensor == arrays.end()) return miss(first);
    const ArrayInfo& info = tensor->second;
    if (!info.dtype)
      fail<CheckpointError>("{} is {}, a dtype that Lockstep does not have", shown(first), describe(info));
    layout.set_rank_of_tensor(info.shape.size());
    Sizes sizes(found.sizes.begin(), found.sizes.end());
    for (const TensorName::Running& running : name.running())
      if (!running.texts.empty()) sizes[running.axis] = std::ssize(running.texts);
    const std::optional<Shape> like = leaf.array.valid() ? std::optional(leaf.array.shape()) : std::nullopt;
    layout.deduce(&info.shape, like ? &*like : nullptr, sizes);
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (sizes.contains(name.running()[i].axis)) continue;
      while (arrays.contains(name.at(at))) ++at[i];
      sizes[name.running()[i].axis] = static_cast<std::int64_t>(at[i]);
      at[i] = 0;
    }
    layout.deduce(&info.shape, like ? &*like : nullptr, sizes);

    Entry entry{*info.dtype, {}};
    for (bool more = true; more;) {
      const std::string each = name.at(at);
      Sizes indices;
      for (std::size_t i = 0; i < at.size(); ++i)
        indices[name.running()[i].axis] = static_cast<std::int64_t>(at[i]);
      const auto one = arrays.find(each);
      if (one == arrays.end()) {
        miss(each);
      } else if (one->second.dtype != info.dtype || one->second.shape != info.shape) {
        fail<CheckpointError>("{} is {}, but {} is {}", shown(each), describe(one->second), shown(first),
                              describe(info));
      } else {
        entry.tensors.push_back({each, layout.link(sizes, indices)});
      }
      more = false;
      for (std::size_t i = at.size(); i-- > 0 && !more;) {
        more = static_cast<std::int64_t>(++at[i]) < sizes.at(name.running()[i].axis);
        if (!more) at[i] = 0;
      }
    }
    if (missing.size() > before) return;

    ArrayInfo array{info.dtype, info.dtype_name, array_shape(entry.tensors.front().link), false, {}};
    if (like) {
      const DType wanted = leaf.array.dtype();
      if (*like != array.shape || !can_convert(*info.dtype, wanted)) {
        fail<CheckpointError>("{} is {}{}, but the tree to restore has {} there", shown(first),
                              describe(info),
                              array.shape == info.shape
                                  ? ""
                                  : ", which makes " + lockstep::to_string(Aval{*info.dtype, array.shape}),
                              lockstep::to_string(Aval{wanted, *like}));
      }
      array.dtype = wanted;
    }
    manifest_.arrays[path] = std::move(array);
    entries_[path] = std::move(entry);
  } catch (const CheckpointError& error) {
    fail<CheckpointError>("[checkpoint] {}: {} ({}): {}", url(), shown_path, found.why, error.what());
  }
}

const ArrayInfo& RuledSource::array(const std::string& path) const {
  const auto found = manifest_.arrays.find(path);
  if (found != manifest_.arrays.end()) return found->second;
  fail_internally("[checkpoint] no tensor was found for {}", shown(path));
}

void RuledSource::check_files(const std::string& path, const Box& box) const {
  for (const Tensor& tensor : entries_.at(path).tensors)
    for (const Box& axes : axes_in_array(tensor.link, box))
      tensors_->check_files(tensor.name, in_tensor(tensor.link, axes));
}

void RuledSource::read(const std::vector<Wanted>& wanted) const {
  struct Move {
    const Tensor* tensor;
    const Wanted* wanted;
    Box axes;
    DType from, to;
  };
  std::vector<Wanted> direct;
  std::vector<Move> moves;
  for (const Wanted& each : wanted) {
    const Entry& entry = entries_.at(each.path);
    const DType dtype = *array(each.path).dtype;
    for (const Tensor& tensor : entry.tensors) {
      for (const Box& axes : axes_in_array(tensor.link, each.box)) {
        const Spot there = spot_of(tensor.link, axes, each.box);
        if (there.at && entry.dtype == dtype) {
          direct.push_back({tensor.name, there.tensor,
                            each.into + static_cast<std::size_t>(*there.at) * size_of(dtype), each.once});
          continue;
        }
        const std::size_t element = std::max(size_of(entry.dtype), size_of(dtype));
        for (Box& part : parts_of(tensor.link, axes, element, kMostRead))
          moves.push_back({&tensor, &each, std::move(part), entry.dtype, dtype});
      }
    }
  }
  tensors_->read(direct);
  run_all(moves.size(), [&](std::size_t i) {
    const Move& move = moves[i];
    const Spot there = spot_of(move.tensor->link, move.axes, move.wanted->box);
    const auto count = static_cast<std::size_t>(volume(there.tensor));
    std::vector<std::byte> memory(count * size_of(move.from));
    tensors_->read({{move.tensor->name, there.tensor, memory.data(), move.wanted->once}});
    const std::size_t element = size_of(move.to);
    if (move.from != move.to) {
      std::vector<std::byte> converted(count * element);
      convert(memory.data(), move.from, converted.data(), move.to, count);
      memory = std::move(converted);
    }
    copy_elements(shape_of(move.axes), element,
                  memory.data() + static_cast<std::size_t>(there.from.offset) * element, there.from.by_axis,
                  move.wanted->into + static_cast<std::size_t>(there.to.offset) * element, there.to.by_axis);
  });
}

std::shared_ptr<const void> RuledSource::map(const std::string& path, const Box& box) const {
  const Entry& entry = entries_.at(path);
  if (entry.dtype != *array(path).dtype) return nullptr;
  for (const Tensor& tensor : entry.tensors) {
    const std::vector<Box> boxes = axes_in_array(tensor.link, box);
    if (boxes.empty()) continue;
    if (volume(boxes.front()) != volume(box)) return nullptr;
    const Spot there = spot_of(tensor.link, boxes.front(), box);
    return there.at ? tensors_->map(tensor.name, there.tensor) : nullptr;
  }
  return nullptr;
}

}  // namespace lockstep::checkpoint
