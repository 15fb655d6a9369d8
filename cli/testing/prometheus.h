// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/testing/tool.h"

namespace lockstep::cli {

/// A line of Prometheus's text format: name{label="value",...} number.
struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

/// As strict as Prometheus itself: what it would refuse is a failure of the test.
inline std::vector<Sample> parse_prometheus(const std::string& text) {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz_";
  std::vector<Sample> samples;
  std::string type_of;
  EXPECT_TRUE(text.ends_with('\n'));
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      std::istringstream in(line.substr(7));
      std::string type;
      in >> type_of >> type;
      EXPECT_TRUE(type == "gauge" || type == "counter") << line;
      EXPECT_EQ(type == "counter", type_of.ends_with("_total")) << line;
      continue;
    }
    Sample sample;
    std::size_t at = line.find_first_not_of(kLetters);
    sample.name = line.substr(0, at);
    EXPECT_EQ(sample.name, type_of) << "a sample outside of its family: " << line;
    if (at == std::string::npos || line[at] != '{') {
      ADD_FAILURE() << line;
      continue;
    }
    while (line[at] != '}') {
      const std::size_t equals = line.find("=\"", ++at);
      if (equals == std::string::npos) {
        ADD_FAILURE() << line;
        return samples;
      }
      const std::string name = line.substr(at, equals - at);
      EXPECT_EQ(name.find_first_not_of(kLetters), name.npos) << line;
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') {
          ++at;
          EXPECT_TRUE(line[at] == '\\' || line[at] == '"' || line[at] == 'n') << line;
          value += line[at] == 'n' ? '\n' : line[at];
        } else {
          value += line[at];
        }
      }
      EXPECT_TRUE(sample.labels.emplace(name, value).second) << "twice: " << line;
      ++at;
      if (at >= line.size() || (line[at] != ',' && line[at] != '}')) {
        ADD_FAILURE() << line;
        return samples;
      }
    }
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + at + 1, &end);
    EXPECT_EQ(*end, '\0') << line;
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace lockstep::cli
