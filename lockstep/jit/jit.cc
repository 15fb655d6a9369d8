#include "lockstep/jit/jit.h"

#include <algorithm>

#include "lockstep/base/fail.h"

namespace lockstep::internal {
namespace {

std::optional<Sharding> at(const std::vector<std::optional<Sharding>>& shardings, int i) {
  auto index = static_cast<std::size_t>(i);
  return index < shardings.size() ? shardings[index] : std::nullopt;
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

std::vector<Array> JitCache::run(const JitEntry& entry, const std::vector<const Array*>& leaves,
                                 const CallSite& site) {
  CallSiteScope scope(site);
  if (entry.captures.empty()) return entry.computation->run(leaves);
  std::vector<const Array*> all = leaves;
  for (const Array& array : entry.captures) all.push_back(&array);
  return entry.computation->run(all);
}

}  // namespace lockstep::internal
