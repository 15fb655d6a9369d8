// SPDX-License-Identifier: Apache-2.0
#include "lockstep/array/result_check.h"

#include <fmt/format.h>

#include "lockstep/array/computation.h"
#include "lockstep/array/data.h"
#include "lockstep/base/error.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::internal {
namespace {

using transforms::NonFiniteSearch;

thread_local bool searching = false;  // what is compiled meanwhile is not checked

/// While it lives, `searching` is set.
class Searching {
 public:
  Searching() : before_(std::exchange(searching, true)) {}
  ~Searching() { searching = before_; }
  Searching(const Searching&) = delete;
  Searching& operator=(const Searching&) = delete;

 private:
  bool before_;
};

/// "[debug_nans] process 1 of 4: step (at a.cc:7) gives a NaN: ".
std::string introduction(transforms::NonFinite what, const std::string& name, const std::string& site) {
  const runtime::Runtime& runtime = runtime::Runtime::get();
  std::string text = fmt::format("[{}] ", what.nans ? "debug_nans" : "debug_infs");
  if (runtime.process_count() > 1)
    text += fmt::format("process {} of {}: ", runtime.process_index(), runtime.process_count());
  return text + fmt::format("{}{} gives {}: ", name,
                            name.ends_with(site) ? "" : fmt::format(" (at {})", site),
                            !what.infs  ? "a NaN"
                            : what.nans ? "a NaN or an infinity"
                                        : "an infinity");
}

}  // namespace

std::optional<ResultCheck> ResultCheck::add_to(ir::Program& program, Compile compile) {
  const InitializeOptions& options = runtime::Runtime::get().options();
  const transforms::NonFinite what{.nans = *options.debug_nans, .infs = *options.debug_infs};
  if (!(what.nans || what.infs) || searching) return std::nullopt;
  std::optional<ir::Program> with_check = transforms::with_check(program, what);
  if (!with_check) return std::nullopt;
  return ResultCheck(what, std::exchange(program, std::move(*with_check)), std::move(compile));
}

void ResultCheck::look_at(const Array& found, const std::string& name,
                          std::span<const Array* const> arguments) const {
  // A process without devices of the mesh does not take part.
  if (internal::data_of(found)->shards.empty() || found.item<std::uint8_t>() == 0) return;

  NonFiniteSearch search = transforms::search_for_first(program_, what_);
  search.program.name = name;
  const Searching unchecked;
  const std::int32_t first = compile_(std::move(search.program))->run(arguments).front().item<std::int32_t>();
  const auto number = static_cast<std::size_t>(first);
  const std::string site = CallSiteScope::current().to_string();
  std::string text = introduction(what_, name, site);
  if (number < search.operations.size()) {
    const NonFiniteSearch::Operation& operation = search.operations[number];
    // An operation outside of jit is compiled once for all places that call it.
    const std::string made_at = operation.site.to_string();
    text += fmt::format("the first was made by {} at {}, in its result {}", operation.primitive,
                        made_at == made_for_.to_string() ? site : place_of(operation.site), operation.result);
    for (auto outer = operation.within.rbegin(); outer != operation.within.rend(); ++outer)
      text += fmt::format(", within {}", *outer);
  } else if (first != NonFiniteSearch::kNowhere) {
    const std::size_t i = number - search.operations.size();
    text += fmt::format("none of its operations made it; argument array {}, {}, came with it", i,
                        to_string(arguments[i]->aval()));
  } else {
    text +=
        "it did not come again when the program ran with a look at each operation, so it is of the way in "
        "which the compiler joins them; LOCKSTEP_DISABLE_JIT=1 runs them one by one";
  }
  throw FloatingPointError(text);
}

}  // namespace lockstep::internal
