// SPDX-License-Identifier: Apache-2.0
// examples/bert_classify.cc, as a user runs it, in one process and in two: logits, and the losses of a
// training, of a small BERT are those of transformers and torch (hf/generate.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/testing/temporary_folder.h"
#include "tests/models/example_runs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::ProcessResult;
using Arguments = std::vector<std::string>;
using Rows = std::vector<std::vector<double>>;

const fs::path kBert = LOCKSTEP_HF_MODELS_DIR "/bert";

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder with the model and a tokenizer, and texts to train on and to classify.
class Bert : public ::testing::Test {
 protected:
  Bert() {
    fs::copy(kBert, model());
    fs::copy_file(LOCKSTEP_TOKENIZERS_TESTDATA "/bert.json", model() + "/tokenizer.json");
    std::istringstream lines(text_of(train()));
    std::ofstream texts(predicted());
    for (std::string line; std::getline(lines, line);) texts << line.substr(line.find('\t') + 1) << "\n";
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }
  std::string model() const { return path("model"); }
  std::string train() const { return model() + "/train.tsv"; }
  std::string predicted() const { return path("texts.txt"); }

  Arguments with_model(Arguments arguments, const std::string& from) const {
    arguments.insert(arguments.begin(), {"--model", from.empty() ? model() : from});
    return arguments;
  }

  /// What process 0 prints.
  std::string run(int processes, const Arguments& arguments, const std::string& from = {}) const {
    return test::printed_by_example(LOCKSTEP_BERT_CLASSIFY, processes, with_model(arguments, from));
  }

  /// The folder's labels and logits of the texts.
  Rows predict(const std::string& from, std::vector<std::string>* labels = nullptr, int processes = 1) const {
    Rows rows;
    std::istringstream lines(
        run(processes, {"--predict", predicted(), "--logits", "--batch-size", "6"}, from));
    for (std::string line; std::getline(lines, line);) {
      if (line.find('\t') == line.npos) continue;
      std::istringstream words(line);
      std::string label;
      words >> label;
      if (labels != nullptr) labels->push_back(label);
      std::vector<double>& row = rows.emplace_back();
      for (double number; words >> number;) row.push_back(number);
    }
    return rows;
  }

 private:
  testing::TemporaryFolder folder_;
};

void expect_near(const Rows& found, const Rows& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size());
    for (std::size_t k = 0; k < found[i].size(); ++k)
      EXPECT_NEAR(found[i][k], expected[i][k], tolerance) << "text " << i << ", label " << k;
  }
}

std::vector<double> losses_in(const std::string& log) {
  std::vector<double> losses;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("loss ")) losses.push_back(std::stod(line.substr(5)));
  return losses;
}

nlohmann::json expected() { return nlohmann::json::parse(text_of(kBert / "expected.json")); }

TEST_F(Bert, Logits_EqualThoseOfTransformers) {
  for (int processes : {1, 2}) {
    std::vector<std::string> labels;
    const Rows found = predict(model(), &labels, processes), logits = expected()["logits"];
    expect_near(found, logits, 1e-5);
    for (std::size_t i = 0; i < logits.size(); ++i)
      EXPECT_EQ(labels.at(i), logits[i][1] > logits[i][0] ? "good" : "bad");
  }
}

/// Renames tensors in the header of a safetensors file, by texts of equal length.
void rename(const fs::path& path, const std::vector<std::pair<std::string, std::string>>& names) {
  std::string bytes = text_of(path);
  std::uint64_t header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (const auto& [from, to] : names) {
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t at = bytes.find(from); at < header; at = bytes.find(from, at))
      bytes.replace(at, from.size(), to);
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(Bert, OlderNames_AndThoseOfModelsWithoutATask_AreRead) {
  rename(model() + "/model.safetensors", {{"\"bert.", "     \""},
                                          {"LayerNorm.weight\"", "LayerNorm.gamma\" "},
                                          {"LayerNorm.bias\"", "LayerNorm.beta\""}});
  expect_near(predict(model()), expected()["logits"], 1e-5);
}

TEST_F(Bert, Training_GivesTheLossesOfTorch_AndWritesTheFolder) {
  const std::vector<double> torchs = expected()["losses"];
  EXPECT_LT(torchs.back(), 0.5 * torchs.front()) << "it does not learn";
  for (int processes : {1, 2}) {
    SCOPED_TRACE(processes);
    const std::string out = path("trained" + std::to_string(processes));
    const std::string log =
        run(processes, {"--data", train(), "--test", train(), "--out", out, "--epochs", "8", "--batch-size",
                        "8", "--rate", "0.005", "--dropout", "0", "--print-losses"});
    const std::vector<double> losses = losses_in(log);
    ASSERT_EQ(losses.size(), torchs.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], torchs[i], 2e-5) << "step " << i;
    EXPECT_THAT(log, HasSubstr("test accuracy 1.000\n"));
    expect_near(predict(out), expected()["trained_logits"], 1e-3);
    const nlohmann::json config = nlohmann::json::parse(text_of(out + "/config.json"));
    EXPECT_EQ(config["architectures"], nlohmann::json({"BertForSequenceClassification"}));
    EXPECT_EQ(config["id2label"], nlohmann::json({{"0", "bad"}, {"1", "good"}}));
  }
}

/// Other labels, dropout, and a last batch that is not full.
TEST_F(Bert, WithANewClassifier_LossesOfTwoProcesses_EqualThoseOfOne) {
  std::ofstream(path("three.tsv")) << text_of(train()) << "ugly\tThe winter.\nugly\tThe old winter!\n";
  std::vector<std::vector<double>> losses;
  for (int processes : {1, 2}) {
    const std::string out = path("three" + std::to_string(processes));
    const std::string log = run(processes, {"--data", path("three.tsv"), "--out", out, "--epochs", "2",
                                            "--batch-size", "4", "--rate", "0.005", "--print-losses"});
    EXPECT_THAT(log, HasSubstr("a new classifier of 3 labels\n"));
    losses.push_back(losses_in(log));
    ASSERT_EQ(losses.back().size(), 6u);
  }
  for (std::size_t i = 0; i < losses[0].size(); ++i)
    EXPECT_NEAR(losses[1][i], losses[0][i], 1e-4) << "step " << i;
  std::vector<std::string> labels;
  EXPECT_EQ(predict(path("three2"), &labels)[0].size(), 3u);
}

TEST_F(Bert, OfWrongInput_SaysWhatIsWrong) {
  auto error = [&](const Arguments& arguments, const std::string& from = {}) {
    const ProcessResult result = test::run_example(LOCKSTEP_BERT_CLASSIFY, 1, with_model(arguments, from))[0];
    EXPECT_EQ(result.exit_code, 1);
    return result.log;
  };
  const std::string out = path("new");
  std::ofstream(path("bad.tsv")) << "good\tA house.\n\nno tab\n";
  EXPECT_THAT(error({"--data", path("bad.tsv"), "--out", out}),
              HasSubstr("bad.tsv line 3: expected a label, a tab and a text, got 'no tab'"));
  EXPECT_THAT(error({"--data", train(), "--out", model()}), HasSubstr("/model' is no new folder"));
  std::ofstream(path("other.tsv")) << "worse\tA house.\n";
  EXPECT_THAT(error({"--data", train(), "--test", path("other.tsv"), "--out", out}),
              HasSubstr("the label 'worse' of 'A house.' is not one of those trained"));
  EXPECT_THAT(error({"--predict", predicted()}, LOCKSTEP_HF_MODELS_DIR "/llama"),
              HasSubstr("tokenizer.json"));
  rename(model() + "/model.safetensors", {{"\"classifier.", "\"classified."}});
  EXPECT_THAT(error({"--predict", predicted()}), HasSubstr("classifier.weight"));
}

}  // namespace
}  // namespace lockstep
