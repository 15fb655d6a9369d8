// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace lockstep::coordination {

/// A seeded source of choices. LOCKSTEP_FUZZ_SEED sets another seed.
class Choices {
 public:
  explicit Choices(std::uint64_t stream) : random_(seed() + stream) {}

  static std::uint64_t seed() {
    const char* given = std::getenv("LOCKSTEP_FUZZ_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240229;
  }

  /// From `low` to `high`, both included.
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::uint64_t bits() { return random_(); }
  bool one_in(int n) { return number(1, n) == 1; }

  template <class Container>
  const auto& of(const Container& container) {
    return container[static_cast<std::size_t>(
        number(0, static_cast<std::int64_t>(std::size(container)) - 1))];
  }
  std::string bytes(std::int64_t most) {
    std::string text(static_cast<std::size_t>(number(0, most)), '\0');
    for (char& c : text) c = static_cast<char>(number(0, 255));
    return text;
  }

  /// The text with some bytes changed, removed or inserted.
  std::string damaged(std::string text) {
    for (std::int64_t i = number(0, 4); i > 0; --i) {
      const auto at = static_cast<std::size_t>(number(0, static_cast<std::int64_t>(text.size())));
      switch (number(0, 3)) {
        case 0:
          text.resize(at);
          break;
        case 1:
          text.insert(at, bytes(8));
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(number(0, 255));
      }
    }
    return text;
  }

 private:
  std::mt19937_64 random_;
};

/// For so long, by default: where the address sanitizer sees what is wrong, a minute.
#ifdef __SANITIZE_ADDRESS__
inline constexpr double kFuzzSeconds = 60;
#else
inline constexpr double kFuzzSeconds = 15;
#endif

/// The time at which to stop; the shares of all fuzz tests add up to LOCKSTEP_FUZZ_SECONDS.
inline std::chrono::steady_clock::time_point fuzz_deadline(double share) {
  const char* given = std::getenv("LOCKSTEP_FUZZ_SECONDS");
  const double seconds = given != nullptr ? std::atof(given) : kFuzzSeconds;
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds * share));
}

}  // namespace lockstep::coordination
