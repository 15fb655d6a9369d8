#include "lockstep/jit/jit.h"

#include <algorithm>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/base/fail.h"
#include "lockstep/sharding/placement.h"
#include "lockstep/sharding/sharding.h"

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

}  // namespace

JitCache::JitCache(JitOptions options, const CallSite& site)
    : options_(std::move(options)), site_(site), name_(options_.name) {
  if (name_.empty()) name_ = fmt::format("jit@{}", site.to_string());
}

std::shared_ptr<const JitEntry> JitCache::find(const std::vector<std::uint64_t>& signature) const {
  std::lock_guard lock(mutex_);
  if (last_ && last_->signature == signature) return last_;
  for (const auto& entry : entries_) {
    if (entry->signature == signature) return last_ = entry;
  }
  return nullptr;
}

std::shared_ptr<const JitEntry> JitCache::add(const Signature& signature, Program program,
                                              std::vector<Array> captures,
                                              const std::vector<int>& argument_of,
                                              const std::vector<int>& result_of,
                                              std::shared_ptr<void> exemplar) {
  CallSiteScope scope(site_);
  std::vector<const ArrayType*> types;
  for (const Array* array : signature.leaves()) types.push_back(concrete(*array, "[jit] an argument").type);
  for (const Array& array : captures) types.push_back(concrete(array, "[jit] an array from outside").type);
  ComputationOptions options;
  for (int argument : argument_of) {
    options.in_shardings.push_back(at(options_.in_shardings, argument));
    options.donated.push_back(std::ranges::find(options_.donate_argnums, argument) !=
                              options_.donate_argnums.end());
  }
  for (int result : result_of) options.out_shardings.push_back(at(options_.out_shardings, result));
  options.in_shardings.resize(types.size());
  options.donated.resize(types.size());

  auto entry = std::make_shared<JitEntry>();
  entry->signature = signature.words();
  entry->computation = Computation::compile(std::move(program), types, options);
  entry->captures = std::move(captures);
  entry->exemplar = std::move(exemplar);
  std::lock_guard lock(mutex_);
  entries_.push_back(entry);
  return last_ = entry;
}

void JitCache::check_options(std::size_t num_arguments, std::size_t num_results) const {
  auto check = [&](std::string_view option, std::size_t given, std::size_t there, std::string_view what) {
    if (given <= there) return;
    fail<ShardingError>(
        "[jit] {} has {} entries, but the function (at {}) has {} {}; give at most one for each", option,
        given, site_.to_string(), there, what);
  };
  check("in_shardings", options_.in_shardings.size(), num_arguments, "arguments");
  check("out_shardings", options_.out_shardings.size(), num_results, "results");
  for (int argument : options_.donate_argnums) {
    if (argument >= 0 && static_cast<std::size_t>(argument) < num_arguments) continue;
    fail<TraceError>(
        "[jit] donate_argnums names argument {}, but the function (at {}) has {}, counted from 0", argument,
        site_.to_string(), num_arguments);
  }
}

Array JitCache::argument_in_trace(const Array& array, int argument) const {
  CallSiteScope scope(site_);
  return constrained(array, at(options_.in_shardings, argument), "an array of argument", argument);
}

Array JitCache::result_in_trace(const Array& array, int result) const {
  CallSiteScope scope(site_);
  return constrained(array, at(options_.out_shardings, result), "an array of result", result);
}

std::vector<Array> JitCache::run(const JitEntry& entry, const std::vector<const Array*>& leaves,
                                 const CallSite& site) {
  CallSiteScope scope(site);
  if (entry.captures.empty()) return entry.computation->run(leaves);
  std::vector<const Array*> all = leaves;
  for (const Array& array : entry.captures) all.push_back(&array);
  return entry.computation->run(all);
}

}  // namespace lockstep::internal
