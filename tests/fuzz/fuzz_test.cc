// SPDX-License-Identifier: Apache-2.0
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
#include "lockstep/testing/rounds.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/fuzz/generate.h"
#include "tests/fuzz/golden.h"
#include "tests/fuzz/numbers_file.h"
#include "tests/fuzz/print.h"
#include "tests/fuzz/reduce.h"
#include "tests/fuzz/run.h"

// Random programs: each gives the same on one device, operation by operation and jitted, over up to eight
// devices, and in four processes of two, and what JAX gives. docs/testing.md tells how to use this.

namespace lockstep::fuzz {
namespace {

using testing::ProcessResult;
using testing::run_processes;

constexpr int kSeeds = 200, kBatch = 25;
constexpr int kDeciding = 1000, kDecidingSeeds = 50;  ///< programs that JAX's numbers are not kept of

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
      "\n[fuzz] at seed %lu; LOCKSTEP_FUZZ_SEED=%lu --gtest_filter=FuzzFurther.GivenSeed_Agrees reduces it\n",
      static_cast<unsigned long>(seed), static_cast<unsigned long>(seed));
  for (int each : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(each, say_seed);
}

/// The comparison that shows a failure again.
enum class Look { kOne, kEager, kMany, kJax };
constexpr const char* kLooks[] = {"one", "eager", "many", "jax"};

Look look_for(const std::string& failure) {
  if (failure.starts_with("JAX")) return Look::kJax;
  if (failure.starts_with(to_string(Mode::kEager))) return Look::kEager;
  return failure.starts_with(to_string(Mode::kOne)) ? Look::kOne : Look::kMany;
}

std::string examine_for(Look look, const Program& program, const std::string& python) {
  std::vector<Numbers> outputs;
  std::string failure =
      examine(program, {.many = look == Look::kMany, .eager = look == Look::kEager}, &outputs);
  if (look == Look::kJax && failure.empty() && !python.empty())
    failure = compare_with_running_jax(python, program, outputs);
  return failure;
}

/// Ends a reduction in the child that was started for one of its candidates.
struct Examined {};

// Arguments: a seed, the way of its reduction so far ('1' for a candidate that failed, '0' for one that did
// not), how to look, and a Python that has JAX. Says what is wrong with the next candidate.
LOCKSTEP_CHILD(examines_a_candidate) {
  const std::vector<std::string>& arguments = testing::child_arguments();
  const std::string& way = arguments.at(1);
  const auto look = static_cast<Look>(std::ranges::find(kLooks, arguments.at(2)) - kLooks);
  initialize({.num_cpu_devices = kDevices});
  std::size_t next = 0;
  const Examine follow = [&](const Program& candidate) -> std::string {
    if (next < way.size()) return way[next++] == '1' ? "the same" : "";
    std::string failure = examine_for(look, candidate, arguments.at(3));
    std::ranges::replace(failure, '\n', ' ');
    testing::say("failure: " + failure);
    throw Examined();
  };
  try {
    reduce(generate(std::stoull(arguments.at(0))), follow, std::chrono::hours(1));
  } catch (const Examined&) {
  }
}

/// The failure of a candidate of the seed's reduction, or nothing. It runs in a process of its own, as it may
/// end the process, or never end.
std::string examine_apart(std::uint64_t seed, const std::string& way, Look look) {
  const char* python = std::getenv("LOCKSTEP_FUZZ_PYTHON");
  const ProcessResult result =
      run_processes({.child = "examines_a_candidate",
                     .arguments = {std::to_string(seed), way, kLooks[static_cast<int>(look)],
                                   python == nullptr ? "" : python},
                     .deadline = std::chrono::seconds(20)})[0];
  if (result.timed_out) return "hang: it takes more than 20 s";
  if (result.signal != 0) return "crash: signal " + std::to_string(result.signal);
  const std::string before = "failure: ";
  const std::size_t at = result.log.find(before);
  if (at == result.log.npos) return "crash: it says nothing";
  return result.log.substr(at + before.size(), result.log.find('\n', at) - at - before.size());
}

/// Whether it is a failure that examine_apart alone can tell.
bool ends_the_process(const std::string& failure) {
  return failure.starts_with("crash: ") || failure.starts_with("hang: ");
}

/// The failure, with the smallest program found that has one of its kind.
std::string report(const Program& program, const std::string& failure, Look look,
                   std::chrono::seconds at_most) {
  const std::string text = "seed " + std::to_string(program.seed) + ": " + failure + "\n";
  if (look == Look::kJax && std::getenv("LOCKSTEP_FUZZ_PYTHON") == nullptr)
    return text + "LOCKSTEP_FUZZ_PYTHON, a Python that has JAX, lets it be reduced\n";
  std::string way, last = failure;
  const Examine again = [&](const Program&) {
    const std::string now = way.empty() ? failure : examine_apart(program.seed, way, look);
    const bool same = kind_of(now) == kind_of(failure);
    if (same) last = now;
    way += same ? '1' : '0';
    return now;
  };
  const Program small = reduce(program, again, at_most);
  std::vector<Numbers> expected;
  if (!ends_the_process(last)) expected = run(small, Mode::kOne).outputs;
  return text + "reduced: " + last + "\n" + print_cpp(small, expected) + print_jax(small);
}
std::string report(const Program& program, const std::string& failure, std::chrono::seconds at_most) {
  return report(program, failure, look_for(failure), at_most);
}

/// The failure of the seed's program, in this process and against JAX, or nothing.
std::string failure_of(const Program& program, std::vector<Numbers>* outputs, bool eager = true) {
  now_at(program.seed);
  std::string failure = examine(program, {.eager = eager}, outputs);
  if (failure.empty() && program.seed < kGoldenPrograms) failure = compare_with_kept_jax(program, *outputs);
  return failure;
}

// Compares this process's parts of some seeds' results with a file of what they should be.
LOCKSTEP_CHILD(compares_its_parts) {
  initialize();
  for (const auto& [seed, expected] : read_numbers(testing::child_arguments().at(0))) {
    testing::say("seed " + std::to_string(seed));
    const std::string failure = compare_parts(generate(seed), expected);
    EXPECT_EQ(failure, "") << "seed " << seed;
  }
}

/// A process that has none of a mesh's devices may not use it.
bool is_for_processes(const Program& program) {
  std::int64_t devices = 1;
  for (std::int64_t size : program.mesh) devices *= size;
  return devices == kDevices;
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

std::uint64_t every() { return static_cast<std::uint64_t>(testing::rounds("LOCKSTEP_FUZZ_EVERY", 3, 1)); }

class Fuzz : public ::testing::TestWithParam<int> {};

TEST_P(Fuzz, RandomPrograms_Agree) {
  const auto first = static_cast<std::uint64_t>(GetParam() * kBatch);
  int reduced = 0;
  for (std::uint64_t seed = first; seed < first + kBatch; seed += every()) {
    const Program program = generate(seed);
    std::vector<Numbers> outputs;
    const std::string failure = failure_of(program, &outputs);
    if (!failure.empty())
      ADD_FAILURE() << report(program, failure, std::chrono::seconds(reduced++ < 2 ? 40 : 0));
  }
}
INSTANTIATE_TEST_SUITE_P(Batch, Fuzz, ::testing::Range(0, kSeeds / kBatch));
INSTANTIATE_TEST_SUITE_P(Deciding, Fuzz,
                         ::testing::Range(kDeciding / kBatch, (kDeciding + kDecidingSeeds) / kBatch));

TEST(FuzzJax, FurtherPrograms_AgreeWithJax) {
  if (const char* file = std::getenv("LOCKSTEP_FUZZ_JAX")) return write_programs(file);
  for (std::uint64_t seed = kSeeds; seed < kGoldenPrograms; seed += every()) {
    const Program program = generate(seed);
    now_at(seed);
    std::vector<Numbers> outputs;
    std::string failure = examine(program, {.many = false, .eager = false}, &outputs);
    if (failure.empty()) failure = compare_with_kept_jax(program, outputs);
    EXPECT_EQ(failure, "") << "seed " << seed;
  }
}

TEST(FuzzProcesses, RandomPrograms_AgreeInSeveralProcesses) {
  std::map<std::uint64_t, std::vector<Numbers>> expected;
  for (std::uint64_t seed = 0; seed < kSeeds; seed += 10) {
    const Program program = generate(seed);
    if (!is_for_processes(program)) continue;
    Outcome one = run(program, Mode::kOne);
    if (one.error.empty()) expected.emplace(seed, std::move(one.outputs));
  }
  compare_in_processes(expected);
}

TEST(FuzzFurther, SeedsForGivenSeconds_Agree) {
  const auto seconds = variable("LOCKSTEP_FUZZ_SECONDS");
  if (!seconds) GTEST_SKIP() << "LOCKSTEP_FUZZ_SECONDS says for how long";
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(*seconds);
  const char* without = std::getenv("LOCKSTEP_FUZZ_WITHOUT");
  std::map<std::uint64_t, std::vector<Numbers>> expected;
  std::map<std::string, std::vector<std::uint64_t>> failures;
  auto seed = static_cast<std::uint64_t>(variable("LOCKSTEP_FUZZ_FIRST").value_or(1000));
  // Operation by operation takes longer than both of the others.
  const auto eager = static_cast<std::uint64_t>(std::max(1l, variable("LOCKSTEP_FUZZ_EAGER").value_or(1)));
  int count = 0, left_out = 0;
  auto said = std::chrono::steady_clock::now();
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
    if (std::chrono::steady_clock::now() > said + std::chrono::minutes(1)) {
      said = std::chrono::steady_clock::now();
      std::printf("%d programs, at seed %lu\n", count, static_cast<unsigned long>(seed));
      std::fflush(stdout);
    }
    std::vector<Numbers> outputs;
    const std::string failure = failure_of(program, &outputs, seed % eager == 0);
    if (failure.empty()) {
      if (seed % 10 == 0 && is_for_processes(program)) expected.emplace(seed, outputs);
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

TEST(FuzzFurther, GivenSeed_Agrees) {
  const auto seed = variable("LOCKSTEP_FUZZ_SEED");
  if (!seed) GTEST_SKIP() << "LOCKSTEP_FUZZ_SEED says which one";
  const Program program = generate(static_cast<std::uint64_t>(*seed));
  std::printf("%s\n%s\n", print_cpp(program).c_str(), print_jax(program).c_str());
  for (Look look : {Look::kOne, Look::kMany, Look::kEager}) {
    const std::string failure = examine_apart(program.seed, "", look);
    if (ends_the_process(failure)) FAIL() << report(program, failure, look, std::chrono::minutes(5));
  }
  std::vector<Numbers> outputs;
  const std::string failure = failure_of(program, &outputs);
  if (!failure.empty()) ADD_FAILURE() << report(program, failure, std::chrono::minutes(2));
  if (failure.empty() && is_for_processes(program)) compare_in_processes({{program.seed, outputs}});
}

}  // namespace
}  // namespace lockstep::fuzz
