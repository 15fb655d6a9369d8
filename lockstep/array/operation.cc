#include <mutex>
#include <unordered_map>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/array/trace.h"

namespace lockstep {
namespace {

/// The compiled forms of eager operations.
struct Operations {
  struct Key {
    std::string text;
    std::vector<const internal::ArrayType*> types;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      std::size_t hash = std::hash<std::string>()(key.text);
      for (const auto* type : key.types) hash = hash * 31 + std::hash<const void*>()(type);
      return hash;
    }
  };
  struct Entry {
    std::shared_ptr<const internal::Computation> computation;
    std::vector<Array> captures;
  };
  std::mutex mutex;
  std::unordered_map<Key, Entry, Hash> entries;
};

}  // namespace

std::vector<Array> run_operation(const std::string& name, const std::string& key,
                                 std::span<const Array> operands,
                                 const std::function<std::vector<Array>(std::span<const Array>)>& compose) {
  if (Trace::current() != nullptr) return compose(operands);
  static auto& operations = *new Operations;
  Operations::Key full{name + " " + key, {}};
  for (const Array& array : operands) full.types.push_back(internal::concrete(array, name).type);
  Operations::Entry entry;
  {
    std::lock_guard lock(operations.mutex);
    if (auto it = operations.entries.find(full); it != operations.entries.end()) entry = it->second;
  }
  if (!entry.computation) {
    Trace trace(name);
    std::vector<Array> tracers;
    for (const Array& array : operands) tracers.push_back(trace.input(array.aval()));
    Program program = trace.finish(compose(tracers));
    entry.captures = trace.captures();
    std::vector<const internal::ArrayType*> types = full.types;
    for (const Array& array : entry.captures) types.push_back(internal::concrete(array, name).type);
    entry.computation = internal::Computation::compile(std::move(program), types, {});
    std::lock_guard lock(operations.mutex);
    operations.entries.emplace(std::move(full), entry);
  }
  std::vector<const Array*> arguments;
  for (const Array& array : operands) arguments.push_back(&array);
  for (const Array& array : entry.captures) arguments.push_back(&array);
  return entry.computation->run(arguments);
}

}  // namespace lockstep
