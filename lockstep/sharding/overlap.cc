// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sharding/overlap.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/cost.h"
#include "lockstep/program/primitive.h"
#include "lockstep/program/primitives/callback.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/ffi_call.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"

namespace lockstep::sharding {
namespace {

bool calls_host(const ir::Program& program) {
  bool calls = false;
  ir::for_each_equation(program, [&](const ir::Equation& equation) {
    calls = calls || equation.primitive->has_effect || equation.primitive == &ir::pure_callback_p() ||
            equation.primitive == &ir::ffi_call_p();
  });
  return calls;
}

/// One program; those that it holds have one each.
class Overlapping {
 public:
  Overlapping(const ir::Program& program, const ir::AxisEnv& axes, const OverlapOptions& options)
      : program_(program), uses_(program), axes_(axes), options_(options) {}

  /// None where nothing changes.
  std::optional<ir::Program> run() {
    const std::size_t count = program_.equations.size();
    for (const ir::Equation& equation : program_.equations) {
      flops_.push_back(cost_of(program_, equation).flops);
      is_light_.push_back(ir::is_light(program_, equation));
      exchanges_.push_back(exchanges(equation));
    }
    for (std::size_t e = 0; e < count; ++e) starts_.push_back(can_start(e));
    bool any = std::ranges::find(starts_, true) != starts_.end();
    // Without some of them the others may have less to run beside, or more: until all have enough.
    while (any) {
      schedule();
      const std::size_t dropped = drop_those_without_enough();
      any = std::ranges::find(starts_, true) != starts_.end();
      if (dropped == 0) break;
    }
    if (!any) {
      items_.clear();
      for (std::size_t e = 0; e < count; ++e) items_.push_back({e});
    }
    return written();
  }

 private:
  /// A place of the new program: an equation, or the collective_done of one.
  struct Item {
    std::size_t equation;
    bool awaits = false;
    double flops = 0;                 ///< computed while the collective is in flight
    int cluster = 0;                  ///< of collectives whose flights overlap
    std::vector<ir::Var> after = {};  ///< results that are computed before it waits
  };

  static constexpr std::size_t kMostAfter = 4;

  std::int64_t bytes_of(const ir::Equation& equation) const {
    return std::max(program_.aval(equation.inputs[0]).bytes(), program_.aval(equation.outputs[0]).bytes());
  }

  /// Whether the equation is a large collective whose result is what the devices exchange, not a transpose of
  /// it.
  bool can_start(std::size_t e) const {
    const ir::Equation& equation = program_.equations[e];
    const ir::Primitive* p = equation.primitive;
    std::int64_t n = 0;
    if (p == &ir::psum_p() || p == &ir::pmax_p() || p == &ir::pmin_p()) {
      const auto& params = equation.params.as<ir::AxesParams>();
      n = params.groups ? static_cast<std::int64_t>(params.groups->front().size()) : axes_.size(params.axes);
    } else if (p == &ir::psum_scatter_p() ||
               (p == &ir::all_gather_p() && equation.params.as<ir::GatherParams>().dimension == 0)) {
      n = equation.params.as<ir::GatherParams>().axis_size;
    } else if (p == &ir::ppermute_p() && !equation.params.as<ir::PermuteParams>().pairs.empty()) {
      n = equation.params.as<ir::PermuteParams>().axis_size;
    }
    return n > 1 && bytes_of(equation) >= options_.threshold_bytes;
  }

  /// Collectives in a cluster wait for each other: they are started early all together, if one of them has
  /// enough beside it.
  std::size_t drop_those_without_enough() {
    std::vector<bool> has_enough(static_cast<std::size_t>(clusters_));
    for (const Item& item : items_) {
      if (!item.awaits) continue;
      const auto bytes = static_cast<double>(bytes_of(program_.equations[item.equation]));
      if (item.flops > 0 && item.flops >= options_.operations_per_byte * bytes)
        has_enough[static_cast<std::size_t>(item.cluster)] = true;
    }
    std::size_t dropped = 0;
    for (const Item& item : items_) {
      if (!item.awaits || has_enough[static_cast<std::size_t>(item.cluster)]) continue;
      starts_[item.equation] = false;
      ++dropped;
    }
    return dropped;
  }

  /// Writes items_. A collective is started as soon as its operand can be computed, and what needs its result
  /// comes behind everything that does not. It is awaited when nothing else is left, or when the next one
  /// would exceed the bytes in flight.
  void schedule() {
    items_.clear();
    clusters_ = 0;
    available_.assign(program_.variables.size(), false);
    is_written_.assign(program_.equations.size(), false);
    find_urgent();
    for (ir::Var var : program_.inputs) set_available(var);
    std::vector<std::size_t> left(program_.equations.size());
    std::iota(left.begin(), left.end(), std::size_t{0});
    while (!left.empty() || !in_flight_.empty()) {
      for (const std::size_t e : left) {
        if (is_urgent_[e]) try_to_write(e);
      }
      for (const std::size_t e : left) try_to_write(e);
      std::erase_if(left, [&](std::size_t e) { return is_written_[e]; });
      if (!in_flight_.empty()) finish_oldest();
    }
  }

  /// The collectives to start, and the light operations between what is computed and them.
  void find_urgent() {
    is_urgent_.assign(program_.equations.size(), false);
    std::vector<bool> wanted(program_.variables.size());
    for (std::size_t e = program_.equations.size(); e-- > 0;) {
      const ir::Equation& equation = program_.equations[e];
      const bool is_wanted = std::ranges::any_of(
          equation.outputs, [&](ir::Var var) { return wanted[static_cast<std::size_t>(var)]; });
      is_urgent_[e] = starts_[e] || (is_wanted && is_light_[e]);
      if (!is_urgent_[e]) continue;
      for (ir::Var var : equation.inputs) wanted[static_cast<std::size_t>(var)] = true;
    }
  }

  /// Writes the equation, and what is urgent behind it, if it can be written now.
  void try_to_write(std::size_t e) {
    const ir::Equation& equation = program_.equations[e];
    if (is_written_[e] ||
        !std::ranges::all_of(equation.inputs, [&](ir::Var var) { return is_available(var); }))
      return;
    if (starts_[e]) {
      const std::int64_t bytes =
          program_.aval(equation.inputs[0]).bytes() + program_.aval(equation.outputs[0]).bytes();
      if (!in_flight_.empty() && bytes_in_flight_ + bytes > options_.in_flight_bytes) return;
      if (in_flight_.empty()) ++clusters_;
      in_flight_.push_back({e, items_.size(), bytes});
      bytes_in_flight_ += bytes;
    }
    is_written_[e] = true;
    items_.push_back({e});
    if (starts_[e]) return;
    for (ir::Var var : equation.outputs) set_available(var);
    for (ir::Var var : equation.outputs) {
      for (const std::size_t user : uses_.of(var))
        if (user < is_urgent_.size() && is_urgent_[user]) try_to_write(user);
    }
  }

  bool is_available(ir::Var var) const { return available_[static_cast<std::size_t>(var)]; }
  void set_available(ir::Var var) { available_[static_cast<std::size_t>(var)] = true; }

  void finish_oldest() {
    const Flight flight = in_flight_.front();
    in_flight_.pop_front();
    bytes_in_flight_ -= flight.bytes;
    Item done{.equation = flight.equation, .awaits = true, .cluster = clusters_ - 1};
    std::vector<std::size_t> heavy;
    for (std::size_t i = flight.start + 1; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.awaits || starts_[item.equation]) continue;
      if (exchanges_[item.equation]) break;  // waits for it
      done.flops += flops_[item.equation];
      // A light operation becomes part of what uses it, and has no memory of its own.
      const bool has_results = !program_.equations[item.equation].outputs.empty();
      if (!is_light_[item.equation] && has_results) heavy.push_back(item.equation);
    }
    std::ranges::stable_sort(heavy, std::greater(), [&](std::size_t e) { return flops_[e]; });
    heavy.resize(std::min(heavy.size(), kMostAfter));
    for (const std::size_t e : heavy) done.after.push_back(program_.equations[e].outputs[0]);
    items_.push_back(std::move(done));
    set_available(program_.equations[flight.equation].outputs[0]);
  }

  /// Whether it is, or contains, a collective.
  static bool exchanges(const ir::Equation& equation) {
    bool any = !equation.primitive->exchange(equation.params).kind.empty();
    for (const ir::NestedProgram& nested : ir::programs_of(equation)) {
      ir::for_each_equation(*nested.program, [&](const ir::Equation& inner) {
        any = any || !inner.primitive->exchange(inner.params).kind.empty();
      });
    }
    return any;
  }

  /// The program in the order of items_. None if that is the program as it was.
  std::optional<ir::Program> written() const {
    ir::Rewriter rewriter(
        program_, [this](const ir::Program& held) { return Overlapping(held, axes_, options_).run(); });
    for (const Item& item : items_) {
      if (!item.awaits) {
        rewriter.keep(item.equation);
        continue;
      }
      const ir::Equation& equation = program_.equations[item.equation];
      const ir::Var started = equation.outputs[0];
      std::vector<ir::Value> operands = {rewriter[started]};
      for (ir::Var var : item.after) operands.push_back(rewriter[var]);
      rewriter.replace(started, rewriter.add({.primitive = &ir::collective_done_p(), .site = equation.site},
                                             operands, program_.aval(started)));
    }
    return rewriter.finish();
  }

  struct Flight {
    std::size_t equation, start;  // start: its place among items_
    std::int64_t bytes;
  };

  const ir::Program& program_;
  const ir::Uses uses_;
  const ir::AxisEnv& axes_;
  const OverlapOptions options_;
  std::vector<double> flops_;               // of each equation
  std::vector<bool> is_light_, exchanges_;  // which equations
  std::vector<bool> starts_;                // which equations are started and awaited separately
  std::vector<Item> items_;
  std::deque<Flight> in_flight_;
  std::int64_t bytes_in_flight_ = 0;
  int clusters_ = 0;
  std::vector<bool> available_;               // which variables are computed so far
  std::vector<bool> is_written_, is_urgent_;  // which equations
};

}  // namespace

ir::Program overlap_collectives(ir::Program program, const ir::AxisEnv& axes, const OverlapOptions& options) {
  if (options.threshold_bytes == 0 || calls_host(program)) return program;
  return rewritten(std::move(program),
                   [&](const ir::Program& outermost) { return Overlapping(outermost, axes, options).run(); });
}

}  // namespace lockstep::sharding
