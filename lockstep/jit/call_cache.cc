// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/call_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/array/data.h"
#include "lockstep/array/evaluate.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/log.h"
#include "lockstep/jit/clear_caches.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace internal {
namespace {

using Entries = KeptByUse<const CallEntry>;

/// The compiled forms of all functions.
Entries& entries() {
  static auto& all = *new Entries;
  return all;
}

std::size_t hash_of_words(const CallCache* function, const std::vector<std::uint64_t>& words) {
  auto hash = std::bit_cast<std::uintptr_t>(function);
  for (std::uint64_t word : words) hash = (hash ^ word ^ (hash >> 29)) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 32);
}

}  // namespace

bool CallEntry::takes_array(std::size_t i) const {
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k] != Signature::Word::kArgument || i-- != 0) continue;
    return signature[k] == std::bit_cast<std::uintptr_t>(&tree::type_of<Array>);
  }
  return false;
}

std::vector<Array> CallEntry::run(const std::vector<const Array*>& leaves, const CallSite& site) const {
  CallSiteScope scope(site);
  if (captures.empty() && traced == nullptr) return computation->run(leaves);
  std::vector<const Array*> all;
  all.reserve(leaves.size() + captures.size());
  all = leaves;
  for (const Array& array : captures) all.push_back(&array);
  std::vector<Array> numbers;
  numbers.reserve(doubles.size());
  for (const auto& [capture, leaf] : doubles)
    all[leaves.size() + capture] = &numbers.emplace_back(number_in_f64(*leaves[leaf]));
  if (traced == nullptr) return computation->run(all);
  std::vector<Array> inputs;
  for (const Array* array : all) inputs.push_back(*array);
  return evaluate(*traced, inputs);
}

CallCache::CallCache(std::string operation, std::string name, const CallSite& site)
    : operation_(std::move(operation)), name_(std::move(name)), site_(site) {}

CallCache::~CallCache() {
  for (const auto& each : mine_) {
    if (const auto entry = each.lock()) entries().erase(hash_of_words(this, entry->signature), entry.get());
  }
}

std::shared_ptr<const CallEntry> CallCache::find(const Signature& signature) {
  {
    std::lock_guard lock(mutex_);
    ++calls_;
    if (auto last = last_.lock();
        last != nullptr && last->is_kept() && last->signature == signature.words()) {
      last->touch();
      return last;
    }
  }
  auto found = entries().find(hash_of_words(this, signature.words()), [&](const CallEntry& entry) {
    return entry.function == this && entry.signature == signature.words();
  });
  if (found != nullptr) {
    std::lock_guard lock(mutex_);
    last_ = found;
  }
  return found;
}

std::shared_ptr<const CallEntry> CallCache::add(const Signature& signature,
                                                std::shared_ptr<const Computation> computation,
                                                std::vector<Array> captures, NumberInputs::Places doubles,
                                                std::shared_ptr<void> exemplar,
                                                std::chrono::duration<double> tracing) {
  // Not by make_shared: weak references to it must not keep its memory.
  std::shared_ptr<CallEntry> made(new CallEntry);
  made->function = this;
  made->signature = signature.words();
  made->kinds = signature.kinds();
  made->captures = computation->placed(std::move(captures));
  made->doubles = std::move(doubles);
  made->computation = std::move(computation);
  made->exemplar = std::move(exemplar);
  auto kept = entries().add(hash_of_words(this, made->signature), made, [&](const CallEntry& entry) {
    return entry.function == this && entry.signature == made->signature;
  });
  if (kept == made) {
    log_compiled(*made, tracing);
    warn_if_often(*made);
  }
  std::lock_guard lock(mutex_);
  last_ = kept;
  if (kept == made) mine_.push_back(kept);
  if (mine_.size() >= look_at_) {
    std::erase_if(mine_, [](const auto& each) { return each.expired(); });
    look_at_ = 2 * mine_.size() + 16;
  }
  return kept;
}

std::optional<std::string> CallCache::nearest_difference(const CallEntry& made) const {
  std::optional<SignatureDifference> nearest;
  for (const auto& each : mine_) {
    const auto other = each.lock();
    if (other == nullptr || other->signature == made.signature) continue;
    SignatureDifference d = difference(made.signature, made.kinds, other->signature, other->kinds);
    if (!nearest || d.count <= nearest->count) nearest = std::move(d);
  }
  if (!nearest) return std::nullopt;
  return std::move(nearest->text);
}

std::string CallCache::made_at() const {
  const std::string where = site_.to_string();
  return name_.ends_with(where) ? "" : fmt::format(" (made at {})", where);
}

void CallCache::log_compiled(const CallEntry& made, std::chrono::duration<double> tracing) {
  if (!*runtime::Runtime::get().options().log_compiles) return;
  std::string why = "no call before it";
  {
    std::lock_guard lock(mutex_);
    if (const auto nearest = nearest_difference(made))
      why = *nearest + ", in the most similar earlier compilation";
    else if (compiled_before_)
      why = "what was compiled before is not kept any more";
    compiled_before_ = true;
  }
  logging::info("[{}] {}{} is {}: {}; traced in {:.3f} s, {}", operation_, name_, made_at(),
                made.computation->is_compiled() ? "compiled" : "lowered", why, tracing.count(),
                made.computation->how_compiled());
}

void CallCache::warn_if_often(const CallEntry& made) {
  constexpr std::size_t kOften = 5, kCalls = 100;
  std::uint64_t calls = 0;
  std::optional<std::string> nearest;
  {
    std::lock_guard lock(mutex_);
    if (warned_) return;
    compiled_at_.push_back(calls_);
    if (compiled_at_.size() > kOften) compiled_at_.erase(compiled_at_.begin());
    if (compiled_at_.size() < kOften || calls_ - compiled_at_.front() >= kCalls) return;
    calls = calls_ - compiled_at_.front() + 1;
    nearest = nearest_difference(made);
    if (!nearest) return;  // those before were forgotten
    warned_ = true;
  }
  logging::warning(
      "[{}] {}{} is compiled for the fifth time within {} calls: {}, in the most similar earlier "
      "compilation. Each new shape, dtype, sharding, structure or compiled-in number takes a compilation: "
      "give arrays of few shapes, and take numbers that change as Array",
      operation_, name_, made_at(), calls, *nearest);
}

}  // namespace internal

void clear_caches() {
  clear_all_kept();
  internal::forget_types();
}

}  // namespace lockstep
