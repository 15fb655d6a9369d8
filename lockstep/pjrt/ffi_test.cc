// SPDX-License-Identifier: Apache-2.0
// How the CPU plugin calls handlers of custom calls: what collectives/ and the lowering of programs rely on.

#include <algorithm>
#include <mutex>
#include <numeric>

#include "lockstep/pjrt/test_client.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::pjrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// One call of the handler below.
struct Call {
  std::int64_t program = 0, number = 0;
  int position = -1;  ///< the value of the first operand, where it is an i32 scalar
  int ordinal = -1;
  std::vector<XLA_FFI_DataType> operands, results;
  bool in_place = false;  ///< the first f32 operand and the first f32 result are one buffer
};

std::mutex mutex;
std::vector<Call> calls;  // of the running test

std::int64_t attribute(const XLA_FFI_CallFrame& frame, std::string_view name) {
  for (std::int64_t i = 0; i < frame.attrs.size; ++i) {
    if (std::string_view(frame.attrs.names[i]->ptr, frame.attrs.names[i]->len) != name) continue;
    if (frame.attrs.types[i] != XLA_FFI_AttrType_SCALAR) return -2;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(frame.attrs.attrs[i]);
    return scalar->dtype == XLA_FFI_DataType_S64 ? *static_cast<const std::int64_t*>(scalar->value) : -3;
  }
  return -1;
}

bool answers_metadata(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start == nullptr || frame->extension_start->type != XLA_FFI_Extension_Metadata)
    return false;
  auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return true;
}

/// Notes the call, and doubles its first f32 operand into its first f32 result.
XLA_FFI_Error* note(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return nullptr;
  Call call;
  call.program = attribute(*frame, "program");
  call.number = attribute(*frame, "call");
  const XLA_FFI_Buffer *in = nullptr, *out = nullptr;
  for (std::int64_t i = 0; i < frame->args.size; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(frame->args.args[i]);
    call.operands.push_back(buffer->dtype);
    if (i == 0 && buffer->dtype == XLA_FFI_DataType_S32)
      call.position = *static_cast<const int*>(buffer->data);
    if (in == nullptr && buffer->dtype == XLA_FFI_DataType_F32) in = buffer;
  }
  for (std::int64_t i = 0; i < frame->rets.size; ++i) {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(frame->rets.rets[i]);
    call.results.push_back(buffer->dtype);
    if (out == nullptr && buffer->dtype == XLA_FFI_DataType_F32) out = buffer;
  }
  if (in != nullptr && out != nullptr) {
    call.in_place = in->data == out->data;
    const auto n = std::accumulate(in->dims, in->dims + in->rank, std::int64_t{1}, std::multiplies<>());
    const auto* from = static_cast<const float*>(in->data);
    std::transform(from, from + n, static_cast<float*>(out->data), [](float x) { return 2 * x; });
  }
  XLA_FFI_DeviceOrdinal_Get_Args ordinal{};
  ordinal.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  ordinal.ctx = frame->ctx;
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_DeviceOrdinal_Get(&ordinal)) return error;
  call.ordinal = ordinal.device_ordinal;
  std::lock_guard lock(mutex);
  calls.push_back(call);
  return nullptr;
}

XLA_FFI_Error* refuse(XLA_FFI_CallFrame* frame) {
  if (answers_metadata(frame)) return nullptr;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = "process 3 of 4 is gone";
  args.errc = XLA_FFI_Error_Code_UNAVAILABLE;
  return frame->api->XLA_FFI_Error_Create(&args);
}

class Ffi : public ::testing::Test {
 protected:
  Ffi() {
    auto plugin = Plugin::load(find_plugin());
    plugin->register_ffi_handler("test.note", "Host", reinterpret_cast<void*>(note));
    plugin->register_ffi_handler("test.refuse", "Host", reinterpret_cast<void*>(refuse));
    calls.clear();
  }

  std::vector<int> order() const {
    std::vector<int> numbers;
    for (const Call& call : calls) numbers.push_back(static_cast<int>(call.number));
    return numbers;
  }
};

TEST_F(Ffi, AChainedCall_GetsItsOperandsAttributesAndTokens) {
  auto client = make_client(2);
  auto program = client->compile(R"(module @chained {
    func.func public @main(%p: tensor<i32>, %x: tensor<2xf32>) -> tensor<2xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %a:2 = stablehlo.custom_call @test.note(%p, %x, %t) {api_version = 4 : i32, has_side_effect = true,
          backend_config = {program = -5 : i64, call = 0 : i64}}
          : (tensor<i32>, tensor<2xf32>, !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
      %b:2 = stablehlo.custom_call @test.note(%p, %a#0, %a#1) {api_version = 4 : i32, has_side_effect = true,
          backend_config = {program = -5 : i64, call = 1 : i64}}
          : (tensor<i32>, tensor<2xf32>, !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
      return %b#0 : tensor<2xf32>
    }
  })");
  Buffer p = to_device<std::int32_t>(*client, {7}, {}, 1), x = to_device<float>(*client, {1, 2}, {2}, 1);
  auto outputs = run(*program, {&p, &x}, *client->addressable_devices()[1]);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(4, 8));
  EXPECT_THAT(order(), ElementsAre(0, 1));
  EXPECT_EQ(calls[1].program, -5);
  EXPECT_EQ(calls[1].position, 7);
  EXPECT_EQ(calls[1].ordinal, 1);
  EXPECT_THAT(calls[1].operands,
              ElementsAre(XLA_FFI_DataType_S32, XLA_FFI_DataType_F32, XLA_FFI_DataType_TOKEN));
  EXPECT_THAT(calls[1].results, ElementsAre(XLA_FFI_DataType_F32, XLA_FFI_DataType_TOKEN));
}

TEST_F(Ffi, ChainedCalls_RunInOrder_WhateverIsReadyFirst) {
  constexpr int kCalls = 24;
  std::string body = "%t0 = stablehlo.create_token : !stablehlo.token\n", sum = "%x";
  const std::string type = "tensor<256x256xf32>";
  for (int i = 0; i < kCalls; ++i) {
    // Every third operand is late: it comes from a matmul.
    const std::string n = std::to_string(i);
    body += "%c" + n + " = stablehlo.constant dense<" + n + ".0> : " + type + "\n%m" + n +
            " = stablehlo.add %x, %c" + n + " : " + type + "\n";
    if (i % 3 == 0) {
      body += "%d" + n + " = stablehlo.dot_general %m" + n + ", %m" + n +
              ", contracting_dims = [1] x [0] : (" + type + ", " + type + ") -> " + type + "\n";
    }
    body += "%q" + n + ":2 = stablehlo.custom_call @test.note(" + (i % 3 == 0 ? "%d" : "%m") + n + ", %t" +
            n + ") {api_version = 4 : i32, has_side_effect = true, backend_config = {call = " + n +
            " : i64}} : (" + type + ", !stablehlo.token) -> (" + type + ", !stablehlo.token)\n%t" +
            std::to_string(i + 1) + " = stablehlo.optimization_barrier %q" + n + "#1 : !stablehlo.token\n";
  }
  for (int i = kCalls - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    body += "%s" + n + " = stablehlo.add " + sum + ", %q" + n + "#0 : " + type + "\n";
    sum = "%s" + n;
  }
  auto client = make_client();
  auto program = client->compile("module @m { func.func public @main(%x: " + type + ") -> " + type + " {\n" +
                                 body + "return " + sum + " : " + type + "} }");
  Buffer x = to_device<float>(*client, std::vector<float>(256 * 256), {256, 256});
  std::vector<int> expected(kCalls);
  std::iota(expected.begin(), expected.end(), 0);
  for (int repeat = 0; repeat < 5; ++repeat) {
    calls.clear();
    run(*program, {&x}, *client->addressable_devices()[0])[0].await();
    EXPECT_EQ(order(), expected);
  }
}

TEST_F(Ffi, AnAliasedResult_LiesInTheOperandsBuffer) {
  auto client = make_client();
  auto program = client->compile(R"(module @aliased {
    func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %a:2 = stablehlo.custom_call @test.note(%x, %t) {api_version = 4 : i32, has_side_effect = true,
          output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0,
                                                                    operand_tuple_indices = []>]}
          : (tensor<4xf32>, !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      return %a#0 : tensor<4xf32>
    }
  })");
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  auto outputs = run(*program, {&x}, *client->addressable_devices()[0]);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_TRUE(calls[0].in_place);
  EXPECT_THAT(to_host<float>(outputs[0]), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(to_host<float>(x), ElementsAre(1, 2, 3, 4));  // not donated: a copy was made
}

TEST_F(Ffi, CallsWithoutOperandsOrResults_AreMade) {
  auto client = make_client();
  auto program = client->compile(R"(module @bare {
    func.func public @main() {
      %t = stablehlo.create_token : !stablehlo.token
      %u = stablehlo.custom_call @test.note(%t) {api_version = 4 : i32, has_side_effect = true,
          backend_config = {call = 0 : i64}} : (!stablehlo.token) -> !stablehlo.token
      return
    }
  })");
  EXPECT_EQ(program->num_outputs(), 0u);
  run(*program, {}, *client->addressable_devices()[0]);
  EXPECT_THAT(order(), ElementsAre(0));
}

constexpr const char* kRefused = R"(module @refused {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = stablehlo.custom_call @test.refuse(%x) {api_version = 4 : i32, has_side_effect = true}
        : (tensor<4xf32>) -> tensor<4xf32>
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %a, %y : tensor<4xf32>, tensor<4xf32>
  }
})";

TEST_F(Ffi, AFailure_IsThrownByTheExecution) {
  auto client = make_client();
  auto program = client->compile(kRefused);
  Buffer x = to_device<float>(*client, {1, 2, 3, 4}, {4});
  EXPECT_THAT(error_of([&] { run(*program, {&x}, *client->addressable_devices()[0]); }),
              HasSubstr("[pjrt] running refused on CpuDevice(id=0): UNAVAILABLE: process 3 of 4 is gone"));
  // Buffers that were donated to it are lost.
  EXPECT_TRUE(x.is_deleted());
}

TEST_F(Ffi, AFailureWithoutOutputs_IsThrownByTheExecution) {
  auto client = make_client();
  auto program = client->compile(R"(module @refused { func.func public @main() {
      stablehlo.custom_call @test.refuse() {api_version = 4 : i32, has_side_effect = true} : () -> ()
      return } })");
  EXPECT_THAT(error_of([&] { run(*program, {}, *client->addressable_devices()[0]); }),
              HasSubstr("UNAVAILABLE: process 3 of 4 is gone"));
}

/// After enough work that an asynchronous client does not run it in the call.
std::string refused_after_work() {
  std::string body = "%m0 = stablehlo.add %x, %x : tensor<256x256xf32>\n";
  for (int i = 0; i < 16; ++i) {
    const std::string from = "%m" + std::to_string(i), to = "%m" + std::to_string(i + 1);
    body += to + " = stablehlo.dot_general " + from + ", " + from +
            ", contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> "
            "tensor<256x256xf32>\n";
  }
  return "module @late { func.func public @main(%x: tensor<256x256xf32>) -> tensor<256x256xf32> {\n" + body +
         "%y = stablehlo.custom_call @test.refuse(%m16) {api_version = 4 : i32, has_side_effect = true}\n"
         "    : (tensor<256x256xf32>) -> tensor<256x256xf32>\n"
         "return %y : tensor<256x256xf32> } }";
}

TEST_F(Ffi, AFailureOfALargeProgram_IsThrownByTheExecutionOfASynchronousClient) {
  auto client = make_client(1, /*asynchronous=*/false);
  auto program = client->compile(refused_after_work());
  Buffer x = to_device<float>(*client, std::vector<float>(256 * 256), {256, 256});
  EXPECT_THAT(error_of([&] { run(*program, {&x}, *client->addressable_devices()[0]); }),
              HasSubstr("UNAVAILABLE: process 3 of 4 is gone"));
}

TEST_F(Ffi, AnAsynchronousFailureOfALargeProgram_IsThrownByItsOutputs) {
  auto client = make_client(1, /*asynchronous=*/true);
  auto program = client->compile(refused_after_work());
  Buffer x = to_device<float>(*client, std::vector<float>(256 * 256), {256, 256});
  auto outputs = run(*program, {&x}, *client->addressable_devices()[0]);
  EXPECT_THAT(error_of([&] { outputs[0].await(); }), HasSubstr("UNAVAILABLE: process 3 of 4 is gone"));
  EXPECT_THAT(error_of([&] { to_host<float>(outputs[0]); }),
              HasSubstr("UNAVAILABLE: process 3 of 4 is gone"));
}

TEST_F(Ffi, ATargetThatIsNotRegistered_IsNamedWhenCompiled) {
  auto client = make_client();
  EXPECT_THAT(error_of([&] {
                client->compile(R"(module @m { func.func public @main() {
                  stablehlo.custom_call @test.unknown() {api_version = 4 : i32, has_side_effect = true} : () -> ()
                  return } })");
              }),
              HasSubstr("test.unknown"));
}

TEST_F(Ffi, TwoHandlersUnderOneName_AreRefused) {
  auto plugin = Plugin::load(find_plugin());
  EXPECT_THAT(
      error_of([&] { plugin->register_ffi_handler("test.note", "Host", reinterpret_cast<void*>(refuse)); }),
      HasSubstr("registering the custom call test.note"));
}

}  // namespace
}  // namespace lockstep::pjrt
