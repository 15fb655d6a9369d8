// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/this_host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/text.h"
#include "lockstep/coordination/identity/host_port.h"

namespace lockstep::cli {
namespace {

// Empty for what is no IP address.
std::string numeric(const sockaddr* address) {
  if (address == nullptr) return "";
  const bool v4 = address->sa_family == AF_INET;
  if (!v4 && address->sa_family != AF_INET6) return "";
  char text[NI_MAXHOST] = {};
  const socklen_t size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool is_numeric(const std::string& address) {
  in6_addr bytes{};
  return inet_pton(AF_INET, address.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

void for_each_address(const std::function<void(const std::string& interface, const sockaddr&)>& visit) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0) visit(one->ifa_name, *one->ifa_addr);
  }
}

std::string name_without_domain(const std::string& name) { return name.substr(0, name.find('.')); }

}  // namespace

std::string own_program() {
  char path[PATH_MAX] = {};
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) <= 0)
    fail("cannot find this program's path: the link /proc/self/exe cannot be read");
  return path;
}

bool is_this_host(const std::string& name) {
  const std::string own = host_name(), asked = shown(name);
  return name == "localhost" || asked == own || asked == name_without_domain(own) || is_own_address(name) ||
         (is_numeric(name) && coordination::is_loopback({.host = name, .port = 0}));
}

bool is_own_address(const std::string& address) {
  bool found = false;
  for_each_address([&](const std::string&, const sockaddr& own) { found |= numeric(&own) == address; });
  return found;
}

std::string address_of_interface(const std::string& name) {
  std::string v4, v6;
  std::set<std::string> names;
  for_each_address([&](const std::string& interface, const sockaddr& address) {
    const std::string text = numeric(&address);
    if (text.empty()) return;
    names.insert(interface);
    if (interface != name) return;
    // A link-local address means nothing on another host.
    const bool link_local = address.sa_family == AF_INET6 &&
                            IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
    if (address.sa_family == AF_INET && v4.empty()) v4 = text;
    if (address.sa_family == AF_INET6 && !link_local && v6.empty()) v6 = text;
  });
  if (v4.empty() && v6.empty()) {
    fail("no network interface '{}' with an address is up; those of this host: {}", name,
         fmt::join(names, ", "));
  }
  return v4.empty() ? v6 : v4;
}

std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int descriptor = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    // On a datagram socket, connect() only asks for the route.
    const bool known = connect(descriptor, one->ai_addr, one->ai_addrlen) == 0 &&
                       getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    close(descriptor);
    if (known) return numeric(reinterpret_cast<const sockaddr*>(&own));
  }
  return "";
}

}  // namespace lockstep::cli
