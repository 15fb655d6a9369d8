// SPDX-License-Identifier: Apache-2.0
// Functions that JAX exported, with JAX's results (exports.py): those that import_jax_export takes give them,
// on one device and from arguments that are split over two; those that it refuses are named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "lockstep/array/device_put.h"
#include "lockstep/interop/jax_export.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/sharding/device_mesh.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/rounds.h"
#include "tests/golden/stored.h"

namespace lockstep::golden {
namespace {

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
};
[[maybe_unused]] const auto* const two_devices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

const Json& exports() {
  static const Json all = [] {
    gzFile file = gzopen(LOCKSTEP_EXPORTS_FILE, "rb");
    std::string text;
    char buffer[1 << 16];
    for (int n; file != nullptr && (n = gzread(file, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    gzclose(file);
    return Json::parse(text);
  }();
  return all;
}

std::string bytes_of(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<Array> arguments_of(const Json& one) {
  std::vector<Array> all;
  for (const Json& each : one["arguments"])
    all.push_back(each.contains("values")
                      ? Stored(each).array()
                      : zeros(each["shape"].get<Shape>(), dtype_of_numpys(each["dtype"])));
  return all;
}

/// Splits the arguments with an even first dimension over both devices.
std::vector<Array> split(std::vector<Array> arguments) {
  const Mesh mesh = make_mesh({{"x", 2}});
  for (Array& x : arguments) {
    const bool even = x.ndim() > 0 && x.shape()[0] > 0 && x.shape()[0] % 2 == 0;
    x = device_put(x, NamedSharding(mesh, even ? PartitionSpec("x") : PartitionSpec()));
  }
  return arguments;
}

void expect_results(const std::vector<Array>& found, const Json& one) {
  const double near = one.value("near", 2e-5);
  const Json& results = one["results"];
  ASSERT_EQ(found.size(), results.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    const Stored expected(results[i]);
    const double least = !is_inexact(expected.dtype) || size_of(real_dtype(expected.dtype)) >= 4
                             ? 0
                             : 2 * finfo(expected.dtype).eps;
    expect_stored(found[i], expected, Tolerance(std::max(near, least), std::max(near, least)));
  }
}

class Exports : public ::testing::TestWithParam<std::string> {};

TEST_P(Exports, GiveJaxsResultsOrAreRefusedByName) {
  const Json& one = exports()[GetParam()];
  const std::string bytes = bytes_of(one["export"]);
  if (one.contains("refused")) {
    const std::string message =
        testing::error_of<Error>([&] { import_jax_export(bytes).on()(arguments_of(one)); });
    for (const Json& words : one["refused"])
      EXPECT_THAT(message, ::testing::HasSubstr(words.get<std::string>()));
    return;
  }
  const ExportedFunction function = import_jax_export(bytes).on();
  expect_results(function(arguments_of(one)), one);
  SCOPED_TRACE("from arguments that are split");
  expect_results(function(split(arguments_of(one))), one);
}

/// The refused ones, and each so-many-th of the others.
std::vector<std::string> names() {
  const int every = testing::rounds("LOCKSTEP_EXPORTS_EVERY", 4, 1);
  std::vector<std::string> some;
  int number = 0;
  for (const auto& [name, one] : exports().items())
    if (one.contains("refused") || number++ % every == 0) some.push_back(name);
  return some;
}

INSTANTIATE_TEST_SUITE_P(All, Exports, ::testing::ValuesIn(names()), [](const auto& info) {
  std::string name;
  for (const char c : info.param) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace lockstep::golden
