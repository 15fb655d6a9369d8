// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/gather_again.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"
#include "lockstep/sharding/communication_line.h"

namespace lockstep::sharding {
namespace {

/// One program; those that it holds have one each.
class GatheringAgain {
 public:
  GatheringAgain(const ir::Program& program, std::int64_t kept_bytes, std::size_t soon)
      : program_(program), kept_bytes_(kept_bytes), soon_(soon) {}

  /// None where nothing changes.
  std::optional<ir::Program> run() {
    find_ways();
    find_gaps();
    choose();
    return written();
  }

 private:
  /// The interval between two uses of a value, by the positions of their equations; the program's end is
  /// after the last one.
  struct Gap {
    ir::Var var;
    std::size_t from, to;
    std::int64_t bytes;  ///< that are not needed if the value is not kept
    bool is_dropped = false;
  };

  static std::size_t at(ir::Var var) { return static_cast<std::size_t>(var); }

  bool is_gathered(ir::Var var) const { return made_by_[at(var)] != kNone; }

  /// Finds the values that can be made again from their parts, and by which equation.
  void find_ways() {
    made_by_.assign(program_.variables.size(), kNone);
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      const ir::Equation& equation = program_.equations[e];
      const ir::Primitive* p = equation.primitive;
      const bool gathers = p == &ir::all_gather_p() && equation.origin == ir::Origin::kPartitioner;
      const bool goes_on =
          (p == &ir::reshape_p() || p == &ir::transpose_p() || p == &ir::convert_element_type_p()) &&
          is_gathered(equation.inputs[0]);
      if (gathers || goes_on) made_by_[at(equation.outputs[0])] = e;
    }
  }

  /// The parts that a value is gathered from.
  ir::Var parts_of(ir::Var var) const {
    while (is_gathered(var)) var = program_.equations[made_by_[at(var)]].inputs[0];
    return var;
  }

  void find_gaps() {
    const ir::Uses uses(program_);
    std::vector<bool> is_input(program_.variables.size());
    for (ir::Var var : program_.inputs) is_input[at(var)] = true;
    for (std::size_t v = 0; v < program_.variables.size(); ++v) {
      const auto var = static_cast<ir::Var>(v);
      if (!is_gathered(var)) continue;
      const ir::Var parts = parts_of(var);
      const std::int64_t kept_instead = is_input[at(parts)] ? 0 : program_.aval(parts).bytes();
      const std::int64_t bytes = program_.aval(var).bytes() - kept_instead;
      const std::span<const std::size_t> places = uses.of(var);
      for (std::size_t i = 1; bytes > 0 && i < places.size(); ++i)
        if (places[i] - places[i - 1] > soon_) gaps_.push_back({var, places[i - 1], places[i], bytes});
    }
    std::ranges::stable_sort(gaps_, {}, &Gap::to);
  }

  /// Chooses which values are not kept over which gaps.
  void choose() {
    std::vector<std::int64_t> kept(program_.equations.size() + 1);
    const auto add = [&](const Gap& gap, std::int64_t bytes) {
      for (std::size_t place = gap.from + 1; place < gap.to; ++place) kept[place] += bytes;
    };
    for (const Gap& gap : gaps_) add(gap, gap.bytes);
    for (;;) {
      const auto most = std::ranges::max_element(kept);
      if (*most <= kept_bytes_) return;
      const auto place = static_cast<std::size_t>(most - kept.begin());
      Gap* longest = nullptr;
      for (Gap& gap : gaps_) {
        if (gap.is_dropped || gap.from >= place || gap.to <= place) continue;
        if (longest == nullptr || gap.to - gap.from > longest->to - longest->from) longest = &gap;
      }
      if (longest == nullptr) return;
      longest->is_dropped = true;
      add(*longest, -longest->bytes);
    }
  }

  std::optional<ir::Program> written() {
    ir::Rewriter rewriter(
        program_, [this](const ir::Program& held) { return GatheringAgain(held, kept_bytes_, soon_).run(); });
    std::multimap<std::size_t, const Gap*> before;  // by the place of the use behind the gap
    for (const Gap& gap : gaps_)
      if (gap.is_dropped) before.emplace(gap.to, &gap);
    for (std::size_t e = 0; e <= program_.equations.size(); ++e) {
      const auto [first, last] = before.equal_range(e);
      for (auto it = first; it != last; ++it) make_again(rewriter, *it->second);
      if (e < program_.equations.size()) rewriter.keep(e);
    }
    return rewriter.finish();
  }

  /// Writes the equations from a value's parts to the value again; later equations use the new result.
  void make_again(ir::Rewriter& rewriter, const Gap& gap) const {
    std::vector<std::size_t> way;
    for (ir::Var var = gap.var; is_gathered(var); var = program_.equations[way.back()].inputs[0])
      way.push_back(made_by_[at(var)]);
    ir::Value now = rewriter[parts_of(gap.var)];
    for (auto step = way.rbegin(); step != way.rend(); ++step) {
      ir::Equation equation = program_.equations[*step];
      const Aval& aval = program_.aval(equation.outputs[0]);
      if (gap.to < program_.equations.size()) equation.site = program_.equations[gap.to].site;
      if (equation.primitive == &ir::all_gather_p()) {
        ir::GatherParams params = equation.params.as<ir::GatherParams>();
        params.again = true;
        equation.params = ir::OpParams::of(std::move(params));
        equation.reason += fmt::format(
            "; gathered again: keeping it since {} would take {}, and kept gathered values may take {}",
            program_.equations[gap.from].site.to_string(), bytes_text(program_.aval(gap.var).bytes()),
            bytes_text(kept_bytes_));
      }
      now = rewriter.add(std::move(equation), {&now, 1}, aval);
    }
    rewriter.replace(gap.var, now);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  const ir::Program& program_;
  const std::int64_t kept_bytes_;
  const std::size_t soon_;
  std::vector<std::size_t> made_by_;  // of each variable that can be gathered again, its equation
  std::vector<Gap> gaps_;
};

}  // namespace

ir::Program gather_again(ir::Program program, std::int64_t kept_bytes, std::size_t soon) {
  if (gathered_bytes(program) <= kept_bytes) return program;
  return rewritten(std::move(program), [=](const ir::Program& outermost) {
    return GatheringAgain(outermost, kept_bytes, soon).run();
  });
}

std::int64_t gathered_bytes(const ir::Program& program) {
  std::int64_t bytes = 0;
  for (const ir::Equation& equation : program.equations) {
    if (equation.primitive == &ir::all_gather_p()) bytes += program.aval(equation.outputs[0]).bytes();
    for (const ir::NestedProgram& nested : ir::programs_of(equation))
      bytes += gathered_bytes(*nested.program);
  }
  return bytes;
}

}  // namespace lockstep::sharding
