// SPDX-License-Identifier: Apache-2.0
#include "examples/support/classifier_config.h"

#include <cstddef>
#include <nlohmann/json.hpp>

std::string classifier_config(const std::string& config, const std::string& architecture,
                              const std::vector<std::string>& labels) {
  auto json = nlohmann::ordered_json::parse(config);
  json["architectures"] = {architecture};
  json["problem_type"] = "single_label_classification";
  for (const char* name : {"id2label", "label2id"}) json[name] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    json["id2label"][std::to_string(i)] = labels[i];
    json["label2id"][labels[i]] = i;
  }
  return json.dump(2) + "\n";
}
