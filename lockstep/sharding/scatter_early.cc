#include "lockstep/sharding/scatter_early.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"

namespace lockstep::sharding {
namespace {

/// One program; those that it holds have one each.
class ScatteringEarly {
 public:
  /// `self` is the program that `given` knows it by; null: the outermost.
  ScatteringEarly(const Program& program, const Program* self, const CommunicationReasons& given)
      : program_(program), self_(self), given_(given) {}

  /// None where nothing changes.
  std::optional<Program> run() {
    const std::vector<std::size_t> order = new_order();
    bool changed = !std::ranges::is_sorted(order);
    Program result = program_;
    result.equations.clear();
    for (std::size_t e : order) {
      Equation equation = program_.equations[e];
      if (equation.primitive->nested) {
        std::vector<std::shared_ptr<const Program>> programs;
        bool is_new = false;
        for (const NestedProgram& nested : programs_of(equation)) {
          programs.push_back(within(nested.program));
          is_new = is_new || programs.back() != nested.program;
        }
        if (is_new)
          equation.params = equation.primitive->nested->with_programs(equation.params, std::move(programs));
        changed = changed || is_new;
      }
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
    return program_.equations[e].primitive == &psum_scatter_p() && given_.contains({self_, e});
  }

  std::vector<std::size_t> new_order() const {
    std::vector<std::optional<std::size_t>> made_by(program_.variables.size());
    std::vector<std::vector<std::size_t>> behind(program_.equations.size());
    std::vector<bool> is_moved(program_.equations.size());
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      const Equation& equation = program_.equations[e];
      for (Var var : equation.outputs) made_by[static_cast<std::size_t>(var)] = e;
      if (!moves(e)) continue;
      const auto maker = made_by[static_cast<std::size_t>(equation.inputs[0])];
      if (!maker) continue;
      behind[*maker].push_back(e);
      is_moved[e] = true;
    }
    std::vector<std::size_t> order;
    const auto write = [&](std::size_t e, const auto& self) -> void {
      order.push_back(e);
      for (std::size_t next : behind[e]) self(next, self);
    };
    for (std::size_t e = 0; e < program_.equations.size(); ++e)
      if (!is_moved[e]) write(e, write);
    return order;
  }

  std::shared_ptr<const Program> within(const std::shared_ptr<const Program>& program) {
    ScatteringEarly inner(*program, program.get(), given_);
    std::optional<Program> written = inner.run();
    auto kept = written ? std::make_shared<const Program>(std::move(*written)) : program;
    for (auto& [place, reason] : inner.reasons)
      reasons[{place.first ? place.first : kept.get(), place.second}] = std::move(reason);
    return kept;
  }

  const Program& program_;
  const Program* self_;
  const CommunicationReasons& given_;
};

}  // namespace

Program scatter_early(Program program, CommunicationReasons& reasons) {
  ScatteringEarly pass(program, nullptr, reasons);
  std::optional<Program> result = pass.run();
  if (!result) return program;
  reasons = std::move(pass.reasons);
  return std::move(*result);
}

}  // namespace lockstep::sharding
