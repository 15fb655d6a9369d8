// SPDX-License-Identifier: Apache-2.0
// The part of Lowering that prevents updates from overwriting data from which they are still being computed.

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include <fmt/format.h>

#include "lockstep/program/lowering.h"

namespace lockstep::ir {

namespace {

/// 12 for "%12"; -1 for other names.
int index_of(const std::string& name) {
  int index = -1;
  const char* end = name.data() + name.size();
  if (name.size() < 2 || std::from_chars(name.data() + 1, end, index).ptr != end) return -1;
  return index;
}

}  // namespace

int Lowering::number_of(const std::string& value) {
  const int next = static_cast<int>(origins_.size());
  int* number = nullptr;
  if (const int index = index_of(value); index >= 0) {
    if (static_cast<std::size_t>(index) >= numbers_.size())
      numbers_.resize(static_cast<std::size_t>(index) + 1024, -1);
    number = &numbers_[static_cast<std::size_t>(index)];
  } else {
    number = &other_numbers_.try_emplace(value, -1).first->second;
  }
  if (*number < 0) {
    *number = next;
    origins_.emplace_back();
  }
  return *number;
}

std::optional<int> Lowering::known_number(const std::string& value) const {
  int number = -1;
  if (const int index = index_of(value); index >= 0) {
    if (static_cast<std::size_t>(index) < numbers_.size()) number = numbers_[static_cast<std::size_t>(index)];
  } else if (const auto found = other_numbers_.find(value); found != other_numbers_.end()) {
    number = found->second;
  }
  return number < 0 ? std::nullopt : std::optional(number);
}

void Lowering::remember(const Equation& equation, const Names& results) {
  if (!for_cpu_) return;
  const std::size_t first = operands_.size(), count = equation.inputs.size();
  for (std::size_t i = 0; i < count; ++i) operands_.push_back(number_of(operand(equation, i)));
  const int order = remembered_++;
  for (std::size_t k = 0; k < results.size(); ++k) {
    Origin& origin = origins_[static_cast<std::size_t>(number_of(results[k]))];
    if (origin.order >= 0) continue;  // what a program within computed has its own
    const Aval& result = result_aval(equation, k);
    const std::int64_t elements = result.num_elements();
    origin = {order, first, count, 0};
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 64); ++i) {
      const Aval& aval = operand_aval(equation, i);
      if (aval.dtype == result.dtype && aval.num_elements() == elements)
        origin.views |= std::uint64_t{1} << i;
    }
  }
}

/// Whether the target, or something that it may be another view of, takes part in computing the value.
bool Lowering::is_computed_from(const std::string& value, const std::string& target) const {
  // Where there are more, it is taken for granted.
  constexpr std::size_t kMostVisited = 10'000;
  using Set = std::unordered_set<int>;
  const std::optional<int> from = known_number(target), to = known_number(value);
  if (!to || !from) return value == target;
  int oldest = -1;
  auto visit = [&](int start, bool views_only, auto&& stop) {
    Set seen = {start};
    std::vector<int> due = {start};
    while (!due.empty()) {
      const int number = due.back();
      due.pop_back();
      if (stop(number) || seen.size() > kMostVisited) return true;
      const Origin& origin = origins_[static_cast<std::size_t>(number)];
      if (origin.order < oldest) continue;
      for (std::size_t i = 0; i < origin.count; ++i) {
        if (views_only && (i >= 64 || (origin.views >> i & 1) == 0)) continue;
        const int operand = operands_[origin.first + i];
        if (seen.insert(operand).second) due.push_back(operand);
      }
    }
    return false;
  };
  Set views;
  int first = remembered_;
  if (visit(*from, /*views_only=*/true, [&](int number) {
        views.insert(number);
        first = std::min(first, origins_[static_cast<std::size_t>(number)].order);
        return false;
      }))
    return true;
  oldest = first;
  return visit(*to, /*views_only=*/false, [&](int number) { return views.contains(number); });
}

Lowering::Names Lowering::operands_of_update(const Equation& equation, std::size_t update) {
  Names names;
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) names.push_back(operand(equation, i));
  if (!for_cpu_ || !is_computed_from(names[update], names[0])) return names;
  const std::string type = operand_type(equation, update), function = fresh().substr(1), value = fresh();
  functions_ += fmt::format(
      "  func.func private @computed_{0}(%x: {1}) -> {1} {{\n    return %x : {1}\n  }}\n", function, type);
  line(fmt::format(
      "{} = call @computed_{}({}) {{mhlo.frontend_attributes = {{inlineable = \"false\"}}}} : ({}) -> {}",
      value, function, names[update], type, type));
  names[update] = value;
  return names;
}

}  // namespace lockstep::ir
