// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN. There is no GPU here: its calls are compared with those that JAX writes, and are run on
// the CPU with handlers that compute what cuDNN's documentation says of them.
#include "lockstep/transforms/cudnn_attention.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <fstream>
#include <regex>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/onednn/test_attention.h"
#include "lockstep/pjrt/test_cuda.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/test_evaluate.h"
#include "lockstep/testing/data_file.h"
#include "xla/ffi/api/ffi.h"

namespace lockstep::transforms {
namespace {

using namespace test;
namespace lax = ir::lax;
namespace ffi = xla::ffi;

ir::LowerOptions for_gpu(std::int64_t cudnn_features = 256) {
  ir::LowerOptions options;
  options.for_cpu = false;
  options.for_cuda = true;
  options.cudnn_features = cudnn_features;
  return options;
}

std::vector<ir::Value> attention_equation(const Attention& attention, bool backward,
                                          const std::vector<ir::Value>& operands) {
  std::vector<Aval> avals;
  for (const ir::Value& operand : operands) avals.push_back(operand.aval());
  return emit_nested(operands[0].builder(), attention_p(),
                     ir::OpParams::of(attention_of(avals, attention, backward)), operands);
}

/// The result, or the cotangents of query, key and value. `operands` are these, the lengths if there are any,
/// and for the cotangents the result's.
std::vector<ir::Value> attended(const Attention& attention, bool backward, std::vector<ir::Value> operands) {
  if (!backward) return {attention_equation(attention, false, operands)[0]};
  const ir::Value cotangent = operands.back();
  operands.pop_back();
  const std::vector<ir::Value> results = attention_equation(attention, false, operands);
  operands.insert(operands.end(), {results[0], results[1], cotangent});
  return attention_equation(attention, true, operands);
}

std::vector<Aval> operands_of(DType dtype, const Shape& query, const Shape& key, bool lengths,
                              bool backward) {
  std::vector<Aval> avals = {{dtype, query}, {dtype, key}, {dtype, key}};
  if (lengths) avals.push_back({DType::kI32, {query[0]}});
  if (backward) avals.push_back({dtype, query});
  return avals;
}

std::string lowered(const Attention& attention, bool backward, const std::vector<Aval>& operands,
                    const ir::LowerOptions& options = for_gpu()) {
  return lower(trace(operands,
                     [&](std::span<const ir::Value> v) {
                       return attended(attention, backward, {v.begin(), v.end()});
                     }),
               options)
      .stablehlo;
}

/// The text of an MLIR string literal.
std::string unescaped(std::string_view literal) {
  std::string text;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\') {
      text += literal[i];
    } else if (literal[i + 1] == '"' || literal[i + 1] == '\\') {
      text += literal[++i];
    } else {
      text += static_cast<char>(std::stoi(std::string(literal.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    }
  }
  return text;
}

const std::regex& a_call() {
  static const std::regex pattern(
      R"re(call_target_name = "(__cudnn[^"]*)", backend_config = "((?:[^"\\]|\\.)*)", api_version = 2 : i32, (.*?result_layouts = .*?)\} : (\(.*))re");
  return pattern;
}

nlohmann::json calls_in(const std::string& text) {
  nlohmann::json calls = nlohmann::json::array();
  for (std::sregex_iterator i(text.begin(), text.end(), a_call()), end; i != end; ++i) {
    calls.push_back({{"target", (*i)[1].str()},
                     {"config", parse_json(unescaped((*i)[2].str()))},
                     {"layouts", (*i)[3].str()},
                     {"types", (*i)[4].str()}});
  }
  return calls;
}

TEST(CudnnAttention, CustomCalls_EqualThoseOfJax) {
  std::ifstream in(testing::data_file(LOCKSTEP_CUDNN_ATTENTION_FILE));
  const nlohmann::json cases = nlohmann::json::parse(in);
  ASSERT_EQ(cases.size(), 24U);
  for (const nlohmann::json& each : cases) {
    const bool backward = each["backward"];
    Attention attention{.scale = 0.375, .block = 256};
    if (each["is_causal"]) attention.right = 0;
    if (each["left"] >= 0) attention.left = each["left"].get<std::int64_t>();
    if (attention.left && each["lengths"]) continue;  // not taken: queries beyond the lengths see no keys
    const std::string text =
        lowered(attention, backward,
                operands_of(*dtype_named(each["dtype"].get<std::string>()), {2, 256, 8, 64}, {2, 384, 4, 64},
                            each["lengths"], backward));
    EXPECT_EQ(calls_in(text), each["calls"]) << text;
    EXPECT_EQ(count_of("stablehlo.dot_general", text), 0U);
  }
}

TEST(CudnnAttention, UnsupportedOperands_AreCompiledByXla) {
  const Shape shape = {2, 256, 4, 64};
  const auto calls = [](const Attention& attention, DType dtype, const Shape& query, const Shape& key,
                        std::int64_t features) {
    const std::string text =
        lowered(attention, false, operands_of(dtype, query, key, false, false), for_gpu(features));
    return count_of("__cudnn", text);
  };
  const Attention plain{.scale = 1, .block = 256};
  EXPECT_EQ(calls(plain, DType::kBF16, shape, shape, 256), 1U);
  EXPECT_EQ(calls(plain, DType::kF16, shape, shape, 64), 1U);
  EXPECT_EQ(calls(plain, DType::kF32, shape, shape, 256), 0U);
  EXPECT_EQ(calls(plain, DType::kBF16, shape, shape, 0), 0U) << "no GPU, or an old one";
  EXPECT_EQ(calls(plain, DType::kBF16, shape, shape, 32), 0U) << "more features than cuDNN takes";
  EXPECT_EQ(calls(plain, DType::kBF16, {2, 256, 4, 60}, {2, 256, 4, 60}, 256), 0U);
  Attention of_window = plain;
  of_window.left = of_window.right = 16;
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, shape, 256), 0U);
  of_window.right = 0;
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, shape, 256), 1U);
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, {2, 128, 4, 64}, 256), 0U) << "queries that see no keys";
  of_window.right.reset();
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, shape, 256), 0U);
  of_window.right = 0;
  EXPECT_EQ(
      count_of("__cudnn", lowered(of_window, false, operands_of(DType::kBF16, shape, shape, true, false))),
      0U)
      << "queries that see no keys";
  Attention by_xla = plain;
  by_xla.implementation = "xla";
  EXPECT_EQ(calls(by_xla, DType::kBF16, shape, shape, 256), 0U);
}

TEST(CudnnAttention, CustomCalls_CompileForAnH100) {
  if (const std::string reason = pjrt::no_cuda_compiler(); !reason.empty()) GTEST_SKIP() << reason;
  const auto topology = pjrt::h100s(1, 1);
  for (const bool lengths : {false, true}) {
    for (const bool backward : {false, true}) {
      Attention attention{.scale = 0.125, .block = 256};
      if (!lengths) attention.right = 0;
      const std::string text =
          lowered(attention, backward,
                  operands_of(DType::kBF16, {2, 256, 8, 64}, {2, 384, 4, 64}, lengths, backward));
      EXPECT_NO_THROW(topology->compile(text)) << text;
    }
  }
}

TEST(CudnnAttention, UnsupportedOperandsWithKCudnn_ThrowWithTheReason) {
  Attention asked{.scale = 1, .block = 256};
  asked.implementation = "cudnn";
  const auto error = [&](DType dtype, const ir::LowerOptions& options) -> std::string {
    try {
      lowered(asked, false, operands_of(dtype, {2, 256, 4, 64}, {2, 256, 4, 64}, false, false), options);
      return "";
    } catch (const lockstep::Error& refused) {
      return refused.what();
    }
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
  };
  EXPECT_EQ(error(DType::kBF16, for_gpu()), "");
  EXPECT_PRED2(has, error(DType::kF32, for_gpu()), "its operands are f32, and cuDNN takes bf16 and f16");
  EXPECT_PRED2(has, error(DType::kBF16, for_gpu(32)), "its heads have 64 features");
  EXPECT_PRED2(has, error(DType::kBF16, for_gpu(0)), "only where there is a GPU");
  EXPECT_PRED2(has, error(DType::kBF16, {}), "the program is not compiled for NVIDIA GPUs");
}

// The stand-in for cuDNN.

float value_at(const ffi::AnyBuffer& x, std::size_t i) {
  if (x.element_type() == ffi::DataType::F32) return x.reinterpret_data<float>()[i];
  return std::bit_cast<float>(std::uint32_t{x.reinterpret_data<std::uint16_t>()[i]} << 16);
}

void store(ffi::AnyBuffer& x, std::size_t i, double value) {
  x.reinterpret_data<std::uint16_t>()[i] =
      static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(static_cast<float>(value)) + 0x8000) >> 16);
}

/// One head of one example: scores, and places in memory, which holds [batch, rows, heads, features].
struct Problem {
  Problem(ffi::RemainingArgs args, std::size_t of_lengths, std::string_view config) {
    const nlohmann::json json = parse_json(config)["cudnn_fmha_backend_config"];
    scale = json["fmha_scale"];
    const std::string mask = json["mask_type"];
    causal = mask.ends_with("CAUSAL");
    window = json["sliding_window_length"];
    const ffi::AnyBuffer q = *args.get<ffi::AnyBuffer>(0), k = *args.get<ffi::AnyBuffer>(1);
    query = {q.dimensions().begin(), q.dimensions().end()};
    key = {k.dimensions().begin(), k.dimensions().end()};
    for (const auto& size : json["intermediate_tensor_shape"]["dimensions"])
      scores.push_back(std::stol(size.get<std::string>()));
    if (!mask.starts_with("PADDING")) return;
    const ffi::AnyBuffer given = *args.get<ffi::AnyBuffer>(of_lengths + 1);
    lengths = {given.typed_data<std::int32_t>(), given.typed_data<std::int32_t>() + query[0]};
    const ffi::AnyBuffer of_queries = *args.get<ffi::AnyBuffer>(of_lengths);
    for (std::int64_t b = 0; b < query[0]; ++b)
      if (of_queries.typed_data<std::int32_t>()[b] != query[1]) throw std::logic_error("lengths of queries");
  }

  std::size_t row(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t f = 0) const {
    return static_cast<std::size_t>(((b * query[1] + i) * query[2] + h) * query[3] + f);
  }
  std::size_t key_row(std::int64_t b, std::int64_t j, std::int64_t h, std::int64_t f = 0) const {
    return static_cast<std::size_t>(((b * key[1] + j) * key[2] + h * key[2] / query[2]) * key[3] + f);
  }
  std::size_t number(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return static_cast<std::size_t>((b * query[2] + h) * query[1] + i);
  }
  bool sees(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return (!causal || j <= i) && (window == 0 || j > i - window) &&
           (lengths.empty() || j < lengths[static_cast<std::size_t>(b)]);
  }
  template <class Do>
  void for_each_row(Do what) const {
    for (std::int64_t b = 0; b < query[0]; ++b)
      for (std::int64_t h = 0; h < query[2]; ++h)
        for (std::int64_t i = 0; i < query[1]; ++i) what(b, h, i);
  }
  double product(const ffi::AnyBuffer& rows, const ffi::AnyBuffer& keys, std::int64_t b, std::int64_t h,
                 std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t f = 0; f < query[3]; ++f)
      sum += double{value_at(rows, row(b, i, h, f))} * value_at(keys, key_row(b, j, h, f));
    return sum;
  }

  double scale = 0;
  bool causal = false;
  std::int64_t window = 0;
  Shape query, key, scores;
  std::vector<std::int32_t> lengths;
};

ffi::Error attend_as_cudnn(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view config) {
  const Problem p(args, 3, config);
  const ffi::AnyBuffer q = *args.get<ffi::AnyBuffer>(0), k = *args.get<ffi::AnyBuffer>(1),
                       v = *args.get<ffi::AnyBuffer>(2);
  ffi::AnyBuffer result = **rets.get<ffi::AnyBuffer>(0), logs = **rets.get<ffi::AnyBuffer>(1);
  if (p.scores != Shape{p.query[0], p.query[2], p.query[1], p.key[1]})
    return ffi::Error::InvalidArgument("the shape of the scores");
  p.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    double sum = 0;
    std::vector<double> values(static_cast<std::size_t>(p.query[3]));
    for (std::int64_t j = 0; j < p.key[1]; ++j) {
      if (!p.sees(b, i, j)) continue;
      const double power = std::exp(p.scale * p.product(q, k, b, h, i, j));
      sum += power;
      for (std::size_t f = 0; f < values.size(); ++f)
        values[f] += power * value_at(v, p.key_row(b, j, h) + f);
    }
    for (std::size_t f = 0; f < values.size(); ++f) store(result, p.row(b, i, h) + f, values[f] / sum);
    if (rets.size() == 3) logs.typed_data<float>()[p.number(b, h, i)] = static_cast<float>(std::log(sum));
  });
  return ffi::Error::Success();
}

ffi::Error attend_backward_as_cudnn(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                    std::string_view config) {
  const Problem p(args, 6, config);
  const ffi::AnyBuffer q = *args.get<ffi::AnyBuffer>(0), k = *args.get<ffi::AnyBuffer>(1),
                       v = *args.get<ffi::AnyBuffer>(2), logs = *args.get<ffi::AnyBuffer>(3),
                       cotangent = *args.get<ffi::AnyBuffer>(4), result = *args.get<ffi::AnyBuffer>(5);
  std::array<std::vector<double>, 3> sums;
  for (const std::size_t i : {0, 1, 2}) sums[i].resize((i == 0 ? q : k).element_count());
  p.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    double of_result = 0;
    for (std::size_t f = 0; f < static_cast<std::size_t>(p.query[3]); ++f)
      of_result += double{value_at(cotangent, p.row(b, i, h) + f)} * value_at(result, p.row(b, i, h) + f);
    for (std::int64_t j = 0; j < p.key[1]; ++j) {
      if (!p.sees(b, i, j)) continue;
      const double weight =
          std::exp(p.scale * p.product(q, k, b, h, i, j) - value_at(logs, p.number(b, h, i)));
      const double of_score = p.scale * weight * (p.product(cotangent, v, b, h, i, j) - of_result);
      for (std::size_t f = 0; f < static_cast<std::size_t>(p.query[3]); ++f) {
        const std::size_t row = p.row(b, i, h) + f, key = p.key_row(b, j, h) + f;
        sums[0][row] += of_score * value_at(k, key);
        sums[1][key] += of_score * value_at(q, row);
        sums[2][key] += weight * value_at(cotangent, row);
      }
    }
  });
  for (const std::size_t i : {0, 1, 2}) {
    ffi::AnyBuffer out = **rets.get<ffi::AnyBuffer>(i);
    for (std::size_t e = 0; e < sums[i].size(); ++e) store(out, e, sums[i][e]);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(kForward, attend_as_cudnn,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("config"));
XLA_FFI_DEFINE_HANDLER(kBackward, attend_backward_as_cudnn,
                       ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("config"));

/// The values of a program that is lowered for GPUs, with the stand-in in place of cuDNN.
std::vector<HostArray> run_for_gpu(const ir::Program& program, const std::vector<HostArray>& inputs) {
  static const bool registered = [] {
    auto plugin = pjrt::Plugin::load(pjrt::find_plugin());
    plugin->register_ffi_handler("__cudnn$fmhaSoftmax", "Host", reinterpret_cast<void*>(kForward));
    plugin->register_ffi_handler("__cudnn$fmhaSoftmaxBackward", "Host", reinterpret_cast<void*>(kBackward));
    return true;
  }();
  static_cast<void>(registered);
  const std::string text =
      std::regex_replace(lower(program, for_gpu()).stablehlo,
                         std::regex(R"re(backend_config = ("(?:[^"\\]|\\.)*"), api_version = 2 : i32)re"),
                         "backend_config = {config = $1}, api_version = 4 : i32");
  return run(*client().compile(text), inputs);
}

/// Numbers that bf16 has.
HostArray rounded(HostArray x) {
  for (double& value : x.values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)) & 0xffff0000U;
    value = std::bit_cast<float>(bits);
  }
  return x;
}

TEST(CudnnAttention, ResultsOfAStandIn_EqualTheDefinition) {
  int taken = 0;
  for (onednn::Attention sizes : kinds_of_attention(9)) {
    sizes.features = 8;
    if (sizes.key_heads == 1 && sizes.left >= 0) continue;  // seconds
    const Shape query = {sizes.batch, sizes.queries, sizes.heads, sizes.features},
                key = {sizes.batch, sizes.keys, sizes.key_heads, sizes.features};
    Attention attention{sizes.scale, sizes.keys};
    if (sizes.left >= 0) attention.left = sizes.left;
    if (sizes.right >= 0) attention.right = sizes.right;
    const std::vector<Aval> avals = operands_of(DType::kBF16, query, key, false, false);
    if (!why_not_cudnn(attention_of(avals, attention, false), DType::kBF16, 256).empty()) continue;
    ++taken;
    const HostArray q = rounded(random(query, -2, 2, 1, DType::kF32)),
                    k = rounded(random(key, -2, 2, 2, DType::kF32)),
                    v = rounded(random(key, -1, 1, 3, DType::kF32)),
                    cotangent = rounded(random(query, -1, 1, 4, DType::kF32));
    for (const std::vector<std::int32_t>& lengths : lengths_of_keys(sizes)) {
      std::vector<HostArray> inputs = {q, k, v, cotangent};
      if (!lengths.empty()) {
        if (attention.left) continue;
        inputs.push_back({DType::kI32, {2}, {lengths.begin(), lengths.end()}});
      }
      const ir::Program program = trace(avals_of(inputs), [&](std::span<const ir::Value> given) {
        std::vector<ir::Value> operands;
        for (std::size_t i : {0, 1, 2}) operands.push_back(lax::convert_element_type(given[i], DType::kBF16));
        if (!lengths.empty()) operands.push_back(given[4]);
        std::vector<ir::Value> all = attended(attention, false, operands);
        operands.push_back(lax::convert_element_type(given[3], DType::kBF16));
        for (const ir::Value& each : attended(attention, true, operands)) all.push_back(each);
        for (ir::Value& each : all) each = lax::convert_element_type(each, DType::kF32);
        return all;
      });
      const std::vector<HostArray> found = run_for_gpu(program, inputs);
      const auto wanted =
          attention_by_definition(sizes, {q.values, k.values, v.values, cotangent.values}, lengths);
      ASSERT_EQ(found.size(), 4U);
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t e = 0; e < wanted[i].size(); ++e) {
          // The result is rounded to bf16, and so are sums of it.
          ASSERT_NEAR(found[i].values[e], wanted[i][e], 0.03)
              << sizes.keys << " keys, " << sizes.key_heads << " key heads, window " << sizes.left << ", "
              << sizes.right << ", lengths " << lengths.size() << ", array " << i << ", element " << e;
        }
      }
    }
  }
  EXPECT_GE(taken, 10);
}

}  // namespace
}  // namespace lockstep::transforms
