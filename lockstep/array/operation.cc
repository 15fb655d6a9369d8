// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <memory>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/trace.h"
#include "lockstep/base/kept.h"
#include "lockstep/base/log.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/operation_scope.h"
#include "lockstep/base/thread_end.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep {
namespace {

using internal::ArrayType;

/// `n` values that live as long as this object; on the stack if there are few.
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

/// An operation on operands of certain types, compiled. The computation holds the types.
struct CompiledOperation : Kept {
  CompiledOperation(std::string name, std::string key, std::span<const ArrayType* const> types)
      : name(std::move(name)), key(std::move(key)), types(types.begin(), types.end()) {}

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

using Operations = KeptByUse<const CompiledOperation>;

/// The compiled operations of the process.
Operations& operations() {
  static auto& all = *new Operations;
  return all;
}

void log_compiled(const CompiledOperation& operation, std::chrono::duration<double> tracing) {
  constexpr std::size_t kShown = 4;
  std::string operands;
  for (std::size_t i = 0; i < std::min(operation.types.size(), kShown); ++i) {
    const ArrayType& type = *operation.types[i];
    operands +=
        fmt::format("{}{} with {}", i == 0 ? "" : ", ", to_string(type.aval), type.sharding.to_string());
  }
  if (operation.types.size() > kShown) operands += fmt::format(", … {} in all", operation.types.size());
  logging::info(
      "[{}] an operation outside of jit (at {}) is compiled: the first on ({}); traced in {:.3f} s, {}",
      operation.name, CallSiteScope::current().to_string(), operands, tracing.count(),
      operation.computation->how_compiled());
}

std::shared_ptr<const CompiledOperation> compile(
    const std::string& name, const std::string& key, std::span<const Array> operands,
    std::span<const ArrayType* const> types,
    const std::function<std::vector<Array>(std::span<const Array>)>& compose) {
  // Not by make_shared: weak references of threads must not keep its memory.
  std::shared_ptr<CompiledOperation> operation(new CompiledOperation(name, key, types));
  const NamedScopeReset unnamed;  // it serves all that call it
  const auto start = std::chrono::steady_clock::now();
  ir::Program program;
  {
    Trace trace(name);
    std::vector<Array> tracers;
    for (const Array& array : operands) tracers.push_back(trace.input(array.aval()));
    program = trace.finish(compose(tracers));
    operation->captures = trace.captures();
  }
  const std::chrono::duration<double> tracing = std::chrono::steady_clock::now() - start;
  std::vector<const ArrayType*> all = operation->types;
  for (const Array& array : operation->captures) all.push_back(internal::concrete(array, name).type);
  operation->computation = internal::Computation::compile(std::move(program), all, {.is_operation = true});
  operation->captures = operation->computation->placed(std::move(operation->captures));
  if (*runtime::Runtime::get().options().log_compiles) log_compiled(*operation, tracing);
  return operation;
}

}  // namespace

std::vector<Array> run_operation(const std::string& name, const std::string& key,
                                 std::span<const Array> operands,
                                 const std::function<std::vector<Array>(std::span<const Array>)>& compose) {
  OperationScope scope(name);
  check_before_end(name);
  if (Trace::current() != nullptr) return compose(operands);
  // The operations that this thread ran last, by hash: found again without a lock.
  thread_local std::array<std::weak_ptr<const CompiledOperation>, 256> recent;

  Few<const ArrayType*> types(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) types[i] = internal::concrete(operands[i], name).type;
  const std::size_t hash = hash_of(name, key, types.span());
  auto is = [&](const CompiledOperation& operation) { return operation.is(name, key, types.span()); };
  std::weak_ptr<const CompiledOperation>& last = recent[(hash >> 32) % recent.size()];
  std::shared_ptr<const CompiledOperation> operation = last.lock();
  if (operation != nullptr && operation->is_kept() && is(*operation)) {
    operation->touch();
  } else {
    operation = operations().find(hash, is);
    if (operation == nullptr)
      operation = operations().add(hash, compile(name, key, operands, types.span(), compose), is);
    last = operation;
  }

  const std::vector<Array>& captures = operation->captures;
  Few<const Array*> arguments(operands.size() + captures.size());
  for (std::size_t i = 0; i < operands.size(); ++i) arguments[i] = &operands[i];
  for (std::size_t i = 0; i < captures.size(); ++i) arguments[operands.size() + i] = &captures[i];
  return operation->computation->run(arguments.span());
}

}  // namespace lockstep
