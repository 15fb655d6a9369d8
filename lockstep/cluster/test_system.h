// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cluster/detect.h"

namespace lockstep::cluster {

using Variables = std::map<std::string, std::string>;

/// A machine described by a test.
class TestSystem : public System {
 public:
  std::map<std::string, std::string> files;         ///< by path
  std::vector<InterfaceAddress> interfaces;         ///< the result of interface_addresses()
  std::map<std::string, std::string> attributes;    ///< of the metadata server, by name
  std::string server = "metadata.google.internal";  ///< the only one that answers
  mutable int questions = 0;                        ///< the number of requests to the metadata server so far

  std::optional<std::string> read_file(const std::string& path) const override {
    auto it = files.find(path);
    if (it == files.end()) return std::nullopt;
    return it->second;
  }

  std::vector<std::string> list_folder(const std::string& path) const override {
    std::vector<std::string> names;
    for (const auto& [file, content] : files) {
      if (!file.starts_with(path)) continue;
      std::string name = file.substr(path.size());
      name = name.substr(0, name.find('/'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }

  std::vector<InterfaceAddress> interface_addresses() const override { return interfaces; }

  std::optional<std::string> metadata(const std::string& asked, const std::string& path) const override {
    ++questions;
    if (asked != server) throw InitializationError("cannot ask http://" + asked);
    auto it = attributes.find(path.substr(path.rfind('/') + 1));
    if (it == attributes.end()) return std::nullopt;
    return it->second;
  }
};

/// The environment recorded in testdata/NAME.env.
inline Variables recorded(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_CLUSTER_TESTDATA) + "/" + name + ".env");
  EXPECT_TRUE(file) << name;
  Variables variables;
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

inline Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

inline Variables without(Variables variables, const std::vector<std::string>& names) {
  for (const std::string& name : names) variables.erase(name);
  return variables;
}

inline Place place_of(Variables variables, const std::string& forced = "",
                      const System& system = TestSystem()) {
  return detect(MapEnvironment(std::move(variables)), forced, system);
}

/// The text of the error that detection ends with.
inline std::string error_of(Variables variables, const std::string& forced = "",
                            const System& system = TestSystem()) {
  try {
    Place place = place_of(std::move(variables), forced, system);
    ADD_FAILURE() << "detected as " << place.cluster;
  } catch (const InitializationError& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::cluster
