// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/library.h"
#include "lockstep/onednn/plan.h"
#include "lockstep/onednn/rows.h"

namespace lockstep::onednn {
namespace {

/// The queries and keys of a block of scores, which stays in a core's cache.
constexpr std::int64_t kQueries = 128, kKeys = 256;
static_assert(kKeys % kRowMultiple == 0);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// An operand's rows of one example and head.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  T* at(std::int64_t row) const { return data + row * stride; }
};

template <class T>
Rows<T> rows(T* x, const Attention& a, std::int64_t heads, std::int64_t example, std::int64_t head) {
  return {x + (example * a.length * heads + head) * a.features, heads * a.features};
}

/// Memory of this thread.
std::span<float> scratch(int which, std::int64_t elements) {
  thread_local std::vector<float> all[4];
  std::vector<float>& memory = all[which];
  if (memory.size() < static_cast<std::size_t>(elements)) memory.resize(static_cast<std::size_t>(elements));
  return {memory.data(), static_cast<std::size_t>(elements)};
}

/// A block of scores: of queries from `query` on and keys from `key` on.
struct Block {
  std::int64_t query, queries, key, keys;

  /// Of a row, the elements up to the end of the last vector.
  std::size_t width() const {
    return (static_cast<std::size_t>(keys) + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  }
  /// Row i without the keys that it does not see.
  float* seen(std::span<float> scores, std::int64_t i) const {
    float* const row = scores.data() + i * kKeys;
    const std::int64_t visible = std::clamp<std::int64_t>(query + i + 1 - key, 0, keys);
    std::fill(row + visible, row + width(), -kInfinity);
    return row;
  }
};

/// `count` queries from `first` on, times the scale, without gaps.
const float* scaled(const Attention& a, const Rows<const float>& query, std::int64_t first,
                    std::int64_t count) {
  float* const out = scratch(3, kQueries * a.features).data();
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t c = 0; c < a.features; ++c) out[i * a.features + c] = query.at(first + i)[c] * a.scale;
  return out;
}

/// The result of the queries from `first` on, and their logs.
void attend_rows(const Attention& a, const Library& library, std::int64_t first,
                 const Rows<const float>& query, const Rows<const float>& key, const Rows<const float>& value,
                 const Rows<float>& result, float* logs, std::int64_t stride_of_logs) {
  const std::int64_t count = std::min(kQueries, a.length - first), f = a.features;
  const std::span<float> scores = scratch(0, kQueries * kKeys), sums = scratch(1, kQueries * f);
  const float* const queries = scaled(a, query, first, count);
  float highest[kQueries], powers[kQueries];
  std::fill_n(highest, count, -kInfinity);
  std::fill_n(powers, count, 0.F);
  for (std::int64_t begin = 0; begin < first + count; begin += kKeys) {
    const Block block{first, count, begin, std::min(kKeys, first + count - begin)};
    sgemm(library, 'N', 'T', count, block.keys, f, queries, f, key.at(begin), key.stride, 0, scores.data(),
          kKeys);
    for (std::int64_t i = 0; i < count; ++i) {
      float* const row = block.seen(scores, i);
      const float before = highest[i];
      highest[i] = std::max(before, highest_of_row(row, block.width()));
      const float sum = exp_row(row, block.width(), highest[i]);
      const float factor = begin == 0 ? 0 : std::exp(before - highest[i]);
      powers[i] = powers[i] * factor + sum;
      if (begin == 0 || factor == 1) continue;
      for (std::int64_t c = 0; c < f; ++c) sums[static_cast<std::size_t>(i * f + c)] *= factor;
    }
    sgemm(library, 'N', 'N', count, f, block.keys, scores.data(), kKeys, value.at(begin), value.stride,
          begin == 0 ? 0 : 1, sums.data(), f);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    float* const out = result.at(first + i);
    for (std::int64_t c = 0; c < f; ++c) out[c] = sums[static_cast<std::size_t>(i * f + c)] / powers[i];
    logs[(first + i) * stride_of_logs] = highest[i] + std::log(powers[i]);
  }
}

void clear(const Attention& a, const Rows<float>& x) {
  for (std::int64_t i = 0; i < a.length; ++i) std::fill_n(x.at(i), a.features, 0.F);
}

}  // namespace

void attend(const Attention& a, const float* query, const float* key, const float* value, float* result,
            float* logs, const ForEach& for_each) {
  const Library& library = *find_library();
  const std::int64_t blocks = (a.length + kQueries - 1) / kQueries, group = a.heads / a.key_heads;
  for_each(a.batch * a.heads * blocks, [&](std::int64_t piece) {
    const OneThread one(library);
    // The last rows, which take longest, first.
    const std::int64_t block = blocks - 1 - piece / (a.batch * a.heads), head = piece % a.heads,
                       example = piece / a.heads % a.batch, key_head = head / group;
    attend_rows(a, library, block * kQueries, rows(query, a, a.heads, example, head),
                rows(key, a, a.key_heads, example, key_head), rows(value, a, a.key_heads, example, key_head),
                rows(result, a, a.heads, example, head),
                logs + (example * a.key_heads + key_head) * a.length * group + head % group, group);
  });
}

void attend_backward(const Attention& a, const AttentionResidual& x, const float* cotangent, float* of_query,
                     float* of_key, float* of_value, const ForEach& for_each) {
  const Library& library = *find_library();
  const std::int64_t group = a.heads / a.key_heads, f = a.features;
  for_each(a.batch * a.key_heads, [&](std::int64_t piece) {
    const OneThread one(library);
    const std::int64_t example = piece / a.key_heads, key_head = piece % a.key_heads;
    const auto key = rows(x.key, a, a.key_heads, example, key_head),
               value = rows(x.value, a, a.key_heads, example, key_head);
    const auto to_key = rows(of_key, a, a.key_heads, example, key_head),
               to_value = rows(of_value, a, a.key_heads, example, key_head);
    clear(a, to_key);
    clear(a, to_value);
    const std::span<float> scores = scratch(0, kQueries * kKeys), cotangents = scratch(1, kQueries * kKeys),
                           means = scratch(2, a.length);
    for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
      const auto query = rows(x.query, a, a.heads, example, head),
                 result = rows(x.result, a, a.heads, example, head),
                 given = rows(cotangent, a, a.heads, example, head);
      const auto to_query = rows(of_query, a, a.heads, example, head);
      const float* const logs = x.logs + (example * a.key_heads + key_head) * a.length * group + head % group;
      clear(a, to_query);
      for (std::int64_t i = 0; i < a.length; ++i) {
        float sum = 0;
        for (std::int64_t c = 0; c < f; ++c) sum += given.at(i)[c] * result.at(i)[c];
        means[static_cast<std::size_t>(i)] = sum;
      }
      for (std::int64_t first = 0; first < a.length; first += kQueries) {
        const std::int64_t count = std::min(kQueries, a.length - first);
        const float* const queries = scaled(a, query, first, count);
        for (std::int64_t begin = 0; begin < first + count; begin += kKeys) {
          const Block block{first, count, begin, std::min(kKeys, first + count - begin)};
          sgemm(library, 'N', 'T', count, block.keys, f, queries, f, key.at(begin), key.stride, 0,
                scores.data(), kKeys);
          sgemm(library, 'N', 'T', count, block.keys, f, given.at(first), given.stride, value.at(begin),
                value.stride, 0, cotangents.data(), kKeys);
          for (std::int64_t i = 0; i < count; ++i) {
            float* const of_row = cotangents.data() + i * kKeys;
            std::fill(of_row + block.keys, of_row + block.width(), 0.F);
            weights_of_row(block.seen(scores, i), of_row, block.width(), logs[(first + i) * group],
                           means[static_cast<std::size_t>(first + i)]);
          }
          sgemm(library, 'T', 'N', block.keys, f, count, scores.data(), kKeys, given.at(first), given.stride,
                1, to_value.at(begin), to_value.stride);
          sgemm(library, 'T', 'N', block.keys, f, count, cotangents.data(), kKeys, queries, f, 1,
                to_key.at(begin), to_key.stride);
          sgemm(library, 'N', 'N', count, f, block.keys, cotangents.data(), kKeys, key.at(begin), key.stride,
                1, to_query.at(first), to_query.stride);
        }
        for (std::int64_t i = first; i < first + count; ++i)
          for (std::int64_t c = 0; c < f; ++c) to_query.at(i)[c] *= a.scale;
      }
    }
  });
}

}  // namespace lockstep::onednn
