// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cli/testing/tool.h"
#include "lockstep/base/error.h"
#include "lockstep/coordination/client/client.h"

// Whom `lockstep run` blames: to whom it happened first, in whatever order the processes end because of it.
// LOCKSTEP_TEST_JOBS=N starts N jobs of each kind.

namespace lockstep::cli {
namespace {

using coordination::CoordinationClient;
using coordination::FailureKind;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Processes;
using testing::ProcessResult;

constexpr std::chrono::minutes kLongWait(10);

/// The job's actions follow from its seed, which all its processes know.
struct Plan {
  explicit Plan(int seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    size = 2 + static_cast<int>(random() % 3);
    culprit = static_cast<int>(random() % static_cast<unsigned>(size));
    catches = random() % 2 == 0;
  }
  int size = 0, culprit = 0;
  bool catches = false;
};

/// Below `count`, another one in each process.
int any_below(int count) {
  static std::mt19937 random(static_cast<unsigned>(getpid()));
  return static_cast<int>(random() % static_cast<unsigned>(count));
}

void sleep_up_to(int longest_ms) { std::this_thread::sleep_for(milliseconds(any_below(longest_ms))); }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Ends some time later in one of the ways in which programs end that were told of an error.
[[noreturn]] void end_in_some_way(CoordinationClient& client, const std::string& why) {
  sleep_up_to(60);
  switch (any_below(4)) {
    case 0:
      client.report_own_error(why);
      std::_Exit(3);
    case 1:
      client.report_own_error(why);
      std::abort();
    case 2:
      std::abort();
    default:
      std::_Exit(4);
  }
}

/// Waits for what does not come.
[[noreturn]] void wait_and_end(CoordinationClient& client, milliseconds timeout = kLongWait) {
  try {
    client.barrier("never", timeout);
  } catch (const PeerFailure&) {
    sleep_up_to(60);
    std::_Exit(5);
  } catch (const Error& error) {
    end_in_some_way(client, error.what());
  }
  std::_Exit(6);
}

LOCKSTEP_CHILD(fails_by_plan) {
  const std::string kind = variable("FIRST_CAUSE_KIND");
  const Plan plan(std::atoi(variable("FIRST_CAUSE_SEED").c_str()));
  const bool culprit = std::atoi(variable("LOCKSTEP_PROCESS_ID").c_str()) == plan.culprit;
  if (kind == "does not come" && culprit) std::this_thread::sleep_for(kLongWait);
  std::unique_ptr<CoordinationClient> client;
  try {
    client = join();
  } catch (const Error&) {
    sleep_up_to(60);
    std::_Exit(7);
  }
  client->barrier("all", kLongWait);
  if (kind == "diverges") {
    // As the runtime does before it throws DivergenceError, in every process that finds out.
    sleep_up_to(20);
    client->report_failure(
        {FailureKind::kDiverged, {{plan.culprit}}, "it is in psum but the others in pmax"});
    client->finish_reports();
    if (culprit && plan.catches) std::_Exit(0);  // It has caught the error.
    end_in_some_way(*client, "process 0 of 2 is in psum");
  }
  if (kind == "leaves early") {
    if (!culprit) {
      // As the runtime does when it waits for data of a process that has left.
      client->report_failure({FailureKind::kLeftEarly, {{plan.culprit}}, "process 0 waited for it"});
      wait_and_end(*client);
    }
    try {
      client->shutdown();
    } catch (const Error&) {
    }
    std::_Exit(0);
  }
  if (kind == "returns" && culprit) std::_Exit(0);
  if (kind == "is killed" && culprit) raise(SIGKILL);
  if (kind == "throws" && culprit) {
    client->report_own_error("no such file");
    end_in_some_way(*client, "another error");
  }
  if (kind == "misses a barrier") {
    if (culprit) std::this_thread::sleep_for(kLongWait);
    wait_and_end(*client, milliseconds(100));
  }
  if (kind == "does not shut down") {
    if (culprit) std::this_thread::sleep_for(kLongWait);
    try {
      client->shutdown();
    } catch (const Error& error) {
      end_in_some_way(*client, error.what());
    }
  }
  wait_and_end(*client);
}

struct Kind {
  const char* name;
  const char* says;  ///< In the launcher's lines, of the culprit.
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class FirstCause : public ::testing::TestWithParam<Kind> {};

/// The first and the last of the launcher's own lines that say who failed.
std::pair<std::string, std::string> verdicts(const std::string& log) {
  std::string first, last;
  for (const std::string& line : lines_of(log)) {
    if (!line.starts_with("lockstep: process")) {
      if (line.starts_with("lockstep: the job failed: ")) last = line.substr(26);
    } else if (first.empty()) {
      first = line.substr(10);
    }
  }
  return {first.empty() ? last : first, last};
}

TEST_P(FirstCause, IsNamedInTheFirstAndTheLastLine_HoweverTheProcessesEnd) {
  const std::string jobs = variable("LOCKSTEP_TEST_JOBS");
  const int count = jobs.empty() ? 5 : std::atoi(jobs.c_str());
  constexpr int kAtOnce = 4;
  int wrong = 0;
  for (int begin = 0; begin < count; begin += kAtOnce) {
    std::string command = "exec " LOCKSTEP_TOOL " run -n $SIZE --no-bind --grace 1 --";
    for (const std::string& word : testing::command_of_child("fails_by_plan"))
      command.append(" '").append(word).append("'");
    Processes processes({.count = std::min(kAtOnce, count - begin),
                         .program = "/bin/sh",
                         .arguments = {"-c", command},
                         .env = {{"FIRST_CAUSE_KIND", GetParam().name},
                                 {"LOCKSTEP_INITIALIZATION_TIMEOUT",
                                  std::string(GetParam().name) == "does not come" ? "1" : "60"},
                                 {"LOCKSTEP_SHUTDOWN_TIMEOUT", "1"}},
                         .env_of = [&](int i) {
                           return testing::Variables{{"FIRST_CAUSE_SEED", std::to_string(begin + i)},
                                                     {"SIZE", std::to_string(Plan(begin + i).size)}};
                         }});
    const std::vector<ProcessResult> results = processes.wait();
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const auto [first, last] = verdicts(results[i].log);
      const std::string culprit = "process " + std::to_string(Plan(begin + i).culprit) + " (host ";
      for (const std::string& verdict : {first, last}) {
        EXPECT_THAT(verdict, ::testing::StartsWith(culprit)) << results[i].log;
        EXPECT_THAT(verdict, HasSubstr(GetParam().says)) << results[i].log;
        wrong += !verdict.starts_with(culprit) || verdict.find(GetParam().says) == verdict.npos;
      }
      EXPECT_NE(results[i].exit_code, 0);
    }
  }
  RecordProperty("jobs", count);
  RecordProperty("wrong_lines", wrong);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FirstCause,
    ::testing::Values(Kind{"diverges", ") diverged: it is in psum but the others in pmax"},
                      Kind{"leaves early", ") left the job early: process 0 waited for it"},
                      Kind{"returns", ") ended with status 0 without shutdown()"},
                      Kind{"is killed", ") died: signal 9 (SIGKILL)"},
                      Kind{"throws", ") ended with an error: no such file"},
                      Kind{"misses a barrier",
                           ") did not come in time: barrier 'never' failed: after 100 ms"},
                      Kind{"does not come", ") did not come in time: "},
                      Kind{"does not shut down",
                           ") did not come in time: after 1 s these have not called "
                           "shutdown"}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(FirstCause, ARestartThatDoesNotBegin_NamesTheFailureThatCausedIt) {
  Processes job({.program = "/bin/sh",
                 .arguments = {"-c",
                               "printf '#!/bin/sh\\nsleep 0.3; rm -f program; [ $LOCKSTEP_PROCESS_ID = 1 ] "
                               "&& kill -9 $$; exec sleep 1000' > program; chmod +x program; " LOCKSTEP_TOOL
                               " run -n 2 --max-restarts 2 --initialization-timeout 1 -- ./program"}});
  const ProcessResult result = job.wait(0);
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(verdicts(result.log).first, HasSubstr(") died: signal 9 (SIGKILL)")) << result.log;
  EXPECT_THAT(lines_of(result.log).back(),
              ::testing::MatchesRegex("lockstep: the job failed: process 1 .* died: signal 9 \\(SIGKILL\\); "
                                      "restart 1 did not begin"));
}

LOCKSTEP_CHILD(retries_a_barrier) {
  auto client = join();
  if (client->process_id() == 1) client->key_value_store().get("it was late", kLongWait);
  try {
    client->barrier("patient", milliseconds(50));
  } catch (const TimeoutError&) {
  }
  if (client->process_id() == 0) client->key_value_store().set("it was late", "yes");
  client->barrier("both have heard that", kLongWait);
  client->barrier("patient", kLongWait);
  if (client->process_id() == 0) {
    client->report_own_error("bad input");
    std::_Exit(3);
  }
  wait_in_vain(*client);
}

TEST(FirstCause, ABarrierThatPassedInTheEnd_IsNotTheCause) {
  const auto result =
      lockstep(Words{"run", "-n", "2", "--"} + testing::command_of_child("retries_a_barrier"));
  EXPECT_THAT(verdicts(result.log).second, HasSubstr(") ended with an error: bad input")) << result.log;
}

}  // namespace
}  // namespace lockstep::cli
