// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The entry of a dimension that is not split; nullptr means the same.
struct None {};
inline constexpr None none;

/// The entry of a dimension whose split is left open; see PartitionSpec::UNCONSTRAINED.
struct Unconstrained {};

/// The entry of one dimension in a PartitionSpec: the mesh axes that split it, the major one first.
struct PartitionEntry {
  std::vector<std::string> axes;
  bool constrained = true;  ///< false: the split is left open, and there are no axes

  PartitionEntry(None) {}
  PartitionEntry(std::nullptr_t) {}
  PartitionEntry(Unconstrained) : constrained(false) {}
  PartitionEntry(const char* axis) : axes{axis} {}
  PartitionEntry(std::string axis) : axes{std::move(axis)} {}
  PartitionEntry(std::initializer_list<const char*> axes) : axes(axes.begin(), axes.end()) {}
  PartitionEntry(std::vector<std::string> axes) : axes(std::move(axes)) {}
};

/// The mesh axes over which each dimension of an array is split. Dimensions without an entry are not split.
///   P()                          the whole array on every device
///   P("data")                    the first dimension over "data"
///   P(nullptr, "model")          the second dimension over "model"
///   P({"data", "model"}, none)   the first dimension over both axes
///   P(P::UNCONSTRAINED, "model") the second over "model"; the split of the first is left open
class PartitionSpec {
 public:
  /// The entry of a dimension whose split with_sharding_constraint leaves to the partitioner. The sharding of
  /// an array, or of an argument or result, cannot contain it: that is a ShardingError.
  static constexpr Unconstrained UNCONSTRAINED{};

  PartitionSpec() = default;
  PartitionSpec(PartitionEntry first);

  /// One dimension over several axes: P({"data", "model"}). P{"data", "model"} means the same, so write
  /// parentheses.
  explicit PartitionSpec(std::initializer_list<const char*> first);

  PartitionSpec(PartitionEntry first, PartitionEntry second);
  PartitionSpec(PartitionEntry first, PartitionEntry second, PartitionEntry third);
  PartitionSpec(PartitionEntry first, PartitionEntry second, PartitionEntry third, PartitionEntry fourth);
  PartitionSpec(PartitionEntry first, PartitionEntry second, PartitionEntry third, PartitionEntry fourth,
                PartitionEntry fifth);

  /// One entry for each dimension.
  static PartitionSpec from_entries(std::vector<std::vector<std::string>> entries);

  const std::vector<std::vector<std::string>>& entries() const { return entries_; }

  /// The axes of a dimension; none for dimensions after the last entry.
  const std::vector<std::string>& axes(std::size_t dimension) const;

  /// False for an unconstrained entry. True for a dimension without an entry.
  bool constrains(std::size_t dimension) const;

  /// The unconstrained dimensions, ascending.
  const std::vector<std::int64_t>& unconstrained() const { return unconstrained_; }

  /// Without empty entries at the end; unconstrained entries stay.
  PartitionSpec normalized() const;

  /// "P('data', None)"; P(('data', 'model'),) is written as "P(('data', 'model'))".
  std::string to_string() const;

  /// Compares the entries as written: P("data") and P("data", none) differ. Compare normalized() specs for
  /// equal meaning.
  bool operator==(const PartitionSpec&) const = default;

 private:
  template <class... Entries>
  void add(Entries&... entries);

  std::vector<std::vector<std::string>> entries_;
  std::vector<std::int64_t> unconstrained_;
};

using P = PartitionSpec;

inline std::string to_string(const PartitionSpec& spec) { return spec.to_string(); }

}  // namespace lockstep
