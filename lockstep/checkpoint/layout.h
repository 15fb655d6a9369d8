// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/box.h"

/// Where the elements of a tensor of a file are in an array of a tree, as hf.h describes it: "(h d) i -> i h
/// d".
namespace lockstep::checkpoint {

/// A factor of a dimension: an axis from an index on, or one index only.
struct Term {
  int axis = -1;          ///< of Link::axes; -1: one index
  std::int64_t full = 1;  ///< how many indices the factor has
  std::int64_t from = 0;  ///< the first one, or the only one
};
using Dimension = std::vector<Term>;  ///< outermost first

/// One tensor and one array: element i of each axis is at `from + i` of the term that has it on each side.
struct Link {
  Shape axes;
  std::vector<Dimension> tensor, array;
};

/// The same elements at the same indices.
Link identity(const Shape& shape);

/// The shapes of the whole tensor and of the whole array.
Shape tensor_shape(const Link& link);
Shape array_shape(const Link& link);

/// Boxes of the axes whose elements are those of the link in a box of the array.
std::vector<Box> axes_in_array(const Link& link, const Box& array);

/// The least box of the tensor that has these elements.
Box in_tensor(const Link& link, const Box& axes);

/// The strides of the axes in dense row-major memory, and the offset of the first element, in elements.
struct Strides {
  std::vector<std::int64_t> by_axis;
  std::int64_t offset = 0;
};

/// In memory that has this box of the dimensions; `axes` is where they begin.
Strides strides_in(const std::vector<Dimension>& dimensions, const Box& axes, const Box& memory);

/// The axes in the order of the tensor, outermost first.
std::vector<std::size_t> tensor_order(const Link& link);

/// The box divided into parts, in the order of the tensor, with at most so many bytes of it each.
std::vector<Box> parts_of(const Link& link, const Box& axes, std::size_t element, std::uint64_t most);

/// The sizes of axes by name.
using Sizes = std::map<std::string, std::int64_t>;

/// The text of a layout. Functions throw CheckpointError that begins with the text.
class Layout {
 public:
  /// `running`: the axes whose indices are in the tensors' names. Without a text the axes of array and tensor
  /// are the same, after those.
  Layout(std::string text, const std::vector<std::string>& running);

  /// Gives "..." its axes. Do it first.
  void set_rank_of_tensor(std::size_t rank);
  void set_rank_of_array(std::size_t rank);

  /// Adds the sizes that follow from those that are known.
  void deduce(const Shape* tensor, const Shape* array, Sizes& sizes) const;

  /// The link of the tensor at these indices of the running axes. Throws if a size is unknown.
  Link link(const Sizes& sizes, const Sizes& at) const;

  /// The names, in `sizes`, of what only the file knows: how many indices the whole tensor has along terms
  /// "e=3" and "o=0:8"; with the least number there can be.
  const Sizes& open() const { return open_; }

 private:
  struct Name {
    std::string axis;  ///< "": one index
    std::string full;  ///< the name of the number of indices
    std::int64_t from = 0;
  };
  using Names = std::vector<Name>;
  std::vector<Names> parse(std::string_view side, bool is_tensor);
  Name parse_term(std::string_view term, bool is_tensor);
  void set_rank(const std::vector<Names>& side, const char* what, std::size_t rank);
  void expand(std::size_t axes);
  void check() const;
  void deduce(const std::vector<Names>& side, const Shape& shape, Sizes& sizes, const char* what) const;
  [[noreturn]] void wrong(const std::string& what) const;
  [[noreturn]] void wrong_rank(const char* what, std::size_t rank) const;

  std::string text_;
  std::set<std::string> running_;
  std::vector<Names> tensor_, array_;
  Sizes given_, open_;
};

}  // namespace lockstep::checkpoint
