// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/system.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "lockstep/base/fail.h"
#include "lockstep/storage/http.h"

namespace lockstep::cluster {
namespace {

// Of the metadata server.
constexpr std::chrono::seconds kPatience(5);
constexpr std::size_t kLargestAnswer = 1 << 20;

/// The bytes of an IPv4 or IPv6 address; none of anything else.
std::vector<std::uint8_t> address_bytes(const std::string& text) {
  std::vector<std::uint8_t> bytes(4);
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(16);
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  return {};
}

/// How many bits of the mask are set.
int prefix_length(const void* mask, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(mask);
  int bits = 0;
  for (std::size_t i = 0; i < size; ++i) bits += std::popcount(bytes[i]);
  return bits;
}

class RealSystem : public System {
 public:
  std::optional<std::string> read_file(const std::string& path) const override {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    std::ostringstream content;
    content << file.rdbuf();
    if (file.bad()) return std::nullopt;
    return content.str();
  }

  std::vector<std::string> list_folder(const std::string& path) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::vector<InterfaceAddress> interface_addresses() const override {
    ifaddrs* found = nullptr;
    if (getifaddrs(&found) != 0) return {};
    std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, &freeifaddrs);
    std::vector<InterfaceAddress> v4, v6;
    for (const ifaddrs* entry = all.get(); entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
      char text[INET6_ADDRSTRLEN] = {};
      if (entry->ifa_addr->sa_family == AF_INET) {
        const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
        inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
        const auto* mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask);
        v4.push_back({entry->ifa_name, text, mask == nullptr ? 32 : prefix_length(&mask->sin_addr, 4)});
      } else if (entry->ifa_addr->sa_family == AF_INET6) {
        const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
        if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;  // of no use without a scope
        inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text);
        const auto* mask = reinterpret_cast<const sockaddr_in6*>(entry->ifa_netmask);
        v6.push_back({entry->ifa_name, text, mask == nullptr ? 128 : prefix_length(&mask->sin6_addr, 16)});
      }
    }
    v4.insert(v4.end(), v6.begin(), v6.end());
    return v4;
  }

  std::optional<std::string> metadata(const std::string& server, const std::string& path) const override {
    const std::string url = fmt::format("http://{}/computeMetadata/v1/{}", server, path);
    const storage::HttpAnswer answer = storage::HttpClient().send({.url = url,
                                                                   .headers = {{"Metadata-Flavor", "Google"}},
                                                                   .largest_body = kLargestAnswer,
                                                                   .connect_timeout = kPatience,
                                                                   .whole_timeout = kPatience,
                                                                   .proxies = false});
    if (!answer.failure.empty()) fail<InitializationError>("cannot ask {}: {}", url, answer.failure);
    if (answer.status == 200) return answer.body;
    if (answer.status == 404) return std::nullopt;
    fail<InitializationError>("the metadata server {} answers {} with status {}", server, path,
                              answer.status);
  }
};

}  // namespace

bool in_network_of(const std::string& address, const InterfaceAddress& mine) {
  const std::vector<std::uint8_t> theirs = address_bytes(address), ours = address_bytes(mine.address);
  if (theirs.empty() || theirs.size() != ours.size()) return false;
  for (int bit = 0; bit < mine.prefix_length; ++bit) {
    const int shift = 7 - bit % 8;
    if ((theirs[bit / 8] >> shift & 1) != (ours[bit / 8] >> shift & 1)) return false;
  }
  return true;
}

const System& System::real() {
  static const RealSystem system;
  return system;
}

}  // namespace lockstep::cluster
