// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/environment.h"

#include <cstdlib>

namespace lockstep {

const Environment& Environment::process() {
  class ProcessEnvironment : public Environment {
    std::optional<std::string> get(const std::string& name) const override {
      const char* value = std::getenv(name.c_str());
      if (value == nullptr) return std::nullopt;
      return value;
    }
  };
  static const ProcessEnvironment environment;
  return environment;
}

}  // namespace lockstep
