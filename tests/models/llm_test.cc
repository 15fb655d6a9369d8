// SPDX-License-Identifier: Apache-2.0
// examples/llm.cc, as a user runs it, in one process and in two: logits and greedy tokens of small models are
// those that transformers computes (hf/generate.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/testing/temporary_folder.h"
#include "tests/models/example_runs.h"

namespace lockstep {
namespace {

using test::printed_by_example;
using test::run_example;
using ::testing::HasSubstr;
using testing::ProcessResult;
using Arguments = std::vector<std::string>;

struct Expected {
  std::vector<std::vector<std::int32_t>> rows, greedy;
  std::vector<std::vector<std::vector<double>>> logits;  // of each place of each row
};

Expected expected_of(const std::string& family) {
  std::ifstream in(LOCKSTEP_HF_MODELS_DIR "/" + family + "/expected.json");
  const nlohmann::json all = nlohmann::json::parse(in);
  return {all["rows"], all["greedy"], all["logits"]};
}

/// "5 17; 2": the rows as the program takes them.
std::string text_of(const std::vector<std::vector<std::int32_t>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    if (!text.empty()) text += ";";
    for (std::int32_t token : row) text += " " + std::to_string(token);
  }
  return text;
}

/// The output of process 0.
std::string run_llm(const std::string& family, int processes, const Arguments& more) {
  Arguments arguments = {"--model", LOCKSTEP_HF_MODELS_DIR "/" + family, "--tokens",
                         text_of(expected_of(family).rows)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return printed_by_example(LOCKSTEP_LLM, processes, arguments);
}

/// The numbers of lines "row 0: 1 2 3", in order.
template <class T>
std::vector<std::vector<T>> printed(const std::string& log) {
  std::vector<std::vector<T>> all;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    std::size_t at = 0;
    if (!line.starts_with("row ") || (at = line.find(": ")) == line.npos) continue;
    std::istringstream numbers(line.substr(at + 2));
    std::vector<T>& row = all.emplace_back();
    for (T number; numbers >> number;) row.push_back(number);
  }
  return all;
}

class Llm : public ::testing::TestWithParam<std::string> {};

TEST_P(Llm, GivesTheLogitsAndGreedyTokensOfTransformers) {
  const Expected expected = expected_of(GetParam());
  for (int processes : {1, 2}) {
    SCOPED_TRACE(std::to_string(processes) + " processes");
    const auto logits = printed<double>(run_llm(GetParam(), processes, {"--logits"}));
    std::size_t line = 0;
    double worst = 0, largest = 0;
    for (const auto& row : expected.logits) {
      for (const std::vector<double>& place : row) {
        ASSERT_LT(line, logits.size());
        const std::vector<double>& found = logits[line++];
        ASSERT_EQ(found.size(), place.size());
        for (std::size_t i = 0; i < place.size(); ++i) {
          worst = std::max(worst, std::abs(found[i] - place[i]));
          largest = std::max(largest, std::abs(place[i]));
        }
      }
    }
    EXPECT_EQ(line, logits.size());
    EXPECT_LT(worst / largest, 1e-5);

    const std::string log = run_llm(GetParam(), processes, {"--new", "24"});
    EXPECT_EQ(printed<std::int32_t>(log), expected.greedy);
    EXPECT_THAT(log, HasSubstr("new: 69 tokens in "));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Llm, ::testing::Values("llama", "mistral", "mixtral", "qwen2"),
                         [](const auto& info) { return info.param; });

TEST(LlmProgram, StopsAndDraws) {
  const Expected expected = expected_of("llama");
  auto greedy = expected.greedy;
  const std::int32_t stop = greedy[0][2];
  for (auto& row : greedy)
    row.erase(
        std::find(row.begin(), row.end(), stop) + (std::find(row.begin(), row.end(), stop) != row.end()),
        row.end());
  EXPECT_EQ(printed<std::int32_t>(run_llm("llama", 1, {"--new", "24", "--stop", std::to_string(stop)})),
            greedy);
  const Arguments draw = {"--temperature", "1", "--top-p", "0.9", "--seed"};
  auto drawn = [&](const char* seed) {
    Arguments arguments = draw;
    arguments.push_back(seed);
    return printed<std::int32_t>(run_llm("llama", 1, arguments));
  };
  EXPECT_NE(drawn("1"), drawn("2"));
}

/// A tokenizer whose tokens are the model's 64: a token for each character.
std::string characters() {
  nlohmann::json vocabulary;
  for (int i = 0; i < 64; ++i) vocabulary[std::string(1, static_cast<char>('0' + i))] = i;
  return nlohmann::json{
      {"version", "1.0"},
      {"added_tokens", nlohmann::json::array()},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}}
      .dump();
}

TEST(LlmProgram, GivenText_GeneratesText) {
  const testing::TemporaryFolder folder;
  std::filesystem::copy(LOCKSTEP_HF_MODELS_DIR "/llama", folder.path());
  std::ofstream(folder.path() / "tokenizer.json") << characters();
  auto text_of_row = [](const std::vector<std::int32_t>& row) {
    std::string text;
    for (std::int32_t token : row) text += static_cast<char>('0' + token);
    return text;
  };
  const Expected expected = expected_of("llama");
  std::string prompt;
  for (const auto& row : expected.rows) prompt += text_of_row(row) + "\n";
  const std::string log = printed_by_example(
      LOCKSTEP_LLM, 1, {"--model", folder.path().string(), "--prompt", prompt, "--new", "24"});
  for (std::size_t i = 0; i < expected.greedy.size(); ++i)
    EXPECT_THAT(log, HasSubstr("row " + std::to_string(i) + ": " + text_of_row(expected.greedy[i])));
}

/// What a training by adapters printed.
struct Trained {
  std::vector<double> losses;
  double text = -1;
};

class LlmLora : public ::testing::TestWithParam<std::string> {
 protected:
  LlmLora() {
    std::filesystem::copy(LOCKSTEP_HF_MODELS_DIR "/" + GetParam(), folder_.path() / "model");
    std::ofstream(folder_.path() / "model/tokenizer.json") << characters();
    std::ofstream text(folder_.path() / "text.txt");
    for (int i = 0; i < 300; ++i) text << static_cast<char>('0' + (i + i / 20) % 20);
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }

  std::vector<ProcessResult> results(int processes, const std::string& from, const Arguments& more) const {
    Arguments arguments = {"--model", path(from),  "--data", path("text.txt"), "--lora", "4", "--batch-size",
                           "8",       "--context", "16",     "--print-losses"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_example(LOCKSTEP_LLM, processes, arguments);
  }

  Trained train(int processes, const std::string& from, const Arguments& more) const {
    const auto all = results(processes, from, more);
    for (const ProcessResult& result : all) EXPECT_EQ(result.exit_code, 0) << result.log;
    Trained trained;
    std::istringstream lines(all[0].log);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("loss of the text "))
        trained.text = std::stod(line.substr(17));
      else if (line.starts_with("loss "))
        trained.losses.push_back(std::stod(line.substr(5)));
    }
    return trained;
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_P(LlmLora, LearnsTheTextAlikeOnAllMeshes_AndWritesTheFolder) {
  const Arguments steps = {"--steps", "12", "--rate", "0.02", "--out"};
  auto with = [](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Trained before = train(1, "model", {"--steps", "0", "--out", path("same")});
  const Arguments saved = {"--checkpoint-every", "6", "--checkpoint-dir", path("run")};
  const Trained alone = train(1, "model", with(steps, with({path("alone")}, saved)));
  ASSERT_EQ(alone.losses.size(), 12u);
  EXPECT_NEAR(alone.losses[0], before.text, 0.1 * before.text);
  EXPECT_LT(alone.text, 0.8 * before.text) << "it does not learn";
  const Trained shared = train(2, "model", with(steps, {path("shared"), "--tensor", "2"}));
  ASSERT_EQ(shared.losses.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(shared.losses[i], alone.losses[i], 2e-3) << "step " << i;
  // The adapters are merged into the folder's arrays: the model alone, with new adapters, which are 0.
  EXPECT_NEAR(train(1, "shared", {"--steps", "0", "--out", path("again")}).text, shared.text, 1e-4);
  // Only the adapters are in a checkpoint. From the middle on, now in 2 processes that split the rows and the
  // model's arrays:
  std::filesystem::remove_all(path("run/step-00000012"));
  const Trained resumed = train(2, "model", with(steps, with({path("resumed"), "--fsdp"}, saved)));
  ASSERT_EQ(resumed.losses.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(resumed.losses[i], alone.losses[6 + i], 2e-3) << "step " << 6 + i;
}

TEST_P(LlmLora, OfWrongInput_SaysWhatIsWrong) {
  auto error = [&](const Arguments& arguments) {
    const ProcessResult result = results(1, "model", arguments)[0];
    EXPECT_EQ(result.exit_code, 1);
    return result.log;
  };
  EXPECT_THAT(error({}), HasSubstr("--out '' is no new folder"));
  std::ofstream(path("text.txt")) << "0123456789";
  EXPECT_THAT(error({"--out", path("new")}),
              HasSubstr("text.txt has 10 tokens: --context 16 needs one more than that"));
}

INSTANTIATE_TEST_SUITE_P(Families, LlmLora, ::testing::Values("llama", "mistral", "mixtral", "qwen2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace lockstep
