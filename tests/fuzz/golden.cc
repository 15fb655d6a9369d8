// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/golden.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "lockstep/base/fingerprint.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/fuzz/generate.h"
#include "tests/fuzz/print.h"

namespace lockstep::fuzz {
namespace {

std::string digest(const std::string& text) { return fmt::format("{:016x}", fingerprint(text)); }

const nlohmann::json& golden() {
  static const auto* const all = [] {
    std::ifstream file(LOCKSTEP_FUZZ_GOLDEN_FILE);
    return new nlohmann::json(nlohmann::json::parse(file));
  }();
  return *all;
}

double number_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// How far rounding has brought each output from what it should be: from what it is in wider dtypes.
std::vector<double> rounding(const Program& program, const std::vector<Numbers>& outputs) {
  std::vector<double> errors(outputs.size(), 0);
  const Outcome wide = run(widened(program), Mode::kOne);
  for (std::size_t o = 0; o < std::min(errors.size(), wide.outputs.size()); ++o) {
    for (std::size_t i = 0; i < std::min(outputs[o].elements.size(), wide.outputs[o].elements.size()); ++i) {
      const auto error = static_cast<double>(std::abs(outputs[o].elements[i] - wide.outputs[o].elements[i]));
      if (std::isfinite(error)) errors[o] = std::max(errors[o], error);
    }
  }
  return errors;
}

std::string difference(const Program& program, const std::vector<Numbers>& outputs,
                       const nlohmann::json& expected, const std::vector<double>& errors) {
  const std::vector<std::string> names = output_names(program);
  if (expected.size() != outputs.size())
    return fmt::format("{} results, JAX gives {}", outputs.size(), expected.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const nlohmann::json& jax = expected[o];
    const Numbers& own = outputs[o];
    if (jax[0].get<std::string>() != info(own.type.dtype).numpy_name ||
        jax[1].get<std::size_t>() != own.elements.size())
      return fmt::format("{} is {} of {} elements, JAX gives {}", names[o], info(own.type.dtype).numpy_name,
                         own.elements.size(), jax.dump());
    double sum = 0, sizes = 0, scale = 1;
    for (std::size_t i = 0; i < own.elements.size(); ++i) {
      const auto weighted = static_cast<double>(own.elements[i]) * static_cast<double>(i * 7 % 11 + 1) / 8;
      sum += weighted;
      sizes += std::abs(weighted);
      if (std::isfinite(own.elements[i]))
        scale = std::max(scale, std::abs(static_cast<double>(own.elements[i])));
    }
    const double allowed = is_inexact(own.type.dtype) ? tolerance(program) * scale + 8 * errors[o] : 0;
    auto differs = [&](double a, double b, double most) {
      return !(a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= most + 1e-6 * std::abs(b));
    };
    for (std::size_t i = 4; i < jax.size(); ++i) {
      const auto a = static_cast<double>(own.elements[i - 4]);
      if (differs(a, number_of(jax[i]), allowed))
        return fmt::format("{} differs at element {}: {}, JAX gives {}", names[o], i - 4, a, jax.dump());
    }
    const auto count = static_cast<double>(own.elements.size());
    if (differs(sum, number_of(jax[2]), 2 * allowed * count + 1e-6 * sizes))
      return fmt::format("{} differs at element ?: the weighted sum is {}, JAX gives {}", names[o], sum,
                         jax.dump());
  }
  return {};
}

/// The same, but for what rounding does to this program. JAX cannot run some programs; they differ in
/// nothing.
std::string difference_after_rounding(const Program& program, const std::vector<Numbers>& outputs,
                                      const nlohmann::json& expected) {
  if (expected.is_null()) return {};
  std::string text = difference(program, outputs, expected, std::vector<double>(outputs.size(), 0));
  if (!text.empty()) text = difference(program, outputs, expected, rounding(program, outputs));
  return text.empty() ? text : "JAX: " + text;
}

}  // namespace

std::string compare_with_jax(const Program& program, const std::vector<Numbers>& outputs) {
  const nlohmann::json& expected = golden().at("programs").at(program.seed);
  if (expected.at("program") != digest(print_jax(program)))
    return "JAX: golden.json was written for another program; write it anew (docs/testing.md)";
  return difference_after_rounding(program, outputs, expected.at("outputs"));
}

std::string compare_with_running_jax(const std::string& python, const Program& program,
                                     const std::vector<Numbers>& outputs) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.path() / "program.py", answer = folder.path() / "answer.json";
  std::ofstream(text) << print_jax(program);
  const std::string script = std::filesystem::path(LOCKSTEP_FUZZ_GOLDEN_FILE).parent_path() / "golden.py";
  const std::string command =
      fmt::format("'{}' '{}' --one '{}' '{}' 2> /dev/null", python, script, text, answer);
  if (std::system(command.c_str()) != 0) return {};
  std::ifstream file(answer);
  return difference_after_rounding(program, outputs, nlohmann::json::parse(file));
}

void write_programs(const std::string& file) {
  nlohmann::json all = nlohmann::json::array();
  for (int seed = 0; seed < kGoldenPrograms; ++seed) {
    const std::string text = print_jax(generate(static_cast<std::uint64_t>(seed)));
    all.push_back({{"program", digest(text)}, {"text", text}});
  }
  std::ofstream(file) << all;
}

}  // namespace lockstep::fuzz
