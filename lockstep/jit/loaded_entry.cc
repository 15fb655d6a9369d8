// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/loaded_entry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "lockstep/array/executable_file.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/jit_call.h"
#include "lockstep/jit/signature.h"
#include "lockstep/tree/paths.h"

namespace lockstep {

std::string read_executable_file(const std::string& path) {
  const TrustedFile file = open_trusted_file(path);
  if (!file) {
    fail("[load_executable] {} is not used: {}", shown(path),
         file.why_not.empty() ? "there is no such file" : file.why_not);
  }
  try {
    return read_all(file, std::numeric_limits<std::int32_t>::max());
  } catch (const Error& error) {
    fail("[load_executable] {} is not used: {}", shown(path), error.what());
  }
}

}  // namespace lockstep

namespace lockstep::internal {
namespace {

using Texts = std::vector<std::vector<std::string>>;

/// The first differences of what is given from what the file describes.
std::string difference(const Texts& given, const Texts& described) {
  if (given.size() != described.size())
    return fmt::format("it takes {} arguments and is given {}", described.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == described[i]) continue;
    if (given[i].size() != described[i].size()) {
      return fmt::format("argument {} has {} arrays and values and is given {}", i, described[i].size(),
                         given[i].size());
    }
    const auto [mine, other] = std::ranges::mismatch(given[i], described[i]);
    return fmt::format("argument {}, item {}, is {} and is given {}", i, mine - given[i].begin(), *other,
                       *mine);
  }
  return "";
}

}  // namespace

std::string serialize_entry(const CallEntry& entry) {
  if (entry.computation == nullptr) fail("[serialize] nothing is compiled: jit is disabled");
  if (entry.loaded != nullptr) return write_executable(*entry.computation, entry.loaded->call);
  if (!entry.captures.empty()) {
    fail(
        "[serialize] the function uses {} arrays from outside, which another process does not have: give "
        "them as arguments, and write a number that is combined with f64 as full({{}}, number, float64)",
        entry.captures.size());
  }
  if (std::ranges::find(entry.kinds, Signature::Word::kHere) != entry.kinds.end()) {
    fail(
        "[serialize] an argument has a Static value or a pointer to a function, which another process does "
        "not know: give numbers, strings or enums");
  }
  CallDescription call{.arguments = texts_of(entry.signature, entry.kinds), .results = {}};
  const auto type = std::ranges::find(entry.kinds, Signature::Word::kResult) - entry.kinds.begin();
  const auto* const result = std::bit_cast<const tree::TreeType*>(
      static_cast<std::uintptr_t>(entry.signature[static_cast<std::size_t>(type)]));
  call.results = tree::internal::paths({entry.exemplar.get(), result});
  return write_executable(*entry.computation, call);
}

std::shared_ptr<const CallEntry> load_entry(std::string_view bytes, const tree::TreeType& result,
                                            std::shared_ptr<void> like) {
  LoadedExecutable file = read_executable(bytes);
  const std::vector<std::string> paths = tree::internal::paths({like.get(), &result});
  if (paths != file.call.results) {
    fail(
        "[load_executable] the function's result has the arrays [{}], but the type (or `like`) that you give "
        "has [{}]: give the function's result type; if it has containers, give a `like` with as many "
        "elements",
        fmt::join(file.call.results, ", "), fmt::join(paths, ", "));
  }
  auto entry = std::make_shared<CallEntry>();
  entry->computation = std::move(file.computation);
  entry->exemplar = std::move(like);
  entry->loaded = std::make_unique<CallEntry::Loaded>();
  entry->loaded->call = std::move(file.call);
  return entry;
}

std::vector<Array> run_loaded(const CallEntry& entry, std::span<TreeArgument> arguments,
                              const CallSite& site) {
  const CallEntry::Loaded& loaded = *entry.loaded;
  Signature signature(/*described=*/true);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // A number that was traced was an array.
    const bool was_array = i < loaded.call.arguments.size() && loaded.call.arguments[i].size() == 1 &&
                           loaded.call.arguments[i].front().find(" with ") != std::string::npos;
    if (arguments[i].is_number() && was_array) arguments[i].make_array();
    signature.argument(arguments[i].ref());
  }
  {
    const std::lock_guard lock(loaded.mutex);
    if (signature.words() != loaded.signature) {
      const std::string differs =
          difference(texts_of(signature.words(), signature.kinds()), loaded.call.arguments);
      if (!differs.empty()) {
        fail<TraceError>("[{}] the loaded program (of {}) was compiled for other arguments: {}",
                         entry.computation->name(), site.to_string(), differs);
      }
      entry.computation->check_types(signature.leaves());
      loaded.signature = signature.words();
    }
  }
  return entry.run(signature.leaves(), site);
}

}  // namespace lockstep::internal
