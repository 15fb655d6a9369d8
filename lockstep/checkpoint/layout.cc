// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/program/aval.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kRest = "...";

Shape shape_of_dimensions(const std::vector<Dimension>& dimensions) {
  Shape shape;
  for (const Dimension& dimension : dimensions) {
    std::int64_t size = 1;
    for (const Term& term : dimension) size *= term.full;
    shape.push_back(size);
  }
  return shape;
}

/// The boxes of a dimension's axes whose elements are in a range of it, from the term `first` on. `box` has
/// what is known of the other axes; `found` gets each as a whole.
void add_boxes(const Dimension& dimension, const Shape& axes, std::size_t first, IndexRange range, Box box,
               std::vector<Box>& found) {
  if (range.start >= range.limit) return;
  if (first == dimension.size()) {
    found.push_back(std::move(box));
    return;
  }
  std::int64_t inner = 1;
  for (std::size_t i = first + 1; i < dimension.size(); ++i) inner *= dimension[i].full;
  auto add = [&](std::int64_t from, std::int64_t to, IndexRange rest) {
    const Term& term = dimension[first];
    const std::int64_t size = term.axis < 0 ? 1 : axes[static_cast<std::size_t>(term.axis)];
    from = std::max(from, term.from);
    to = std::min(to, term.from + size);
    if (from >= to) return;
    Box with = box;
    if (term.axis >= 0) with[static_cast<std::size_t>(term.axis)] = {from - term.from, to - term.from};
    add_boxes(dimension, axes, first + 1, rest, std::move(with), found);
  };
  std::int64_t from = range.start / inner;
  const std::int64_t last = (range.limit - 1) / inner, start = range.start % inner;
  const std::int64_t limit = range.limit - last * inner;
  if (from == last) return add(from, from + 1, {start, limit});
  if (start != 0) {
    add(from, from + 1, {start, inner});
    ++from;
  }
  add(from, limit == inner ? last + 1 : last, {0, inner});
  if (limit != inner) add(last, last + 1, {0, limit});
}

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

void divide(const Link& link, const std::vector<std::size_t>& order, const Box& axes, std::size_t element,
            std::uint64_t most, std::vector<Box>& parts) {
  const auto bytes = static_cast<std::uint64_t>(volume(in_tensor(link, axes))) * element;
  const auto outer =
      std::ranges::find_if(order, [&](std::size_t axis) { return axes[axis].limit - axes[axis].start > 1; });
  if (bytes <= most || outer == order.end()) {
    parts.push_back(axes);
    return;
  }
  const std::int64_t middle = (axes[*outer].start + axes[*outer].limit) / 2;
  Box low = axes, high = axes;
  low[*outer].limit = high[*outer].start = middle;
  divide(link, order, low, element, most, parts);
  divide(link, order, high, element, most, parts);
}

}  // namespace

Link identity(const Shape& shape) {
  Link link{shape, {}, {}};
  for (std::size_t d = 0; d < shape.size(); ++d) link.tensor.push_back({{static_cast<int>(d), shape[d], 0}});
  link.array = link.tensor;
  return link;
}

Shape tensor_shape(const Link& link) { return shape_of_dimensions(link.tensor); }
Shape array_shape(const Link& link) { return shape_of_dimensions(link.array); }

std::vector<Box> axes_in_array(const Link& link, const Box& array) {
  std::vector<Box> boxes{whole(link.axes)};
  if (volume(boxes.front()) == 0) return {};
  for (std::size_t d = 0; d < link.array.size(); ++d) {
    std::vector<Box> next;
    for (Box& box : boxes) add_boxes(link.array[d], link.axes, 0, array[d], std::move(box), next);
    boxes = std::move(next);
  }
  return boxes;
}

Box in_tensor(const Link& link, const Box& axes) {
  Box box;
  for (const Dimension& dimension : link.tensor) {
    std::int64_t first = 0, last = 0;
    for (const Term& term : dimension) {
      const IndexRange range = term.axis < 0 ? IndexRange{0, 1} : axes[static_cast<std::size_t>(term.axis)];
      first = first * term.full + term.from + range.start;
      last = last * term.full + term.from + range.limit - 1;
    }
    box.push_back({first, last + 1});
  }
  return box;
}

Strides strides_in(const std::vector<Dimension>& dimensions, const Box& axes, const Box& memory) {
  Strides strides{std::vector<std::int64_t>(axes.size(), 0), 0};
  std::int64_t dense = 1;
  for (std::size_t d = dimensions.size(); d-- > 0;) {
    std::int64_t stride = dense;
    strides.offset -= memory[d].start * dense;
    for (std::size_t t = dimensions[d].size(); t-- > 0;) {
      const Term& term = dimensions[d][t];
      strides.offset += term.from * stride;
      if (term.axis >= 0) {
        const auto axis = static_cast<std::size_t>(term.axis);
        strides.by_axis[axis] = stride;
        strides.offset += axes[axis].start * stride;
      }
      stride *= term.full;
    }
    dense *= memory[d].limit - memory[d].start;
  }
  return strides;
}

std::vector<std::size_t> tensor_order(const Link& link) {
  std::vector<std::size_t> order;
  for (const Dimension& dimension : link.tensor)
    for (const Term& term : dimension)
      if (term.axis >= 0) order.push_back(static_cast<std::size_t>(term.axis));
  return order;
}

std::vector<Box> parts_of(const Link& link, const Box& axes, std::size_t element, std::uint64_t most) {
  std::vector<Box> parts;
  divide(link, tensor_order(link), axes, element, most, parts);
  return parts;
}

Layout::Layout(std::string text, const std::vector<std::string>& running)
    : text_(std::move(text)), running_(running.begin(), running.end()) {
  if (text_.empty()) {
    text_ = "... ->";
    for (const std::string& axis : running) text_ += " " + axis;
    text_ += " ...";
  }
  const std::size_t arrow = text_.find("->");
  if (arrow == std::string::npos) wrong("expected \"axes of the tensor -> axes of the array\"");
  tensor_ = parse(std::string_view(text_).substr(0, arrow), true);
  array_ = parse(std::string_view(text_).substr(arrow + 2), false);
  check();
}

void Layout::wrong(const std::string& what) const {
  fail<CheckpointError>("the layout \"{}\": {}", shown(text_), what);
}

std::vector<Layout::Names> Layout::parse(std::string_view side, bool is_tensor) {
  std::vector<Names> all;
  bool within = false;
  for (std::size_t at = 0; at < side.size();) {
    const char c = side[at];
    if (c == ' ') {
      ++at;
    } else if (c == '(') {
      if (std::exchange(within, true)) wrong("a ( within ( )");
      all.emplace_back();
      ++at;
    } else if (c == ')') {
      if (!std::exchange(within, false)) wrong("a ) without (");
      ++at;
    } else {
      const std::size_t end = std::min(side.find_first_of(" ()", at), side.size());
      const std::string_view term = side.substr(at, end - at);
      if (term == kRest && within) wrong("... within ( )");
      if (!within) all.emplace_back();
      if (term == kRest)
        all.back().push_back({std::string(kRest), "", 0});
      else if (term != "1")
        all.back().push_back(parse_term(term, is_tensor));
      at = end;
    }
  }
  if (within) wrong("a ( without )");
  return all;
}

Layout::Name Layout::parse_term(std::string_view term, bool is_tensor) {
  const std::size_t equals = term.find('=');
  const std::string axis(term.substr(0, equals));
  if (!is_name(axis))
    wrong(
        fmt::format("\"{}\" is not an axis: expected a name, 1, ..., name=index, name=index/count or "
                    "name=from:to",
                    shown(term)));
  if (equals == std::string_view::npos) return {axis, axis, 0};
  const std::string_view rest = term.substr(equals + 1);
  const std::string whole = axis + "'s whole";
  const std::size_t split = rest.find_first_of("/:");
  const auto first = number(rest.substr(0, split));
  const auto second =
      split == std::string_view::npos ? std::optional<std::int64_t>(0) : number(rest.substr(split + 1));
  if (!is_tensor || !first || !second)
    wrong(fmt::format("\"{}\": expected an index, index/count or from:to, of an axis of the tensor",
                      shown(term)));
  if (split == std::string_view::npos) {
    open_[whole] = *first + 1;
    return {"", whole, *first};
  }
  if (*first >= *second) wrong(fmt::format("\"{}\" has no elements", shown(term)));
  if (rest[split] == '/') {
    given_[whole] = *second;
    return {"", whole, *first};
  }
  open_[whole] = *second;
  given_[axis] = *second - *first;
  return {axis, whole, *first};
}

void Layout::check() const {
  std::map<std::string, int> tensor, array;
  for (const Names& dimension : tensor_)
    for (const Name& name : dimension)
      if (!name.axis.empty()) ++tensor[name.axis];
  for (const Names& dimension : array_)
    for (const Name& name : dimension) ++array[name.axis];
  for (const auto& [axis, count] : tensor) {
    if (count > 1 || running_.contains(axis)) wrong(axis + " is twice in the tensor");
    if (!array.contains(axis))
      wrong(fmt::format("{} is not in the array; to take one of its indices, write \"{}=0\"", axis, axis));
  }
  for (const auto& [axis, count] : array) {
    if (count > 1) wrong(axis + " is twice in the array");
    if (!tensor.contains(axis) && !running_.contains(axis))
      wrong(axis + " is neither in the tensor nor, as {" + axis + "}, in its name");
  }
  for (const std::string& axis : running_)
    if (!array.contains(axis))
      wrong("the array has no " + axis + ", of which the tensor's name has the index");
}

void Layout::set_rank_of_tensor(std::size_t rank) { set_rank(tensor_, "tensor", rank); }
void Layout::set_rank_of_array(std::size_t rank) { set_rank(array_, "array", rank); }

void Layout::set_rank(const std::vector<Names>& side, const char* what, std::size_t rank) {
  const bool has_rest = std::ranges::any_of(
      side, [](const Names& dimension) { return dimension.size() == 1 && dimension[0].axis == kRest; });
  const std::size_t least = side.size() - (has_rest ? 1 : 0);
  if (has_rest ? rank < least : rank != least) wrong_rank(what, rank);
  if (has_rest) expand(rank - least);
}

void Layout::wrong_rank(const char* what, std::size_t rank) const {
  wrong(fmt::format("the {} has {} dimension{}", what, rank, rank == 1 ? "" : "s"));
}

void Layout::expand(std::size_t axes) {
  for (std::vector<Names>* side : {&tensor_, &array_}) {
    std::vector<Names> all;
    for (Names& dimension : *side) {
      if (dimension.size() != 1 || dimension[0].axis != kRest) {
        all.push_back(std::move(dimension));
        continue;
      }
      for (std::size_t i = 0; i < axes; ++i) {
        const std::string axis = fmt::format("{}{}", kRest, i);
        all.push_back({{axis, axis, 0}});
      }
    }
    *side = std::move(all);
  }
}

void Layout::deduce(const Shape* tensor, const Shape* array, Sizes& sizes) const {
  sizes.insert(given_.begin(), given_.end());
  for (std::size_t known = sizes.size() + 1; known != sizes.size();) {
    known = sizes.size();
    if (tensor != nullptr) deduce(tensor_, *tensor, sizes, "tensor");
    if (array != nullptr) deduce(array_, *array, sizes, "array");
  }
}

void Layout::deduce(const std::vector<Names>& side, const Shape& shape, Sizes& sizes,
                    const char* what) const {
  if (shape.size() != side.size()) wrong_rank(what, shape.size());
  for (std::size_t d = 0; d < side.size(); ++d) {
    std::int64_t product = 1;
    const std::string* unknown = nullptr;
    std::size_t count = 0;
    for (const Name& name : side[d]) {
      const auto size = sizes.find(name.full);
      if (size == sizes.end()) {
        ++count;
        unknown = &name.full;
      } else if (__builtin_mul_overflow(product, size->second, &product)) {
        wrong("its sizes are too large");
      }
    }
    auto refuse = [&] {
      std::string factors;
      for (const Name& name : side[d]) {
        const auto size = sizes.find(name.full);
        factors += fmt::format("{}{}", factors.empty() ? "" : ", ", name.full);
        if (size != sizes.end()) factors += fmt::format("={}", size->second);
      }
      wrong(fmt::format("dimension {} of the {} {} has the size {}, which does not fit {}", d, what,
                        lockstep::to_string(shape), shape[d], factors.empty() ? "1" : factors));
    };
    if (count == 0 && product != shape[d]) refuse();
    if (count != 1) continue;
    if (product == 0 || shape[d] % product != 0) refuse();
    sizes[*unknown] = shape[d] / product;
  }
}

Link Layout::link(const Sizes& sizes, const Sizes& at) const {
  auto size_of_name = [&](const std::string& name) {
    const auto size = sizes.find(name);
    if (size != sizes.end()) return size->second;
    wrong(fmt::format("the size of {} is not known; give it in `sizes`", name));
  };
  Link link;
  std::map<std::string, int> axes;
  for (const Names& dimension : tensor_) {
    Dimension& terms = link.tensor.emplace_back();
    for (const Name& name : dimension) {
      Term term{-1, size_of_name(name.full), name.from};
      std::int64_t count = 1;
      if (!name.axis.empty()) {
        count = size_of_name(name.axis);
        term.axis = axes[name.axis] = static_cast<int>(link.axes.size());
        link.axes.push_back(count);
      }
      if (term.from > term.full - count)
        wrong(fmt::format("there is no index {} of {}, whose size is {}", term.from + count - 1, name.full,
                          term.full));
      terms.push_back(term);
    }
  }
  for (const Names& dimension : array_) {
    Dimension& terms = link.array.emplace_back();
    for (const Name& name : dimension) {
      const std::int64_t size = size_of_name(name.axis);
      const auto axis = axes.find(name.axis);
      if (axis != axes.end())
        terms.push_back({axis->second, size, 0});
      else
        terms.push_back({-1, size, at.at(name.axis)});
    }
  }
  return link;
}

}  // namespace lockstep::checkpoint
