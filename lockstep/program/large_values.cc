// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/large_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "lockstep/program/primitive.h"

namespace lockstep::ir {

std::vector<LargeValue> largest_values(const Program& program) {
  constexpr std::size_t kMost = 8;
  std::vector<LargeValue> all;
  const auto add = [&](const Aval& aval, std::string operation, std::string site) {
    all.push_back({aval.bytes(), to_string(aval), std::move(operation), std::move(site)});
  };
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    add(program.aval(program.inputs[i]), fmt::format("argument {}", i), "");
  const std::function<void(const Program&)> visit = [&](const Program& holder) {
    for (const Equation& equation : holder.equations) {
      for (const Var output : equation.outputs)
        add(holder.aval(output), std::string(equation.primitive->name), equation.site.to_string());
      for (const NestedProgram& nested : programs_of(equation)) visit(*nested.program);
    }
  };
  visit(program);
  std::ranges::stable_sort(all, [](const LargeValue& a, const LargeValue& b) { return a.bytes > b.bytes; });
  std::set<std::string> told;
  std::erase_if(all, [&](const LargeValue& value) {
    return !told.insert(value.type + value.operation + value.site).second;
  });
  all.resize(std::min(all.size(), kMost));
  return all;
}

}  // namespace lockstep::ir
