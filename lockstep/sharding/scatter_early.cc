// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/scatter_early.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/cost.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/uses.h"
#include "lockstep/sharding/held_programs.h"

namespace lockstep::sharding {
namespace {

/// One program; those that it holds have one each.
class ScatteringEarly {
 public:
  /// `self` is the program that `given` knows it by; null: the outermost.
  ScatteringEarly(const ir::Program& program, const ir::Program* self, const CommunicationReasons& given)
      : program_(program), self_(self), given_(given), uses_(program) {}

  /// None where nothing changes.
  std::optional<ir::Program> run() {
    const std::vector<std::size_t> order = new_order();
    bool changed = !std::ranges::is_sorted(order);
    ir::Program result = program_;
    result.equations.clear();
    for (std::size_t e : order) {
      ir::Equation equation = program_.equations[e];
      const auto early = [&](const ir::Program& held, CommunicationReasons& found) {
        ScatteringEarly inner(held, &held, given_);
        std::optional<ir::Program> written = inner.run();
        found = std::move(inner.reasons);
        return written;
      };
      changed = rewrite_held(equation, reasons, early) || changed;
      if (auto reason = given_.find({self_, e}); reason != given_.end())
        reasons[{nullptr, result.equations.size()}] = reason->second;
      result.equations.push_back(std::move(equation));
    }
    if (!changed) return std::nullopt;
    return result;
  }

  CommunicationReasons reasons;  ///< the program's own by null

 private:
  bool moves(std::size_t e) const {
    return program_.equations[e].primitive == &ir::psum_scatter_p() && given_.contains({self_, e});
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

  std::vector<std::size_t> new_order() {
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

  const ir::Program& program_;
  const ir::Program* self_;
  const CommunicationReasons& given_;
  const ir::Uses uses_;
  std::vector<std::optional<std::size_t>> made_by_;  // of each variable, the equation
  std::vector<std::size_t> behind_;  // of each equation, behind which it can be done: itself, if it stays
};

}  // namespace

ir::Program scatter_early(ir::Program program, CommunicationReasons& reasons) {
  ScatteringEarly pass(program, nullptr, reasons);
  std::optional<ir::Program> result = pass.run();
  if (!result) return program;
  reasons = std::move(pass.reasons);
  return std::move(*result);
}

}  // namespace lockstep::sharding
