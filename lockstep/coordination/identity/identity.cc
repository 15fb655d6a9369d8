// SPDX-License-Identifier: Apache-2.0
#include "lockstep/coordination/identity/identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <random>

#include "lockstep/base/host_name.h"
#include "lockstep/base/text.h"

namespace lockstep::coordination {

TlsFiles TlsFiles::from(const Environment& environment) {
  auto value = [&](const char* name) { return environment.get(name).value_or(""); };
  return {value("LOCKSTEP_TLS_CERTIFICATE"), value("LOCKSTEP_TLS_KEY"), value("LOCKSTEP_TLS_AUTHORITY")};
}

Whereabouts Whereabouts::own() { return {host_name(), getpid()}; }

std::uint64_t random_incarnation() {
  std::random_device random;
  std::uint64_t number = 0;
  while (number == 0) number = (std::uint64_t{random()} << 32) | random();
  return number;
}

Whereabouts as_shown(const Whereabouts& where) {
  return {shown(where.host, Whereabouts::kLongestHost), where.pid};
}

std::string Whereabouts::to_string() const {
  if (host.empty() && pid == 0) return "";
  if (host.empty()) return fmt::format(" (pid {})", pid);
  return pid == 0 ? fmt::format(" (host {})", host) : fmt::format(" (host {}, pid {})", host, pid);
}

}  // namespace lockstep::coordination
