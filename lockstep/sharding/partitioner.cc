// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/partitioner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/program/cost.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/debug.h"
#include "lockstep/program/primitives/placement.h"
#include "lockstep/sharding/emission.h"
#include "lockstep/sharding/gather_again.h"
#include "lockstep/sharding/padding.h"
#include "lockstep/sharding/propagation.h"
#include "lockstep/sharding/scatter_early.h"
#include "lockstep/sharding/uneven.h"
#include "lockstep/sharding/validation.h"

namespace lockstep::sharding {
namespace {

/// Writes the devices' program such that it stays within the limits, if possible.
Partitioned within_memory(Plan& plan, const PartitionOptions& options) {
  const auto keeping = [](Partitioned written, std::int64_t bytes) {
    written.program = gather_again(std::move(written.program), bytes);
    written.kept_gathered_bytes = bytes;
    return written;
  };
  const auto emit = [&] {
    Partitioned written = Emission(plan, plan.flat.body).run(options.out_specs);
    written.program = scatter_early(std::move(written.program));
    return written;
  };
  Partitioned written = emit();
  std::int64_t bytes = options.kept_gathered_bytes;
  if (options.memory_limit_bytes == 0) return keeping(std::move(written), bytes);
  Partitioned best = keeping(written, bytes);
  std::int64_t needed = ir::peak_bytes(best.program);
  const auto consider = [&](Partitioned other) {
    const std::int64_t bytes = ir::peak_bytes(other.program);
    if (bytes >= needed) return;
    needed = bytes;
    best = std::move(other);
  };
  bytes = std::min(bytes, gathered_bytes(written.program));
  while (needed > options.memory_limit_bytes && bytes > 0) {
    constexpr std::int64_t kLeast = 1 << 10;
    bytes = bytes > kLeast ? bytes / 2 : 0;
    consider(keeping(written, bytes));
  }
  if (needed > options.memory_limit_bytes && plan.gathered_for_loops_bytes > 0) {
    plan.gathered_for_loops_bytes = 0;
    consider(keeping(emit(), 0));
  }
  return best;
}

/// `tried`: sizes that the devices do not divide were looked for.
Partitioned partition(const ir::Program& global, const PartitionOptions& options, bool tried) {
  if (options.in_specs.size() != global.inputs.size() || options.out_specs.size() != global.outputs.size()) {
    fail<ShardingError>("[partition] {} has {} inputs and {} outputs, but {} and {} specs were given",
                        global.name, global.inputs.size(), global.outputs.size(), options.in_specs.size(),
                        options.out_specs.size());
  }
  if (needs_padding(global)) return partition(with_padding(global, options.axes), options, tried);
  const Grid grid(options.axes);
  const FlatProgram flat = flatten(global);
  std::vector<Split> splits;
  for (const Aval& aval : flat.program.variables) splits.emplace_back(aval.shape.size());
  bool all_whole = true;
  auto place = [&](ir::Var var, const PartitionSpec& spec, std::string_view kind, std::size_t i) {
    check_divisible(global.aval(var), spec, options.axes, fmt::format("{} {} of {}", kind, i, global.name));
    Split split = grid.split(spec, global.aval(var).shape.size());
    all_whole = all_whole && is_whole(split);
    return split;
  };
  for (std::size_t i = 0; i < global.inputs.size(); ++i)
    splits[static_cast<std::size_t>(global.inputs[i])] =
        place(global.inputs[i], options.in_specs[i], "input", i);
  std::vector<bool> has_split(splits.size(), false);
  for (ir::Var var : global.inputs) has_split[static_cast<std::size_t>(var)] = true;
  for (std::size_t i = 0; i < global.outputs.size(); ++i) {
    if (!options.out_specs[i]) continue;
    const auto var = static_cast<std::size_t>(global.outputs[i]);
    Split split = place(global.outputs[i], *options.out_specs[i], "output", i);
    if (has_split[var]) continue;
    has_split[var] = true;
    splits[var] = std::move(split);
  }
  for (const ir::Equation& equation : flat.program.equations) {
    all_whole = all_whole && equation.primitive != &ir::debug_p() &&
                equation.primitive != &ir::io_callback_p();  // one device does it
    if (!ir::is_placement(*equation.primitive)) continue;
    all_whole = false;
    const ir::Var from = equation.inputs[0], to = equation.outputs[0];
    const Split split = placed_split(equation, grid, flat.program.aval(to).shape);
    auto set = [&](ir::Var var) {
      has_split[static_cast<std::size_t>(var)] = true;
      splits[static_cast<std::size_t>(var)] = split;
    };
    // A result has the split of its placement, whatever a later placement requires; an operand has that of
    // the first one.
    if (equation.primitive != &ir::to_local_p()) set(to);
    if (equation.primitive != &ir::to_global_p() && !has_split[static_cast<std::size_t>(from)]) set(from);
  }
  if (all_whole) {
    Partitioned same{.program = global, .kept_gathered_bytes = options.kept_gathered_bytes};
    for (const auto& spec : options.out_specs) same.out_specs.push_back(spec.value_or(PartitionSpec()));
    return same;
  }
  const std::vector<RuledEquation> equations = ruled_equations(flat.program, grid);
  const EnlargedValues enlarged(flat, equations, grid);
  propagate(flat.program, equations, grid, enlarged, splits);
  if (!tried) {
    const UnevenResults uneven = uneven_results(flat, splits, grid);
    if (!uneven.shapes.empty()) return partition(with_padding(global, options.axes, uneven), options, true);
  }
  Plan plan = plan_of(flat, equations, grid, splits, enlarged);
  plan.gathered_for_loops_bytes = options.gathered_for_loops_bytes;
  return within_memory(plan, options);
}

}  // namespace

Partitioned partition(const ir::Program& global, const PartitionOptions& options) {
  return partition(global, options, false);
}

}  // namespace lockstep::sharding
