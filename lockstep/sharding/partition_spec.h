#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// The entry of a dimension that is not split; nullptr says the same.
struct None {};
inline constexpr None none;

/// The entry of a dimension of which nothing is said; see PartitionSpec::UNCONSTRAINED.
struct Unconstrained {};

/// What a PartitionSpec says of one dimension: the mesh axes that split it, the first being the major one.
struct PartitionEntry {
  std::vector<std::string> axes;
  bool constrained = true;  ///< else the axes are none

  PartitionEntry(None) {}
  PartitionEntry(std::nullptr_t) {}
  PartitionEntry(Unconstrained) : constrained(false) {}
  PartitionEntry(const char* axis) : axes{axis} {}
  PartitionEntry(std::string axis) : axes{std::move(axis)} {}
  PartitionEntry(std::initializer_list<const char*> axes) : axes(axes.begin(), axes.end()) {}
  PartitionEntry(std::vector<std::string> axes) : axes(std::move(axes)) {}
};

/// Over which mesh axes each dimension of an array is split. Dimensions without an entry are not.
///   P()                          the whole array on every device
///   P("data")                    the first dimension over "data"
///   P(nullptr, "model")          the second dimension over "model"
///   P({"data", "model"}, none)   the first dimension over both axes
///   P(P::UNCONSTRAINED, "model") the second over "model", the first however it comes
class PartitionSpec {
 public:
  /// The entry of a dimension that with_sharding_constraint leaves to what is around it. An array cannot lie
  /// so, nor can an argument or result be asked for so: that is a ShardingError.
  static constexpr Unconstrained UNCONSTRAINED{};

  PartitionSpec() = default;
  PartitionSpec(PartitionEntry first);

  /// One dimension over several axes: P({"data", "model"}). P{"data", "model"} means the same: use
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

  /// The axes of a dimension; none beyond the entries.
  const std::vector<std::string>& axes(std::size_t dimension) const;

  /// Whether something is said of the dimension; also where there is no entry.
  bool constrains(std::size_t dimension) const;

  /// The dimensions of which nothing is said, rising.
  const std::vector<std::int64_t>& unconstrained() const { return unconstrained_; }

  /// Without entries of no axes at the end, but for unconstrained ones.
  PartitionSpec normalized() const;

  /// "P('data', None)", "P(('data', 'model'),)" as "P(('data', 'model'))".
  std::string to_string() const;

  /// As written: P("data") and P("data", none) differ; normalized() ones compare by meaning.
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
