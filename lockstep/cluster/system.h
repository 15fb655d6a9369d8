// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::cluster {

/// A network interface's address.
struct InterfaceAddress {
  std::string interface;  ///< "eth0"
  std::string address;    ///< "10.0.0.7" or "fd00::7", without a scope.
  int prefix_length = 0;  ///< the number of bits of the network: 24 in 10.0.0.7/24
};

/// Whether the address (a numeric one, not a name) is in the network of `mine`.
bool in_network_of(const std::string& address, const InterfaceAddress& mine);

/// The files, interfaces and servers from which a process reads its place, besides its environment; tests
/// replace it.
class System {
 public:
  virtual ~System() = default;

  /// The file's content, or nullopt if it cannot be read.
  virtual std::optional<std::string> read_file(const std::string& path) const = 0;

  /// The names in the folder, sorted; none if it cannot be read.
  virtual std::vector<std::string> list_folder(const std::string& path) const = 0;

  /// The addresses of the interfaces that are up, IPv4 before IPv6.
  virtual std::vector<InterfaceAddress> interface_addresses() const = 0;

  /// The answer of the metadata server of Google's cloud for the path below computeMetadata/v1/, or nullopt
  /// if it has no such entry. Blocks for some seconds at most. Throws InitializationError if it cannot be
  /// reached.
  virtual std::optional<std::string> metadata(const std::string& server, const std::string& path) const = 0;

  /// This machine.
  static const System& real();
};

}  // namespace lockstep::cluster
