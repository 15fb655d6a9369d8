// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/executable.h"

#include <thread>

#include "lockstep/pjrt/test_client.h"

namespace lockstep::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAdd = R"(module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
})";

/// A program that doubles its argument, which has `attribute`, and gives it back as `result`.
std::string doubling(const std::string& attribute) {
  return "module @doubling { func.func public @main(%x: tensor<4xf32> " + attribute +
         ") -> tensor<4xf32> { %y = stablehlo.add %x, %x : tensor<4xf32> return %y : tensor<4xf32> } }";
}

TEST(Executable, AddsTwoArrays) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  EXPECT_EQ(add->name(), "add");
  ASSERT_EQ(add->num_outputs(), 1u);
  EXPECT_EQ(add->outputs()[0].dtype, float32);
  EXPECT_THAT(add->outputs()[0].dims, ElementsAre(4));
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4}),
         y = to_device<float>(*client, {10, 20, 30, 40}, {4});
  auto outputs = run(*add, {&x, &y}, *client->addressable_devices()[0]);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(11, 22, 33, 44));
  EXPECT_FALSE(x.is_deleted());
}

TEST(Executable, Deserialized_ComputesTheSame) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  auto again = client->deserialize(add->serialize());
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  auto outputs = run(*again, {&x, &x}, *client->addressable_devices()[0]);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(2, 4, 6, 8));
}

TEST(Executable, ReportsItsMemoryAndFingerprint) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  EXPECT_EQ(add->memory_stats().arguments, 32);
  EXPECT_EQ(add->memory_stats().outputs, 16);
  EXPECT_EQ(add->fingerprint(), client->compile(kAdd)->fingerprint());
  EXPECT_NE(add->fingerprint(), client->compile(doubling(""))->fingerprint());
}

TEST(Executable, FillsTheGivenBuffersAgainAndAgain) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  Buffer one = to_device<float>(*client, {1, 1, 1, 1}, {4});
  Buffer sum = to_device<float>(*client, {0, 0, 0, 0}, {4});
  for (int i = 0; i < 5; ++i) {
    Buffer next[1];
    Buffer* arguments[] = {&one, &sum};
    add->execute(arguments, *client->addressable_devices()[0], next);
    sum = std::move(next[0]);
  }
  EXPECT_THAT(to_host<float>(sum), Each(5));
}

TEST(Executable, AnotherNumberOfOutputBuffers_IsRefused) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4}), outputs[2];
  Buffer* arguments[] = {&x, &x};
  EXPECT_THAT(error_of([&] { add->execute(arguments, *client->addressable_devices()[0], outputs); }),
              AllOf(HasSubstr("running add"), HasSubstr("1 outputs"), HasSubstr("for 2")));
}

TEST(Executable, AMissingArgumentOrOneOfAnotherSize_IsRefused) {
  auto client = make_client();
  auto add = client->compile(kAdd);
  const Device& device = *client->addressable_devices()[0];
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4}), small = to_device<float>(*client, {1}, {1});
  EXPECT_THAT(error_of([&] { run(*add, {&x}, device); }), HasSubstr("running add on CpuDevice(id=0)"));
  EXPECT_THAT(error_of([&] {
                run(*add, {&x, &small}, device);
              }),
              HasSubstr("running add on CpuDevice(id=0)"));
}

class Donation : public ::testing::TestWithParam<const char*> {};

TEST_P(Donation, TheResult_UsesTheArgumentsMemory) {
  auto client = make_client();
  auto program = client->compile(doubling(GetParam()));
  EXPECT_EQ(program->memory_stats().aliased, 16);
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  void* place = x.unsafe_pointer();
  auto outputs = run(*program, {&x}, *client->addressable_devices()[0]);
  EXPECT_TRUE(x.is_deleted());
  EXPECT_EQ(outputs[0].unsafe_pointer(), place);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(2, 4, 6, 8));
}

TEST_P(Donation, ANonDonatableArgument_IsKept) {
  auto client = make_client();
  auto program = client->compile(doubling(GetParam()));
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  const std::int64_t keep[] = {0};
  auto outputs = run(*program, {&x}, *client->addressable_devices()[0], {.non_donatable = keep});
  EXPECT_FALSE(x.is_deleted());
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(to_host<float>(x), ElementsAre(1, 2, 3, 4));
}

TEST_P(Donation, AnArgumentGivenTwice_IsRefused) {
  auto client = make_client();
  auto program =
      client->compile("module @both { func.func public @main(%x: tensor<4xf32> " + std::string(GetParam()) +
                      ", %y: tensor<4xf32>) -> tensor<4xf32> { %z = stablehlo.add %x, %y : tensor<4xf32> "
                      "return %z : tensor<4xf32> } }");
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  EXPECT_THAT(error_of([&] {
                run(*program, {&x, &x}, *client->addressable_devices()[0]);
              }),
              HasSubstr("donate"));
}

INSTANTIATE_TEST_SUITE_P(Attributes, Donation,
                         ::testing::Values("{tf.aliasing_output = 0 : i32}", "{jax.buffer_donor = true}"),
                         [](const auto& test) { return test.index == 0 ? "AliasingOutput" : "BufferDonor"; });

TEST(Executable, ATransposedResult_IsReadRowMajor) {
  auto client = make_client();
  auto program =
      client->compile(R"(module @t { func.func public @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
      %y = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
      return %y : tensor<3x2xf32> } })");
  Buffer x = to_device<float>(*client, {1, 2, 3, 4, 5, 6}, {2, 3});
  auto outputs = run(*program, {&x}, *client->addressable_devices()[0]);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Executable, RunsOnTheChosenDevice) {
  auto client = make_client(3);
  auto program = client->compile(doubling(""));
  for (int i = 0; i < 3; ++i) {
    Buffer x = to_device<float>(*client, {1.0f * i, 0, 0, 0}, {4}, i);
    auto outputs = run(*program, {&x}, *client->addressable_devices()[i]);
    EXPECT_EQ(to_host<float>(outputs[0])[0], 2.0f * i);
  }
}

TEST(Executable, AnArgumentOfAnotherDevice_IsRefused) {
  auto client = make_client(2);
  auto program = client->compile(doubling(""));
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4}, 1);
  EXPECT_THAT(error_of([&] { run(*program, {&x}, *client->addressable_devices()[0]); }), HasSubstr("device"));
}

TEST(Executable, RunsOnTwoDevicesFromTwoThreadsAtOnce) {
  auto client = make_client(2);
  auto add = client->compile(kAdd);
  std::vector<float> sums[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Buffer step = to_device<float>(*client, {1.0f + i, 0, 0, 0}, {4}, i),
             sum = to_device<float>(*client, {0, 0, 0, 0}, {4}, i);
      for (int n = 0; n < 200; ++n)
        sum = std::move(run(*add, {&step, &sum}, *client->addressable_devices()[i])[0]);
      sums[i] = to_host<float>(sum);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sums[0][0], 200);
  EXPECT_EQ(sums[1][0], 400);
}

}  // namespace
}  // namespace lockstep::pjrt
