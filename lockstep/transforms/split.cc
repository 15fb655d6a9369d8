// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/split.h"

#include <algorithm>

#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/replay.h"

namespace lockstep::transforms {

Split split(const ir::Program& program, const std::vector<bool>& known) {
  check_flags("split", program, known);
  std::vector<bool> is_known(program.variables.size());
  auto at = [](ir::Var var) { return static_cast<std::size_t>(var); };
  for (std::size_t i = 0; i < known.size(); ++i) is_known[at(program.inputs[i])] = known[i];
  std::vector<bool> early, late;  // which equations
  for (const ir::Equation& equation : program.equations) {
    const bool all = std::ranges::all_of(equation.inputs, [&](ir::Var var) { return is_known[at(var)]; });
    early.push_back(all);
    late.push_back(!all);
    for (ir::Var var : equation.outputs) is_known[at(var)] = all;
  }

  Split out;
  std::vector<ir::Var> passed, early_outputs, late_outputs;
  std::vector<bool> is_passed(program.variables.size());
  auto pass = [&](ir::Var var) {
    if (!is_known[at(var)] || is_passed[at(var)]) return;
    is_passed[at(var)] = true;
    passed.push_back(var);
  };
  for (std::size_t e = 0; e < late.size(); ++e)
    if (late[e]) std::ranges::for_each(program.equations[e].inputs, pass);
  for (ir::Var var : program.outputs) {
    out.output_known.push_back(is_known[at(var)]);
    (is_known[at(var)] ? early_outputs : late_outputs).push_back(var);
  }
  out.num_passed = passed.size();
  early_outputs.insert(early_outputs.end(), passed.begin(), passed.end());

  std::vector<ir::Var> first, second = passed;
  for (std::size_t i = 0; i < known.size(); ++i) (known[i] ? first : second).push_back(program.inputs[i]);
  out.before = part_of(program, std::move(first), std::move(early_outputs), early);
  out.after = part_of(program, std::move(second), std::move(late_outputs), late);
  return out;
}

}  // namespace lockstep::transforms
