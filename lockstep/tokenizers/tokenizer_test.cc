// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/tokenizers/test_files.h"

namespace lockstep::tokenizers {
namespace {

using Json = nlohmann::json;
using test::file_of;
using test::testdata;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

/// A file with a token for each ASCII character, whose id is its number.
Json ascii() {
  Json vocabulary = Json::object();
  for (int c = 0; c < 128; ++c) vocabulary[std::string(1, static_cast<char>(c))] = c;
  return {{"version", "1.0"},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", Json::array()}}}};
}

Tokenizer made(const Json& file) { return Tokenizer::from_json(file.dump()); }

/// What the error says with which the file is refused.
std::string refusal(const Json& file) {
  try {
    made(file);
  } catch (const DataError& error) {
    return error.what();
  }
  return "it is read";
}

/// What the error says with which the ASCII file is refused where it has this component.
std::string refusal(const std::string& name, const Json& value) {
  Json file = ascii();
  file[name] = value;
  return refusal(file);
}

TEST(Tokenizer, TextsInTwentyScripts_GetTheIdsAndTextsOfHuggingFacesPackage) {
  int texts = 0;
  const Json expected = testdata("expected.json");
  for (const Json& test : expected["cases"]) {
    SCOPED_TRACE(test["tokenizer"].dump() + " with " + test["changes"].dump());
    const Tokenizer tokenizer = made(file_of(test));
    for (const Json& row : test["texts"]) {
      const std::string text = row[0];
      const Ids ids = row[1];
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = test["add_special_tokens"]}), ids) << row[0];
      EXPECT_EQ(tokenizer.decode(ids), row.size() > 2 ? row[2].get<std::string>() : text) << row[0];
      ++texts;
    }
  }
  EXPECT_GE(texts, 1000);
}

TEST(Sentencepiece, TextsInTwentyScripts_GetTheIdsAndTextsOfItsPackage) {
  int texts = 0;
  const Json expected = testdata("sentencepiece.json");
  for (const Json& test : expected) {
    const std::string name = test["model"];
    SCOPED_TRACE(name);
    const Tokenizer tokenizer =
        Tokenizer::from_file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/" + name + ".model");
    for (std::int32_t id = 0; id < std::ssize(test["pieces"]); ++id)
      EXPECT_EQ(tokenizer.id_to_token(id), test["pieces"][static_cast<std::size_t>(id)].get<std::string>());
    for (const Json& row : test["texts"]) {
      const Ids ids = row[1];
      EXPECT_EQ(tokenizer.encode(row[0].get<std::string>()), ids) << row[0];
      EXPECT_EQ(tokenizer.decode(ids), row[2].get<std::string>()) << row[0];
      ++texts;
    }
  }
  EXPECT_GE(texts, 450);
}

TEST(Sentencepiece, WhatIsNoModel_OrIsNotSupported_IsRefused) {
  const auto refused = [](const std::string& bytes) {
    try {
      Tokenizer::from_sentencepiece(bytes);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("it is read");
  };
  EXPECT_THAT(refused("\n\xff"), HasSubstr("neither"));
  EXPECT_THAT(refused(""), HasSubstr("no piece is the one for unknown characters"));
  const std::string unknown("\n\x07\n\x03<u>\x18\x02", 9), twice = unknown + unknown;
  EXPECT_THAT(refused(unknown), "it is read");
  EXPECT_THAT(refused(twice), HasSubstr("the piece \"<u>\" is there twice"));
  EXPECT_THAT(refused(unknown + std::string("\n\x03\n\x01\xe9", 5)), HasSubstr("piece 1 is not UTF-8"));
  EXPECT_THAT(refused(unknown + std::string("\x12\x02\x18\x03", 4)), HasSubstr("the model is of the type 3"));
  EXPECT_THAT(refused(unknown + std::string("\x12\x03\xc0\x01\x01", 5)),
              HasSubstr("white space is a suffix"));
}

TEST(Tokenizer, ModelWithoutAType_IsRecognizedByItsFields) {
  for (const char* name : {"gpt2.json", "bert.json", "t5.json"}) {
    Json file = testdata(name);
    const Ids ids = made(file).encode("The small house.");
    file["model"].erase("type");
    EXPECT_EQ(made(file).encode("The small house."), ids) << name;
  }
}

TEST(Tokenizer, Tokens_AreFoundByTextAndId) {
  const Tokenizer tokenizer = Tokenizer::from_file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/gpt2.json");
  EXPECT_EQ(tokenizer.token_to_id("<s>"), 700);
  EXPECT_EQ(tokenizer.id_to_token(700), "<s>");
  EXPECT_EQ(tokenizer.token_to_id("no token"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.vocab_size(), 707u);
  for (std::int32_t id = 0; id < 707; ++id) EXPECT_EQ(tokenizer.token_to_id(*tokenizer.id_to_token(id)), id);
}

TEST(Tokenizer, SpecialTokens_AreAddedAndSkippedAsTheOptionsSay) {
  const Tokenizer tokenizer =
      Tokenizer::from_file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/llama2.json");
  const Ids ids = tokenizer.encode("a</s>");
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(tokenizer.encode("a</s>", {.add_special_tokens = false}), Ids(ids.begin() + 1, ids.end()));
  EXPECT_EQ(tokenizer.decode(ids), "a");
  EXPECT_THAT(tokenizer.decode(ids, {.skip_special_tokens = false}), HasSubstr("</s>"));
}

TEST(Tokenizer, IdsWithoutAToken_DecodeToNoText) {
  EXPECT_EQ(made(ascii()).decode(Ids{'a', 5000, -1, 'b'}), "a b");
}

TEST(Tokenizer, TextThatIsNotUtf8_IsAnErrorWithThePosition) {
  const Tokenizer tokenizer = made(ascii());
  for (const auto& [text, place] : {std::pair("ab\xff", "byte 0xff at position 2 of 3"),
                                    std::pair("\xc3(", "byte 0xc3 at position 0 of 2"),
                                    std::pair("a\xed\xa0\x80", "byte 0xed at position 1 of 4"),
                                    std::pair("\xe2\x82", "byte 0xe2 at position 0 of 2")}) {
    try {
      tokenizer.encode(text);
      ADD_FAILURE() << place;
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(place));
    }
  }
}

TEST(Tokenizer, UnknownCharacter_IsAnErrorWhereTheFileHasNoTokenForIt) {
  Json file = ascii();
  EXPECT_THAT(made(file).encode("a\u00e9b"), ElementsAre('a', 'b'));  // as the package does without unk_token
  file["model"]["unk_token"] = "[UNK]";
  EXPECT_THROW(made(file).encode("\u00e9"), DataError);
  file["model"] = {{"type", "Unigram"}, {"unk_id", nullptr}, {"vocab", {{"a", -1.0}}}};
  EXPECT_THROW(made(file).encode("b"), DataError);
}

TEST(Tokenizer, MissingOrBrokenFile_IsAnErrorThatNamesIt) {
  try {
    Tokenizer::from_file("/no/such/tokenizer.json");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/tokenizer.json cannot be read: No such file"));
  }
  try {
    Tokenizer::from_file("/proc");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/proc cannot be read: Is a directory"));
  }
  EXPECT_THROW(Tokenizer::from_json("{"), DataError);
  EXPECT_THROW(Tokenizer::from_json("[]"), DataError);
  EXPECT_THROW(Tokenizer::from_json(std::string(100000, '[')), DataError);
  EXPECT_THAT(refusal(Json::object()), HasSubstr("tokenizer: \"model\" is missing"));
}

TEST(Tokenizer, UnsupportedComponents_AreRefusedByName) {
  EXPECT_THAT(refusal("normalizer", {{"type", "Nmt"}}),
              AllOf(HasSubstr("tokenizer.normalizer has the type \"Nmt\""), HasSubstr("StripAccents")));
  EXPECT_THAT(
      refusal("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "UnicodeScripts"}}}}}),
      AllOf(HasSubstr("tokenizer.pre_tokenizer.pretokenizers[0]"), HasSubstr("Metaspace")));
  EXPECT_THAT(refusal("post_processor", {{"type", "Other"}}), HasSubstr("TemplateProcessing"));
  EXPECT_THAT(refusal("decoder", {{"type", "CTC"}}), HasSubstr("BPEDecoder, Replace, ByteFallback"));
  EXPECT_THAT(refusal("model", {{"type", "WordLevel"}}),
              HasSubstr("supported are BPE, WordPiece and Unigram"));
  EXPECT_THAT(refusal("extra", 1), HasSubstr("tokenizer: \"extra\" is not supported (its value is 1)"));
  EXPECT_THAT(refusal("normalizer", {{"type", "NFC"}, {"more", "x"}}),
              HasSubstr("\"more\" is not supported"));
  EXPECT_THAT(refusal("truncation", {{"max_length", 5}, {"strategy", "OnlySecond"}, {"stride", 0}}),
              HasSubstr("expected to be one of LongestFirst and OnlyFirst, got \"OnlySecond\""));
  const Json bytes = {{"type", "ByteLevel"}};
  EXPECT_THAT(refusal("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {bytes, bytes}}}),
              HasSubstr("more than one ByteLevel is not supported"));
  Json file = ascii();
  file["model"]["dropout"] = 0.5;
  EXPECT_THAT(refusal(file), HasSubstr("\"dropout\" is expected to be null"));
}

TEST(Tokenizer, RegularExpressionsThatPcre2ReadsDifferently_AreRefused) {
  for (const auto& [regex, what] :
       {std::pair("[a&&b]", "&&"), std::pair("[a[^b]]", "[^...]"), std::pair("(a)\\1", "\\1"),
        std::pair("(?m:.)", "(?"), std::pair("(*UTF)", "(*"), std::pair("a{,2}", "{,n}"),
        std::pair("a{2}+", "}+"), std::pair("\\K", "\\K"), std::pair("[[:alpha:]]", "[:name:]"),
        std::pair("(a", "missing closing parenthesis"), std::pair("a\\", "\\ at the end")})
    EXPECT_THAT(refusal("pre_tokenizer",
                        {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}}),
                AllOf(HasSubstr("tokenizer.pre_tokenizer: "), HasSubstr(what)));
}

TEST(Tokenizer, FilesThatContradictThemselves_AreRefused) {
  Json file = ascii();
  file["added_tokens"] = {{{"id", 200}, {"content", "<s>"}}};
  EXPECT_THAT(refusal(file), HasSubstr("the token \"<s>\" has the id 200; expected 128, its id in the "
                                       "model's vocabulary or else the next "));
  file = ascii();
  file["model"]["vocab"]["b"] = 'a';
  EXPECT_THAT(refusal(file), HasSubstr("have the same id 97"));
  file["model"]["vocab"]["b"] = 1u << 31;
  EXPECT_THAT(refusal(file), HasSubstr("ids from 0 to 2147483647, got 2147483648"));
  file = ascii();
  file["model"]["merges"] = {"a b"};
  EXPECT_THAT(refusal(file), HasSubstr("\"merges\" has the token \"ab\", which is not in \"vocab\""));
  EXPECT_THAT(refusal("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}),
              HasSubstr("\"precompiled_charsmap\" is damaged"));
  EXPECT_THAT(refusal("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}),
              HasSubstr("base64"));
}

TEST(Tokenizer, LongTextsAndWords_TakeLessThanAMinute) {
  using Clock = std::chrono::steady_clock;
  std::string spaces(1 << 20, ' '), marks;
  for (int i = 0; i < 1 << 18; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0316";
  for (const char* name : {"gpt2.json", "llama3.json", "llama2.json", "bert.json", "t5.json"}) {
    Json file = testdata(name);
    if (file["normalizer"].is_null()) file["normalizer"] = {{"type", "NFKD"}};
    const Tokenizer tokenizer = made(file);
    for (const std::string& text : {std::string(1 << 20, 'a'), spaces, spaces + "x", marks}) {
      const auto start = Clock::now();
      tokenizer.decode(tokenizer.encode(text));
      EXPECT_LT(Clock::now() - start, std::chrono::seconds(60)) << name;
    }
  }
}

TEST(Tokenizer, RegularExpressionThatTakesTooLong_IsAnError) {
  Json file = ascii();
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a|a|aa)+[bc]"}}}, {"behavior", "Isolated"}};
  EXPECT_THROW(made(file).encode(std::string(1000, 'a')), DataError);
}

TEST(Tokenizer, FileThatLengthensTextsWithoutBound_IsAnError) {
  const Json doubles = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(2000, 'a')}};
  Json file = ascii();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {doubles, doubles, doubles, doubles}}};
  file["decoder"] = {{"type", "Sequence"}, {"decoders", {doubles, doubles, doubles, doubles}}};
  EXPECT_THROW(made(file).encode("a"), DataError);
  EXPECT_THROW(made(file).decode(Ids{'a'}), DataError);
}

TEST(Tokenizer, Threads_CanShareATokenizer) {
  const Tokenizer tokenizer =
      Tokenizer::from_file(std::string(LOCKSTEP_TOKENIZERS_TESTDATA) + "/llama3.json");
  const std::string text = "The small house, 12345 маленький дом.";
  const Ids ids = tokenizer.encode(text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, copy = tokenizer] {
      for (int j = 0; j < 50; ++j) EXPECT_EQ(copy.encode(text), ids);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::tokenizers
