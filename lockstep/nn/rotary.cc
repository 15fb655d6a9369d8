// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/creation.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

template <class T>
const T* scaling_of(const RotaryOptions& options) {
  return std::get_if<T>(&options.scaling);
}

void check_rotated(const Operand& x) {
  const Shape& shape = x.shape();
  if (!is_floating(x.type().dtype)) {
    fail<DTypeError>("[rotary_embedding] expected an array of a floating dtype, got {}{}",
                     to_string(x.aval()), ops::at());
  }
  if (shape.size() != 4 || shape[3] % 2 != 0) {
    fail<ShapeError>(
        "[rotary_embedding] expected [batch, rows, heads, features] with an even number of features, got "
        "{}{}",
        to_string(x.aval()), ops::at());
  }
}

void check_options(std::int64_t features, const RotaryOptions& options) {
  if (!(options.base > 0)) {
    fail("[rotary_embedding] expected a base above 0, got {}{}", options.base, ops::at());
  }
  if (features < 2 || features % 2 != 0 || options.features < 0 || options.features > features ||
      options.features % 2 != 0) {
    fail<ShapeError>(
        "[rotary_embedding] expected an even number of features, and of those that are turned, got {} and "
        "{}{}",
        features, options.features, ops::at());
  }
  auto expect = [](bool holds, const char* what) {
    if (!holds) fail("[rotary_embedding] expected {}{}", what, ops::at());
  };
  if (const auto* linear = scaling_of<LinearRotaryScaling>(options))
    expect(linear->factor > 0, "a factor above 0");
  if (const auto* llama = scaling_of<Llama3RotaryScaling>(options)) {
    expect(llama->factor > 0 && llama->original_max_position_embeddings > 0 &&
               llama->high_freq_factor > llama->low_freq_factor,
           "a factor and an original length above 0, and a high_freq_factor above low_freq_factor");
  }
  if (const auto* yarn = scaling_of<YarnRotaryScaling>(options)) {
    expect(yarn->factor > 0 && yarn->original_max_position_embeddings > 0 && yarn->beta_slow > 0 &&
               yarn->beta_fast > yarn->beta_slow && options.base != 1,
           "a factor and an original length above 0, a beta_fast above beta_slow, and a base other than 1");
  }
}

/// The first and last pair of YaRN's ramp.
std::pair<double, double> ramp_of(const YarnRotaryScaling& yarn, double base, std::int64_t features) {
  auto pair_with = [&](double turns) {
    const double length = static_cast<double>(yarn.original_max_position_embeddings);
    return static_cast<double>(features) * std::log(length / (turns * kTurn)) / (2 * std::log(base));
  };
  double low = pair_with(yarn.beta_fast), high = pair_with(yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(features - 1));
  return {low, high == low ? high + 0.001 : high};
}

/// The factor of sines and cosines.
double attention_factor(const RotaryOptions& options) {
  const auto* yarn = scaling_of<YarnRotaryScaling>(options);
  if (yarn == nullptr) return 1;
  if (yarn->attention_factor) return *yarn->attention_factor;
  auto scale = [&](double by) { return yarn->factor <= 1 ? 1.0 : 0.1 * by * std::log(yarn->factor) + 1; };
  const bool ratio = yarn->mscale.value_or(0) != 0 && yarn->mscale_all_dim.value_or(0) != 0;
  return ratio ? scale(*yarn->mscale) / scale(*yarn->mscale_all_dim) : scale(1);
}

/// [features / 2]: the radians from one position to the next. Within a trace.
Array rates_of(std::int64_t features, const RotaryOptions& options, DType dtype) {
  const std::int64_t half = features / 2;
  const Array pairs = arange(half, dtype);
  const Array rates = exp(pairs * full({}, -std::log(options.base) / static_cast<double>(half), dtype));
  auto between = [&](const Array& share, double factor) {
    const Array slow = clip(share, 0.0, 1.0);
    return rates * (slow / factor + (1.0 - slow));
  };
  if (const auto* linear = scaling_of<LinearRotaryScaling>(options)) return rates / linear->factor;
  if (const auto* llama = scaling_of<Llama3RotaryScaling>(options)) {
    const Array turns = rates * (static_cast<double>(llama->original_max_position_embeddings) / kTurn);
    return between((llama->high_freq_factor - turns) / (llama->high_freq_factor - llama->low_freq_factor),
                   llama->factor);
  }
  if (const auto* yarn = scaling_of<YarnRotaryScaling>(options)) {
    const auto [low, high] = ramp_of(*yarn, options.base, features);
    return between((pairs - low) / (high - low), yarn->factor);
  }
  return rates;
}

/// Cosines and sines. Within a trace. Positions: [rows] or [batch, rows].
std::vector<Array> tables_of(const Array& positions, std::int64_t features, const RotaryOptions& options,
                             DType dtype) {
  const Array angles = expand_dims(astype(positions, dtype), -1) * rates_of(features, options, dtype);
  const double factor = attention_factor(options);
  std::vector<Array> tables = {cos(angles), sin(angles)};
  if (factor != 1) {
    for (Array& table : tables) table = table * factor;
  }
  return tables;
}

/// Within a trace.
Array turned(const Array& x, const Array& cosines, const Array& sines, bool interleaved) {
  const Shape& shape = x.shape();
  const std::int64_t half = cosines.shape().back(), count = 2 * half;
  const DType wide = promote("rotary_embedding", std::vector<ElementType>{{at_least_f32(x.dtype()), false},
                                                                          {cosines.dtype(), false}})
                         .dtype;
  const Array c = expand_dims(cosines, -2), s = expand_dims(sines, -2);
  const Array all = astype(x, wide);
  auto part = [&](std::int64_t from, std::int64_t to) {
    if (from == 0 && to == shape[3]) return all;
    return slice(all, {0, 0, 0, from}, {shape[0], shape[1], shape[2], to});
  };
  const std::int64_t axis = interleaved ? 4 : 3;
  const Array own =
      interleaved ? reshape(part(0, count), {shape[0], shape[1], shape[2], half, 2}) : part(0, count);
  std::vector<Array> points = split(own, 2, axis);
  if (interleaved) {
    for (Array& each : points) each = squeeze(each, -1);
  }
  points = {points[0] * c - points[1] * s, points[1] * c + points[0] * s};
  Array result = interleaved ? reshape(stack(points, -1), {shape[0], shape[1], shape[2], count})
                             : concatenate(points, -1);
  if (count < shape[3]) result = concatenate({result, part(count, shape[3])}, -1);
  return astype(result, x.dtype());
}

std::string key_of(std::int64_t features, const RotaryOptions& options) {
  std::string key = fmt::format("{} {} {} {} {}", features, options.base, options.features,
                                options.interleaved, options.positions.has_value());
  if (const auto* linear = scaling_of<LinearRotaryScaling>(options))
    key += fmt::format(" linear {}", linear->factor);
  if (const auto* llama = scaling_of<Llama3RotaryScaling>(options)) {
    key += fmt::format(" llama3 {} {} {} {}", llama->factor, llama->low_freq_factor, llama->high_freq_factor,
                       llama->original_max_position_embeddings);
  }
  if (const auto* yarn = scaling_of<YarnRotaryScaling>(options)) {
    const auto [low, high] =
        ramp_of(*yarn, options.base, options.features == 0 ? features : options.features);
    key += fmt::format(" yarn {} {} {} {}", yarn->factor, low, high, attention_factor(options));
  }
  return key;
}

}  // namespace

Array rotary_embedding(const Operand& x, const RotaryOptions& options) {
  CallSiteScope here(x.site());
  check_rotated(x);
  const Shape& shape = x.shape();
  check_options(shape[3], options);
  std::vector<Array> operands = {x.as_array()};
  if (options.positions) {
    const Shape& positions = options.positions->shape();
    if (positions != Shape{shape[1]} && positions != Shape{shape[0], shape[1]}) {
      fail<ShapeError>("[rotary_embedding] expected positions of the rows of {}, [{}] or [{}, {}], got {}{}",
                       to_string(x.aval()), shape[1], shape[0], shape[1],
                       to_string(options.positions->aval()), ops::at());
    }
    operands.push_back(*options.positions);
  }
  const std::int64_t features = options.features == 0 ? shape[3] : options.features;
  return run_operation("rotary_embedding", key_of(shape[3], options), operands,
                       [&](std::span<const Array> t) {
                         const Array positions = options.positions ? t[1] : arange(t[0].shape()[1]);
                         const std::vector<Array> tables =
                             tables_of(positions, features, options, at_least_f32(t[0].dtype()));
                         return std::vector<Array>{turned(t[0], tables[0], tables[1], options.interleaved)};
                       })
      .front();
}

RotaryTables rotary_tables(std::int64_t rows, std::int64_t features, const RotaryOptions& options,
                           DType dtype, std::source_location where) {
  CallSiteScope here(CallSite::from(where));
  check_options(features, options);
  if (dtype != DType::kF32 && dtype != DType::kF64)
    fail<DTypeError>("[rotary_tables] expected f32 or f64, got {}{}", name(dtype), ops::at());
  std::vector<Array> operands;
  if (options.positions) {
    const Shape& shape = options.positions->shape();
    if (shape.empty() || shape.size() > 2 || shape.back() != rows) {
      fail<ShapeError>("[rotary_tables] expected positions of {} rows, [{}] or [batch, {}], got {}{}", rows,
                       rows, rows, to_string(options.positions->aval()), ops::at());
    }
    operands.push_back(*options.positions);
  }
  const std::int64_t turned = options.features == 0 ? features : options.features;
  const std::vector<Array> tables =
      run_operation("rotary_tables", fmt::format("{} {} {}", rows, key_of(features, options), name(dtype)),
                    operands, [&](std::span<const Array> t) {
                      return tables_of(options.positions ? t[0] : arange(rows), turned, options, dtype);
                    });
  return {tables[0], tables[1], options.interleaved};
}

Array rotary_embedding(const Operand& x, const RotaryTables& tables) {
  CallSiteScope here(x.site());
  check_rotated(x);
  const Shape &shape = x.shape(), &of = tables.cosines.shape();
  const bool fits = of == tables.sines.shape() && (of.size() == 2 || (of.size() == 3 && of[0] == shape[0])) &&
                    of[of.size() - 2] == shape[1] && 2 * of.back() <= shape[3];
  if (!fits) {
    fail<ShapeError>(
        "[rotary_embedding] expected tables of the rows of {}, [rows, features / 2] or [batch, rows, "
        "features "
        "/ 2], got {} and {}{}",
        to_string(x.aval()), to_string(tables.cosines.aval()), to_string(tables.sines.aval()), ops::at());
  }
  return ops::run("rotary_embedding_by_tables", tables.interleaved ? "interleaved" : "",
                  {x.as_array(), tables.cosines, tables.sines},
                  [&](ops::Tracers t) { return turned(t[0], t[1], t[2], tables.interleaved); });
}

}  // namespace lockstep::nn
