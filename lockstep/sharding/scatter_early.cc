// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/scatter_early.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/cost.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"

namespace lockstep::sharding {
namespace {

/// One program; those that it holds have one each.
class ScatteringEarly {
 public:
  explicit ScatteringEarly(const ir::Program& program) : program_(program), uses_(program) {}

  /// Its equations in their new order.
  std::vector<std::size_t> order() {
    made_by_.resize(program_.variables.size());
    for (std::size_t e = 0; e < program_.equations.size(); ++e)
      for (ir::Var var : program_.equations[e].outputs) made_by_[static_cast<std::size_t>(var)] = e;
    behind_.resize(program_.equations.size());
    std::iota(behind_.begin(), behind_.end(), 0);
    std::vector<std::vector<std::size_t>> moved(program_.equations.size());  // by what they come behind
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      if (!moves(e)) continue;
      const Group group = group_of(e);
      if (!group.last) continue;
      behind_[e] = *group.last;
      moved[*group.last].insert(moved[*group.last].end(), group.members.begin(), group.members.end());
    }
    std::vector<std::size_t> order;
    std::vector<bool> is_written(program_.equations.size());
    const auto write = [&](std::size_t e) {
      if (!is_written[e]) order.push_back(e);
      is_written[e] = true;
    };
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      write(e);
      std::ranges::for_each(moved[e], write);
    }
    return order;
  }

 private:
  bool moves(std::size_t e) const {
    const ir::Equation& equation = program_.equations[e];
    return equation.primitive == &ir::psum_scatter_p() && equation.origin == ir::Origin::kPartitioner;
  }

  /// A reduce-scatter, and what is between it and the computation of its terms, such as a product with the
  /// learning rate. All of it can be done behind `last`, an equation that stays where it is.
  struct Group {
    std::vector<std::size_t> members;  // in order
    std::optional<std::size_t> last;
  };

  Group group_of(std::size_t scatter) const {
    Group group;
    std::vector<std::size_t> open = {scatter};
    std::vector<bool> is_member(program_.equations.size());
    is_member[scatter] = true;
    while (!open.empty()) {
      const std::size_t e = open.back();
      open.pop_back();
      group.members.push_back(e);
      for (ir::Var var : program_.equations[e].inputs) {
        const auto maker = made_by_[static_cast<std::size_t>(var)];
        if (!maker || is_member[*maker]) continue;
        const ir::Equation& equation = program_.equations[*maker];
        const auto serves_it = [&](ir::Var output) {
          constexpr std::int64_t kSmall = 1 << 12;
          return program_.aval(output).bytes() <= kSmall || uses_.count(output) == 1;
        };
        if (ir::is_light(program_, equation) && std::ranges::all_of(equation.outputs, serves_it)) {
          is_member[*maker] = true;
          open.push_back(*maker);
        } else {
          group.last = std::max(group.last.value_or(0), behind_[*maker]);
        }
      }
    }
    std::ranges::sort(group.members);
    return group;
  }

  const ir::Program& program_;
  const ir::Uses uses_;
  std::vector<std::optional<std::size_t>> made_by_;  // of each variable, the equation
  std::vector<std::size_t> behind_;  // of each equation, behind which it can be done: itself, if it stays
};

std::optional<ir::Program> scattering_early(const ir::Program& program) {
  ir::Rewriter rewriter(program, scattering_early);
  for (std::size_t e : ScatteringEarly(program).order()) rewriter.keep(e);
  return rewriter.finish();
}

}  // namespace

ir::Program scatter_early(ir::Program program) { return rewritten(std::move(program), scattering_early); }

}  // namespace lockstep::sharding
