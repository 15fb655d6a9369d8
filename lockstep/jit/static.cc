// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/static.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep::internal {
namespace {

struct StaticValues {
  std::mutex mutex;
  std::map<const StaticType*, std::vector<const void*>> of;  // never removed
};

StaticValues& static_values() {
  static auto& values = *new StaticValues;
  return values;
}

}  // namespace

std::uint64_t static_id(const StaticType& type, void* value) {
  StaticValues& values = static_values();
  // Another thread may add values while this one compares without the lock.
  for (std::size_t compared = 0;;) {
    std::vector<const void*> others;
    {
      const std::lock_guard lock(values.mutex);
      std::vector<const void*>& all = values.of[&type];
      others.assign(all.begin() + static_cast<std::ptrdiff_t>(compared), all.end());
      if (others.empty()) {
        all.push_back(type.keep(value));
        return all.size() - 1;
      }
    }
    for (const void* other : others) {
      if (type.equal(other, value)) return compared;
      ++compared;
    }
  }
}

const void* static_value(const StaticType& type, std::uint64_t id) {
  StaticValues& values = static_values();
  const std::lock_guard lock(values.mutex);
  return values.of.at(&type).at(static_cast<std::size_t>(id));
}

}  // namespace lockstep::internal
