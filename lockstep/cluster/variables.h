#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::cluster {

/// A variable as it was found.
struct Variable {
  std::string name;
  std::string value;

  std::string to_string() const { return name + "=" + value; }
};

/// The first of the names that is set, and not to an empty text.
std::optional<Variable> find_variable(const Environment& environment, const std::vector<std::string>& names);

/// The variable's value as a whole number of at least `least`. Throws InitializationError for anything else.
int number_in(const Variable& variable, int least);

/// The variable's value as whole numbers of at least 0, separated by commas, none twice. Throws
/// InitializationError for anything else.
std::vector<int> numbers_in(const Variable& variable);

}  // namespace lockstep::cluster
