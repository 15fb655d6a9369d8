// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>

#include "lockstep/base/digest.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "tests/parsers/fuzz.h"
#include "tests/programs/test_executables.h"

namespace lockstep::parsers {
namespace {

/// All but the machine code, which is run as it is (docs/executables.md).
TEST(Executables, Mutated_AreReadOrRefused) {
  const Array x = full({8, 2}, 0.5f);
  const std::string bytes =
      jit([](Array x) { return std::pair(sum(sin(x)), x * 2.f); }).lower(x).compile().serialize();
  const std::string magic = bytes.substr(0, bytes.find('\n') + 1);
  const std::string message = bytes.substr(magic.size() + digest("").size());
  const std::size_t end = lockstep::test::begin_of_code(message);
  const std::string code = message.substr(end);
  fuzz<Error>(
      {.name = "executable",
       .seeds = {message.substr(0, end)},
       .read = [](const std::string& file) { load_executable<std::pair<Array, Array>>(file); },
       .wrap = [&](const std::string& changed) { return magic + digest(changed + code) + changed + code; },
       .mutations = 300,
       .memory = std::size_t{256} << 20});
}

}  // namespace
}  // namespace lockstep::parsers
