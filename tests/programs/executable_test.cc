// SPDX-License-Identifier: Apache-2.0
// Compiled programs as bytes: serialize() and load_executable (docs/executables.md).
#include <gmock/gmock.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "lockstep/array/multihost.h"
#include "lockstep/base/digest.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/static.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/random/random.h"
#include "lockstep/runtime/compile.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/random.h"
#include "lockstep/testing/temporary_folder.h"
#include "tests/programs/test_executables.h"

namespace lockstep {
namespace {

using test::expect_equal;
using test::waves;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The message of the error that the body throws.
template <class E = Error>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

struct Layer {
  Array w, b;
};
struct State {
  std::vector<Layer> layers;
  Array step;
};

State state(int layers) {
  State all{.layers = {}, .step = Array(std::int32_t{3})};
  for (int i = 0; i < layers; ++i) all.layers.push_back({waves({4, 4}, i), waves({4}, i + 7)});
  return all;
}

State update(State at, Array x) {
  for (Layer& layer : at.layers) {
    layer.w = layer.w - 0.1 * matmul(transpose(x), x);
    layer.b = layer.b + mean(x, 0);
  }
  at.step = at.step + 1;
  return at;
}

void expect_same(const State& a, const State& b) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    expect_equal(a.layers[i].w, b.layers[i].w);
    expect_equal(a.layers[i].b, b.layers[i].b);
  }
  expect_equal(a.step, b.step);
}

TEST(Executable, ATreeOfArguments_GivesWhatTheFunctionGives) {
  auto step = jit(update);
  const Array x = waves({5, 4}, 3);
  const std::string bytes = step.lower(state(2), x).compile().serialize();
  runtime::forget_compiled();
  Compiled loaded = load_executable<State>(bytes, state(2));
  expect_same(loaded(state(2), x), step(state(2), x));
  expect_same(loaded(loaded(state(2), x), x), step(step(state(2), x), x));
  EXPECT_GT(loaded.cost().flops, 0);
  EXPECT_GT(loaded.cost().argument_bytes, 0);
  expect_same(load_executable<State>(loaded.serialize(), state(2))(state(2), x), step(state(2), x));
}

TEST(Executable, ArraysOfEachDTypeAndNumbers_GiveWhatTheFunctionGives) {
  for (const DType dtype :
       {bool_, int8, uint16, int32, int64, float16, bfloat16, float32, float64, complex64}) {
    SCOPED_TRACE(std::string(name(dtype)));
    auto twice = jit([](Array x, Array n) { return where(n > 2, x, zeros_like(x)); });
    const Array x = astype(waves({3, 2}) * 10, dtype);
    Compiled loaded = load_executable<Array>(twice.lower(x, 3).compile().serialize());
    expect_equal(astype(loaded(x, 3), float64), astype(twice(x, 3), float64));
    expect_equal(astype(loaded(x, 1), float64), astype(twice(x, 1), float64));
  }
  // A number that the function takes as one is compiled in.
  auto power = jit([](Array x, int n, std::string name) { return name == "add" ? x + n : x * n; });
  Compiled loaded =
      load_executable<Array>(power.lower(waves({3}), 5, std::string("add")).compile().serialize());
  expect_equal(loaded(waves({3}), 5, std::string("add")), waves({3}) + 5);
  EXPECT_THAT(message_of<TraceError>([&] { loaded(waves({3}), 6, std::string("add")); }),
              AllOf(HasSubstr("compiled for other arguments"), HasSubstr("argument 1"), HasSubstr("is 5"),
                    HasSubstr("given 6")));
  EXPECT_THAT(message_of<TraceError>([&] { loaded(waves({3}), 5, std::string("mul")); }),
              AllOf(HasSubstr("\"add\""), HasSubstr("\"mul\"")));
}

TEST(Executable, OtherArguments_AreRefused_ShowingBoth) {
  auto step = jit(update);
  const Array x = waves({5, 4});
  Compiled loaded = load_executable<State>(step.lower(state(2), x).compile().serialize(), state(2));
  EXPECT_THAT(message_of<TraceError>([&] {
                loaded(state(2), waves({6, 4}));
              }),
              AllOf(HasSubstr("argument 1"), HasSubstr("f32[5,4]"), HasSubstr("f32[6,4]")));
  EXPECT_THAT(message_of<TraceError>([&] { loaded(state(2), astype(x, bfloat16)); }), HasSubstr("bf16[5,4]"));
  EXPECT_THAT(message_of<TraceError>([&] { loaded(state(1), x); }), HasSubstr("argument 0"));
  EXPECT_THAT(message_of<TraceError>([&] { loaded(state(2)); }),
              HasSubstr("takes 2 arguments and is given 1"));
  expect_same(loaded(state(2), x), step(state(2), x));  // and works after that
}

TEST(Executable, AnotherResultType_IsRefused) {
  const std::string bytes = jit(update).lower(state(2), waves({5, 4})).compile().serialize();
  EXPECT_THAT(message_of([&] { load_executable<State>(bytes); }), HasSubstr("`like`"));
  EXPECT_THAT(message_of([&] { load_executable<State>(bytes, state(1)); }), HasSubstr("layers"));
  EXPECT_THAT(message_of([&] { load_executable<Array>(bytes); }),
              HasSubstr("the function's result has the arrays"));
}

TEST(Executable, AFunctionOfThisProcessOnly_IsRefusedWithTheReason) {
  const Array x = waves({3});
  const auto refusal = [&](auto function, auto... arguments) {
    return message_of([&] { jit(function).lower(arguments...).compile().serialize(); });
  };
  EXPECT_THAT(refusal([&](Array y) { return y + x; }, x), HasSubstr("arrays from outside"));
  EXPECT_THAT(refusal(
                  [](Array y) {
                    debug::print("y is {}", y);
                    return y;
                  },
                  x),
              AllOf(HasSubstr("cannot be used in another process"), HasSubstr("executable_test.cc")));
  EXPECT_THAT(refusal([](Array y, Static<std::string> s) { return *s == "a" ? y : -y; }, x,
                      static_(std::string("a"))),
              HasSubstr("Static"));
  EXPECT_THAT(refusal([](Array y, Array (*f)(const Operand&)) { return f(y); }, x,
                      static_cast<Array (*)(const Operand&)>([](const Operand& y) { return sin(y); })),
              HasSubstr("pointer to a function"));
}

TEST(ExecutableFile, EachKindOfFile_IsReadOnlyIfTrusted) {
  testing::for_given_files(
      "step.bin", "bytes", [](const testing::GivenFile& given, const std::filesystem::path& path) {
        if (given.words == "good") {
          EXPECT_EQ(read_executable_file(path), "bytes");
          return;
        }
        EXPECT_THAT(message_of([&] { read_executable_file(path); }),
                    AllOf(HasSubstr("[load_executable] " + path.string() + " is not used: "),
                          HasSubstr(given.words == "missing" ? "there is no such file" : given.words)));
      });
}

TEST(ExecutableFile, SparseTebibyte_IsRefusedBeforeMemoryIsAllocated) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "step.bin";
  std::ofstream(path) << "bytes";
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(message_of([&] { read_executable_file(path); }), HasSubstr("it has 1099511627776 bytes"));
}

/// Every file that is not as it was written is refused, whatever was changed.
TEST(Executable, CutOffOrChanged_IsRefused) {
  const std::string bytes = jit([](Array x) { return sin(x); }).lower(waves({3})).compile().serialize();
  const auto refuses = [&](std::string_view changed) {
    EXPECT_THROW(load_executable<Array>(changed), Error) << changed.size();
  };
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 997)
    refuses(bytes.substr(0, size));
  for (std::size_t at = 0; at < bytes.size(); at += at < 100 ? 1 : 997) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x11);
    refuses(changed);
  }
  refuses(bytes + "x");
  EXPECT_THAT(message_of([&] { load_executable<Array>(""); }), HasSubstr("there are none"));
  EXPECT_THAT(message_of([&] { load_executable<Array>("PK\3\4"); }), HasSubstr("not written by serialize()"));
  EXPECT_THAT(message_of([&] { load_executable<Array>("lockstep executable 2\nabc"); }),
              HasSubstr("another version of Lockstep"));
  EXPECT_THAT(message_of([&] { load_executable<Array>(bytes.substr(0, bytes.size() - 1)); }),
              HasSubstr("changed or cut off"));
  expect_equal(load_executable<Array>(bytes)(waves({3})), sin(waves({3})));
}

/// Bytes before the machine code are changed, and the digest is made again.
TEST(Executable, ForgedBytes_AreReadOrRefused) {
  const Array x = device_put(waves({8, 2}), NamedSharding(make_mesh({{"i", 4}}), P("i")));
  const std::string bytes =
      jit([](Array x) { return std::pair(sum(sin(x)), x * 2); }).lower(x).compile().serialize();
  const std::string magic = bytes.substr(0, bytes.find('\n') + 1);
  const std::string message = bytes.substr(magic.size() + digest("").size());
  const std::size_t end = test::begin_of_code(message);
  testing::Random random;
  constexpr int kMutations = 600;
  constexpr std::array<unsigned char, 8> kTelling = {0, 1, 2, 7, 0x7f, 0x80, 0xfe, 0xff};
  int refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    std::string changed = message;
    for (int left = 1 + random.below(3); left > 0; --left) {
      char& byte = changed[static_cast<std::size_t>(random.below(static_cast<int>(end)))];
      byte = random.below(2) == 0
                 ? static_cast<char>(kTelling[static_cast<std::size_t>(random.below(kTelling.size()))])
                 : static_cast<char>(byte ^ (1 << random.below(8)));
    }
    try {
      load_executable<std::pair<Array, Array>>(magic + digest(changed) + changed);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, kMutations / 20);
  EXPECT_LT(refused, kMutations);
}

TEST(Executable, DonatesTheArgumentsThatTheFunctionDonates) {
  auto step = jit([](Array x, Array y) { return std::pair(x + y, x * y); }, {.donate_argnums = {0}});
  Compiled loaded =
      load_executable<std::pair<Array, Array>>(step.lower(waves({64}), waves({64}, 2)).compile().serialize());
  Array x = waves({64}), y = waves({64}, 2);
  const auto [sum, product] = loaded(x, y);
  expect_equal(sum, waves({64}) + waves({64}, 2));
  EXPECT_TRUE(x.is_deleted());
  EXPECT_FALSE(y.is_deleted());
}

TEST(Executable, WithDecompositionsAndRandomNumbers_GivesTheSame) {
  auto f = jit([](const random::Key& key, Array x) {
    return linalg::cholesky(matmul(x, transpose(x)) + 3 * eye(4)) + random::normal(key, {4, 4});
  });
  const random::Key key = random::key(3);
  const Array x = waves({4, 4});
  expect_equal(load_executable<Array>(f.lower(key, x).compile().serialize())(key, x), f(key, x));
}

/// In a job of two processes with two devices each, what the first has written is loaded by all: sharded
/// arguments, collectives of jit and of shard_map.
LOCKSTEP_CHILD(loads_a_program_over_all_devices) {
  initialize();
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 2}});
  const NamedSharding rows(mesh, P("data", "model")), columns(mesh, P("model"));
  const auto put = [&](Shape shape, int seed, const Sharding& sharding) {
    return device_put(waves(shape, seed), sharding);
  };
  const Array x = put({8, 4}, 1, rows), w = put({4, 6}, 2, columns);
  auto step = jit([&](Array a, Array b) {
    auto total = shard_map([](Array part) { return psum(part, "data"); },
                           {.mesh = mesh, .in_specs = {P("data")}, .out_specs = {P()}});
    return std::pair(tanh(matmul(a, b)), total(sum(a, 1)));
  });
  const std::string bytes = step.lower(x, w).compile().serialize();
  runtime::forget_compiled();
  Compiled loaded = load_executable<std::pair<Array, Array>>(bytes);
  const auto [product, total] = loaded(x, w);
  const auto [expected, expected_total] = step(x, w);
  EXPECT_TRUE(product.sharding() == expected.sharding());
  const auto all = [](const Array& array) { return multihost::process_allgather(array, true); };
  expect_equal(all(product), all(expected));
  expect_equal(all(total), all(expected_total));
  // The same axes, over the devices in another order.
  const std::vector<Device> devices = mesh.devices();
  const Mesh other({devices[1], devices[0], devices[3], devices[2]}, {2, 2}, {"data", "model"});
  EXPECT_THROW(loaded(device_put(waves({8, 4}), NamedSharding(other, P("data", "model"))), w), Error);
  // The divergence check covers it as it covers a jitted function.
  if (process_index() == 0) {
    EXPECT_THAT(message_of<DivergenceError>([&] { loaded(x, w); }), HasSubstr("jit@"));
  } else {
    auto another = jit([](Array a) { return sum(sin(a)); });
    EXPECT_THAT(message_of<DivergenceError>([&] { another(x); }), HasSubstr("jit@"));
  }
}

TEST(Executable, OverSeveralProcesses_IsLoadedByAll) {
  for (const auto& result : testing::run_processes(test::job("loads_a_program_over_all_devices", 2, 2)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

std::pair<Array, Array> described_step(Array x, Array w, Array rate) {
  const Array product = matmul(x, w);
  return {w - rate * matmul(transpose(x), product), mean(product * product)};
}

/// Arrays on described devices have no elements.
LOCKSTEP_CHILD(compiles_for_devices_that_are_elsewhere) {
  initialize({.topology = "cpu:2x2"});
  const Mesh mesh = make_mesh({{"data", 4}});
  const Array x = device_put(waves({8, 4}, 1), NamedSharding(mesh, P("data"))),
              w = device_put(waves({4, 4}, 2), NamedSharding(mesh, P()));
  std::ofstream(testing::child_arguments().at(0), std::ios::binary)
      << jit(described_step).lower(x, w, 0.5f).compile().serialize();
}

LOCKSTEP_CHILD(loads_what_was_compiled_elsewhere) {
  initialize();
  std::ifstream file(testing::child_arguments().at(0), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (device_count() < 4) {
    EXPECT_THAT(message_of([&] { load_executable<std::pair<Array, Array>>(bytes); }),
                AllOf(HasSubstr("cannot be used here"), HasSubstr("there are 2 devices")));
    return;
  }
  Compiled loaded = load_executable<std::pair<Array, Array>>(bytes);
  const Mesh mesh = make_mesh({{"data", 4}});
  const Array x = device_put(waves({8, 4}, 1), NamedSharding(mesh, P("data"))),
              w = device_put(waves({4, 4}, 2), NamedSharding(mesh, P()));
  const auto [next, loss] = loaded(x, w, 0.5f);
  const auto [expected, expected_loss] = jit(described_step)(x, w, 0.5f);
  expect_equal(next, expected);
  expect_equal(loss, expected_loss);
}

TEST(Executable, CompiledForDescribedDevices_RunsWhereTheyExist) {
  const std::string path = ::testing::TempDir() + "lockstep-executable-" + std::to_string(getpid());
  const auto run = [&](const char* child, int processes, bool coordinator) {
    testing::ProcessesOptions options = test::job(child, processes, 2);
    options.coordinator = coordinator;
    options.arguments = {path};
    for (const auto& result : testing::run_processes(std::move(options)))
      EXPECT_EQ(result.exit_code, 0) << result.log;
  };
  run("compiles_for_devices_that_are_elsewhere", 1, false);
  run("loads_what_was_compiled_elsewhere", 2, true);
  run("loads_what_was_compiled_elsewhere", 1, false);
  std::filesystem::remove(path);
}

/// A program that was compiled for TPUs says so where it is loaded elsewhere.
LOCKSTEP_CHILD(compiles_for_tpus) {
  initialize({.topology = "v5e:4x4"});
  const Mesh mesh = make_mesh({{"data", 16}});
  const Array x = device_put(waves({16, 8}, 1), NamedSharding(mesh, P("data")));
  std::ofstream(testing::child_arguments().at(0), std::ios::binary)
      << jit([](Array a) { return sum(a); }).lower(x).compile().serialize();
}

TEST(Executable, CompiledForTpus_IsRefusedByCpus) {
  const std::string path = ::testing::TempDir() + "lockstep-executable-tpu-" + std::to_string(getpid());
  for (const auto& result :
       testing::run_processes({.count = 1, .child = "compiles_for_tpus", .arguments = {path}})) {
    if (result.log.find("scripts/setup --tpu") != result.log.npos)
      GTEST_SKIP() << "the TPU plugin is not fetched";
    ASSERT_EQ(result.exit_code, 0) << result.log;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(message_of([&] { load_executable<Array>(bytes); }),
              AllOf(HasSubstr("compiled for 16 of TPU v5"), HasSubstr("this process's platform is cpu")));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep
