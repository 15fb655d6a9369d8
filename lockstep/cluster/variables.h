// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/cluster/place.h"
#include "lockstep/cluster/system.h"

namespace lockstep::cluster {

/// A variable and its value.
struct Variable {
  std::string name;
  std::string value;

  std::string to_string() const;  ///< "NAME=value", as it can be shown; a list of lines as "NAME=a,b"
};

/// The first of the names that is set, and not to an empty text.
std::optional<Variable> find_variable(const Environment& environment, const std::vector<std::string>& names);

/// The number that the text is, in decimal digits and nothing else; nullopt for any other text.
std::optional<std::uint64_t> whole_number(std::string_view text);

/// "a whole number from 1 to 9", or "a number of at least 0" if `most` is the largest one of its type.
template <class T>
std::string describe_range(T least, T most) {
  const std::string_view number = std::is_integral_v<T> ? "whole number" : "number";
  return most == std::numeric_limits<T>::max() ? fmt::format("a {} of at least {}", number, least)
                                               : fmt::format("a {} from {} to {}", number, least, most);
}

/// The variable's value as a number of up to 64 bits. Throws InitializationError for anything else.
std::uint64_t id_in(const Variable& variable);

/// The variable's value as an integer from `least` to `most`. Throws InitializationError for anything else.
int number_in(const Variable& variable, int least, int most = std::numeric_limits<int>::max());

/// The variable's value as integers of at least 0, separated by commas, none twice. Throws
/// InitializationError for anything else.
std::vector<int> numbers_in(const Variable& variable);

/// The variables that a cluster type needs, recorded as they are read, so that one error can say which are
/// set and which are missing.
class Signs {
 public:
  explicit Signs(const Environment& environment) : environment_(environment) {}

  /// Reads a required variable, under any of its names.
  std::optional<Variable> need(const std::vector<std::string>& names);

  /// Reads an optional variable.
  std::optional<Variable> want(const std::vector<std::string>& names);

  /// Throws InitializationError if a required one is missing: "WHO gives this process only a part of its
  /// place in a job: A=1 set, B missing; ADVICE".
  void check(std::string_view who, std::string_view advice) const;

  /// The same for launchers whose processes may also be told to be alone: the advice ends with ", or set
  /// LOCKSTEP_CLUSTER=none for a job of one process".
  void check_launcher(std::string_view who, std::string_view advice) const;

  bool complete() const { return missing_.empty(); }
  const std::string& there() const { return there_; }  ///< "A=1, B=2"

 private:
  const Environment& environment_;
  std::string there_, missing_;
};

/// The name of the pod of Kubernetes in which this process runs, without its domain; empty if it is not
/// known.
std::string pod_name(const Environment& environment, const System& system);

/// Throws InitializationError if the process id is not below the number of processes.
void check_range(const Variable& process_id, const Variable& num_processes);

/// A place whose process id and number of processes are in variables. Throws as check_range.
Place numbered_place(const std::string& cluster, const Signs& signs, const Variable& process_id,
                     const Variable& num_processes);

/// The coordinator's address from the user: LOCKSTEP_COORDINATOR_ADDRESS or its JAX_ name.
std::optional<Variable> given_address(const Environment& environment);

/// "host:port" with LOCKSTEP_COORDINATOR_PORT or JAX_COORDINATOR_PORT if one is set, otherwise with `port`.
/// An IPv6 address is put in brackets.
std::string coordinator_at(const Environment& environment, const std::string& host, int port);

/// The address from the user if there is one, otherwise coordinator_at.
std::string coordinator_given_or_at(const Environment& environment, const std::string& host, int port);

/// Sets the coordinator's address and the job's id for processes that meet at a port of their launcher, given
/// by `host` and `port`. The coordinator is on that host, or on 127.0.0.1 if all processes are on one, and
/// its port is derived from the launcher's. Neither is needed if the user gives the address.
void meet_at_launcher(const Environment& environment, const std::optional<Variable>& host,
                      const std::optional<Variable>& port, const std::optional<Variable>& local_size,
                      Place& place);

/// The port for JAX's coordinator where each process has ports of its own, or no number to derive one from.
constexpr int kCoordinatorPort = 55527;

/// A port that all processes of a job derive from a number that they all know, as JAX does: one of the 4,096
/// highest.
int port_for(unsigned long long number);

}  // namespace lockstep::cluster
