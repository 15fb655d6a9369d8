// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests of code that reads bytes that others may have damaged or forged, under mutations of what the code's
// own writers make, with the address and undefined behaviour sanitizers. Each input is read, or refused with
// the documented exception; within bounds of memory and time.
//   LOCKSTEP_PARSER_MUTATIONS   of each parser; by default as many as fit a test run
//   LOCKSTEP_FUZZ_SEED          another seed
//   LOCKSTEP_PARSER_ONLY        the number of the one mutation to run

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/fuzz/random.h"

namespace lockstep::parsers {

/// A seeded source of choices.
class Random {
 public:
  explicit Random(std::uint64_t seed) : numbers_(seed) {}
  std::uint64_t bits() { return numbers_.next(); }
  /// Below `n`, which is at least 1.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class Container>
  const auto& of(const Container& container) {
    return container[below(std::size(container))];
  }

 private:
  fuzz::Random numbers_;
};

/// Some changes to a seed: of bits, bytes, numbers in binary and in decimal, pieces that go, come twice or
/// from another seed; and, where the seed is JSON, of its values.
std::string mutated(std::string seed, const std::vector<std::string>& seeds, Random& random);

struct Parser {
  std::string name;
  std::vector<std::string> seeds;  ///< each of which is read
  std::function<void(const std::string&)> read;

  /// Makes a whole input of what is mutated, such as by putting a checksum before it; some are mutated as a
  /// whole.
  std::function<std::string(const std::string&)> wrap = nullptr;

  int mutations = 2000;  ///< by default
  bool refuses = true;   ///< some inputs

  /// The bytes that may be in use at a time, besides 64 times the input's size.
  std::size_t memory = std::size_t{64} << 20;
};

/// Runs the parser. `refusal`: rethrows the exception, and returns if it is one that is documented.
void fuzz(const Parser& parser, const std::function<void()>& refusal);

/// With the exceptions that are documented.
template <class... Refusals>
void fuzz(const Parser& parser) {
  fuzz(parser, [] {
    try {
      throw;
    } catch (const std::exception& error) {
      if (!(... || (dynamic_cast<const Refusals*>(&error) != nullptr))) throw;
    }
  });
}

}  // namespace lockstep::parsers
