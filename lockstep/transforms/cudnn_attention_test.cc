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

/// The result, or the cotangents of query, key, value and, if there is one, bias. `operands` are these, the
/// lengths before the bias if there are any, and for the cotangents the result's at the end.
std::vector<ir::Value> attended(const Attention& attention, bool backward, std::vector<ir::Value> operands) {
  if (!backward) return {attention_equation(attention, false, operands)[0]};
  const ir::Value cotangent = operands.back();
  operands.pop_back();
  const std::vector<ir::Value> results = attention_equation(attention, false, operands);
  operands.insert(operands.end(), {results[0], results[1], cotangent});
  return attention_equation(attention, true, operands);
}

std::vector<Aval> operands_of(DType dtype, const Shape& query, const Shape& key, bool lengths, bool backward,
                              const std::vector<Aval>& terms = {}) {
  std::vector<Aval> avals = {{dtype, query}, {dtype, key}, {dtype, key}};
  if (lengths) avals.push_back({DType::kI32, {query[0]}});
  avals.insert(avals.end(), terms.begin(), terms.end());
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
  ASSERT_EQ(cases.size(), 48U);
  for (const nlohmann::json& each : cases) {
    const bool backward = each["backward"];
    const DType dtype = *dtype_named(each["dtype"].get<std::string>());
    std::vector<Aval> terms;
    if (each["terms"] == "bias") terms = {{dtype, {1, 8, 256, 384}}};
    if (each["terms"] == "mask") terms = {{DType::kBool, {2, 1, 256, 384}}};
    Attention attention{.scale = 0.375, .block = 256};
    if (each["is_causal"]) attention.right = 0;
    if (each["left"] >= 0) attention.left = each["left"].get<std::int64_t>();
    const std::string text =
        lowered(attention, backward,
                operands_of(dtype, {2, 256, 8, 64}, {2, 384, 4, 64}, each["lengths"], backward, terms));
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
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, {2, 254, 4, 64}, 256), 0U) << "fewer keys than queries";
  of_window.right.reset();
  EXPECT_EQ(calls(of_window, DType::kBF16, shape, shape, 256), 0U);
  Attention by_xla = plain;
  by_xla.implementation = "xla";
  EXPECT_EQ(calls(by_xla, DType::kBF16, shape, shape, 256), 0U);
}

TEST(CudnnAttention, UnsupportedMasksAndBiases_AreCompiledByXla) {
  const auto calls = [](const std::vector<Aval>& terms, bool backward, const Attention& attention,
                        std::int64_t queries = 256) {
    return count_of("__cudnn", lowered(attention, backward,
                                       operands_of(DType::kBF16, {2, queries, 4, 64}, {2, 256, 4, 64}, false,
                                                   backward, terms)));
  };
  const Attention plain{.scale = 1, .block = 256};
  const Aval mask{DType::kBool, {2, 1, 1, 256}}, bias{DType::kBF16, {1, 4, 256, 256}};
  EXPECT_EQ(calls({mask}, false, plain), 1U);
  EXPECT_EQ(calls({mask}, true, plain), 2U);
  EXPECT_EQ(calls({bias}, true, plain), 2U);
  EXPECT_EQ(calls({mask, bias}, false, plain), 0U) << "together they are as large as all scores";
  Attention by_cudnn = plain;
  by_cudnn.implementation = "cudnn";
  EXPECT_EQ(calls({mask, bias}, false, by_cudnn), 1U);
  EXPECT_EQ(calls({{DType::kF32, {1, 4, 256, 256}}}, false, plain), 0U) << "another dtype than the query's";
  EXPECT_EQ(calls({mask}, false, plain, 255), 1U);
  EXPECT_EQ(calls({mask}, true, plain, 255), 0U) << "an odd number of queries";
  Attention of_window = plain;
  of_window.left = 16;
  of_window.right = 0;
  EXPECT_EQ(calls({mask}, false, of_window), 0U);
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
  // With a bias, whose cotangent the last program does not use.
  const auto of_bias = [](bool backward, bool is_used) {
    return lower(trace(operands_of(DType::kBF16, {2, 256, 8, 64}, {2, 384, 4, 64}, false, backward,
                                   {{DType::kBF16, {1, 8, 256, 384}}}),
                       [&](std::span<const ir::Value> v) {
                         std::vector<ir::Value> all =
                             attended({.scale = 0.125, .block = 256}, backward, {v.begin(), v.end()});
                         if (!is_used) all.pop_back();
                         return all;
                       }),
                 for_gpu())
        .stablehlo;
  };
  for (const auto& [backward, is_used] : {std::pair{false, true}, {true, true}, {true, false}}) {
    const std::string text = of_bias(backward, is_used);
    EXPECT_EQ(count_of("__cudnn$fmhaScaleBiasSoftmax", text), backward ? 2U : 1U);
    EXPECT_NO_THROW(topology->compile(text)) << text;
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
  /// `of_bias`: the bias's place among the operands, if there is one. The lengths are last.
  Problem(ffi::RemainingArgs args, std::size_t of_bias, std::string_view target, std::string_view config) {
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
    if (target.find("ScaleBias") != target.npos) {
      bias = *args.get<ffi::AnyBuffer>(of_bias);
      terms = {{bias->dimensions().begin(), bias->dimensions().end()}, {}};
      if (terms.sizes[2] != query[1] || terms.sizes[3] != key[1]) throw std::logic_error("sizes of the bias");
    }
    if (!mask.starts_with("PADDING")) return;
    const std::size_t of_lengths = args.size() - 2;
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
  double score(const ffi::AnyBuffer& q, const ffi::AnyBuffer& k, std::int64_t b, std::int64_t h,
               std::int64_t i, std::int64_t j) const {
    return scale * product(q, k, b, h, i, j) + (bias ? value_at(*bias, terms.place({b, h, i, j})) : 0);
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
  std::optional<ffi::AnyBuffer> bias;
  ScoreTerms terms;  ///< the bias's sizes
  std::vector<std::int32_t> lengths;
};

ffi::Error attend_as_cudnn(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view target,
                           std::string_view config) {
  const Problem p(args, 3, target, config);
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
      const double power = std::exp(p.score(q, k, b, h, i, j));
      sum += power;
      for (std::size_t f = 0; f < values.size(); ++f)
        values[f] += power * value_at(v, p.key_row(b, j, h) + f);
    }
    for (std::size_t f = 0; f < values.size(); ++f) store(result, p.row(b, i, h) + f, values[f] / sum);
    if (rets.size() == 3) logs.typed_data<float>()[p.number(b, h, i)] = static_cast<float>(std::log(sum));
  });
  return ffi::Error::Success();
}

ffi::Error attend_backward_as_cudnn(ffi::RemainingArgs args, ffi::RemainingRets rets, std::string_view target,
                                    std::string_view config) {
  const Problem p(args, 5, target, config);
  const ffi::AnyBuffer q = *args.get<ffi::AnyBuffer>(0), k = *args.get<ffi::AnyBuffer>(1),
                       v = *args.get<ffi::AnyBuffer>(2), logs = *args.get<ffi::AnyBuffer>(3),
                       cotangent = *args.get<ffi::AnyBuffer>(4),
                       result = *args.get<ffi::AnyBuffer>(p.bias ? 6 : 5);
  std::array<std::vector<double>, 4> sums;
  for (const std::size_t i : {0, 1, 2}) sums[i].resize((i == 0 ? q : k).element_count());
  if (p.bias) sums[3].resize(p.bias->element_count());
  p.for_each_row([&](std::int64_t b, std::int64_t h, std::int64_t i) {
    double of_result = 0;
    for (std::size_t f = 0; f < static_cast<std::size_t>(p.query[3]); ++f)
      of_result += double{value_at(cotangent, p.row(b, i, h) + f)} * value_at(result, p.row(b, i, h) + f);
    for (std::int64_t j = 0; j < p.key[1]; ++j) {
      if (!p.sees(b, i, j)) continue;
      const double weight = std::exp(p.score(q, k, b, h, i, j) - value_at(logs, p.number(b, h, i)));
      const double of_sum = weight * (p.product(cotangent, v, b, h, i, j) - of_result);
      const double of_score = p.scale * of_sum;
      if (p.bias) sums[3][p.terms.place({b, h, i, j})] += of_sum;
      for (std::size_t f = 0; f < static_cast<std::size_t>(p.query[3]); ++f) {
        const std::size_t row = p.row(b, i, h) + f, key = p.key_row(b, j, h) + f;
        sums[0][row] += of_score * value_at(k, key);
        sums[1][key] += of_score * value_at(q, row);
        sums[2][key] += weight * value_at(cotangent, row);
      }
    }
  });
  for (std::size_t i = 0; i + 1 < rets.size(); ++i) {
    ffi::AnyBuffer out = **rets.get<ffi::AnyBuffer>(i);
    for (std::size_t e = 0; e < sums[i].size(); ++e) store(out, e, sums[i][e]);
  }
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(
    kForward, attend_as_cudnn,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("target").Attr<std::string_view>(
        "config"));
XLA_FFI_DEFINE_HANDLER(
    kBackward, attend_backward_as_cudnn,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("target").Attr<std::string_view>(
        "config"));

/// The values of a program that is lowered for GPUs, with the stand-in in place of cuDNN.
std::vector<HostArray> run_for_gpu(const ir::Program& program, const std::vector<HostArray>& inputs) {
  static const bool registered = [] {
    auto plugin = pjrt::Plugin::load(pjrt::find_plugin());
    for (const std::string terms : {"", "ScaleBias"}) {
      const std::string target = "__cudnn$fmha" + terms + "Softmax";
      plugin->register_ffi_handler(target, "Host", reinterpret_cast<void*>(kForward));
      plugin->register_ffi_handler(target + "Backward", "Host", reinterpret_cast<void*>(kBackward));
    }
    return true;
  }();
  static_cast<void>(registered);
  const std::regex call(
      R"re(call_target_name = ("__cudnn[^"]*"), backend_config = ("(?:[^"\\]|\\.)*"), api_version = 2 : i32)re");
  const std::string text =
      std::regex_replace(lower(program, for_gpu()).stablehlo, call,
                         "call_target_name = $1, backend_config = {target = $1, config = $2}, "
                         "api_version = 4 : i32");
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

/// Compares attention and its derivative by the stand-in with the definition. Returns false where cuDNN does
/// not take it.
bool compare_with_the_definition(onednn::Attention sizes, const std::vector<std::int32_t>& lengths,
                                 MaskAndBias terms) {
  sizes.features = 8;
  const Shape query = {sizes.batch, sizes.queries, sizes.heads, sizes.features},
              key = {sizes.batch, sizes.keys, sizes.key_heads, sizes.features};
  Attention attention{sizes.scale, sizes.keys};
  attention.implementation = "cudnn";
  if (sizes.left >= 0) attention.left = sizes.left;
  if (sizes.right >= 0) attention.right = sizes.right;
  std::vector<HostArray> inputs = {
      rounded(random(query, -2, 2, 1, DType::kF32)), rounded(random(key, -2, 2, 2, DType::kF32)),
      rounded(random(key, -1, 1, 3, DType::kF32)), rounded(random(query, -1, 1, 4, DType::kF32))};
  if (!lengths.empty()) inputs.push_back({DType::kI32, {2}, {lengths.begin(), lengths.end()}});
  if (terms.mask) inputs.push_back({DType::kBool, terms.mask->sizes, terms.mask->values});
  if (terms.bias) {
    inputs.push_back(rounded({DType::kF32, terms.bias->sizes, terms.bias->values}));
    terms.bias->values = inputs.back().values;
  }
  std::vector<Aval> avals;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (i != 3)
      avals.push_back({inputs[i].dtype == DType::kF32 ? DType::kBF16 : inputs[i].dtype, inputs[i].shape});
  if (!why_not_cudnn(attention_of(avals, attention, false), true, DType::kBF16, 256).empty()) return false;
  const ir::Program program = trace(avals_of(inputs), [&](std::span<const ir::Value> given) {
    std::vector<ir::Value> operands;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (i == 3) continue;
      const bool is_narrow = given[i].aval().dtype == DType::kF32;
      operands.push_back(is_narrow ? lax::convert_element_type(given[i], DType::kBF16) : given[i]);
    }
    std::vector<ir::Value> all = attended(attention, false, operands);
    operands.push_back(lax::convert_element_type(given[3], DType::kBF16));
    for (const ir::Value& each : attended(attention, true, operands)) all.push_back(each);
    for (ir::Value& each : all) each = lax::convert_element_type(each, DType::kF32);
    return all;
  });
  const std::vector<HostArray> found = run_for_gpu(program, inputs);
  const auto wanted = attention_by_definition(
      sizes, {inputs[0].values, inputs[1].values, inputs[2].values, inputs[3].values}, lengths, terms);
  EXPECT_EQ(found.size(), terms.bias ? 5U : 4U);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t e = 0; e < wanted[i].size(); ++e) {
      // The result is rounded to bf16, and so are sums of it.
      const double tolerance = 0.03 * std::max(1.0, std::abs(wanted[i][e]));
      if (std::abs(found[i].values[e] - wanted[i][e]) <= tolerance) continue;
      ADD_FAILURE() << found[i].values[e] << " in place of " << wanted[i][e] << ": " << sizes.keys
                    << " keys, " << sizes.key_heads << " key heads, window " << sizes.left << ", "
                    << sizes.right << ", " << lengths.size() << " lengths, mask "
                    << (terms.mask ? to_string(terms.mask->sizes) : "none") << ", bias "
                    << (terms.bias ? to_string(terms.bias->sizes) : "none") << ", array " << i << ", element "
                    << e;
      return true;
    }
  }
  return true;
}

TEST(CudnnAttention, ResultsOfAStandIn_EqualTheDefinition) {
  int taken = 0;
  for (const onednn::Attention& sizes : kinds_of_attention(9)) {
    if (sizes.key_heads == 1 && sizes.left >= 0) continue;  // seconds
    for (const std::vector<std::int32_t>& lengths : lengths_of_keys(sizes))
      taken += compare_with_the_definition(sizes, lengths, {}) ? 1 : 0;
  }
  EXPECT_GE(taken, 25);
}

TEST(CudnnAttention, ResultsOfAStandInWithMaskAndBias_EqualTheDefinition) {
  int taken = 0;
  const std::vector<onednn::Attention> kinds = kinds_of_attention(8);
  const std::vector<MaskAndBias> terms = kinds_of_mask_and_bias(kinds[0]);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    // All keys or causal; as many keys as queries.
    const onednn::Attention& sizes = kinds[i % 3 * 6 + i % 2];
    taken += compare_with_the_definition(sizes, lengths_of_keys(sizes)[i / 2 % 2], terms[i]) ? 1 : 0;
  }
  EXPECT_EQ(taken, 16);
}

/// Powers of such scores are infinite, unless their queries have no part in the sums.
TEST(CudnnAttention, LargeScoresOfQueriesThatSeeNoKey_GiveNoNan) {
  const Shape shape = {2, 8, 2, 8};
  const HostArray x = rounded(random(shape, 20, 40, 1, DType::kF32)), lengths{DType::kI32, {2}, {3, 0}};
  const ir::Program program = trace(avals_of({x, lengths}), [&](std::span<const ir::Value> given) {
    const ir::Value narrow = lax::convert_element_type(given[0], DType::kBF16);
    std::vector<ir::Value> all =
        attended({.scale = 1, .block = 8}, true, {narrow, narrow, narrow, given[1], narrow});
    for (ir::Value& each : all) each = lax::convert_element_type(each, DType::kF32);
    return all;
  });
  for (const HostArray& found : run_for_gpu(program, {x, lengths}))
    for (std::size_t i = found.values.size() / 2; i < found.values.size(); ++i)
      ASSERT_TRUE(std::isfinite(found.values[i]));
}

}  // namespace
}  // namespace lockstep::transforms
