// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/tokenizers/test_files.h"
#include "lockstep/tokenizers/tokenizer.h"
#include "sentencepiece.pb.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

/// The files of lockstep/tokenizers/testdata/ and their variants, with the vocabulary cut to a few tokens.
std::vector<std::string> small_tokenizers() {
  std::vector<std::string> all;
  const nlohmann::json expected = tokenizers::test::testdata("expected.json");
  for (const nlohmann::json& test : expected["cases"]) {
    nlohmann::json file = tokenizers::test::file_of(test);
    const std::vector<std::string> tokens = {"a",     "b",   "ab",     "▁",      "▁a", "<unk>",
                                             "[UNK]", "##b", "<0xC3>", "<0xA9>", "Ġ",  "本"};
    nlohmann::json& model = file["model"];
    model["vocab"] = model["type"] == "Unigram" ? nlohmann::json::array() : nlohmann::json::object();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (model["type"] == "Unigram") {
        model["vocab"].push_back({tokens[i], -1.5 * static_cast<double>(i)});
      } else {
        model["vocab"][tokens[i]] = i;
      }
    }
    if (model.contains("merges"))
      model["merges"] = nlohmann::json::array({nlohmann::json::array({"a", "b"}), "▁ a"});
    std::size_t id = tokens.size();
    nlohmann::json added = nlohmann::json::array();
    for (nlohmann::json token : file["added_tokens"]) {
      if (token["content"] == "<unk>" || token["content"] == "[UNK]") continue;
      token["id"] = id++;
      added.push_back(token);
    }
    file["added_tokens"] = added;
    all.push_back(file.dump());
  }
  return all;
}

TEST(Tokenizers, Mutated_AreReadOrRefused) {
  fuzz<DataError>(
      {.name = "tokenizer.json", .seeds = small_tokenizers(), .read = [](const std::string& text) {
         const auto tokenizer = tokenizers::Tokenizer::from_json(text);
         for (const char* words :
              {"ab  ba<s>\n a <mask>b new 12.5 don't", "é本\u0301 İ\u00a0ﬁ▁ ²👩‍👧"}) {
           const auto ids = tokenizer.encode(words);
           tokenizer.decode(ids);
           tokenizer.decode(ids, {.skip_special_tokens = false});
         }
       }});
}

TEST(Sentencepiece, Mutated_AreReadOrRefused) {
  std::vector<std::string> models;
  for (const auto& [name, pieces] :
       {std::pair("bpe.model", 270), std::pair("unigram.model", 60), std::pair("plain.model", 60)}) {
    sentencepiece::Model model;
    ASSERT_TRUE(model.ParseFromString(tokenizers::test::bytes_of(name)));
    model.mutable_pieces()->DeleteSubrange(pieces, model.pieces_size() - pieces);
    models.push_back(model.SerializeAsString());
  }
  fuzz<DataError>({.name = "tokenizer.model", .seeds = models, .read = [](const std::string& bytes) {
                     const auto tokenizer = tokenizers::Tokenizer::from_sentencepiece(bytes);
                     tokenizer.decode(tokenizer.encode("the  small house<usr> é本\n\n"));
                   }});
}

}  // namespace
}  // namespace lockstep::parsers
