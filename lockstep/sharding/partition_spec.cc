// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/partition_spec.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep {
template <class... Entries>
void PartitionSpec::add(Entries&... entries) {
  auto add = [this](PartitionEntry& entry) {
    if (!entry.constrained) unconstrained_.push_back(static_cast<std::int64_t>(entries_.size()));
    entries_.push_back(std::move(entry.axes));
  };
  (add(entries), ...);
}

PartitionSpec::PartitionSpec(PartitionEntry a) { add(a); }
PartitionSpec::PartitionSpec(std::initializer_list<const char*> first)
    : entries_{{first.begin(), first.end()}} {}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b) { add(a, b); }
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c) { add(a, b, c); }
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d) {
  add(a, b, c, d);
}
PartitionSpec::PartitionSpec(PartitionEntry a, PartitionEntry b, PartitionEntry c, PartitionEntry d,
                             PartitionEntry e) {
  add(a, b, c, d, e);
}

PartitionSpec PartitionSpec::from_entries(std::vector<std::vector<std::string>> entries) {
  PartitionSpec spec;
  spec.entries_ = std::move(entries);
  return spec;
}

const std::vector<std::string>& PartitionSpec::axes(std::size_t dimension) const {
  static const std::vector<std::string> kNone;
  return dimension < entries_.size() ? entries_[dimension] : kNone;
}

bool PartitionSpec::constrains(std::size_t dimension) const {
  return !std::ranges::binary_search(unconstrained_, static_cast<std::int64_t>(dimension));
}

PartitionSpec PartitionSpec::normalized() const {
  PartitionSpec spec = *this;
  while (!spec.entries_.empty() && spec.entries_.back().empty() && constrains(spec.entries_.size() - 1))
    spec.entries_.pop_back();
  return spec;
}

std::string PartitionSpec::to_string() const {
  std::string text;
  for (std::size_t d = 0; d < entries_.size(); ++d) {
    const auto& axes = entries_[d];
    if (!text.empty()) text += ", ";
    if (!constrains(d))
      text += "UNCONSTRAINED";
    else if (axes.empty())
      text += "None";
    else if (axes.size() == 1)
      text += "'" + axes.front() + "'";
    else
      text += fmt::format("('{}')", fmt::join(axes, "', '"));
  }
  return "P(" + text + ")";
}

}  // namespace lockstep
