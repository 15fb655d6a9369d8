// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/testing/errors.h"

namespace lockstep::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

constexpr Option<int> kCount{
    .argument = "count", .variable = "LOCKSTEP_COUNT", .otherwise = 3, .least = 1, .most = 9, .help = ""};
constexpr Option<double> kRate{
    .argument = "rate", .variable = "LOCKSTEP_RATE", .otherwise = 0.5, .least = 0, .help = ""};
constexpr Option<bool> kFlag{.argument = "flag", .variable = "LOCKSTEP_FLAG", .help = ""};
constexpr options::Text kName{
    .argument = "name", .variable = "LOCKSTEP_NAME", .jax = "JAX_NAMES", .otherwise = "none", .help = ""};

MapEnvironment of(std::map<std::string, std::string> variables) {
  return MapEnvironment(std::move(variables));
}

TEST(Options, TheArgument_OverridesTheVariable_WhichOverridesJaxsAndTheDefault) {
  const std::optional<int> none;
  EXPECT_EQ(value_of(of({}), kCount, none), 3);
  EXPECT_EQ(value_of(of({{"LOCKSTEP_COUNT", ""}}), kCount, none), 3);
  EXPECT_EQ(value_of(of({{"JAX_COUNT", "4"}}), kCount, none), 4);
  const MapEnvironment both = of({{"JAX_COUNT", "4"}, {"LOCKSTEP_COUNT", "5"}});
  EXPECT_EQ(value_of(both, kCount, none), 5);
  EXPECT_EQ(value_of(both, kCount, std::optional(6)), 6);
  EXPECT_THAT(variables_of(kName), ElementsAre("LOCKSTEP_NAME", "JAX_NAMES"));
  EXPECT_EQ(value_of(of({{"JAX_NAME", "a"}}), kName, std::optional<std::string>()), "none");
  EXPECT_EQ(value_of(of({{"JAX_NAMES", "a"}}), kName, std::optional<std::string>()), "a");
}

TEST(Options, AnInvalidValue_IsAnErrorThatNamesTheVariableAndTheRange) {
  for (const char* wrong : {"0", "10", "-1", "1x", " 1", "1.5", "99999999999"}) {
    EXPECT_EQ(testing::error_of<InitializationError>([&] {
                find_value(of({{"JAX_COUNT", wrong}}), kCount);
              }),
              "[initialize] JAX_COUNT is '" + std::string(wrong) + "': expected a whole number from 1 to 9");
  }
  EXPECT_EQ(testing::error_of<InitializationError>([] { find_value(of({}), kCount, std::optional(0)); }),
            "[initialize] count is '0': expected a whole number from 1 to 9");
  for (const char* wrong : {"-1", "nan", "1,5"}) {
    EXPECT_EQ(testing::error_of<InitializationError>([&] {
                find_value(of({{"LOCKSTEP_RATE", wrong}}), kRate);
              }),
              "[initialize] LOCKSTEP_RATE is '" + std::string(wrong) + "': expected a number of at least 0");
  }
}

TEST(Options, Durations_AreHeldToTheRangeInSeconds) {
  EXPECT_EQ(value_of(of({}), kCount, std::optional<seconds>()), seconds(3));
  EXPECT_EQ(value_of(of({{"LOCKSTEP_COUNT", "7"}}), kCount, std::optional<seconds>()), seconds(7));
  for (const seconds wrong : {seconds(0), seconds(10), seconds((std::int64_t{1} << 32) + 1)}) {
    EXPECT_EQ(
        testing::error_of<InitializationError>([&] { find_value(of({}), kCount, std::optional(wrong)); }),
        "[initialize] count is '" + std::to_string(wrong.count()) + "': expected a whole number from 1 to 9");
  }
}

TEST(Options, Flags_AcceptTheUsualWordsForYesAndNo) {
  for (const char* yes : {"1", "true", "T", "Yes", "y", "ON"})
    EXPECT_EQ(find_value(of({{"LOCKSTEP_FLAG", yes}}), kFlag), true) << yes;
  for (const char* no : {"0", "False", "f", "no", "N", "off"})
    EXPECT_EQ(find_value(of({{"LOCKSTEP_FLAG", no}}), kFlag), false) << no;
  EXPECT_EQ(find_value(of({{"LOCKSTEP_FLAG", ""}}), kFlag), std::nullopt);
  EXPECT_EQ(find_value(of({{"LOCKSTEP_FLAG", "1"}}), kFlag, std::optional(false)), false);
  EXPECT_EQ(testing::error_of<InitializationError>([] {
              find_value(of({{"LOCKSTEP_FLAG", "perhaps"}}), kFlag);
            }),
            "[initialize] LOCKSTEP_FLAG is 'perhaps': expected 1, true, yes or on, or 0, false, no or off");
}

}  // namespace
}  // namespace lockstep::cluster
