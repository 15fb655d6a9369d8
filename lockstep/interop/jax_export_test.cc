// SPDX-License-Identifier: Apache-2.0
// Functions that JAX exported, with JAX's numbers (testdata/generate.py): in one process and in several.

#include "lockstep/interop/jax_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/array/device_put.h"
#include "lockstep/base/error.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/sharding/device_mesh.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/processes.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;

class FourDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 4}); }
};
[[maybe_unused]] const auto* const four_devices = ::testing::AddGlobalTestEnvironment(new FourDevices);

std::string file(const std::string& name) {
  std::ifstream in(std::string(INTEROP_TESTDATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

const nlohmann::json& cases() {
  static const nlohmann::json all = nlohmann::json::parse(file("cases.json"));
  return all;
}

DType dtype_named(const std::string& name) {
  const std::map<std::string, DType> all = {{"float32", float32}, {"int32", int32},       {"bool", bool_},
                                            {"int8", int8},       {"bfloat16", bfloat16}, {"uint32", uint32}};
  return all.at(name);
}

std::vector<Array> arrays(const nlohmann::json& stored) {
  std::vector<Array> all;
  for (const auto& each : stored) {
    std::vector<float> values;
    for (const auto& value : each["values"])
      values.push_back(value.is_boolean() ? static_cast<float>(value.get<bool>()) : value.get<float>());
    all.push_back(astype(array(values, each["shape"].get<Shape>()), dtype_named(each["dtype"])));
  }
  return all;
}

/// Bits as they are, for numbers that no f32 holds.
std::vector<double> numbers(const nlohmann::json& stored) {
  std::vector<double> all;
  for (const auto& value : stored["values"])
    all.push_back(value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>());
  return all;
}

void expect_stored(const std::vector<Array>& results, const nlohmann::json& stored,
                   const std::vector<ShapeDtype>& avals) {
  ASSERT_EQ(results.size(), stored.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(i < avals.size() ? avals[i].path : std::to_string(i));
    ASSERT_EQ(results[i].shape(), stored[i]["shape"].get<Shape>());
    ASSERT_EQ(results[i].dtype(), dtype_named(stored[i]["dtype"]));
    const std::vector<double> expected = numbers(stored[i]);
    // Each process looks at its own parts.
    const Array wide = astype(results[i], float64);
    for (const Shard& shard : wide.addressable_shards()) {
      const auto* values = static_cast<const double*>(shard.data);
      std::size_t k = 0;
      const std::function<void(std::size_t, std::int64_t)> visit = [&](std::size_t dimension,
                                                                       std::int64_t at) {
        if (dimension == shard.index.size()) {
          const double wanted = expected.at(static_cast<std::size_t>(at)), got = values[k++];
          EXPECT_TRUE(got == wanted || std::abs(got - wanted) <= 2e-5 * (1 + std::abs(wanted)))
              << "element " << at << ": " << got << ", not " << wanted;
          return;
        }
        for (std::int64_t j = shard.index[dimension].start; j < shard.index[dimension].limit; ++j)
          visit(dimension + 1, at * results[i].shape()[dimension] + j);
      };
      visit(0, 0);
    }
  }
}

Mesh square() { return make_mesh({{"rows", 2}, {"columns", 2}}); }

/// The arguments of a case, where the export says that they lie.
std::vector<Array> placed(const JaxExport& exported, const std::string& name, const Mesh& mesh) {
  std::vector<Array> all = arrays(cases()[name]["arguments"]);
  const auto shardings = exported.in_shardings(mesh);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = device_put(all[i], shardings[i] ? *shardings[i] : NamedSharding(mesh, PartitionSpec()));
  return all;
}

/// A training step, and the derivative that was exported with a loss, over two axes.
void train() {
  const Mesh mesh = square();
  const JaxExport step = import_jax_export(file("transformer_step.bin"));
  const std::vector<Array> results = step.on(mesh)(placed(step, "transformer_step", mesh));
  expect_stored(results, cases()["transformer_step"]["results"], step.out_avals());

  const JaxExport exported = import_jax_export(file("transformer_loss.bin"));
  const ExportedFunction loss = exported.on(mesh);
  const std::vector<Array> arguments = placed(exported, "transformer_loss", mesh);
  const std::vector<Array> params(arguments.begin(), arguments.end() - 1);
  const auto gradient = grad([&](const std::vector<Array>& params) {
    std::vector<Array> all = params;
    all.push_back(arguments.back());
    return loss(all).front();
  });
  expect_stored(gradient(params), cases()["transformer_loss"]["gradient"], exported.in_avals());
}

LOCKSTEP_CHILD(train_process) {
  initialize();
  train();
}

class Transformer : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Transformer, HasJaxsValuesAndDerivatives) {
  const auto [processes, devices_each] = GetParam();
  if (processes == 1) return train();
  for (const auto& result : testing::run_processes({.count = processes,
                            .child = "train_process",
                            .env = {{"LOCKSTEP_NUM_CPU_DEVICES", std::to_string(devices_each)}},
                            .coordinator = true}))
    EXPECT_EQ(result.exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Processes, Transformer,
                         ::testing::Values(std::pair(1, 4), std::pair(2, 2), std::pair(4, 1)),
                         [](const auto& info) { return std::to_string(info.param.first); });

TEST(JaxExport, Operations_HaveJaxsValues_OnOneDeviceAndOnFour) {
  const JaxExport exported = import_jax_export(file("operations.bin"));
  const std::vector<Array> arguments = arrays(cases()["operations"]["arguments"]);
  const ExportedFunction function = exported.on();
  expect_stored(function(arguments), cases()["operations"]["results"], exported.out_avals());
  std::vector<Array> split = arguments;
  split[0] = device_put(split[0], NamedSharding(make_mesh({{"x", 4}}), PartitionSpec("x")));
  expect_stored(function(split), cases()["operations"]["results"], exported.out_avals());
}

TEST(JaxExport, TakesTheBranchOfItsPlatform) {
  const JaxExport exported = import_jax_export(file("two_platforms.bin"));
  EXPECT_EQ(exported.platforms(), (std::vector<std::string>{"tpu", "cpu"}));
  expect_stored(exported.on()(arrays(cases()["two_platforms"]["arguments"])),
                cases()["two_platforms"]["results"], exported.out_avals());
}

TEST(JaxExport, DescribesTheFunctionsInputsAndMesh) {
  const JaxExport exported = import_jax_export(file("transformer_loss.bin"));
  EXPECT_EQ(exported.function_name(), "loss");
  EXPECT_EQ(exported.nr_devices(), 4);
  EXPECT_TRUE(exported.has_vjp());
  EXPECT_EQ(exported.mesh_axes(),
            (std::vector<std::pair<std::string, std::int64_t>>{{"data", 2}, {"model", 2}}));
  EXPECT_EQ(exported.in_avals().front(), (ShapeDtype{"[0]['embed']", {13, 8}, float32}));
  EXPECT_EQ(exported.in_avals().back(), (ShapeDtype{"[1]", {4, 7}, int32}));
  EXPECT_EQ(exported.in_shardings(square()).back(), NamedSharding(square(), PartitionSpec("rows")));
}

TEST(JaxExport, AFunctionThatCannotRun_IsRefusedWithTheReason) {
  const std::pair<const char*, std::vector<const char*>> read[] = {
      {"symbolic", {"symbolic dimension 'rows'", "[0]"}},
      {"effects", {"effects", "Shouting"}},
      {"int4", {"dtype i4"}},
  };
  for (const auto& [name, parts] : read) {
    const std::string bytes = file(std::string(name) + ".bin");
    const std::string message = error_of<Error>([&] { import_jax_export(bytes); });
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(error_of<Error>([] { import_jax_export(file("for_tpu.bin")).on(); }),
              AllOf(HasSubstr("was exported for tpu, but runs on cpu"), HasSubstr("platforms=['cpu']")));
}

/// The file with this number in a field of its table, which flatbuffers find by the field's place in the
/// schema.
std::string with_field(std::string bytes, int place, std::uint16_t value) {
  const auto read = [&]<class T>(std::size_t at, T) {
    T number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
  };
  const std::size_t table = read(0, std::uint32_t()), fields = table - read(table, std::int32_t());
  const std::size_t offset = read(fields + 4 + 2 * place, std::uint16_t());
  EXPECT_NE(offset, 0u) << "it has its default, and is not in the file";
  std::memcpy(bytes.data() + table + offset, &value, sizeof value);
  return bytes;
}

TEST(JaxExport, AnotherVersion_IsRefusedWithTheVersionsThatAreRead) {
  const std::string whole = file("two_platforms.bin");
  const auto error = [](const std::string& bytes) {
    return error_of<Error>([&] { import_jax_export(bytes).on(); });
  };
  constexpr int kSerializationVersion = 0, kCallingConvention = 14;
  for (const int version : {1, 4}) {
    EXPECT_THAT(error(with_field(whole, kSerializationVersion, version)),
                HasSubstr("is of version " + std::to_string(version) + " of the format; expected 2 or 3"));
  }
  for (const int convention : {8, 11})
    EXPECT_THAT(
        error(with_field(whole, kCallingConvention, convention)),
        AllOf(HasSubstr("has calling convention " + std::to_string(convention)), HasSubstr("JAX 0.10.2")));
  std::string newer = whole;
  newer.replace(newer.find("StableHLO_v1"), 12, "StableHLO_v2");
  EXPECT_THAT(error(newer), HasSubstr("is of 'StableHLO_v2.15.0'; expected StableHLO of version 1"));
  std::string bytecode = whole;
  bytecode.at(bytecode.find("ML\xefR") + 4) = 2 * 99 + 1;  // a byte's number, as MLIR writes it
  EXPECT_THAT(error(bytecode), HasSubstr("MLIR bytecode of version 99; this Lockstep reads up to "));
}

TEST(JaxExport, WithinJitVmapAndDerivatives_IsAFunctionLikeOthers) {
  const ExportedFunction function = import_jax_export(file("two_platforms.bin")).on();
  const auto f = [&](const Array& x) { return function({x})[0]; };
  const Array x = arrays(cases()["two_platforms"]["arguments"])[0];
  const Array plain = f(x);
  EXPECT_EQ(jit([&](const Array& x) { return 2 * f(x) + 1; })(x).to_host<float>(),
            (2 * plain + 1).to_host<float>());
  // Mapped over more of them, at another place too.
  const Array many = stack({x, x + 1, 2 * x});
  EXPECT_EQ(vmap(f)(many).to_host<float>(), stack({plain, f(x + 1), f(2 * x)}).to_host<float>());
  EXPECT_EQ(vmap(f, {.in_axes = {1}})(swapaxes(many, 0, 1)).to_host<float>(), vmap(f)(many).to_host<float>());
  // Two calls in one program, the second of what the first gave.
  EXPECT_EQ(jit([&](const Array& x) { return f(f(x)); })(x).to_host<float>(), f(plain).to_host<float>());
}

TEST(JaxExport, WithinAnotherFunction_HasTheDerivativeOfTheWhole) {
  const Mesh mesh = square();
  const JaxExport exported = import_jax_export(file("transformer_loss.bin"));
  const ExportedFunction loss = exported.on(mesh);
  const std::vector<Array> arguments = placed(exported, "transformer_loss", mesh);
  const auto of_first = [&](const Array& first) {
    std::vector<Array> all = arguments;
    all[0] = first;
    return loss(all).front();
  };
  const Array gradient = grad(of_first)(arguments[0]);
  const Array around = jit(grad([&](const Array& x) { return 3 * of_first(2 * x); }))(arguments[0] / 2);
  const std::vector<float> expected = (6 * gradient).to_host<float>(), got = around.to_host<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

/// On devices that are only described it is compiled, and has shapes.
LOCKSTEP_CHILD(plan_process) {
  initialize();
  const Mesh mesh = square();
  const JaxExport step = import_jax_export(file("transformer_step.bin"));
  const std::vector<Array> results = step.on(mesh)(placed(step, "transformer_step", mesh));
  const std::vector<ShapeDtype> expected = step.out_avals();
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].shape(), expected[i].shape);
  EXPECT_THAT(error_of<DescribedError>([&] { results.back().to_host<float>(); }),
              HasSubstr("only described"));
  testing::say("planned");
}

TEST(JaxExport, CanBePlannedForDescribedDevices) {
  const auto result =
      testing::run_processes({.child = "plan_process", .env = {{"LOCKSTEP_TOPOLOGY", "cpu:2x2"}}})[0];
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.log, HasSubstr("planned"));
}

TEST(JaxExport, OtherArgumentsOrMeshes_AreRefused) {
  const JaxExport exported = import_jax_export(file("transformer_loss.bin"));
  EXPECT_THAT(error_of<ShardingError>([&] { exported.on(); }), HasSubstr("for 4 devices (data=2, model=2)"));
  EXPECT_THAT(error_of<ShardingError>([&] {
                exported.on(make_mesh({{"x", 4}}));
              }),
              AllOf(HasSubstr("data=2, model=2"), HasSubstr("Mesh(x=4)")));
  EXPECT_THAT(error_of<ShardingError>([&] { exported.on(square().sub_mesh("rows", 0)); }),
              AllOf(HasSubstr("for 4 devices"), HasSubstr("has 2")));
  const JaxExport small = import_jax_export(file("two_platforms.bin"));
  const ExportedFunction function = small.on();
  EXPECT_THAT(error_of<Error>([&] { function({}); }), HasSubstr("expected 1 arrays, got 0"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                function({zeros({4, 5})});
              }),
              AllOf(HasSubstr("argument [0] as f32[4,6], got f32[4,5]"), HasSubstr("jax_export_test.cc")));
  EXPECT_THAT(error_of<DTypeError>([&] { function({zeros({4, 6}, int32)}); }), HasSubstr("got i32[4,6]"));
  EXPECT_THAT(error_of<TraceError>([&] {
                grad([&](const Array& x) { return sum(function({x})[0]); })(zeros({4, 6}));
              }),
              HasSubstr("serialize(vjp_order=1)"));
}

TEST(JaxExport, BytesDamagedAnywhere_AreRefused) {
  const std::string whole = file("two_platforms.bin");
  EXPECT_THAT(error_of<Error>([] { import_jax_export("JAX"); }), HasSubstr("damaged or cut short"));
  // Cut and changed anywhere: an Error, or a function that is another one; never anything else.
  for (std::size_t at = 0; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    for (const std::string& bytes : {whole.substr(0, at), changed}) {
      try {
        const JaxExport exported = import_jax_export(bytes);
        if (exported.nr_devices() == 1 && exported.in_avals().size() == 1)
          eval_shape([function = exported.on()](const Array& x) { return function({x}); })(zeros({4, 6}));
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
