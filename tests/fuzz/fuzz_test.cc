#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/fuzz/generate.h"
#include "tests/fuzz/golden.h"
#include "tests/fuzz/numbers_file.h"
#include "tests/fuzz/print.h"
#include "tests/fuzz/reduce.h"
#include "tests/fuzz/run.h"

// Random programs: each gives the same on one device, operation by operation and jitted, over eight devices,
// and in four processes of two, and what JAX gives. docs/testing.md tells how to use this.

namespace lockstep::fuzz {
namespace {

using testing::ProcessResult;
using testing::run_processes;

constexpr int kSeeds = 300, kBatch = 25;

/// Seeds whose programs JAX 0.10.2 gets wrong; Lockstep's answers are right by hand. 116: XLA updates an
/// array in place within a scan before it has read the part that it copies (x.at[1:5].set(x[0:4])). 174: the
/// same with a captured constant, over devices. 301: a psum over 8 CPU devices.
constexpr std::uint64_t kJaxIsWrong[] = {116, 174, 301};

std::string compare_with_kept_jax(const Program& program, const std::vector<Numbers>& outputs) {
  if (std::ranges::find(kJaxIsWrong, program.seed) != std::end(kJaxIsWrong)) return "";
  return compare_with_jax(program, outputs);
}

class EightDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = kDevices}); }
};
[[maybe_unused]] const auto* const eight_devices = ::testing::AddGlobalTestEnvironment(new EightDevices);

/// The number that a variable of the environment holds.
std::optional<long> variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? std::nullopt : std::optional(std::atol(text));
}

/// Says which seed it was where a program ends the process.
char at_seed[128];
void say_seed(int signal) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, at_seed, std::strlen(at_seed));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}
void now_at(std::uint64_t seed) {
  std::snprintf(
      at_seed, sizeof(at_seed),
      "\n[fuzz] at seed %lu; LOCKSTEP_FUZZ_SEED=%lu --gtest_filter=FuzzFurther.OneSeed reduces it\n",
      static_cast<unsigned long>(seed), static_cast<unsigned long>(seed));
  for (int each : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(each, say_seed);
}

/// What is wrong, with the smallest program that shows it.
std::string report(const Program& program, const std::string& failure, std::chrono::seconds at_most) {
  std::string text = "seed " + std::to_string(program.seed) + ": " + failure + "\n";
  ExamineOptions options;
  options.eager = failure.starts_with(to_string(Mode::kEager));
  options.many = !failure.starts_with(to_string(Mode::kOne));
  Examine again = [options](const Program& p) { return examine(p, options); };
  if (failure.starts_with("JAX")) {
    const char* python = std::getenv("LOCKSTEP_FUZZ_PYTHON");
    if (python == nullptr) return text + "LOCKSTEP_FUZZ_PYTHON, a Python that has JAX, lets it be reduced\n";
    again = [python](const Program& p) {
      std::vector<Numbers> outputs;
      const std::string failure = examine(p, {.many = false, .eager = false}, &outputs);
      return failure.empty() ? compare_with_running_jax(python, p, outputs) : failure;
    };
  }
  const Program small = reduce(program, again, at_most);
  text += "reduced: " + again(small) + "\n";
  return text + print_cpp(small, run(small, Mode::kOne).outputs) + print_jax(small);
}

/// Ends a child in the middle of a reduction, once the candidate it was started for has been examined.
struct Examined {
  std::string failure;
};

// Of a seed, the way of a reduction so far ('1' for a candidate that crashed, '0' for one that did not) and
// how programs are to be examined: examines the candidate that comes next.
LOCKSTEP_CHILD(examines_a_candidate) {
  const std::vector<std::string>& arguments = testing::child_arguments();
  const ExamineOptions options{.many = arguments.at(2) == "many", .eager = arguments.at(2) == "eager"};
  initialize({.num_cpu_devices = kDevices});
  std::size_t next = 0;
  const Examine follow = [&](const Program& candidate) -> std::string {
    if (next == arguments.at(1).size()) throw Examined{examine(candidate, options)};
    return arguments.at(1)[next++] == '1' ? "crash" : "";
  };
  try {
    reduce(generate(std::stoull(arguments.at(0))), follow, std::chrono::hours(1));
  } catch (const Examined&) {
  }
}

/// The smallest program found that ends a process by a signal, each candidate run in a process of its own; or
/// nothing, where the program of the seed does not.
std::optional<Program> reduce_crash(std::uint64_t seed, std::chrono::seconds at_most) {
  for (const std::string how : {"one", "many", "eager"}) {
    std::string way;
    int signal = 0;
    const Examine examine_apart = [&](const Program&) -> std::string {
      const ProcessResult result = run_processes({.child = "examines_a_candidate",
                                                  .arguments = {std::to_string(seed), way, how},
                                                  .deadline = std::chrono::minutes(2)})[0];
      way += result.signal != 0 ? '1' : '0';
      if (result.signal != 0) signal = result.signal;
      return result.signal != 0 ? "crash" : "";
    };
    Program small = reduce(generate(seed), examine_apart, at_most);
    if (signal == 0) continue;
    std::printf("signal %d with %s, %zu candidates\n", signal, how.c_str(), way.size());
    return small;
  }
  return std::nullopt;
}

/// What is wrong with the program of the seed, in this process and against JAX, or nothing.
std::string failure_of(const Program& program, std::vector<Numbers>* outputs) {
  now_at(program.seed);
  std::string failure = examine(program, {}, outputs);
  if (failure.empty() && program.seed < kGoldenPrograms) failure = compare_with_kept_jax(program, *outputs);
  return failure;
}

// Of a file of what the programs of some seeds should give: this process's parts of what they give.
LOCKSTEP_CHILD(compares_its_parts) {
  initialize();
  for (const auto& [seed, expected] : read_numbers(testing::child_arguments().at(0))) {
    testing::say("seed " + std::to_string(seed));
    const std::string failure = compare_parts(generate(seed), expected);
    EXPECT_EQ(failure, "") << "seed " << seed;
  }
}

void compare_in_processes(const std::map<std::uint64_t, std::vector<Numbers>>& expected) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "expected";
  write_numbers(file, expected);
  const std::vector<ProcessResult> results = run_processes({.count = 4,
                                                            .child = "compares_its_parts",
                                                            .arguments = {file.string()},
                                                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", "2"}},
                                                            .coordinator = true,
                                                            .deadline = std::chrono::minutes(5)});
  for (const ProcessResult& result : results) EXPECT_EQ(result.exit_code, 0) << result.log;
}

class Fuzz : public ::testing::TestWithParam<int> {};

TEST_P(Fuzz, ProgramsAgree) {
  const auto first = static_cast<std::uint64_t>(GetParam() * kBatch);
  int reduced = 0;
  for (std::uint64_t seed = first; seed < first + kBatch; ++seed) {
    const Program program = generate(seed);
    std::vector<Numbers> outputs;
    const std::string failure = failure_of(program, &outputs);
    if (!failure.empty())
      ADD_FAILURE() << report(program, failure, std::chrono::seconds(reduced++ < 2 ? 40 : 0));
  }
}
INSTANTIATE_TEST_SUITE_P(Batch, Fuzz, ::testing::Range(0, kSeeds / kBatch));

TEST(FuzzJax, FurtherProgramsAgreeWithJax) {
  if (const char* file = std::getenv("LOCKSTEP_FUZZ_JAX")) return write_programs(file);
  for (std::uint64_t seed = kSeeds; seed < kGoldenPrograms; ++seed) {
    const Program program = generate(seed);
    now_at(seed);
    std::vector<Numbers> outputs;
    std::string failure = examine(program, {.many = false, .eager = false}, &outputs);
    if (failure.empty()) failure = compare_with_kept_jax(program, outputs);
    EXPECT_EQ(failure, "") << "seed " << seed;
  }
}

TEST(FuzzProcesses, ProgramsAgree) {
  std::map<std::uint64_t, std::vector<Numbers>> expected;
  for (std::uint64_t seed = 0; seed < kSeeds; seed += 10) {
    Outcome one = run(generate(seed), Mode::kOne);
    if (one.error.empty()) expected.emplace(seed, std::move(one.outputs));
  }
  compare_in_processes(expected);
}

TEST(FuzzFurther, Seconds) {
  const auto seconds = variable("LOCKSTEP_FUZZ_SECONDS");
  if (!seconds) GTEST_SKIP() << "LOCKSTEP_FUZZ_SECONDS says for how long";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(*seconds);
  const char* without = std::getenv("LOCKSTEP_FUZZ_WITHOUT");
  std::map<std::uint64_t, std::vector<Numbers>> expected;
  std::map<std::string, std::vector<std::uint64_t>> failures;
  auto seed = static_cast<std::uint64_t>(variable("LOCKSTEP_FUZZ_FIRST").value_or(1000));
  int count = 0, left_out = 0;
  for (; std::chrono::steady_clock::now() < end; ++seed) {
    const Program program = generate(seed);
    bool has = false;
    for_each_node(program.body, [&](const Node& node) {
      has =
          has || (without != nullptr && std::string(without).find("," + node.op + ",") != std::string::npos);
    });
    if (has) {
      ++left_out;
      continue;
    }
    ++count;
    std::vector<Numbers> outputs;
    const std::string failure = failure_of(program, &outputs);
    if (failure.empty()) {
      if (seed % 10 == 0) expected.emplace(seed, outputs);
      if (expected.size() == 20) {
        compare_in_processes(expected);
        expected.clear();
      }
      continue;
    }
    std::vector<std::uint64_t>& same = failures[kind_of(failure)];
    same.push_back(seed);
    if (same.size() == 1)
      ADD_FAILURE() << report(program, failure, std::chrono::seconds(30));
    else
      std::printf("seed %lu: %s\n", static_cast<unsigned long>(seed), failure.substr(0, 300).c_str());
    std::fflush(stdout);
  }
  compare_in_processes(expected);
  std::printf("%d programs, up to seed %lu; %d left out\n", count, static_cast<unsigned long>(seed - 1),
              left_out);
  for (const auto& [kind, seeds] : failures) {
    std::printf("%zu x %s:", seeds.size(), kind.c_str());
    for (std::uint64_t each : seeds) std::printf(" %lu", static_cast<unsigned long>(each));
    std::printf("\n");
  }
}

TEST(FuzzFurther, OneSeed) {
  const auto seed = variable("LOCKSTEP_FUZZ_SEED");
  if (!seed) GTEST_SKIP() << "LOCKSTEP_FUZZ_SEED says which one";
  const Program program = generate(static_cast<std::uint64_t>(*seed));
  std::printf("%s\n%s\n", print_cpp(program).c_str(), print_jax(program).c_str());
  if (const auto small = reduce_crash(program.seed, std::chrono::minutes(8)))
    FAIL() << "a crash, reduced:\n" << print_cpp(*small) << print_jax(*small);
  std::vector<Numbers> outputs;
  const std::string failure = failure_of(program, &outputs);
  if (!failure.empty()) ADD_FAILURE() << report(program, failure, std::chrono::minutes(2));
  if (failure.empty()) compare_in_processes({{program.seed, outputs}});
}

}  // namespace
}  // namespace lockstep::fuzz
