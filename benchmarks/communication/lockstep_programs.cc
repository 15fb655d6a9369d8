// SPDX-License-Identifier: Apache-2.0
// Lockstep's side of compare.py: each program is compiled for 8 CPU devices, and its collectives and memory
// are told as a line of JSON (README.md). The programs are those of jax_programs.py, by the same names.
//
//   $ build/release/benchmarks/communication_programs --only "mlp, data" --explain
//
// As processes of one job they have `--devices` each, and process 0 prints (check_devices.py).

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "benchmarks/communication/programs.h"

namespace communication {
namespace {

constexpr std::size_t kWave = 9973;

float wave_at(std::size_t i) {
  static const std::vector<float> values = [] {
    std::vector<float> values(kWave);
    for (std::size_t i = 0; i < kWave; ++i)
      values[i] = static_cast<float>(0.1 * std::sin(0.7 * static_cast<double>(i)));
    return values;
  }();
  return values[i % kWave];
}

template <class T>
Digest digest_of(const std::vector<T>& values) {
  double sizes = 0, places = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    sizes += std::abs(value);
    places += value * wave_at(i);
  }
  const auto count = static_cast<double>(values.size());
  return {sizes / count, places / count};
}

}  // namespace

Digest digest(const Array& given) {
  const Array result = given.is_fully_addressable() ? given : ls::multihost::process_allgather(given, true);
  if (result.dtype() == ls::bool_) return digest_of(result.to_host<std::uint8_t>());
  if (result.dtype() == ls::int32) return digest_of(result.to_host<std::int32_t>());
  return digest_of(result.to_host<float>());
}

Array wave(const ls::Shape& shape, ls::DType dtype) {
  const auto count = static_cast<std::size_t>(ls::num_elements(shape));
  if (dtype == ls::int32) {
    std::vector<std::int32_t> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>((i * 7919 + 100) % 251);
    return ls::array(values, shape);
  }
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = wave_at(i);
  return ls::array(values, shape);
}

}  // namespace communication

namespace {

using namespace communication;

std::string json_text(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (c == '\n')
      json += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      json += ' ';
    else
      json += c;
  }
  return json + '"';
}

std::string number(std::int64_t value) { return std::to_string(value); }

std::string to_json(const std::string& name, const Measured& measured, double seconds, bool explain) {
  std::string collectives;
  for (const auto& line : measured.collectives) {
    collectives += (collectives.empty() ? "{\"kind\": " : ", {\"kind\": ") + json_text(line.kind) +
                   ", \"bytes\": " + number(line.bytes) + ", \"group\": " + number(line.num_devices) +
                   ", \"times\": " + (line.times ? number(*line.times) : "null") + "}";
  }
  std::string values;
  for (const auto& [sizes, places] : measured.values) {
    char text[64];
    std::snprintf(text, sizeof text, "%s[%.9e, %.9e]", values.empty() ? "" : ", ", sizes, places);
    values += text;
  }
  return "{\"name\": " + json_text(name) + ", \"collectives\": [" + collectives +
         "], \"arguments\": " + number(measured.cost.argument_bytes) +
         ", \"results\": " + number(measured.cost.output_bytes) +
         ", \"temporary\": " + number(measured.cost.temporary_bytes) +
         ", \"aliased\": 0, \"seconds\": " + std::to_string(seconds) +
         (measured.values.empty() ? "" : ", \"values\": [" + values + "]") +
         (explain ? ", \"explanation\": " + json_text(measured.explanation) : "") + "}";
}

/// Its line; where it fails, with the error, so that the others are still measured.
std::string run(const NamedProgram& program, bool explain) {
  try {
    const auto start = std::chrono::steady_clock::now();
    const Measured measured = program.measure();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return to_json(program.name, measured, seconds.count(), explain);
  } catch (const std::exception& error) {
    return "{\"name\": " + json_text(program.name) + ", \"error\": " + json_text(error.what()) + "}";
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> only;
  bool explain = false, list = false;
  int devices = 8;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--explain") {
      explain = true;
    } else if (argument == "--check") {
      check_values = true;
    } else if (argument == "--list") {
      list = true;
    } else if (argument == "--devices" && i + 1 < argc) {
      devices = std::atoi(argv[++i]);
    } else if (argument == "--only" && i + 1 < argc) {
      only.emplace_back(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--list] [--only NAME]... [--explain] [--check] [--devices N]\n",
                   argv[0]);
      return 2;
    }
  }
  Programs programs;
  add_training(programs);
  add_fsdp(programs);
  add_layers(programs);
  add_experts(programs);
  add_operations(programs);
  if (!list) ls::initialize({.platform = "cpu", .num_cpu_devices = devices});
  for (const std::string& name : only) {
    if (std::none_of(programs.begin(), programs.end(), [&](const auto& p) { return p.name == name; })) {
      std::fprintf(stderr, "%s: there is no program \"%s\"; --list tells their names\n", argv[0],
                   name.c_str());
      return 2;
    }
  }
  for (const NamedProgram& program : programs) {
    if (!only.empty() && std::find(only.begin(), only.end(), program.name) == only.end()) continue;
    const std::string line = list ? program.name : run(program, explain);
    if (!list && ls::process_index() != 0) continue;
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
}
