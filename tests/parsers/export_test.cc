// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/data/test_files.h"
#include "lockstep/interop/bytecode.h"
#include "lockstep/interop/exported.h"
#include "tests/parsers/fuzz.h"

namespace lockstep::parsers {
namespace {

/// The smaller ones of the files that jax.export wrote.
std::vector<std::string> exports() {
  std::vector<std::string> all;
  for (const char* name :
       {"custom_call", "effects", "for_tpu", "int4", "operations", "symbolic", "two_platforms"})
    all.push_back(data::test::read_file(std::string(LOCKSTEP_INTEROP_TESTDATA) + "/" + name + ".bin"));
  std::erase_if(all, [](const std::string& bytes) {
    try {
      interop::read_bytecode(interop::read_exported(bytes)->module);
      return false;
    } catch (const Error&) {
      return true;
    }
  });
  return all;
}

TEST(Exports, Mutated_AreReadOrRefused) {
  fuzz<Error>({.name = "jax.export", .seeds = exports(), .read = [](const std::string& bytes) {
                 interop::read_exported(bytes);
               }});
}

TEST(Exports, MutatedModules_AreReadOrRefused) {
  std::vector<std::string> modules;
  for (const std::string& bytes : exports()) modules.push_back(interop::read_exported(bytes)->module);
  fuzz<Error>({.name = "MLIR bytecode",
               .seeds = modules,
               .read = [](const std::string& bytes) { interop::read_bytecode(bytes); },
               .mutations = 2000});
}

}  // namespace
}  // namespace lockstep::parsers
