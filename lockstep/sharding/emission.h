// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/program/primitive.h"
#include "lockstep/sharding/communication.h"
#include "lockstep/sharding/enlarged.h"
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/flatten.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/reasons.h"
#include "lockstep/sharding/reshard.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// The flat global program, and the decisions about it.
struct Plan {
  const FlatProgram& flat;
  std::span<const RuledEquation> equations;
  const Grid& grid;
  const std::vector<Split>& wanted;  ///< the split of each variable
  const EnlargedValues& enlarged;
  ir::Uses uses;                          ///< of each variable
  std::vector<bool> zeros;                ///< which variables contain only zeros
  std::vector<const ir::Equation*> full;  ///< the equations of variables that are filled with one number;
                                          ///< null for other variables
  std::int64_t gathered_for_loops_bytes = 0;
};

Plan plan_of(const FlatProgram& flat, std::span<const RuledEquation> equations, const Grid& grid,
             const std::vector<Split>& wanted, const EnlargedValues& enlarged);

/// Writes the per-device program, equation by equation.
class Emission {
 public:
  Emission(const Plan& plan, const FlatBody& body)
      : plan_(plan),
        body_(body),
        global_(plan.flat.program),
        grid_(plan.grid),
        builder_(body.name),
        resharder_(builder_, grid_),
        versions_(global_.variables.size()) {}

  Partitioned run(std::span<const std::optional<PartitionSpec>> out_specs);

  /// Writes the program of an equation, with these layouts of its inputs and outputs.
  ir::Program run_within(const std::vector<Layout>& inputs, const std::vector<Layout>& outputs);

 private:
  struct Version {
    Layout layout;
    ir::Value value;
    bool is_exchanged = false;  ///< it was received from other devices
  };

  /// Why the parts of a variable are combined, and the line that made them.
  struct Partly {
    std::string reason;
    CallSite site;
  };

  void add_input(ir::Var var, const Layout& layout);

  /// For a loop's carry, input `in` and output `out`: the partial state that it could have if it were reduced
  /// only after the loop. This is possible for a sum to which each step adds a term.
  Partial accumulated(std::size_t in, std::size_t out);
  Partial accumulated(ir::Var carry, ir::Var sum);

  /// A program that was written, the layouts of its inputs and outputs, and the sums that it leaves to be
  /// reduced after its loop.
  struct Written {
    std::shared_ptr<const ir::Program> program;
    std::vector<Layout> inputs, outputs;
    std::vector<std::string> warnings;
    struct Sum {
      std::size_t in, out;
      Partial partial;
      Partly why;
    };
    std::vector<Sum> sums;
  };

  /// An input of a loop's program that should come in another layout.
  struct Brought {
    std::size_t in;
    Layout layout;
    double saved;  ///< bytes in each step
  };

  /// Which inputs and outputs of a loop's program are a carry that no other program of the loop uses, such as
  /// its condition, and which inputs are the same in all steps.
  struct LoopValues {
    std::vector<std::pair<std::size_t, std::size_t>> carries;
    std::vector<std::size_t> constants;
  };
  LoopValues loop_values(const FlatBody::Step& step, std::span<const ir::NestedLink> links,
                         int program) const;

  /// Whether the program that the value goes to uses it.
  bool is_used_within(const FlatBody::Step& step, const ir::NestedLink& link) const;

  /// Writes a program such that work that is not needed in each step of its loop is moved out of the loop.
  Written write_within(const FlatBody& body, std::vector<Layout> inputs, std::vector<Layout> outputs,
                       const LoopValues& values);

  /// The sums of the written program that can be reduced once, after the loop.
  std::vector<Written::Sum> sums_behind(const LoopValues& values, const std::vector<Layout>& inputs);

  /// The layouts to which the written program converts its constants, in the order of the bytes saved by
  /// converting them before the loop.
  std::vector<Brought> brought_before(const LoopValues& values);

  void emit_steps();

  /// Each device runs the equation's programs on its parts. A carry has one split in all steps, and
  /// predicates are whole.
  void emit_nested(const FlatBody::Step& step);

  /// The layouts of the equation's operands and results: those of the programs' inputs and outputs. Fails if
  /// the two ends of a link have different ones.
  void take_layouts(const FlatBody::Step& step, std::span<const ir::NestedLink> links,
                    std::span<const Written> written, std::vector<Layout>& given,
                    std::vector<Layout>& got) const;

  static std::vector<Layout> layouts(const std::vector<Split>& splits);

  const Split& wanted(ir::Var var) const { return plan_.wanted[static_cast<std::size_t>(var)]; }
  std::vector<Version>& versions(ir::Var var) { return versions_[static_cast<std::size_t>(var)]; }

  void add_version(ir::Var var, Layout layout, const ir::Value& value);

  /// The version from which the layout can be made at the lowest cost, and that cost.
  std::pair<std::size_t, double> cheapest(ir::Var var, const Layout& to);

  /// How the variable can be computed again in the layout, if that costs less than to move a version of it.
  std::optional<ComputedAgain> cheaper_again(ir::Var var, const Layout& to);

  /// The lower of both costs.
  double lowest_cost(ir::Var var, const Layout& to);

  /// Adds a version that is computed again. `instead_of`: the move that it replaces.
  void compute_again(ir::Var var, const std::vector<Axes>& factors, const std::string& instead_of);

  /// How an operand is brought to a layout, for texts.
  Bringing bringing(ir::Var var, const Layout& to);
  void add_moves_again(ir::Var var, const std::vector<Axes>& factors, std::vector<Bringing::Move>& moves);

  /// The reason for converting a value from one layout to the required one.
  using Why = std::function<std::string(const Layout& from)>;

  /// The variable in this layout. Intermediate versions are kept for later uses.
  ir::Value get(ir::Var var, const Layout& to, const Why& why);

  const ir::Equation* full(ir::Var var) const { return plan_.full[static_cast<std::size_t>(var)]; }

  /// A value that is filled with one number is free in any split.
  ir::Value written_full(ir::Var var, const Split& split);

  /// Applies a reshard step. If it reduces axes over which the variable is partial, the collective gets the
  /// reason and call site of the equation that made the variable partial.
  void put_together(ir::Var var, Version& now, const ReshardStep& step);

  /// The wanted split if it is free, else the split in which the variable was computed.
  Split cheap_split(ir::Var var);

  /// A placement only changes the split of its operand or result. Axes that are not manual follow those of
  /// the placement.
  void place(const ir::Equation& equation);

  /// The operands that an equation uses without reducing them, and the resulting partial state of its result.
  struct Passing {
    std::vector<std::size_t> operands;
    Partial partial;
  };

  /// The layout, with this partial state added.
  static Layout with(Layout layout, const Partial& more);

  /// Decides which partial operands are reduced only after the equation: the equation must be linear in them,
  /// their only use, and the cost must not be higher. May change the factors.
  Passing passed_on(const RuledEquation& ruled, std::vector<Axes>& factors);

  /// Whether the equation combines these operands only with known numbers. Then deferring the reduction can
  /// still pay off later, even if it saves nothing here.
  bool moves_or_scales(const ir::Equation& equation, const std::vector<std::size_t>& operands) const;

  /// Which of the operands in which the equation is linear are partial. All but zeros must be so in the same
  /// way.
  Passing partial_among(const ir::Equation& equation, const std::vector<std::size_t>& operands);

  /// The cost of converting the operands for the equation, and its result to the wanted split; infinite if
  /// the result would be partial in two ways.
  double way_cost(const RuledEquation& ruled, const std::vector<Axes>& factors, const Passing& passing);

  /// Why a result is partial: because of the equation, or because its operands were partial.
  Partly why_partial(const ChosenEquation& chosen, std::size_t i, const Passing& passing) const;

  /// The layout in which the equation takes operand i.
  Layout needed(const RuledEquation& ruled, const std::vector<Axes>& factors, const Passing& passing,
                std::size_t i) const;

  /// The positions that the equation's rule gets for these axes of its factors. Must not outlive the
  /// arguments.
  ir::PartPlaces places(const RuledEquation& ruled, const std::vector<Axes>& factors);

  /// Adds a warning if the devices along an axis all compute the same large result, because an operand that
  /// is split over the axis is converted to this layout.
  void warn_of_whole(const ChosenEquation& chosen, std::size_t operand, const Layout& to);

  void emit(const RuledEquation& ruled);

  /// Writes what a device computes of an equation whose factors have these axes.
  std::vector<ir::Value> written(const RuledEquation& ruled, const std::vector<Axes>& factors,
                                 std::span<const ir::Value> operands);

  CallSite defining_site(ir::Var var) const;

  /// Removes pvary equations and the marks of varying axes, which are not needed after partitioning.
  ir::Program without_varying(ir::Program program) const;

  /// The equations that an output needs or that have an effect; all if nothing was computed again.
  std::vector<bool> needed_equations(const ir::Program& program) const;

  const Plan& plan_;
  const FlatBody& body_;
  const ir::Program& global_;  // the flat one
  const Grid& grid_;
  ir::Builder builder_;
  Resharder resharder_;
  std::vector<std::vector<Version>> versions_;  // of each global variable; the first is as it was computed
  std::map<ir::Var, Partly> partly_;            // of global variables that are partial
  std::map<ir::Var, std::vector<Layout>> brought_;  // what was brought by collectives to these layouts
  std::string instead_of_;                          // the move that computing a value again replaces
  bool computed_again_ = false;                     // some value, so that its first version may be unused
  std::vector<std::string> warnings_;
};

}  // namespace lockstep::sharding
