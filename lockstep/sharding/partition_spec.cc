#include "lockstep/sharding/partition_spec.h"

#include <fmt/ranges.h>

namespace lockstep {
namespace {

template <class... Entries>
std::vector<std::vector<std::string>> axes_of(Entries&&... entries) {
  std::vector<std::vector<std::string>> all;
  (all.push_back(std::move(entries.axes)), ...);
  return all;
}

}  // namespace

PartitionSpec::PartitionSpec(PartitionEntry a) : entries_(axes_of(a)) {}
PartitionSpec::PartitionSpec(std::initializer_list<const char*> first)
    : entries_{{first.begin(), first.end()}} {}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b) : entries_(axes_of(a, b)) {}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c)
    : entries_(axes_of(a, b, c)) {}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d)
    : entries_(axes_of(a, b, c, d)) {}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d,
                             PartitionEntry e)
    : entries_(axes_of(a, b, c, d, e)) {}

PartitionSpec PartitionSpec::from_entries(std::vector<std::vector<std::string>> entries) {
  PartitionSpec spec;
  spec.entries_ = std::move(entries);
  return spec;
}

const std::vector<std::string>& PartitionSpec::axes(std::size_t dimension) const {
  static const std::vector<std::string> kNone;
  return dimension < entries_.size() ? entries_[dimension] : kNone;
}

PartitionSpec PartitionSpec::normalized() const {
  PartitionSpec spec = *this;
  while (!spec.entries_.empty() && spec.entries_.back().empty()) spec.entries_.pop_back();
  return spec;
}

std::string PartitionSpec::to_string() const {
  std::string text;
  for (const auto& axes : entries_) {
    if (!text.empty()) text += ", ";
    if (axes.empty())
      text += "None";
    else if (axes.size() == 1)
      text += "'" + axes.front() + "'";
    else
      text += fmt::format("('{}')", fmt::join(axes, "', '"));
  }
  return "P(" + text + ")";
}

}  // namespace lockstep
