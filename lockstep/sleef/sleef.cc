// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sleef/sleef.h"

#include <algorithm>
#include <array>

#include "lockstep/base/fail.h"
#include "lockstep/base/find_function.h"
#include "lockstep/base/trusted_file.h"
#include "lockstep/sleef/loops.h"

namespace lockstep::sleef {
namespace {

constexpr const char* kName = "libsleef.so.3";
constexpr std::int64_t kPiece = 1 << 14;  ///< elements that a thread computes at a time

struct Named {
  std::string_view name;
  int operands = 1;
  bool faster_in_f32 = true;  ///< else XLA has vector code for f32 that is about as fast
};
constexpr Named kFunctions[] = {
    {"sin"},           {"cos"},  {"tan"},           {"asin"},     {"acos"},  {"atan"}, {"sinh", 1, false},
    {"log", 1, false}, {"cbrt"}, {"erf", 1, false}, {"atan2", 2}, {"pow", 2}};

struct Library {
  const Instructions* instructions = nullptr;  ///< null: not available
  std::string description;
  std::array<Function, std::size(kFunctions)> f32{}, f64{};
};

Library load() {
  Library library;
  const std::vector<const Instructions*> usable = usable_instructions();
  if (usable.empty()) {
    library.description = "this processor has neither AVX2 nor AVX-512";
    return library;
  }
  void* handle = load_trusted_library(kName, &library.description);
  if (handle == nullptr) return library;
  const Instructions* const instructions = usable.front();
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    const auto find = [&](char type, int lanes) {
      const std::string name =
          fmt::format("Sleef_{}{}{}_u10{}", kFunctions[i].name, type, lanes, instructions->name);
      Function found = nullptr;
      if (!find_function(handle, name.c_str(), found))
        library.description = fmt::format("{} has no {}", kName, name);
      return found;
    };
    library.f32[i] = find('f', instructions->f32_lanes);
    library.f64[i] = find('d', instructions->f64_lanes);
  }
  if (!library.description.empty()) return library;
  library.description = fmt::format("SLEEF for {}", instructions->name);
  library.instructions = instructions;
  return library;
}

const Library& library() {
  static const Library& library = *new Library(load());  // also for threads that end after main
  return library;
}

/// The place among kFunctions; their number if there is no such function.
std::size_t place_of(std::string_view function) {
  return static_cast<std::size_t>(std::ranges::find(kFunctions, function, &Named::name) - kFunctions);
}

template <class T>
void compute(const Loops<T>& loops, Function function, std::span<const void* const> operands, void* result,
             std::int64_t count, const ForEach& for_each) {
  const auto* const x = static_cast<const T*>(operands[0]);
  auto* const out = static_cast<T*>(result);
  for_each((count + kPiece - 1) / kPiece, [&](std::int64_t i) {
    const WithSubnormals with_subnormals;
    const std::int64_t from = i * kPiece;
    const auto some = static_cast<std::size_t>(std::min(kPiece, count - from));
    if (operands.size() == 1) return loops.of_one(function, x + from, out + from, some);
    loops.of_two(function, x + from, static_cast<const T*>(operands[1]) + from, out + from, some);
  });
}

}  // namespace

bool is_available() { return library().instructions != nullptr; }
std::string description() { return library().description; }

bool computes(std::string_view function, DType dtype) {
  return (dtype == DType::kF32 || dtype == DType::kF64) && place_of(function) < std::size(kFunctions) &&
         is_available();
}

bool is_faster(std::string_view function, DType dtype) {
  return computes(function, dtype) && (dtype == DType::kF64 || kFunctions[place_of(function)].faster_in_f32);
}

void compute(std::string_view function, DType dtype, std::span<const void* const> operands, void* result,
             std::int64_t count, const ForEach& for_each) {
  const std::size_t place = place_of(function);
  if (place == std::size(kFunctions) || static_cast<int>(operands.size()) != kFunctions[place].operands)
    fail_internally("[sleef] there is no function {} of {} operands", function, operands.size());
  const Library& l = library();
  if (dtype == DType::kF64)
    return compute<double>(l.instructions->f64, l.f64[place], operands, result, count, for_each);
  compute<float>(l.instructions->f32, l.f32[place], operands, result, count, for_each);
}

}  // namespace lockstep::sleef
