// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/control_flow.h"

#include <algorithm>

#include "lockstep/array/disable_jit.h"
#include "lockstep/array/evaluate.h"
#include "lockstep/base/fail.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/shape.h"
#include "lockstep/program/primitives/collectives.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/shape.h"
#include "lockstep/transforms/nested_primitives.h"

namespace lockstep::internal {
namespace {

using ir::lax::vary_over;

/// The operand of cond_p that selects the branch: an i32 scalar, clamped. Throws TraceError unless `index` is
/// a bool scalar (cond), or an integer scalar (switch_).
Array branch_index(const char* operation, const Array& index, std::size_t branches, const CallSite& site) {
  const Aval& aval = index.aval();
  if (std::string_view(operation) == "cond") {
    check_predicate(operation, aval, site);
    return ir::lax::convert_element_type(index, DType::kI32);
  }
  if (!aval.shape.empty() || !is_integer(aval.dtype)) {
    fail<TraceError>("[{}] expected an index that is an integer scalar, got {} (at {})", operation,
                     to_string(aval), site.to_string());
  }
  const Array number = ir::lax::convert_element_type(index, DType::kI32);
  const Array last = ir::lax::full_like(number, static_cast<double>(branches) - 1);
  return ir::lax::max(ir::lax::min(number, last), ir::lax::full_like(number, 0));
}

/// The value of a condition, of a branch's index, outside of traces. Throws TraceError as check_predicate
/// does.
bool condition_holds(const char* operation, const Array& condition, const CallSite& site) {
  CallSiteScope scope(site);
  check_predicate(operation, condition.aval(), site);
  return condition.item<std::uint8_t>() != 0;
}

std::size_t branch_number(const char* operation, const Array& index, std::size_t branches,
                          const CallSite& site) {
  CallSiteScope scope(site);
  return static_cast<std::size_t>(branch_index(operation, index, branches, site).item<std::int32_t>());
}

/// The xs of one call of scan.
class ScanXs {
 public:
  ScanXs(const TreeOutline& outline, std::vector<Array> xs, const ScanOptions& options, const CallSite& site);
  std::vector<Array> tracers(Trace& trace) const;
  std::vector<Array> emit(TracedProgram body, const LoopCarry& carry) const;
  std::int64_t length() const { return length_; }

  /// Outside of a trace: the elements of step number `step`, and the ys of all steps in the order of the
  /// steps.
  std::vector<Array> of_step(std::int64_t step) const;
  std::vector<Array> stacked_ys(std::vector<std::vector<Array>> ys_of_steps) const;

 private:
  std::vector<Array> xs_;
  std::int64_t length_ = 0;
  bool reverse_;
};

ScanXs::ScanXs(const TreeOutline& outline, std::vector<Array> xs, const ScanOptions& options,
               const CallSite& site)
    : xs_(std::move(xs)), reverse_(options.reverse) {
  std::optional<std::int64_t> length = options.length;
  std::string known_by = "the option length";
  for (std::size_t i = 0; i < xs_.size(); ++i) {
    const Aval& aval = xs_[i].aval();
    if (aval.shape.empty()) {
      fail<ShapeError>(
          "[scan] {} is {}, a scalar, which has no elements to scan (at {}); an array of them has a leading "
          "dimension, and what is the same in all steps belongs in the carry or is used from outside",
          outline.paths[i], to_string(aval), site.to_string());
    }
    if (length.value_or(aval.shape.front()) != aval.shape.front()) {
      fail<ShapeError>(
          "[scan] {} is {} and has {} elements, but {} says {} (at {}); all must have the same number",
          outline.paths[i], to_string(aval), aval.shape.front(), known_by, *length, site.to_string());
    }
    if (!length) known_by = outline.paths[i];
    length = aval.shape.front();
  }
  if (!length) {
    fail<ShapeError>(
        "[scan] xs holds no array, so nothing says how many steps there are (at {}); give the option "
        "length",
        site.to_string());
  }
  if (*length < 0)
    fail<ShapeError>("[scan] expected a length of 0 or more, got {} (at {})", *length, site.to_string());
  length_ = *length;
}

std::vector<Array> ScanXs::tracers(Trace& trace) const {
  std::vector<Array> out;
  for (const Array& array : xs_) {
    Aval aval = array.aval();
    aval.shape.erase(aval.shape.begin());
    out.push_back(trace.input(aval));
  }
  return out;
}

std::vector<Array> ScanXs::of_step(std::int64_t step) const {
  std::vector<Array> elements;
  for (const Array& array : xs_) elements.push_back(element(array, reverse_ ? length_ - 1 - step : step));
  return elements;
}

std::vector<Array> ScanXs::stacked_ys(std::vector<std::vector<Array>> ys_of_steps) const {
  if (reverse_) std::ranges::reverse(ys_of_steps);
  std::vector<Array> all;
  for (std::size_t k = 0; k < ys_of_steps.front().size(); ++k) {
    std::vector<Array> ys;
    for (const std::vector<Array>& step : ys_of_steps) ys.push_back(step[k]);
    all.push_back(stacked(ys));
  }
  return all;
}

std::vector<Array> ScanXs::emit(TracedProgram body, const LoopCarry& carry) const {
  const std::vector<Array> captures = body.captures;
  ir::OpParams params = ir::OpParams::of(transforms::ScanParams{
      transforms::shared(captures_first(std::move(body))), static_cast<std::int64_t>(captures.size()),
      static_cast<std::int64_t>(carry.size()), length_, reverse_});
  return emit_nested(transforms::scan_p(), std::move(params), joined(joined(captures, carry.initial()), xs_));
}

tree::AnyTree scan_in_trace(const TreeFunction& function, tree::TreeRef init, tree::TreeRef xs,
                            const ScanOptions& options, const CallSite& site) {
  LoopCarry carry("scan", outline(init, "carry"), init.leaves(), site);
  const ScanXs elements(outline(xs, "xs"), xs.leaves(), options, site);
  for (;;) {
    TracedProgram body;
    tree::AnyTree result;
    {
      Trace trace("scan");
      std::vector<tree::AnyTree> given;
      given.push_back(tree::AnyTree::with_leaves(init, carry.tracers(trace)));
      given.push_back(tree::AnyTree::with_leaves(xs, elements.tracers(trace)));
      result = function(given);
      std::vector<Array> outputs = result->element(0).leaves();
      if (!carry.settle(outline(result->element(0), "carry"), outputs)) continue;
      for (Array& y : result->element(1).leaves()) outputs.push_back(std::move(y));
      body = {trace.finish(outputs), trace.captures()};
    }
    CallSiteScope scope(site);
    result->replace_leaves(elements.emit(std::move(body), carry));
    return result;
  }
}

/// The function of a scan as one of several steps: this number of elements is the first dimension of each
/// array of its second argument, and of the ys of its result.
struct SeveralSteps {
  const TreeFunction& one;
  std::int64_t steps;
  bool reverse;

  static void* call(void* self, void* const* arguments) {
    const auto& all = *static_cast<const SeveralSteps*>(self);
    const tree::TreeRef carry{arguments[0], all.one.parameters[0]}, xs{arguments[1], all.one.parameters[1]};
    tree::AnyTree result;
    std::vector<std::vector<Array>> ys;
    for (std::int64_t i = 0; i < all.steps; ++i) {
      std::vector<tree::AnyTree> given;
      given.push_back(tree::AnyTree::copy_of(result.valid() ? result->element(0) : carry));
      std::vector<Array> element;
      for (const Array& x : xs.leaves())
        element.push_back(lockstep::index(x, all.reverse ? all.steps - 1 - i : i));
      given.push_back(tree::AnyTree::with_leaves(xs, element));
      result = all.one(given);
      ys.push_back(result->element(1).leaves());
    }
    if (all.reverse) std::ranges::reverse(ys);
    std::vector<Array> stacked;
    for (std::size_t k = 0; k < ys.front().size(); ++k) {
      std::vector<Array> each;
      for (const std::vector<Array>& step : ys) each.push_back(step[k]);
      stacked.push_back(stack(each));
    }
    result->element(1).replace_leaves(stacked);
    return result.release();
  }
};

/// A scan whose body has several steps; the remaining steps come after the loop.
tree::AnyTree unrolled_scan_in_trace(const TreeFunction& function, tree::TreeRef init, tree::TreeRef xs,
                                     ScanOptions options, const CallSite& site) {
  const std::int64_t length = ScanXs(outline(xs, "xs"), xs.leaves(), options, site).length();
  const std::int64_t steps = std::min(options.unroll, length);
  options.unroll = 1;
  if (steps < 2) return scan_in_trace(function, init, xs, options, site);
  CallSiteScope scope(site);
  const std::int64_t loops = length / steps, rest = length % steps;
  // `count` elements, beginning with `from`.
  auto elements = [&](std::int64_t from, std::int64_t count) {
    std::vector<Array> some;
    for (const Array& x : xs.leaves()) {
      Shape first(x.shape().size(), 0), last = x.shape();
      first[0] = from;
      last[0] = from + count;
      some.push_back(slice(x, first, last));
    }
    return some;
  };
  auto in_groups = [](std::vector<Array> arrays, std::int64_t groups, std::int64_t each) {
    for (Array& x : arrays) {
      Shape shape(x.shape().begin() + 1, x.shape().end());
      shape.insert(shape.begin(), {groups, each});
      x = reshape(x, shape);
    }
    return arrays;
  };
  auto several = [&](SeveralSteps& of) {
    return TreeFunction{&of, &SeveralSteps::call, function.result, function.parameters};
  };
  SeveralSteps body{function, steps, options.reverse};
  const tree::AnyTree groups = tree::AnyTree::with_leaves(
      xs, in_groups(elements(options.reverse ? rest : 0, loops * steps), loops, steps));
  options.length = loops;
  tree::AnyTree result = scan_in_trace(several(body), init, groups.ref(), options, site);
  std::vector<Array> ys = result->element(1).leaves();
  for (Array& y : ys) {
    Shape shape(y.shape().begin() + 1, y.shape().end());
    shape[0] = loops * steps;
    y = reshape(y, shape);
  }
  if (rest > 0) {
    SeveralSteps last{function, rest, options.reverse};
    std::vector<tree::AnyTree> given;
    given.push_back(tree::AnyTree::copy_of(result->element(0)));
    given.push_back(tree::AnyTree::with_leaves(xs, elements(options.reverse ? 0 : loops * steps, rest)));
    result = several(last)(given);
    const std::vector<Array> of_rest = result->element(1).leaves();
    for (std::size_t k = 0; k < ys.size(); ++k) {
      ys[k] = options.reverse ? concatenate({of_rest[k], ys[k]}) : concatenate({ys[k], of_rest[k]});
    }
  }
  result->element(1).replace_leaves(ys);
  return result;
}

/// For disabled jit: a loop that calls the function. Returns an empty tree for a scan without steps, which
/// must be traced for the types of its ys.
tree::AnyTree scan_untraced(const TreeFunction& function, tree::TreeRef init, tree::TreeRef xs,
                            const ScanOptions& options, const CallSite& site) {
  const ScanXs elements(outline(xs, "xs"), xs.leaves(), options, site);
  tree::AnyTree result;
  std::vector<std::vector<Array>> of_steps;
  for (std::int64_t step = 0; step < elements.length(); ++step) {
    std::vector<tree::AnyTree> given;
    given.push_back(tree::AnyTree::copy_of(result.valid() ? result->element(0) : init));
    {
      CallSiteScope scope(site);
      given.push_back(tree::AnyTree::with_leaves(xs, elements.of_step(step)));
    }
    result = function(given);
    of_steps.push_back(result->element(1).leaves());
  }
  if (!result.valid()) return result;
  CallSiteScope scope(site);
  result->element(1).replace_leaves(elements.stacked_ys(std::move(of_steps)));
  return result;
}

/// Branches for the same operands; the results of the one selected by `index`. If they have different
/// structures, shapes or dtypes, throws a TraceError that shows both and the path.
class Branches {
 public:
  Branches(std::string operation, Array index, std::vector<Array> operands, const CallSite& site);

  std::vector<Array> tracers(Trace& trace) const;
  void add(TreeOutline outline, Trace& trace, const std::vector<Array>& results);
  std::vector<Array> emit();

 private:
  std::string operation_;
  Array index_;
  std::vector<Array> operands_;
  CallSite site_;
  std::vector<TracedProgram> branches_;
  std::vector<TreeOutline> outlines_;
};

Branches::Branches(std::string operation, Array index, std::vector<Array> operands, const CallSite& site)
    : operation_(std::move(operation)),
      index_(std::move(index)),
      operands_(std::move(operands)),
      site_(site) {
  // If devices select different branches, the operands vary, too.
  for (Array& operand : operands_) operand = vary_over(operand, index_.aval().varying);
}

std::vector<Array> Branches::tracers(Trace& trace) const {
  std::vector<Array> out;
  for (const Array& array : operands_) out.push_back(trace.input(array.aval()));
  return out;
}

void Branches::add(TreeOutline outline, Trace& trace, const std::vector<Array>& results) {
  branches_.push_back({trace.finish(results), trace.captures()});
  outlines_.push_back(std::move(outline));
}

std::vector<Array> Branches::emit() {
  auto name = [&](std::size_t b) {
    return operation_ == "cond" ? std::string(b == 0 ? "on_false" : "on_true") : fmt::format("branch {}", b);
  };
  std::vector<Aval> expected = branches_[0].program.output_avals();
  for (std::size_t b = 1; b < branches_.size(); ++b) {
    if (outlines_[b].paths != outlines_[0].paths || outlines_[b].structure != outlines_[0].structure) {
      fail<TraceError>(
          "[{}] the branches give different structures: {} gives {} arrays{}, and {} gives {} arrays{} (at "
          "{}); give the same from each",
          operation_, name(0), outlines_[0].paths.size(),
          outlines_[0].structure.empty() ? "" : " and " + outlines_[0].structure, name(b),
          outlines_[b].paths.size(), outlines_[b].structure.empty() ? "" : " and " + outlines_[b].structure,
          site_.to_string());
    }
    const std::vector<Aval> given = branches_[b].program.output_avals();
    for (std::size_t k = 0; k < expected.size(); ++k) {
      Aval& aval = expected[k];
      const std::vector<ElementType> types = {{aval.dtype, aval.weak_type},
                                              {given[k].dtype, given[k].weak_type}};
      const bool meet = aval.dtype == given[k].dtype || aval.weak_type || given[k].weak_type;
      if (aval.shape != given[k].shape || !meet) {
        fail<TraceError>(
            "[{}] the branches give different types: {} is {} of {} and {} of {} (at {}); give the same "
            "shape and dtype from each, with reshape or astype",
            operation_, outlines_[0].paths[k], to_string(Aval{aval.dtype, aval.shape}), name(0),
            to_string(Aval{given[k].dtype, given[k].shape}), name(b), site_.to_string());
      }
      const ElementType type = promote(operation_, types);
      aval.dtype = type.dtype;
      aval.weak_type = type.weak;
      aval.varying = ir::both(aval.varying, given[k].varying);
    }
  }
  for (Aval& aval : expected) aval.varying = ir::both(aval.varying, index_.aval().varying);

  const Array index = branch_index(operation_.c_str(), index_, branches_.size(), site_);
  return emit_branches(index, branches_, expected, operands_);
}

}  // namespace

Array counter(std::int64_t first, std::int64_t last) {
  const bool small = holds(DType::kI32, first) && holds(DType::kI32, last);
  return ir::lax::full(Array(), ir::Scalar::of(first), small ? DType::kI32 : DType::kI64, {});
}

std::pair<Array, Array> loop_bounds(const Operand& lower, const Operand& upper) {
  std::vector<ElementType> types;
  for (const Operand* bound : {&lower, &upper}) {
    const Aval aval = bound->aval();
    if (!aval.shape.empty() || !is_integer(aval.dtype)) {
      fail<TraceError>("[fori_loop] expected bounds that are integer scalars, got {} (at {})",
                       to_string(aval), bound->site().to_string());
    }
    types.push_back({aval.dtype, aval.weak_type});
  }
  const DType dtype = promote("fori_loop", types).dtype;
  if (!is_integer(dtype)) {
    fail<TraceError>(
        "[fori_loop] no integer dtype holds both bounds, {} and {} (at {}); convert one, with astype",
        to_string(lower.aval()), to_string(upper.aval()), lower.site().to_string());
  }
  auto bound = [&](const Operand& each) {
    return ir::lax::convert_element_type(each.as_array({dtype, false}), dtype);
  };
  return {bound(lower), bound(upper)};
}

tree::AnyTree scan_of(const TreeFunction& function, tree::TreeRef init, tree::TreeRef xs,
                      const ScanOptions& options, const CallSite& site) {
  if (options.unroll < 1)
    fail("[scan] expected an unroll of 1 or more, got {} (at {})", options.unroll, site.to_string());
  if (jit_is_disabled()) {
    if (tree::AnyTree done = scan_untraced(function, init, xs, options, site); done.valid()) return done;
  }
  const tree::TreeRef trees[] = {init, xs};
  return run_trees_in_trace("scan", site, trees, [&](const std::vector<tree::TreeRef>& given) {
    return options.unroll > 1 ? unrolled_scan_in_trace(function, given[0], given[1], options, site)
                              : scan_in_trace(function, given[0], given[1], options, site);
  });
}

tree::AnyTree while_of(const TreeFunction& condition, const TreeFunction& body, tree::TreeRef init,
                       const CallSite& site) {
  auto call = [](const TreeFunction& function, tree::AnyTree carry) { return function({&carry, 1}); };
  auto holds = [&](tree::AnyTree carry) { return call(condition, std::move(carry)).take<Array>(); };
  if (jit_is_disabled()) {
    tree::AnyTree carry = tree::AnyTree::copy_of(init);
    while (condition_holds("while_loop", holds(tree::AnyTree::copy_of(carry.ref())), site))
      carry = call(body, std::move(carry));
    return carry;
  }
  return run_trees_in_trace("while_loop", site, {&init, 1}, [&](const std::vector<tree::TreeRef>& given) {
    auto go_on = [&](const std::vector<Array>& carry) {
      return holds(tree::AnyTree::with_leaves(init, carry));
    };
    auto step = [&](const std::vector<Array>& carry) {
      const tree::AnyTree result = call(body, tree::AnyTree::with_leaves(init, carry));
      return std::pair(outline(result.ref(), "carry"), result->leaves());
    };
    return tree::AnyTree::with_leaves(
        init, while_of_arrays("while_loop", outline(init, "carry"), given[0].leaves(), go_on, step, site));
  });
}

tree::AnyTree choice_of(const char* operation, const Operand& index, std::span<const TreeFunction> branches,
                        std::span<const tree::TreeRef> arguments) {
  const CallSite site = index.site();
  const Array which = index.as_array();
  if (jit_is_disabled()) {
    std::vector<tree::AnyTree> given;
    for (const tree::TreeRef& argument : arguments) given.push_back(tree::AnyTree::copy_of(argument));
    return branches[branch_number(operation, which, branches.size(), site)](given);
  }
  std::vector<tree::TreeRef> trees{tree::tree_ref(which)};
  trees.insert(trees.end(), arguments.begin(), arguments.end());
  return run_trees_in_trace(operation, site, trees, [&](const std::vector<tree::TreeRef>& given) {
    const std::span<const tree::TreeRef> operands = std::span(given).subspan(1);
    Branches all(operation, *static_cast<const Array*>(given[0].tree), all_leaves(operands), site);
    tree::AnyTree result;
    for (const TreeFunction& branch : branches) {
      Trace trace("branch");
      result = branch(TreeCopies(operands, all.tracers(trace)).trees);
      all.add(outline(result.ref(), "result"), trace, result->leaves());
    }
    CallSiteScope scope(site);
    result->replace_leaves(all.emit());
    return result;
  });
}

}  // namespace lockstep::internal
