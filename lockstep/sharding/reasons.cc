// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/reasons.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/program/primitive.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/reshard.h"

namespace lockstep::sharding {
namespace {

std::string move_with_bytes(const std::string& move, double received) {
  return fmt::format("{} ({})", move, bytes_text(static_cast<std::int64_t>(received)));
}

/// The moves of one way of an equation, and the bytes that each device receives in it.
struct Way {
  std::vector<std::string> moves;
  std::vector<std::string> instead;  ///< moves of operands that are computed again
  double bytes = 0;

  void add(std::string move, double received) {
    if (received == 0) return;
    moves.push_back(move_with_bytes(move, received));
    bytes += received;
  }
};

using BringingOf = std::function<Bringing(std::size_t operand, const Layout& needed)>;

Way way_of(const ChosenEquation& e, const std::vector<Axes>& factors, const BringingOf& bringing_of) {
  Way way;
  for (std::size_t i = 0; i < e.ruled.equation->inputs.size(); ++i) {
    const Aval& aval = e.program.aval(e.ruled.equation->inputs[i]);
    const Layout needed = e.ruled.operand_layout(i, factors);
    const Bringing bringing = bringing_of(i, needed);
    const Layout& from = bringing.from;
    const std::string move =
        fmt::format("operand {} from {} to {}", i, layout_text(from, e.grid), layout_text(needed, e.grid));
    const double moved = received_bytes(plan_reshard(from, needed, e.grid), aval, from, e.grid);
    if (bringing.moves_again) {
      for (const Bringing::Move& each : *bringing.moves_again) way.add(each.what, each.bytes);
      way.instead.push_back(move_with_bytes(move, moved));
    } else {
      way.add(move, moved);
    }
    way.add(fmt::format("elements of others' parts of operand {}", i),
            received_within(e.program, e.ruled, i, factors, e.grid).bytes);
  }
  for (std::size_t i = 0; i < e.ruled.equation->outputs.size(); ++i) {
    const ir::Var var = e.ruled.equation->outputs[i];
    const Aval& aval = e.program.aval(var);
    const Split& wanted = e.wanted[static_cast<std::size_t>(var)];
    Layout now = e.ruled.result_layout(i, factors);
    const std::vector<ReshardStep> steps = plan_reshard(now, {wanted}, e.grid);
    // Each step that puts the devices' parts together has a line, and all the others have one.
    auto rest = steps.begin();
    for (; rest != steps.end() && now.partial; ++rest) {
      const bool scatters = rest->kind == ReshardStep::Kind::kReduceScatter;
      way.add(fmt::format("{} of result {} over {}", scatters ? "a reduce-scatter" : "an all-reduce", i,
                          fmt::join(e.grid.names(rest->axes), ",")),
              received_bytes({*rest}, aval, now, e.grid));
      now = rest->apply(std::move(now), e.grid);
    }
    way.add(
        fmt::format("result {} from {} to {}", i, layout_text(now, e.grid), layout_text({wanted}, e.grid)),
        received_bytes({rest, steps.end()}, aval, now, e.grid));
  }
  return way;
}

}  // namespace

std::string layout_text(const Layout& layout, const Grid& grid) {
  std::string text = grid.spec(layout.split).to_string();
  if (layout.partial)
    text += fmt::format(", still partial over {},", fmt::join(grid.names(layout.partial.axes), ","));
  return text;
}

std::string move_text(std::string_view what, const Aval& aval, const Layout& from, const Split& to,
                      const Grid& grid) {
  return fmt::format("{}, {}, goes from {} to {}", what, to_string(Aval{aval.dtype, aval.shape}),
                     layout_text(from, grid), layout_text({to}, grid));
}

void ChosenEquation::compare(const BringingOf& bringing) {
  const Way taken = way_of(*this, choice.factors, bringing);
  std::vector<std::string> others;
  if (choice.other) {
    const Way other = way_of(*this, *choice.other, bringing);
    if (!other.moves.empty() && other.moves != taken.moves)
      others.push_back(fmt::format("{}", fmt::join(other.moves, ", ")));
  }
  others.insert(others.end(), taken.instead.begin(), taken.instead.end());
  if (others.empty()) return;
  other_way = fmt::format("; this way a device receives {}; not taken: {}",
                          bytes_text(static_cast<std::int64_t>(taken.bytes)), fmt::join(others, "; or "));
}

std::string ChosenEquation::reason_of_operand(std::size_t i, const Layout& from) const {
  const Split& given = from.split;
  const std::string& name = ruled.equation->primitive->name;
  const Aval& aval = program.aval(ruled.equation->inputs[i]);
  const Split needed = ruled.operand_layout(i, choice.factors).split;
  const std::string move = move_text(fmt::format("operand {} of {}", i, name), aval, from, needed, grid);
  if (ruled.rule.factors.empty())
    return fmt::format("{}: {} has no rule for split operands, each device computes the whole", move, name);
  for (std::size_t d = 0; d < given.size(); ++d) {
    if (given[d].empty() || !needed[d].empty()) continue;
    const int factor = ruled.rule.operands[i][d];
    const auto* sizes =
        factor == ir::ShardingRule::kWhole ? nullptr : &ruled.sizes[static_cast<std::size_t>(factor)];
    if (sizes == nullptr || sizes->empty())
      return fmt::format("{}: {} takes dimension {} whole", move, name, d);
    for (int axis : given[d]) {
      if (contains(ruled.forbidden, axis))
        return fmt::format("{}: along '{}' each device has a value of its own", move,
                           grid.names({axis}).front());
    }
    for (std::int64_t size : *sizes) {
      if (size % grid.size(given[d]) == 0) continue;
      return fmt::format("{}: {} has {} elements there, which {} devices do not divide", move, name, size,
                         grid.size(given[d]));
    }
  }
  return move + other_way;
}

std::string ChosenEquation::reason_of_exchange() const {
  const Aval& aval = program.aval(ruled.equation->outputs[0]);
  return fmt::format("for its part of the result of {}, {}, a device needs elements of others' parts{}",
                     ruled.equation->primitive->name, to_string(Aval{aval.dtype, aval.shape}), other_way);
}

std::string ChosenEquation::reason_of_result(std::size_t i, const Axes& axes) const {
  const ir::Var var = ruled.equation->outputs[i];
  const Aval& aval = program.aval(var);
  return fmt::format("result {} of {}, {}, is put together from the devices' parts over {}{}", i,
                     ruled.equation->primitive->name, to_string(Aval{aval.dtype, aval.shape}),
                     fmt::join(grid.names(axes), ","), other_way);
}

}  // namespace lockstep::sharding
