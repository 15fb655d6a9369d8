#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/operation_scope.h"

namespace lockstep {
namespace {

using internal::ArrayType;

/// `n` values that live as long as this object: on the stack where they are few.
template <class T>
class Few {
 public:
  explicit Few(std::size_t n) : size_(n) {
    if (n > few_.size()) many_.resize(n);
  }
  Few(const Few&) = delete;
  T& operator[](std::size_t i) { return data()[i]; }
  std::span<const T> span() { return {data(), size_}; }

 private:
  T* data() { return size_ > few_.size() ? many_.data() : few_.data(); }

  std::size_t size_;
  std::array<T, 8> few_;
  std::vector<T> many_;
};

/// An operation on operands of certain types, compiled.
struct CompiledOperation {
  std::string name, key;
  std::vector<const ArrayType*> types;
  std::shared_ptr<const internal::Computation> computation;
  std::vector<Array> captures;

  bool is(std::string_view of_name, std::string_view of_key,
          std::span<const ArrayType* const> of_types) const {
    return std::ranges::equal(types, of_types) && name == of_name && key == of_key;
  }
};

std::size_t hash_of(std::string_view name, std::string_view key, std::span<const ArrayType* const> types) {
  std::size_t hash = std::hash<std::string_view>()(name) * 31 + std::hash<std::string_view>()(key);
  for (const ArrayType* type : types) hash = (hash ^ std::bit_cast<std::size_t>(type)) * 0x9E3779B97F4A7C15;
  return hash;
}

/// The compiled operations of the process. None is ever dropped.
class Operations {
 public:
  const CompiledOperation* find(std::size_t hash, std::string_view name, std::string_view key,
                                std::span<const ArrayType* const> types) {
    std::lock_guard lock(mutex_);
    auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
      if (it->second->is(name, key, types)) return it->second;
    return nullptr;
  }

  const CompiledOperation* add(std::size_t hash, CompiledOperation operation) {
    std::lock_guard lock(mutex_);
    const CompiledOperation* kept = &all_.emplace_back(std::move(operation));
    by_hash_.emplace(hash, kept);
    return kept;
  }

 private:
  std::mutex mutex_;
  std::deque<CompiledOperation> all_;
  std::unordered_multimap<std::size_t, const CompiledOperation*> by_hash_;
};

CompiledOperation compile(const std::string& name, const std::string& key, std::span<const Array> operands,
                          std::span<const ArrayType* const> types,
                          const std::function<std::vector<Array>(std::span<const Array>)>& compose) {
  CompiledOperation operation{name, key, {types.begin(), types.end()}, nullptr, {}};
  Trace trace(name);
  std::vector<Array> tracers;
  for (const Array& array : operands) tracers.push_back(trace.input(array.aval()));
  Program program = trace.finish(compose(tracers));
  operation.captures = trace.captures();
  std::vector<const ArrayType*> all = operation.types;
  for (const Array& array : operation.captures) all.push_back(internal::concrete(array, name).type);
  operation.computation = internal::Computation::compile(std::move(program), all, {});
  return operation;
}

}  // namespace

std::vector<Array> run_operation(const std::string& name, const std::string& key,
                                 std::span<const Array> operands,
                                 const std::function<std::vector<Array>(std::span<const Array>)>& compose) {
  OperationScope scope(name);
  if (Trace::current() != nullptr) return compose(operands);
  static auto& operations = *new Operations;
  // What this thread did last, by hash: found again without a lock.
  thread_local std::array<const CompiledOperation*, 256> recent{};

  Few<const ArrayType*> types(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) types[i] = internal::concrete(operands[i], name).type;
  const std::size_t hash = hash_of(name, key, types.span());
  const CompiledOperation*& operation = recent[(hash >> 32) % recent.size()];
  if (operation == nullptr || !operation->is(name, key, types.span())) {
    const CompiledOperation* found = operations.find(hash, name, key, types.span());
    if (found == nullptr) found = operations.add(hash, compile(name, key, operands, types.span(), compose));
    operation = found;
  }

  const std::vector<Array>& captures = operation->captures;
  Few<const Array*> arguments(operands.size() + captures.size());
  for (std::size_t i = 0; i < operands.size(); ++i) arguments[i] = &operands[i];
  for (std::size_t i = 0; i < captures.size(); ++i) arguments[operands.size() + i] = &captures[i];
  return operation->computation->run(arguments.span());
}

}  // namespace lockstep
