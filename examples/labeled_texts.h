// SPDX-License-Identifier: Apache-2.0
#pragma once

// Texts with labels, and the token ids of texts: what bert_classify.cc reads.

#include <lockstep/lockstep.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "examples/tokenizer.h"

namespace labeled {

struct Text {
  std::string label, text;
};

/// The lines of a file: a label, a tab and a text; or, without labels, the text alone. Empty lines are
/// skipped. Throws DataError, which names the line, for one without a label.
inline std::vector<Text> read(const std::string& path, bool labels) {
  std::vector<Text> all;
  std::istringstream lines(lockstep::data::read_text(path));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::size_t tab = labels ? line.find('\t') : 0;
    if (labels && (tab == line.npos || tab == 0)) {
      throw lockstep::DataError(path + " line " + std::to_string(number) +
                                ": expected a label, a tab and a text, got '" + line + "'");
    }
    all.push_back(labels ? Text{line.substr(0, tab), line.substr(tab + 1)} : Text{"", line});
  }
  if (all.empty()) throw lockstep::DataError(path + " has no texts");
  return all;
}

/// Each label once, sorted.
inline std::vector<std::string> labels(const std::vector<Text>& texts) {
  std::set<std::string> all;
  for (const Text& each : texts) all.insert(each.label);
  return {all.begin(), all.end()};
}

struct RecordOptions {
  std::int64_t vocab_size, max_length;
  std::int32_t pad_token_id = 0;
};

/// Records of "ids", i32[tokens of the longest text], padded at the end; "length", the number of ids that are
/// no padding; and "label", the index of the label among `labels`, or 0 for a text without one. Of a text
/// that is longer than max_length the last id stays, which is BERT's [SEP]. Throws DataError for a label that
/// is not among them.
inline lockstep::data::SourcePtr records(const std::vector<Text>& texts,
                                         const std::vector<std::string>& labels,
                                         const lockstep::tokenizers::Tokenizer& tokenizer,
                                         const RecordOptions& options) {
  namespace data = lockstep::data;
  std::vector<std::vector<std::int32_t>> rows;
  std::size_t longest = 0;
  for (const Text& each : texts) {
    std::vector<std::int32_t>& ids = rows.emplace_back(token_ids(tokenizer, each.text, options.vocab_size));
    while (ids.size() > 1 && ids.back() == options.pad_token_id) ids.pop_back();  // the tokenizer's padding
    if (std::ssize(ids) > options.max_length) ids.erase(ids.begin() + options.max_length - 1, ids.end() - 1);
    longest = std::max(longest, ids.size());
  }
  std::vector<data::Record> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto label = std::ranges::find(labels, texts[i].label) - labels.begin();
    if (label == std::ssize(labels) && !texts[i].label.empty())
      throw lockstep::DataError("the label '" + texts[i].label + "' of '" + texts[i].text +
                                "' is not one of those trained; use the labels of the training texts");
    const auto length = static_cast<std::int32_t>(rows[i].size());
    rows[i].resize(longest, options.pad_token_id);
    all.push_back({{"ids", data::Field::of(rows[i])},
                   {"length", data::Field::scalar(length)},
                   {"label", data::Field::scalar(static_cast<std::int32_t>(label % std::ssize(labels)))}});
  }
  return data::in_memory(std::move(all));
}

}  // namespace labeled
