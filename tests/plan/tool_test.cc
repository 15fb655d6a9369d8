// SPDX-License-Identifier: Apache-2.0
// `lockstep plan`, as a user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep/testing/processes.h"
#include "tests/plan/plans.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kExamples = LOCKSTEP_EXAMPLES_DIR;

testing::Processes plan(Words arguments, std::chrono::seconds deadline = std::chrono::seconds(60)) {
  arguments.insert(arguments.begin(), "plan");
  return testing::Processes(
      {.count = 1, .program = LOCKSTEP_TOOL, .arguments = arguments, .deadline = deadline});
}

TEST(PlanTool, ForCpus_PrintsATableAndWritesAPicture) {
  testing::Processes text =
      plan({"--topology", "cpu:8x4", "--svg", "plan.svg", "--", kExamples + "/tensor_parallel_mlp"});
  const auto result = text.wait()[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("plan for cpu:8x4: 32 x cpu on 8 hosts"), HasSubstr("all-reduce"),
                                HasSubstr("it ends at tensor_parallel_mlp.cc:")));
  std::ifstream picture(text.folder(0) / "plan.svg");
  const std::string svg((std::istreambuf_iterator<char>(picture)), {});
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg "), HasSubstr("memory of each device"), HasSubstr("</svg>")));
}

TEST(PlanTool, ASearch_TriesEveryShapeOfTheMesh) {
  const auto result =
      plan({"--topology", "cpu:2x2", "--search", "data,model", "--", kExamples + "/tensor_parallel_mlp"})
          .wait()[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log,
              AllOf(HasSubstr("data=1,model=4"), HasSubstr("data=2,model=2"), HasSubstr("data=4,model=1")));
  const auto other =
      plan({"--topology", "cpu:2x2", "--search", "rows,columns", "--", kExamples + "/tensor_parallel_mlp"})
          .wait()[0];
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.log, HasSubstr("made no mesh over all devices with the axes rows,columns"));
}

TEST(PlanTool, AMissingProgramOrUnknownTopology_IsAnError) {
  EXPECT_EQ(plan({"--topology", "cpu:2x2", "--", "/nowhere/program"}).wait()[0].exit_code, 127);
  EXPECT_EQ(plan({"--topology", "cpu:2x2"}).wait()[0].exit_code, 2);
  const auto never = plan({"--topology", "cpu:2x2", "--", "/bin/true"}).wait()[0];
  EXPECT_EQ(never.exit_code, 1);
  EXPECT_THAT(never.log, HasSubstr("ended with exit status 0 before it called initialize()"));
  const auto unknown = plan({"--topology", "v9z:2", "--", kExamples + "/linear_regression"}).wait()[0];
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.log, HasSubstr("'v9z:2' is not known"));
}

TEST(PlanTool, TheTransformerExample_IsPlannedForAPod) {
  if (const std::string reason = test::no_tpu_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  const auto result = plan({"--topology", "v5e:16x16", "--", kExamples + "/train_transformer", "--tensor",
                            "4", "--batch-size", "256"},
                           std::chrono::seconds(120))
                          .wait()[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, AllOf(HasSubstr("plan for v5e:16x16: 256 x TPU v5 lite on 64 hosts, 16.0 GiB"),
                                HasSubstr("collectives of "), HasSubstr("  tensor  "),
                                HasSubstr("it ends at train_transformer.cc:")));
}

/// An example, and what it is told on this number of devices.
struct Example {
  const char* program;
  bool computes = true;  ///< before it reads an element
  Words (*arguments)(int devices) = [](int) { return Words(); };
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.program; }

Words batch_of(int least, int devices) { return {"--batch-size", std::to_string(std::max(least, devices))}; }

constexpr Example kPrograms[] = {
    {"data_loading", false},
    {"distributed_data_loader"},
    {"hello_devices", false},
    {"linear_regression"},
    {"log_metrics"},
    {"n_devices_in_mesh"},
    {"pod_shardings", false},
    {"process_spanning_arrays", false},
    {"psum"},
    {"resume_data"},
    {"tensor_parallel_mlp"},
    {"train_diffusion", true, [](int devices) { return batch_of(64, devices); }},
    {"train_digits", true, [](int devices) { return batch_of(128, devices); }},
    {"train_gpt", true,
     [](int devices) {
       Words words = batch_of(16, devices);
       words.insert(words.end(), {"--tensor", "4", "--width", std::to_string(std::max(128, devices))});
       return words;
     }},
    {"train_linear"},
    {"train_transformer", true, [](int devices) { return batch_of(16, devices); }},
    {"train_vit", true, [](int devices) { return batch_of(128, devices); }},
};

class Examples : public ::testing::TestWithParam<Example> {};

TEST_P(Examples, CompileForTpus) {
  if (const std::string reason = test::no_tpu_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  const std::map<std::string, int> devices = {{"v5e:4x4", 16}, {"v5e:16x16", 256}, {"v5p:8x8x16", 1024}};
  for (const std::string& topology : test::topologies()) {
    SCOPED_TRACE(topology);
    Words words = {"--topology", topology, "--json", "--", kExamples + "/" + GetParam().program};
    for (const std::string& word : GetParam().arguments(devices.at(topology))) words.push_back(word);
    const auto result = plan(words, std::chrono::seconds(240)).wait()[0];
    EXPECT_EQ(result.exit_code, 0) << result.log;
    const Json planned = Json::parse(result.log.substr(result.log.find("{\n")), nullptr, false);
    ASSERT_TRUE(planned.is_object()) << result.log;
    EXPECT_EQ(planned["computations"].empty(), !GetParam().computes) << result.log;
    for (const Json& computation : planned["computations"]) EXPECT_EQ(computation["does_not_fit"], "");
  }
}

INSTANTIATE_TEST_SUITE_P(PlanTool, Examples, ::testing::ValuesIn(kPrograms),
                         [](const auto& info) { return std::string(info.param.program); });

}  // namespace
}  // namespace lockstep
