// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/base/keep_alive.h"

namespace lockstep::collectives {
namespace {

/// Whether the two are the same, whatever their ports.
bool same_host(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

std::string interface_of(const sockaddr* address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (; list != nullptr; list = list->ifa_next) {
    if (list->ifa_addr != nullptr && same_host(list->ifa_addr, address)) return list->ifa_name;
  }
  return "";
}

}  // namespace

void prepare_connection(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  keep_alive(socket);
}

std::string interface_towards(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return "";
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  for (; found != nullptr; found = found->ai_next) {
    // A datagram socket that is connected has an address of its own, and has sent nothing.
    FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (socket && connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      if (std::string name = interface_of(reinterpret_cast<sockaddr*>(&own)); !name.empty()) return name;
    }
  }
  return "";
}

namespace {

/// For the addresses of this host that mean something elsewhere, and those of the loopback, until one is
/// taken: IPv4 before IPv6.
void for_each_address(const std::function<bool(const ifaddrs& entry)>& take) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      if (take(*each)) return;
    }
  }
}

std::optional<SocketAddress> address_of(const std::string& interface) {
  std::optional<SocketAddress> found;
  for_each_address([&](const ifaddrs& entry) {
    if (interface != entry.ifa_name) return false;
    SocketAddress& address = found.emplace();
    address.size = entry.ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry.ifa_addr, address.size);
    return true;
  });
  return found;
}

}  // namespace

std::string choose_interface(const InterfacesSeen& seen) {
  const auto is_usable = [&](const std::string& name) {
    return std::ranges::find(seen.with_addresses, name) != seen.with_addresses.end();
  };
  for (const std::string& name : {seen.towards_coordinator, seen.default_route})
    if (is_usable(name)) return name;
  if (seen.with_addresses.size() == 1) return seen.with_addresses.front();
  if (seen.with_addresses.empty())
    fail("this host has no network interface with an address at which other hosts could reach it");
  fail(
      "this job is on several hosts, but nothing says by which network interface the others are reached: the "
      "coordinator's address leads to this host itself, there is no default route, and there are {}. Name "
      "one in LOCKSTEP_INTERFACE",
      fmt::join(seen.with_addresses, ", "));
}

std::string interface_to_others(const std::string& coordinator) {
  InterfacesSeen seen;
  seen.towards_coordinator = interface_towards(coordinator);
  // Addresses that belong to no host, which only match the default route.
  seen.default_route = interface_towards("203.0.113.1:9");
  if (seen.default_route.empty()) seen.default_route = interface_towards("[2001:db8::1]:9");
  for_each_address([&](const ifaddrs& entry) {
    const bool known = std::ranges::find(seen.with_addresses, entry.ifa_name) != seen.with_addresses.end();
    const bool up = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_LOOPBACK) == 0;
    if (up && !known) seen.with_addresses.push_back(entry.ifa_name);
    return false;
  });
  return choose_interface(seen);
}

SocketAddress own_address(const std::string& interfaces, const std::string& coordinator) {
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    if (auto address = address_of(name)) return *address;
  }
  if (!interfaces.empty()) {
    fail("none of the network interfaces {} has an address on this host; see LOCKSTEP_INTERFACE", interfaces);
  }
  const std::string name = interface_to_others(coordinator);
  if (auto address = address_of(name)) return *address;
  fail("the network interface {} has lost its address", name);
}

std::vector<std::string> host_addresses() {
  constexpr std::size_t kMostInterfaces = 8;
  std::map<unsigned, std::string> by_interface;  // those that are made later have higher numbers
  for_each_address([&](const ifaddrs& entry) {
    if ((entry.ifa_flags & IFF_LOOPBACK) != 0) return false;
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
    by_interface.try_emplace(if_nametoindex(entry.ifa_name),
                             entry.ifa_addr->sa_family == AF_INET
                                 ? std::string(reinterpret_cast<const char*>(&v4->sin_addr), 4)
                                 : std::string(reinterpret_cast<const char*>(&v6->sin6_addr), 16));
    return false;
  });
  std::vector<std::string> addresses;
  for (auto& [number, address] : by_interface)
    if (addresses.size() < kMostInterfaces) addresses.push_back(std::move(address));
  return addresses;
}

std::vector<std::string> rdma_devices() {
  namespace fs = std::filesystem;
  std::vector<std::string> devices;
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/sys/class/infiniband", none)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", none)) {
      std::string state;
      std::getline(std::ifstream(port.path() / "state"), state);
      if (state.find("ACTIVE") != std::string::npos)
        devices.push_back(device.path().filename().string() + ":" + port.path().filename().string());
    }
  }
  return devices;
}

}  // namespace lockstep::collectives
