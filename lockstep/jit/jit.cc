#include "lockstep/jit/jit.h"

#include <algorithm>

#include "lockstep/array/data.h"
#include "lockstep/array/sharding_constraint.h"
#include "lockstep/base/fail.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/transforms/dce.h"

namespace lockstep::internal {
namespace {

std::optional<Sharding> at(const std::vector<std::optional<Sharding>>& shardings, int i) {
  auto index = static_cast<std::size_t>(i);
  return index < shardings.size() ? shardings[index] : std::nullopt;
}

Array constrained(const Array& array, const std::optional<Sharding>& sharding, std::string_view what, int i) {
  if (!sharding) return array;
  check_divisible(array.aval(), sharding->spec(), sharding->mesh(), fmt::format("jit, {} {}", what, i));
  return lax::sharding_constraint(array, sharding::placement(sharding->mesh(), sharding->spec()));
}

std::string name_of(const JitOptions& options, const CallSite& site) {
  return options.name.empty() ? fmt::format("jit@{}", site.to_string()) : options.name;
}

}  // namespace

JitCache::JitCache(JitOptions options, const CallSite& site)
    : options_(std::move(options)), calls_("jit", name_of(options_, site), site) {}

bool JitCache::names_static(std::size_t i, std::size_t num_arguments) const {
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
          "of "
          "0 to {}, or of -{} to -1",
          each, site().to_string(), count, count - 1, count);
    }
  }
  for (int argument : signature.argument_of()) {
    if (!is_static(static_cast<std::size_t>(argument), signature.num_arguments())) continue;
    fail<TraceError>(
        "[jit] argument {} of the function (at {}) is among static_argnums, but holds arrays, whose values "
        "are "
        "not known when it is compiled; leave it out there",
        argument, site().to_string());
  }
}

void JitCache::check_options(std::size_t num_arguments, std::size_t num_results) const {
  auto check = [&](std::string_view option, std::size_t given, std::size_t there, std::string_view what) {
    if (given <= there) return;
    fail<ShardingError>(
        "[jit] {} has {} entries, but the function (at {}) has {} {}; give at most one for each", option,
        given, site().to_string(), there, what);
  };
  check("in_shardings", options_.in_shardings.size(), num_arguments, "arguments");
  check("out_shardings", options_.out_shardings.size(), num_results, "results");
  for (int argument : options_.donate_argnums) {
    if (argument >= 0 && static_cast<std::size_t>(argument) < num_arguments) continue;
    fail<TraceError>(
        "[jit] donate_argnums names argument {}, but the function (at {}) has {}, counted from 0", argument,
        site().to_string(), num_arguments);
  }
}

Array JitCache::argument_in_trace(const Array& array, int argument) const {
  CallSiteScope scope(site());
  return constrained(array, at(options_.in_shardings, argument), "an array of argument", argument);
}

Array JitCache::result_in_trace(const Array& array, int result) const {
  CallSiteScope scope(site());
  return constrained(array, at(options_.out_shardings, result), "an array of result", result);
}

std::shared_ptr<const CallEntry> JitCache::add(const Signature& signature, Program program,
                                               std::vector<Array> captures, const std::vector<int>& result_of,
                                               std::shared_ptr<void> exemplar,
                                               std::chrono::duration<double> tracing) {
  CallSiteScope scope(site());
  std::vector<const ArrayType*> types;
  for (const Array* array : signature.leaves()) types.push_back(concrete(*array, "[jit] an argument").type);
  for (const Array& array : captures) types.push_back(concrete(array, "[jit] an array from outside").type);
  ComputationOptions options{.combine_threshold_bytes = options_.combine_threshold_bytes,
                             .gathered_for_loops_bytes = options_.gathered_for_loops_bytes,
                             .memory_limit_bytes = options_.memory_limit_bytes};
  for (int argument : signature.argument_of()) {
    options.in_shardings.push_back(at(options_.in_shardings, argument));
    options.donated.push_back(std::ranges::find(options_.donate_argnums, argument) !=
                              options_.donate_argnums.end());
  }
  for (int result : result_of) options.out_shardings.push_back(at(options_.out_shardings, result));
  options.in_shardings.resize(types.size());
  options.donated.resize(types.size());
  return calls_.add(signature, Computation::compile(std::move(program), types, options), std::move(captures),
                    std::move(exemplar), tracing);
}

std::shared_ptr<const CallEntry> JitCache::to_evaluate(Program program, std::vector<Array> captures,
                                                       std::shared_ptr<void> exemplar) {
  auto entry = std::make_shared<CallEntry>();
  entry->traced = std::make_shared<const Program>(transforms::eliminate_dead_code(std::move(program)));
  entry->captures = std::move(captures);
  entry->exemplar = std::move(exemplar);
  return entry;
}

}  // namespace lockstep::internal
