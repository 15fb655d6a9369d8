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
#include "lockstep/sharding/factors.h"
#include "lockstep/sharding/flatten.h"
#include "lockstep/sharding/partitioner.h"
#include "lockstep/sharding/reasons.h"
#include "lockstep/sharding/reshard.h"
#include "lockstep/sharding/split.h"

namespace lockstep::sharding {

/// The global program and what is known of it, flat.
struct Plan {
  const FlatProgram& flat;
  std::span<const RuledEquation> equations;
  const Grid& grid;
  const std::vector<Split>& wanted;   ///< the split of each variable
  std::vector<int> uses;              ///< of each variable
  std::vector<bool> zeros;            ///< which variables are nothing but zeros
  std::vector<const Equation*> full;  ///< those that give variables of one number; null for others
  std::int64_t gathered_for_loops_bytes = 0;
};

Plan plan_of(const FlatProgram& flat, std::span<const RuledEquation> equations, const Grid& grid,
             const std::vector<Split>& wanted);

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

  /// A program that another holds, with inputs and outputs laid out like this.
  std::shared_ptr<const Program> run_within(const std::vector<Layout>& inputs,
                                            const std::vector<Layout>& outputs,
                                            CommunicationReasons& reasons);

 private:
  struct Version {
    Layout layout;
    Value value;
    bool is_exchanged = false;  ///< of others' parts
  };

  /// Why a variable's parts are put together, and the line that made them.
  struct Partly {
    std::string reason;
    CallSite site;
  };

  void add_input(Var var, const Layout& layout);

  /// Of a loop's carry, which comes as input `in` and goes as output `out`: what it would be partial in if it
  /// were put together behind the loop only. It is a sum to which each step adds something.
  Partial accumulated(std::size_t in, std::size_t out);
  Partial accumulated(Var carry, Var sum);

  /// A program that was written, with what it leaves to be done around its loop: sums that are put together
  /// behind it, and inputs that come to it in other layouts.
  struct Written {
    std::shared_ptr<const Program> program;
    CommunicationReasons reasons;
    std::vector<std::string> warnings;
    struct Sum {
      std::size_t in, out;
      Partial partial;
      Partly why;
    };
    std::vector<Sum> sums;
    struct Brought {
      std::size_t in;
      Layout layout;
      double saved;  ///< bytes, in each step
    };
    std::vector<Brought> brought;
  };

  /// Of a program of a loop, which inputs and outputs are a carry, and which inputs are the same in all
  /// steps.
  struct LoopValues {
    std::vector<std::pair<std::size_t, std::size_t>> carries;
    std::vector<std::size_t> constants;
  };
  static LoopValues loop_values(const std::vector<NestedLink>& links, int program);

  /// Writes a program, such that what need not be done in each step of its loop is not.
  Written write_within(const FlatBody& body, std::vector<Layout> inputs, std::vector<Layout> outputs,
                       const LoopValues& values);

  /// The sums that the written program could leave to be put together once.
  std::vector<Written::Sum> sums_behind(const LoopValues& values, const std::vector<Layout>& inputs);

  /// What the written program could be given as it brings it itself, by what that saves.
  std::vector<Written::Brought> brought_before(const LoopValues& values);

  void emit_steps();

  /// Each device runs the programs that the equation holds on its parts: a carry has one split all the way,
  /// and what decides is whole.
  void emit_nested(const FlatBody::Step& step);

  static std::vector<Layout> layouts(const std::vector<Split>& splits);

  const Split& wanted(Var var) const { return plan_.wanted[static_cast<std::size_t>(var)]; }
  std::vector<Version>& versions(Var var) { return versions_[static_cast<std::size_t>(var)]; }

  void add_version(Var var, Layout layout, const Value& value);

  /// The version from which a layout is got for the least, and that cost.
  std::pair<std::size_t, double> cheapest(Var var, const Layout& to);

  /// Why a value is brought from a layout to the one that is asked for.
  using Why = std::function<std::string(const Layout& from)>;

  /// The variable in this layout. Every version on the way is kept for later uses.
  Value get(Var var, const Layout& to, const Why& why);

  const Equation* full(Var var) const { return plan_.full[static_cast<std::size_t>(var)]; }

  /// A number in every element takes nothing to have in any split.
  Value written_full(Var var, const Split& split);

  /// A step over axes over which the variable is partial belongs to the equation that made it so.
  void put_together(Var var, Version& now, const ReshardStep& step);

  /// Keeps the reason of the last equation, a collective.
  void note(std::string reason) { reasons_[builder_.program().equations.size() - 1] = std::move(reason); }

  /// What is wanted, if it is there for nothing; else as the variable was computed.
  Split cheap_split(Var var);

  /// A placement is done by the split that its operand or result has. Axes that are not manual stay as they
  /// are behind those of the placement.
  void place(const Equation& equation);

  /// The operands that an equation takes as they are, not put together, and what is therefore partial in its
  /// result.
  struct Passing {
    std::vector<std::size_t> operands;
    Partial partial;
  };

  /// The layout with what is partial besides.
  static Layout with(Layout layout, const Partial& more);

  /// Partial operands are put together behind the equation, where it is linear in them, they have no other
  /// use, and it costs no more. Changes the factors so that they may.
  Passing passed_on(const RuledEquation& ruled, std::vector<Axes>& factors);

  /// Whether nothing but numbers that are known joins these operands: what is not gained now may be later.
  bool moves_or_scales(const Equation& equation, const std::vector<std::size_t>& operands) const;

  /// Which of the operands, in which the equation is linear, are partial: all but zeros, alike.
  Passing partial_among(const Equation& equation, const std::vector<std::size_t>& operands);

  /// What bringing the operands to an equation costs, and its result to where it is wanted; infinite where
  /// its result would be partial in two ways.
  double way_cost(const RuledEquation& ruled, const std::vector<Axes>& factors, const Passing& passing);

  /// What made a result partial: the equation, or what its operands have been since they were made.
  Partly why_partial(const ChosenEquation& chosen, std::size_t i, const Passing& passing) const;

  /// How the equation takes operand i.
  Layout needed(const RuledEquation& ruled, const std::vector<Axes>& factors, const Passing& passing,
                std::size_t i) const;

  /// What the equation's rule is told, with these axes of its factors. Must not outlive them.
  PartPlaces places(const RuledEquation& ruled, const std::vector<Axes>& factors);

  /// Notes where the devices of an axis that splits an operand, which is brought to this layout, compute the
  /// same large result.
  void warn_of_whole(const ChosenEquation& chosen, std::size_t operand, const Layout& to);

  void emit(const RuledEquation& ruled);

  CallSite defining_site(Var var) const;

  /// From here on nothing asks over which axes a value varies: pvary goes, and so do the marks. The equations
  /// get the call sites of those that they came from, whatever scope is around the partitioner.
  Program without_varying(Program program, CommunicationReasons& reasons) const;

  const Plan& plan_;
  const FlatBody& body_;
  const Program& global_;  // the flat one
  const Grid& grid_;
  Builder builder_;
  Resharder resharder_;
  std::vector<std::vector<Version>> versions_;  // of each global variable; the first is as it was computed
  std::vector<CallSite> sites_;                 // of each equation in the builder
  std::map<std::size_t, std::string> reasons_;  // by the place in the builder
  std::map<Var, Partly> partly_;                // of global variables that are partial
  std::map<Var, std::vector<Layout>> brought_;  // what was brought by collectives to these layouts
  CallSite site_;                               // of the step that is written
  CommunicationReasons within_;                 // of the programs that its equations hold
  std::vector<std::string> warnings_;
};

}  // namespace lockstep::sharding
