// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

/// A config.json's text with the entries that transformers has for a classifier: `architectures`, and the
/// names of the labels as `id2label` and `label2id`. Throws std::exception if the text is no JSON object.
std::string classifier_config(const std::string& config, const std::string& architecture,
                              const std::vector<std::string>& labels);
