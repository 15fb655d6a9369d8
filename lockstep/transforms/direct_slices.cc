// SPDX-License-Identifier: Apache-2.0
#include "lockstep/transforms/direct_slices.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/all_are.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/program/rewriter.h"
#include "lockstep/program/uses.h"
#include "lockstep/transforms/by_element.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/transforms/nested.h"

namespace lockstep::transforms {
namespace {

using Integers = std::vector<std::int64_t>;

/// A contiguous part of an array.
struct Region {
  Shape start, limit;

  bool is_whole(const Shape& shape) const { return limit == shape && all_are(start, 0); }
};

bool is_contiguous_slice(const ir::Equation& equation) {
  return equation.primitive == &ir::slice_p() && all_are(equation.params.as<ir::SliceParams>().strides, 1);
}

/// Which values are never computed as a whole, because all their users take slices.
class OnlySliced {
 public:
  explicit OnlySliced(const ir::Program& program)
      : program_(program),
        uses_(program),
        flags_(program.variables.size()),
        made_by_(ir::equations_of_variables(program)) {
    bool any = false;
    for (const ir::Equation& equation : program.equations) {
      if (!may_be(equation)) continue;
      flags_[at(equation.outputs[0])] = any = true;
    }
    // A value depends on what its users are, and a sum also on its operands.
    for (bool changed = any; changed;) {
      changed = false;
      for (std::size_t e = program.equations.size(); e-- > 0;) {
        const ir::Equation& equation = program.equations[e];
        if (!may_be(equation)) continue;
        const ir::Var var = equation.outputs[0];
        if (!flags_[at(var)] || holds(equation)) continue;
        flags_[at(var)] = false;
        changed = true;
      }
    }
  }

  bool operator()(ir::Var var) const { return flags_[at(var)]; }
  const ir::Equation& made_by(ir::Var var) const { return *made_by_[at(var)]; }

 private:
  static std::size_t at(ir::Var var) { return static_cast<std::size_t>(var); }

  static bool may_be(const ir::Equation& equation) {
    if (equation.primitive == &ir::pad_p()) return all_are(equation.params.as<ir::PadParams>().interior, 0);
    return equation.primitive == &ir::concatenate_p() || equation.primitive == &ir::add_p();
  }

  bool holds(const ir::Equation& equation) const {
    const ir::Var var = equation.outputs[0];
    if (!uses_.is_used(var)) return false;
    const bool is_sum = equation.primitive == &ir::add_p();
    if (is_sum && !std::ranges::all_of(equation.inputs, [&](ir::Var input) { return (*this)(input); }))
      return false;
    return std::ranges::all_of(uses_.of(var), [&](std::size_t place) {
      if (place == program_.equations.size()) return false;
      const ir::Equation& user = program_.equations[place];
      if (is_contiguous_slice(user)) {
        return num_elements(program_.aval(user.outputs[0]).shape) > 0 &&
               is_read_by_elements(program_, uses_, user.outputs[0]);
      }
      const bool is_fill = user.primitive == &ir::pad_p() && user.inputs[1] == var;
      return may_be(user) && (*this)(user.outputs[0]) && !is_fill;
    });
  }

  const ir::Program& program_;
  const ir::Uses uses_;
  std::vector<bool> flags_;
  const std::vector<const ir::Equation*> made_by_;
};

/// Writes a program anew, with slices of what is only sliced.
class Writing {
 public:
  Writing(ir::Rewriter& rewriter, const ir::Program& program)
      : rewriter_(rewriter), program_(program), only_sliced_(program) {}

  /// None where nothing changes.
  std::optional<ir::Program> run() {
    for (std::size_t e = 0; e < program_.equations.size(); ++e) {
      const ir::Equation& equation = program_.equations[e];
      if (equation.outputs.size() == 1 && only_sliced_(equation.outputs[0])) continue;
      if (!is_contiguous_slice(equation) || !only_sliced_(equation.inputs[0])) {
        rewriter_.keep(e);
        continue;
      }
      const ir::EquationsAt at(rewriter_.builder(), equation.site);
      const auto& s = equation.params.as<ir::SliceParams>();
      rewriter_.replace(equation.outputs[0], sliced(equation.inputs[0], {s.start_indices, s.limit_indices}));
    }
    return rewriter_.finish();
  }

 private:
  ir::Value sliced(ir::Var var, const Region& region) {
    if (!only_sliced_(var)) {
      return region.is_whole(program_.aval(var).shape)
                 ? rewriter_[var]
                 : ir::lax::slice(rewriter_[var], region.start, region.limit);
    }
    const ir::Equation& equation = only_sliced_.made_by(var);
    if (equation.primitive == &ir::pad_p()) return of_pad(equation, region);
    if (equation.primitive == &ir::concatenate_p()) return of_concatenation(equation, region);
    return ir::lax::add(sliced(equation.inputs[0], region), sliced(equation.inputs[1], region));
  }

  ir::Value of_pad(const ir::Equation& equation, const Region& region) {
    const auto& p = equation.params.as<ir::PadParams>();
    const ir::Var x = equation.inputs[0];
    const ir::Value fill = rewriter_[equation.inputs[1]];
    const Shape& shape = program_.aval(x).shape;
    const std::size_t rank = shape.size();
    Integers low(rank), high(rank), none(rank);
    Region inside{Shape(rank), Shape(rank)};
    bool is_empty = false;
    Shape whole;
    for (std::size_t d = 0; d < rank; ++d) {
      low[d] = p.low[d] - region.start[d];
      high[d] = region.limit[d] - p.low[d] - shape[d];
      inside.start[d] = std::clamp<std::int64_t>(-low[d], 0, shape[d]);
      inside.limit[d] = std::clamp<std::int64_t>(shape[d] + high[d], inside.start[d], shape[d]);
      is_empty = is_empty || inside.start[d] == inside.limit[d];
      whole.push_back(region.limit[d] - region.start[d]);
    }
    if (is_empty) return ir::lax::broadcast_in_dim(fill, whole, {});
    ir::Value value = only_sliced_(x) ? sliced(x, inside) : rewriter_[x];
    if (only_sliced_(x)) {
      for (std::size_t d = 0; d < rank; ++d) {
        low[d] = std::max<std::int64_t>(low[d], 0);
        high[d] = std::max<std::int64_t>(high[d], 0);
      }
    }
    return all_are(low, 0) && all_are(high, 0) ? value : ir::lax::pad(value, fill, low, high, none);
  }

  ir::Value of_concatenation(const ir::Equation& equation, const Region& region) {
    const std::int64_t dimension = equation.params.as<ir::ConcatenateParams>().dimension;
    const auto d = static_cast<std::size_t>(dimension);
    Values parts;
    std::int64_t begin = 0;
    for (ir::Var operand : equation.inputs) {
      const std::int64_t size = program_.aval(operand).shape[d];
      Region part = region;
      part.start[d] = std::clamp<std::int64_t>(region.start[d] - begin, 0, size);
      part.limit[d] = std::clamp<std::int64_t>(region.limit[d] - begin, part.start[d], size);
      begin += size;
      if (part.start[d] < part.limit[d]) parts.push_back(sliced(operand, part));
    }
    return parts.size() == 1 ? parts[0] : ir::lax::concatenate(std::span<const ir::Value>(parts), dimension);
  }

  ir::Rewriter& rewriter_;
  const ir::Program& program_;
  const OnlySliced only_sliced_;
};

std::optional<ir::Program> with_direct_slices(const ir::Program& program) {
  ir::Rewriter rewriter(program, with_direct_slices);
  std::optional<ir::Program> result = Writing(rewriter, program).run();
  if (result) result = eliminate_dead_code(std::move(*result));
  return result;
}

}  // namespace

ir::Program direct_slices(ir::Program program) { return rewritten(std::move(program), with_direct_slices); }

}  // namespace lockstep::transforms
