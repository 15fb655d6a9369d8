// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::tokenizers::test {

/// The bytes of a file of lockstep/tokenizers/testdata/.
inline std::string bytes_of(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A JSON file of lockstep/tokenizers/testdata/.
inline nlohmann::json testdata(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/" + name);
  return nlohmann::json::parse(file);
}

/// The tokenizer.json of a case of expected.json: one of the files, with changes.
inline nlohmann::json file_of(const nlohmann::json& test) {
  nlohmann::json file = testdata(test["tokenizer"].get<std::string>() + ".json");
  for (const auto& [name, value] : test["changes"].items()) {
    if (name == "model") {
      file["model"].update(value);
    } else {
      file[name] = value;
    }
  }
  return file;
}

}  // namespace lockstep::tokenizers::test
