// SPDX-License-Identifier: Apache-2.0
#include "tests/parsers/fuzz.h"

#include <gtest/gtest.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "lockstep/base/fingerprint.h"
#include "lockstep/base/text.h"
#include "lockstep/testing/rounds.h"

// Declarations from sanitizer/allocator_interface.h, which not every compiler's package has.
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* block);
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*, std::size_t),
                                                         void (*freed)(const volatile void*));

// A library that asks malloc for more than this, as Arrow does for a size out of a file, gets null and says
// so; operator new ends the test. Leaks are looked for elsewhere.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=1024:detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_"
         "return=0";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1:abort_on_error=1"; }

namespace lockstep::parsers {
namespace {

constexpr int kMostSeconds = 10;  // of the processor's time, for one input

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

std::uint64_t seed() { return number_from("LOCKSTEP_FUZZ_SEED", 20260101); }

// The reading that runs now, for the last words of a program that ends.
const char* now_reading = "";
std::uint64_t now_mutation = 0;
const std::string* now_input = nullptr;

std::string description() {
  std::string text = "[parsers] " + std::string(now_reading) +
                     ": LOCKSTEP_FUZZ_SEED=" + std::to_string(seed()) +
                     " LOCKSTEP_PARSER_ONLY=" + std::to_string(now_mutation);
  if (now_input != nullptr) {
    text += ", " + std::to_string(now_input->size()) + " bytes: ";
    text += shown(std::string_view(*now_input).substr(0, 300), 4 * 300);
  }
  return text + "\n";
}

void last_words() {
  if (now_input == nullptr) return;
  const std::string text = description();
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

void too_slow(int) {
  last_words();
  constexpr std::string_view kWords = "[parsers] it takes longer than 10 s of the processor's time\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kWords.data(), kWords.size());
  _exit(1);
}

// The memory of this thread's allocations, while it reads.
thread_local bool counts = false;
thread_local std::int64_t in_use = 0, most_in_use = 0;

void allocated(const volatile void*, std::size_t size) {
  if (!counts) return;
  in_use += static_cast<std::int64_t>(size);
  most_in_use = std::max(most_in_use, in_use);
}
void freed(const volatile void* block) {
  if (counts && block != nullptr) in_use -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(block));
}

void prepare() {
  static const bool once = [] {
    __sanitizer_install_malloc_and_free_hooks(&allocated, &freed);
    __sanitizer_set_death_callback(&last_words);
    std::signal(SIGVTALRM, &too_slow);
    std::signal(SIGABRT, [](int) {  // the end of undefined behaviour
      last_words();
      std::signal(SIGABRT, SIG_DFL);
      std::abort();
    });
    return true;
  }();
  (void)once;
}

void allow(int seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

}  // namespace

void fuzz(const Parser& parser, const std::function<void()>& refusal) {
  prepare();
  now_reading = parser.name.c_str();
  std::uint64_t read = 0, refused = 0;
  std::int64_t most_memory = 0;
  double longest = 0;
  const auto run = [&](const std::string& input, bool is_seed) {
    now_input = &input;
    const auto begin = std::chrono::steady_clock::now();
    in_use = most_in_use = 0;
    allow(kMostSeconds);
    std::string wrong;
    try {
      counts = true;
      parser.read(input);
      counts = false;
      ++read;
    } catch (const std::exception& error) {
      counts = false;
      wrong = error.what();
      try {
        refusal();
        ++refused;
        if (!is_seed) wrong.clear();
      } catch (const std::exception& undocumented) {
        wrong = std::string("threw ") + typeid(undocumented).name() + ": " + undocumented.what();
      }
    }
    allow(0);
    const auto bound = static_cast<std::int64_t>(parser.memory + 64 * input.size());
    if (most_in_use > bound && wrong.empty()) wrong = std::to_string(most_in_use) + " bytes in use at a time";
    longest =
        std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    most_memory = std::max(most_memory, most_in_use);
    if (!wrong.empty()) ADD_FAILURE() << (is_seed ? "a seed: " : "") << wrong << "\n" << description();
    now_input = nullptr;
    return wrong.empty();
  };
  const auto wrapped = [&](const std::string& inner) { return parser.wrap ? parser.wrap(inner) : inner; };

  now_mutation = 0;
  for (const std::string& each : parser.seeds) run(wrapped(each), true);
  const std::uint64_t only = number_from("LOCKSTEP_PARSER_ONLY", 0);
  const int usual = testing::rounds("LOCKSTEP_PARSER_MUTATIONS", parser.mutations, 20 * parser.mutations);
  const auto mutations = static_cast<std::uint64_t>(usual);
  int failures = 0;
  for (std::uint64_t i = 1; i <= std::max(mutations, only) && failures < 5; ++i) {
    if (only != 0 && i != only) continue;
    now_mutation = i;
    Random random(seed() ^ fingerprint(parser.name) ^ i * 0x9e3779b97f4a7c15);
    const std::string& chosen = random.of(parser.seeds);
    std::string input;
    if (parser.wrap && random.one_in(10)) {
      std::vector<std::string> whole;
      for (const std::string& each : parser.seeds) whole.push_back(parser.wrap(each));
      input = mutated(parser.wrap(chosen), whole, random);
    } else {
      input = wrapped(mutated(chosen, parser.seeds, random));
    }
    if (!run(input, false)) ++failures;
  }
  std::printf("%s: %llu mutations, %llu read, %llu refused, at most %.1f MiB and %.0f ms\n",
              parser.name.c_str(), static_cast<unsigned long long>(mutations),
              static_cast<unsigned long long>(read), static_cast<unsigned long long>(refused),
              static_cast<double>(most_memory) / (1 << 20), 1000 * longest);
  EXPECT_GT(read, 0u);
  EXPECT_TRUE(only != 0 || refused > 0 || !parser.refuses) << "nothing was refused";
}

}  // namespace lockstep::parsers
