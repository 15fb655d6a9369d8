#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// For one dimension of an array, the mesh axes that it is split over, major to minor; none: it is whole.
class DimensionSpec {
 public:
  DimensionSpec(std::nullptr_t) {}
  DimensionSpec(const char* axis) : axes_{axis} {}
  DimensionSpec(std::string axis) : axes_{std::move(axis)} {}
  DimensionSpec(std::initializer_list<const char*> axes) : axes_(axes.begin(), axes.end()) {}
  explicit DimensionSpec(std::vector<std::string> axes) : axes_(std::move(axes)) {}

  const std::vector<std::string>& axes() const { return axes_; }
  bool operator==(const DimensionSpec&) const = default;

 private:
  std::vector<std::string> axes_;
};

/// How an array is split over a mesh: an entry for each dimension, in order; missing ones are whole.
///   P("data")             rows split over data
///   P(nullptr, "model")   columns split over model
///   P({"data", "model"})  rows split over both
///   P()                   every device has all of it
class PartitionSpec {
 public:
  PartitionSpec() = default;
  template <class... Rest>
  explicit PartitionSpec(DimensionSpec first, Rest&&... rest)
      : entries_{std::move(first), DimensionSpec(std::forward<Rest>(rest))...} {
    trim();
  }
  explicit PartitionSpec(std::vector<DimensionSpec> entries) : entries_(std::move(entries)) { trim(); }

  /// Without trailing whole dimensions.
  const std::vector<DimensionSpec>& entries() const { return entries_; }

  /// The axes of a dimension; none for a dimension past the last entry.
  const std::vector<std::string>& axes(std::size_t dimension) const;

  bool operator==(const PartitionSpec&) const = default;

  /// "P('data', None, ('x', 'y'))".
  std::string to_string() const;

 private:
  void trim();
  std::vector<DimensionSpec> entries_;
};

using P = PartitionSpec;

}  // namespace lockstep
