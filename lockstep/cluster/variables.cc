// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/variables.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/options.h"

namespace lockstep::cluster {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();

[[noreturn]] void refuse_number(const Variable& variable, int least, int most) {
  fail<InitializationError>("the environment variable {} is '{}': expected {}", variable.name,
                            shown(variable.value), describe_range(least, most));
}

std::optional<int> integer(std::string_view text) {
  const auto number = whole_number(text);
  if (!number || !std::in_range<int>(*number)) return std::nullopt;
  return static_cast<int>(*number);
}

}  // namespace

std::string Variable::to_string() const {
  std::string text = value.substr(0, value.find_last_not_of('\n') + 1);
  std::replace(text.begin(), text.end(), '\n', ',');
  return name + "=" + shown(text);
}

std::optional<Variable> find_variable(const Environment& environment, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    auto value = environment.get(name);
    if (value && !value->empty()) return Variable{name, *value};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::uint64_t id_in(const Variable& variable) {
  const auto number = whole_number(variable.value);
  if (!number) refuse_number(variable, 0, kAny);
  return *number;
}

int number_in(const Variable& variable, int least, int most) {
  const auto number = integer(variable.value);
  if (!number || *number < least || *number > most) refuse_number(variable, least, most);
  return *number;
}

std::vector<int> numbers_in(const Variable& variable) {
  std::vector<int> numbers;
  std::string_view rest = variable.value;
  while (true) {
    std::size_t comma = std::min(rest.find(','), rest.size());
    auto number = integer(rest.substr(0, comma));
    if (!number || std::find(numbers.begin(), numbers.end(), *number) != numbers.end()) {
      fail<InitializationError>(
          "the environment variable {} is '{}': expected different whole numbers of at least 0, separated by "
          "commas",
          variable.name, shown(variable.value));
    }
    numbers.push_back(*number);
    if (comma == rest.size()) return numbers;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<Variable> Signs::want(const std::vector<std::string>& names) {
  auto variable = find_variable(environment_, names);
  if (variable) there_ += (there_.empty() ? "" : ", ") + variable->to_string();
  return variable;
}

std::optional<Variable> Signs::need(const std::vector<std::string>& names) {
  auto variable = want(names);
  if (!variable) missing_ += (missing_.empty() ? "" : ", ") + names.front();
  return variable;
}

void Signs::check(std::string_view who, std::string_view advice) const {
  if (complete()) return;
  fail<InitializationError>("{} gives this process only a part of its place in a job: {} set, {} missing; {}",
                            who, there_, missing_, advice);
}

void Signs::check_launcher(std::string_view who, std::string_view advice) const {
  check(who, std::string(advice) + ", or set LOCKSTEP_CLUSTER=none for a job of one process");
}

std::string pod_name(const Environment& environment, const System& system) {
  const auto variable = find_variable(environment, {"HOSTNAME"});
  const std::string host = variable ? variable->value : system.read_file("/etc/hostname").value_or("");
  return host.substr(0, host.find_first_of(".\n"));
}

void check_range(const Variable& process_id, const Variable& num_processes) {
  const int count = number_in(num_processes, 1);
  if (number_in(process_id, 0) < count) return;
  fail<InitializationError>("{} is out of range: {} makes processes 0 to {}", process_id.to_string(),
                            num_processes.to_string(), count - 1);
}

Place numbered_place(const std::string& cluster, const Signs& signs, const Variable& process_id,
                     const Variable& num_processes) {
  check_range(process_id, num_processes);
  Place place;
  place.cluster = cluster;
  place.why = signs.there();
  place.num_processes = number_in(num_processes, 1);
  place.process_id = number_in(process_id, 0);
  return place;
}

std::optional<Variable> given_address(const Environment& environment) {
  return find_variable(environment, options::kCoordinatorAddress);
}

std::string coordinator_at(const Environment& environment, const std::string& host, int port) {
  port = find_value(environment, options::kCoordinatorPort).value_or(port);
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string coordinator_given_or_at(const Environment& environment, const std::string& host, int port) {
  auto given = given_address(environment);
  return given ? given->value : coordinator_at(environment, host, port);
}

void meet_at_launcher(const Environment& environment, const std::optional<Variable>& host,
                      const std::optional<Variable>& port, const std::optional<Variable>& local_size,
                      Place& place) {
  const bool one_host = local_size && number_in(*local_size, 1) == place.num_processes;
  if (auto address = given_address(environment)) {
    place.coordinator_address = address->value;
    return;
  }
  place.coordinator_address =
      coordinator_at(environment, one_host ? "127.0.0.1" : host->value, port_for(number_in(*port, 1)));
  place.job_id = place.cluster + "-" + host->value + ":" + port->value;
}

int port_for(unsigned long long number) { return static_cast<int>(61440 + number % 4096); }

}  // namespace lockstep::cluster
