#include "lockstep/cluster/variables.h"

#include <algorithm>
#include <charconv>

#include "lockstep/base/fail.h"

namespace lockstep::cluster {
namespace {

std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<Variable> find_variable(const Environment& environment, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    auto value = environment.get(name);
    if (value && !value->empty()) return Variable{name, *value};
  }
  return std::nullopt;
}

int number_in(const Variable& variable, int least) {
  auto number = whole_number(variable.value);
  if (!number || *number < least) {
    fail<InitializationError>("the environment variable {} is '{}': expected a whole number of at least {}",
                              variable.name, variable.value, least);
  }
  return *number;
}

std::vector<int> numbers_in(const Variable& variable) {
  std::vector<int> numbers;
  std::string_view rest = variable.value;
  while (true) {
    std::size_t comma = std::min(rest.find(','), rest.size());
    auto number = whole_number(rest.substr(0, comma));
    if (!number || *number < 0 || std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) {
      fail<InitializationError>(
          "the environment variable {} is '{}': expected whole numbers of at least 0, separated by commas, "
          "none twice",
          variable.name, variable.value);
    }
    numbers.push_back(*number);
    if (comma == rest.size()) return numbers;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace lockstep::cluster
