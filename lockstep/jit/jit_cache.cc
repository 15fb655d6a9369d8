// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/jit_cache.h"

#include <algorithm>
#include <chrono>

#include "lockstep/array/data.h"
#include "lockstep/array/disable_jit.h"
#include "lockstep/array/parts.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/jit/loaded_entry.h"
#include "lockstep/jit/traced_function.h"
#include "lockstep/runtime/runtime.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/transforms/dce.h"
#include "lockstep/watch/recorder.h"

namespace lockstep {

Donated::Donated(int argnum, tree::PerLeaf<bool> arrays) : argnum(argnum), arrays(std::move(arrays)) {}

namespace internal {
namespace {

using Shardings = std::vector<std::optional<Sharding>>;

/// Puts the constraints on the arrays of a tree.
void constrain(tree::TreeRef tree, const Shardings& shardings, std::string_view what, std::size_t i) {
  std::size_t k = 0;
  tree.change_leaves([&](Array& array) {
    const std::optional<Sharding>& sharding = shardings[k++];
    if (!sharding) return;
    sharding::check_divisible(array.aval(), sharding->spec(), sharding->mesh(),
                              fmt::format("jit, an array of {} {}", what, i));
    array = ir::lax::sharding_constraint(array, sharding::placement(sharding->mesh(), sharding->spec()));
  });
}

/// Throws ShardingError, with its path, if an array of the tree does not fit its sharding.
void check_fits(tree::TreeRef tree, const std::string& name, const Shardings& shardings) {
  if (std::ranges::none_of(shardings, [](const auto& each) { return each.has_value(); })) return;
  const std::vector<std::string> paths = outline(tree, name).paths;
  std::size_t k = 0;
  tree.for_each_leaf([&](const Array& array) {
    const std::size_t here = k++;
    if (const std::optional<Sharding>& sharding = shardings[here])
      sharding::check_divisible(array.aval(), sharding->spec(), sharding->mesh(), "jit, " + paths[here]);
  });
}

std::string name_of(const JitOptions& options, const CallSite& site) {
  return options.name.empty() ? fmt::format("jit@{}", site.to_string()) : options.name;
}

/// An entry that runs the traced program operation by operation; it is not kept.
std::shared_ptr<const CallEntry> to_evaluate(TracedProgram traced, NumberInputs::Places doubles,
                                             std::shared_ptr<void> exemplar) {
  auto entry = std::make_shared<CallEntry>();
  entry->traced =
      std::make_shared<const ir::Program>(transforms::eliminate_dead_code(std::move(traced.program)));
  entry->captures = std::move(traced.captures);
  entry->doubles = std::move(doubles);
  entry->exemplar = std::move(exemplar);
  return entry;
}

}  // namespace

JitCache::JitCache(JitOptions options, const CallSite& site)
    : options_(std::move(options)), calls_("jit", name_of(options_, site), site) {}

CallResult JitCache::call(const TreeFunction& function, std::span<TreeArgument> arguments) {
  if (jit_is_disabled()) return CallResult(call_in_trace(function, arguments));
  return call_traced(function, arguments);
}

CallResult JitCache::call_traced(const TreeFunction& function, std::span<TreeArgument> arguments) {
  if (Trace::current() != nullptr) return CallResult(call_in_trace(function, arguments));
  SpareSignature signature;
  auto entry =
      entry_of(function, arguments, *signature, jit_is_disabled() ? Stage::kTraced : Stage::kCompiled);
  std::vector<Array> results = entry->run(signature->leaves(), site());
  return {std::move(entry), std::move(results)};
}

CallResult JitCache::eval_shape(const TreeFunction& function, std::span<TreeArgument> arguments) {
  SpareSignature signature;
  std::shared_ptr<const CallEntry> entry = entry_of(function, arguments, *signature, Stage::kTraced);
  const Sharding here = SingleDeviceSharding(runtime::Runtime::get().local_devices().front());
  std::vector<Array> results;
  for (const Aval& aval : entry->traced->output_avals())
    results.push_back(without_elements(aval, here, /*committed=*/false));
  return {std::move(entry), std::move(results)};
}

std::shared_ptr<const CallEntry> JitCache::lower(const TreeFunction& function,
                                                 std::span<TreeArgument> arguments) {
  SpareSignature signature;
  return entry_of(function, arguments, *signature, Stage::kLowered);
}

void JitCache::check_outermost() const {
  if (options_.compiler_options.empty() || Trace::current() == nullptr) return;
  fail<TraceError>(
      "[jit] {} is called within another traced function and has compiler_options {} (at {}); one program is "
      "compiled of both, so give the options to the outermost jit",
      calls_.name(), to_string(options_.compiler_options), site().to_string());
}

tree::AnyTree JitCache::call_in_trace(const TreeFunction& function, std::span<TreeArgument> arguments) const {
  check_outermost();
  std::vector<tree::AnyTree> given;
  for (const tree::TreeRef& argument : with_numbers_as_arrays(arguments)) {
    const std::size_t i = given.size();
    given.push_back(tree::AnyTree::copy_of(argument));
    if (options_.in_shardings.at(i) == nullptr) continue;
    CallSiteScope scope(site());
    constrain(given.back().ref(), in_shardings(i, argument), "argument", i);
  }
  tree::AnyTree result = function(given);
  check_options(arguments.size(), result->num_elements());
  for (std::size_t i = 0; i < result->num_elements(); ++i) {
    if (options_.out_shardings.at(i) == nullptr) continue;
    CallSiteScope scope(site());
    const tree::TreeRef element = result->element(i);
    constrain(element, out_shardings(i, element), "result", i);
  }
  return result;
}

TreeOption JitCache::option(std::string_view name, std::string_view trees) const {
  return {"jit", name, trees, site().to_string()};
}

Shardings JitCache::in_shardings(std::size_t i, tree::TreeRef argument) const {
  return option("in_shardings", "argument")
      .values<ShardingError>(options_.in_shardings, i, argument, std::optional<Sharding>());
}

Shardings JitCache::out_shardings(std::size_t i, tree::TreeRef result) const {
  return option("out_shardings", "result")
      .values<ShardingError>(options_.out_shardings, i, result, std::optional<Sharding>());
}

std::vector<bool> JitCache::donated(std::size_t i, tree::TreeRef argument) const {
  std::vector<bool> all(argument.num_leaves(), false);
  for (const Donated& each : options_.donate_argnums) {
    if (each.argnum != static_cast<int>(i)) continue;
    const auto these = option("donate_argnums", "argument").values<ShardingError>(each.arrays, i, argument);
    for (std::size_t k = 0; k < these.size(); ++k) all[k] = all[k] || these[k];
  }
  return all;
}

std::shared_ptr<const CallEntry> JitCache::entry_of(const TreeFunction& function,
                                                    std::span<TreeArgument> arguments, Signature& signature,
                                                    Stage stage) {
  {
    CallSiteScope here(site());
    signature.result(*function.result);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].is_number() && !is_static(i, arguments.size())) arguments[i].make_array();
      signature.argument(arguments[i].ref());
    }
  }
  auto entry = stage == Stage::kTraced ? nullptr : calls_.find(signature);
  return entry != nullptr ? entry : trace(function, arguments, stage);
}

std::shared_ptr<const CallEntry> JitCache::trace(const TreeFunction& function,
                                                 std::span<const TreeArgument> arguments, Stage stage) {
  const auto start = std::chrono::steady_clock::now();
  const NamedScopeReset unnamed;  // it serves all callers
  Signature signature(/*described=*/true);
  signature.result(*function.result);
  for (const TreeArgument& argument : arguments) signature.argument(argument.ref());
  check_static(signature);
  TracedProgram traced;
  NumberInputs numbers;
  tree::AnyTree result;
  {
    const watch::Doing tracing(watch::Kind::kTrace, calls_.name());
    Trace trace(calls_.name());
    std::vector<tree::AnyTree> tracers;
    std::size_t leaf = 0;
    for (const TreeArgument& argument : arguments) {
      tracers.push_back(tree::AnyTree::copy_of(argument.ref()));
      tracers.back()->change_leaves([&](Array& array) {
        array = trace.input(array.aval());
        numbers.add(array, leaf++);
      });
    }
    // After all inputs: a number that is compiled in, though the function takes an Array.
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].is_number() || !is_static(i, arguments.size())) continue;
      const Array constant = arguments[i].number_as_array();
      tracers[i] = tree::AnyTree::copy_of(tree::tree_ref(constant));
    }
    result = function(tracers);
    check_options(arguments.size(), result->num_elements());
    traced.program = trace.finish(result->leaves());
    traced.captures = trace.captures();
  }
  NumberInputs::Places doubles = numbers.places(traced.captures);
  if (stage == Stage::kTraced)
    return to_evaluate(std::move(traced), std::move(doubles), exemplar_of(std::move(result)));
  ComputationOptions options{.combine_threshold_bytes = options_.combine_threshold_bytes,
                             .overlap_threshold_bytes = options_.overlap_threshold_bytes,
                             .gathered_for_loops_bytes = options_.gathered_for_loops_bytes,
                             .kept_gathered_bytes = options_.kept_gathered_bytes,
                             .memory_limit_bytes = options_.memory_limit_bytes,
                             .compiler_options = options_.compiler_options,
                             .only_lower = stage == Stage::kLowered};
  auto append = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    append(options.in_shardings, in_shardings(i, arguments[i].ref()));
    append(options.donated, donated(i, arguments[i].ref()));
  }
  for (std::size_t i = 0; i < result->num_elements(); ++i) {
    const Shardings these = out_shardings(i, result->element(i));
    CallSiteScope scope(site());
    check_fits(result->element(i), result->num_elements() == 1 ? "result" : fmt::format("result[{}]", i),
               these);
    append(options.out_shardings, these);
  }
  return add(signature, std::move(traced), std::move(doubles), std::move(options),
             exemplar_of(std::move(result)), std::chrono::steady_clock::now() - start);
}

bool JitCache::is_static(std::size_t i, std::size_t num_arguments) const {
  const int from_start = static_cast<int>(i), from_end = from_start - static_cast<int>(num_arguments);
  return std::ranges::any_of(options_.static_argnums,
                             [&](int each) { return each == from_start || each == from_end; });
}

void JitCache::check_static(const Signature& signature) const {
  const int count = static_cast<int>(signature.num_arguments());
  for (int each : options_.static_argnums) {
    if (each < -count || each >= count) {
      fail<TraceError>(
          "[jit] static_argnums has {}, but the function (at {}) is called with {} arguments; give numbers "
          "of 0 to {}, or of -{} to -1",
          each, site().to_string(), count, count - 1, count);
    }
  }
  for (int argument : signature.argument_of()) {
    if (!is_static(static_cast<std::size_t>(argument), signature.num_arguments())) continue;
    fail<TraceError>(
        "[jit] argument {} of the function (at {}) is among static_argnums, but holds arrays, whose values "
        "are not known when it is compiled; leave it out there",
        argument, site().to_string());
  }
}

void JitCache::check_options(std::size_t num_arguments, std::size_t num_results) const {
  option("in_shardings", "argument").check_at_most<ShardingError>(options_.in_shardings, num_arguments);
  option("out_shardings", "result").check_at_most<ShardingError>(options_.out_shardings, num_results);
  for (const Donated& each : options_.donate_argnums) {
    const int argument = each.argnum;
    if (argument >= 0 && static_cast<std::size_t>(argument) < num_arguments) continue;
    fail<TraceError>(
        "[jit] donate_argnums names argument {}, but the function (at {}) has {}, counted from 0", argument,
        site().to_string(), num_arguments);
  }
}

std::shared_ptr<const CallEntry> JitCache::add(const Signature& signature, TracedProgram traced,
                                               NumberInputs::Places doubles, ComputationOptions options,
                                               std::shared_ptr<void> exemplar,
                                               std::chrono::duration<double> tracing) {
  CallSiteScope scope(site());
  std::vector<const ArrayType*> types;
  for (const Array* array : signature.leaves()) types.push_back(concrete(*array, "[jit] an argument:").type);
  for (const Array& array : traced.captures)
    types.push_back(concrete(array, "[jit] an array from outside:").type);
  options.in_shardings.resize(types.size());
  options.donated.resize(types.size());
  return calls_.add(signature, Computation::compile(std::move(traced.program), types, options),
                    std::move(traced.captures), std::move(doubles), std::move(exemplar), tracing);
}

std::shared_ptr<JitCache> make_jit_cache(JitOptions options, const CallSite& site) {
  return std::make_shared<JitCache>(std::move(options), site);
}

CallResult call_jitted(JitCache& cache, const TreeFunction& function, std::span<TreeArgument> arguments) {
  return cache.call(function, arguments);
}

CallResult eval_shape_jitted(JitCache& cache, const TreeFunction& function,
                             std::span<TreeArgument> arguments) {
  return cache.eval_shape(function, arguments);
}

std::shared_ptr<const CallEntry> lower_jitted(JitCache& cache, const TreeFunction& function,
                                              std::span<TreeArgument> arguments) {
  return cache.lower(function, arguments);
}

const CallSite& site_of(const JitCache& cache) { return cache.site(); }

void compile_entry(const CallEntry& entry, const CallSite& site) {
  CallSiteScope scope(site);
  entry.computation->ensure_compiled();
}

const ComputationText& text_of(const CallEntry& entry) { return entry.computation->text(); }
Cost cost_of(const CallEntry& entry) { return entry.computation->cost(); }

const void* CallResult::exemplar() const { return entry_->exemplar.get(); }

void CallResult::put_arrays(tree::TreeRef result) {
  // Each is taken, so that none has two owners.
  std::size_t next = 0;
  result.change_leaves([&](Array& array) { array = std::move(arrays_[next++]); });
}

std::shared_ptr<void> exemplar_of(tree::AnyTree tree) {
  tree->change_leaves([](Array& array) { array = Array(); });
  const tree::TreeType& type = *tree->type;
  return {tree.release(), type.destroy};
}

CallResult call_lowered(const std::shared_ptr<const CallEntry>& entry, const tree::TreeType& result,
                        std::span<TreeArgument> arguments, const CallSite& site) {
  if (entry->loaded != nullptr) return {entry, run_loaded(*entry, arguments, site)};
  Signature signature;
  signature.result(result);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_number() && entry->takes_array(i)) arguments[i].make_array();
    signature.argument(arguments[i].ref());
  }
  if (signature.words() != entry->signature) {
    throw TraceError("[jit] the compiled function (of " + site.to_string() +
                     ") was lowered for arguments of other shapes, dtypes, shardings or structure; call the "
                     "jitted function, or lower it for these");
  }
  return {entry, entry->run(signature.leaves(), site)};
}

}  // namespace internal
}  // namespace lockstep
