// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "lockstep/onednn/computations.h"
#include "lockstep/onednn/library.h"
#include "lockstep/onednn/rows.h"

namespace lockstep::onednn {
namespace {

/// The rows of queries and the keys of a block of scores, which stays in a core's cache.
constexpr std::int64_t kRows = 128, kKeys = 256;
static_assert(kKeys % kRowMultiple == 0);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Memory of this thread.
float* scratch(int which, std::int64_t elements) {
  thread_local std::vector<float> all[7];
  std::vector<float>& memory = all[which];
  if (memory.size() < static_cast<std::size_t>(elements)) memory.resize(static_cast<std::size_t>(elements));
  return memory.data();
}

/// An array's rows for one example and key head, one for each key.
template <class T>
struct Keys {
  T* data;
  std::int64_t stride;
  T* at(std::int64_t key) const { return data + key * stride; }
};

template <class T>
Keys<T> keys_of(T* x, const Attention& a, std::int64_t example, std::int64_t key_head) {
  return {x + (example * a.keys * a.key_heads + key_head) * a.features, a.key_heads * a.features};
}

/// The keys from `first` to `end` hold all that a query sees; the mask may hide some of them. If it sees
/// none, all keys count the same. Scores are relative to the largest bias of the keys that it sees, so that
/// the logarithm of their powers' sum does not vanish beside it.
struct Seen {
  std::int64_t first, end;
  bool none;
  float highest_bias = 0;
};

Seen seen_by(const Attention& a, std::int64_t length, std::int64_t query) {
  const std::int64_t first = a.left < 0 ? 0 : std::max<std::int64_t>(0, query - a.left),
                     end = a.right < 0 ? length : std::min(length, query + a.right + 1);
  return first < end ? Seen{first, end, false} : Seen{0, a.keys, true};
}

/// The same with a query's row of the mask, of which successive keys are `stride` apart.
Seen seen_by(const Attention& a, Seen seen, const bool* mask, std::int64_t stride) {
  if (mask == nullptr || seen.none) return seen;
  while (seen.first < seen.end && !mask[seen.first * stride]) ++seen.first;
  while (seen.first < seen.end && !mask[(seen.end - 1) * stride]) --seen.end;
  return seen.first < seen.end ? seen : Seen{0, a.keys, true};
}

/// The largest bias of the keys that a query sees, with strides of 0 or 1.
float highest_bias(const Seen& seen, const float* bias, std::int64_t bias_stride, const bool* mask,
                   std::int64_t mask_stride) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  if (bias_stride == 0) return std::max(kLowest, *bias);
  // The compiler makes vectors of these.
  constexpr std::int64_t kLanes = 16;
  float highest[kLanes];
  std::fill_n(highest, kLanes, kLowest);
  const bool* const shown = mask_stride == 0 ? nullptr : mask;
  const auto add = [&](std::int64_t i, std::int64_t lane) {
    const float x = shown == nullptr || shown[i] ? bias[i] : kLowest;
    highest[lane] = x > highest[lane] ? x : highest[lane];
  };
  std::int64_t i = seen.first;
  for (; i + kLanes <= seen.end; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (; i < seen.end; ++i) add(i, 0);
  return *std::max_element(highest, highest + kLanes);
}

/// The part of a row of scores that holds those of the keys that its query sees, in whole vectors.
struct Vectors {
  float* row;
  std::size_t begin, end;

  std::size_t size() const { return end - begin; }
  float* data() const { return row + begin; }
  /// x is 0 outside.
  void clear_others(float* x, std::int64_t keys) const {
    std::fill(x, x + begin, 0.F);
    if (end < static_cast<std::size_t>(keys)) std::fill(x + end, x + keys, 0.F);
  }
};

/// Successive queries of one example, with the heads of one key head: a row for each query and head.
class Rows {
 public:
  Rows(const Attention& a, const AttentionOperands& x, std::int64_t example, std::int64_t key_head,
       std::int64_t first)
      : a_(a),
        x_(x),
        group_(a.heads / a.key_heads),
        example_(example),
        key_head_(key_head),
        first_(first),
        count_(std::min(queries_of_a_block(a), a.queries - first)),
        offset_(((example * a.queries + first) * a.key_heads + key_head) * group_ * a.features),
        logs_(((example * a.key_heads + key_head) * a.queries + first) * group_) {
    const std::int64_t length =
        x.lengths == nullptr ? a.keys : std::clamp<std::int64_t>(x.lengths[example], 0, a.keys);
    seen_.reserve(static_cast<std::size_t>(size()));
    for (std::int64_t row = 0; row < size(); ++row) {
      const bool* const mask = terms(x.mask, row);
      Seen seen = seen_by(a, seen_by(a, length, first + row / group_), mask, x.mask.strides[3]);
      if (x.bias.data != nullptr)
        seen.highest_bias =
            highest_bias(seen, terms(x.bias, row), x.bias.strides[3], mask, x.mask.strides[3]);
      begin_ = std::min(begin_, seen.first);
      end_ = std::max(end_, seen.end);
      seen_.push_back(seen);
    }
  }

  static std::int64_t queries_of_a_block(const Attention& a) {
    return std::max<std::int64_t>(1, kRows * a.key_heads / a.heads);
  }

  std::int64_t size() const { return count_ * group_; }
  /// All keys that its queries see are from begin() on, before end().
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  const Seen& seen(std::int64_t row) const { return seen_[static_cast<std::size_t>(row)]; }

  /// A row's terms, of all keys; null if there are none.
  template <class T>
  T* terms(const Terms<T>& all, std::int64_t row) const {
    if (all.data == nullptr) return nullptr;
    return all.at(example_, key_head_ * group_ + row % group_, first_ + row / group_);
  }

  /// The logs of its rows, which stand together.
  template <class T>
  T* logs(T* x) const {
    return x + logs_;
  }

  /// The rows of an array like the query, together.
  float* gathered(const float* x, int which) const {
    float* const out = scratch(which, size() * a_.features);
    for (std::int64_t i = 0; i < count_; ++i)
      std::copy_n(x + offset_ + i * a_.heads * a_.features, width(), out + i * width());
    return out;
  }
  float* gathered(const float* x, int which, float factor) const {
    float* const out = gathered(x, which);
    for (std::int64_t i = 0; i < size() * a_.features; ++i) out[i] *= factor;
    return out;
  }
  /// Back to their places.
  void scatter(const float* rows, float* x) const {
    for (std::int64_t i = 0; i < count_; ++i)
      std::copy_n(rows + i * width(), width(), x + offset_ + i * a_.heads * a_.features);
  }

  /// Adds the bias, and hides the scores of keys that the row does not see, of `keys` keys from `key` on.
  Vectors hidden(float* scores, std::int64_t row, std::int64_t key, std::int64_t keys) const {
    float* const x = scores + row * kKeys;
    const Seen& s = seen(row);
    const std::int64_t first = std::clamp<std::int64_t>(s.first - key, 0, keys),
                       end = std::clamp<std::int64_t>(s.end - key, 0, keys);
    if (first >= end) return {x, 0, 0};
    constexpr auto kMultiple = static_cast<std::int64_t>(kRowMultiple);
    const std::int64_t from = first / kMultiple * kMultiple,
                       to = (end + kMultiple - 1) / kMultiple * kMultiple;
    if (s.none)
      std::fill(x + first, x + end, 0.F);
    else
      apply_terms(x, s, row, key, first, end);
    std::fill(x + from, x + first, -kInfinity);
    std::fill(x + end, x + to, -kInfinity);
    return {x, static_cast<std::size_t>(from), static_cast<std::size_t>(to)};
  }

 private:
  std::int64_t width() const { return group_ * a_.features; }

  /// To the row's scores x of the keys from `key` on, of which those from `first` to `end` may be seen.
  void apply_terms(float* x, const Seen& s, std::int64_t row, std::int64_t key, std::int64_t first,
                   std::int64_t end) const {
    if (const float* const bias = terms(x_.bias, row)) {
      if (x_.bias.strides[3] == 0)
        for (std::int64_t i = first; i < end; ++i) x[i] = x[i] + *bias - s.highest_bias;
      else
        for (std::int64_t i = first; i < end; ++i) x[i] = x[i] + bias[key + i] - s.highest_bias;
    }
    // Where the mask is the same for all keys, the query sees all.
    const bool* const mask = terms(x_.mask, row);
    if (mask != nullptr && x_.mask.strides[3] != 0)
      for (std::int64_t i = first; i < end; ++i) x[i] = mask[key + i] ? x[i] : -kInfinity;
  }

  const Attention& a_;
  const AttentionOperands& x_;
  const std::int64_t group_, example_, key_head_, first_, count_, offset_, logs_;
  std::vector<Seen> seen_;
  std::int64_t begin_ = std::numeric_limits<std::int64_t>::max(), end_ = 0;
};

void attend_rows(const Attention& a, const Library& library, const Rows& rows, const float* query,
                 const Keys<const float>& key, const Keys<const float>& value, float* result, float* logs) {
  const std::int64_t f = a.features, count = rows.size();
  float* const queries = rows.gathered(query, 0, a.scale);
  float *const scores = scratch(1, count * kKeys), *const sums = scratch(2, count * f),
               *const highest = scratch(3, count), *const powers = scratch(4, count);
  std::fill_n(highest, count, -kInfinity);
  std::fill_n(powers, count, 0.F);
  for (std::int64_t begin = rows.begin(); begin < rows.end(); begin += kKeys) {
    const std::int64_t keys = std::min(kKeys, rows.end() - begin);
    const bool is_first = begin == rows.begin();
    sgemm(library, 'N', 'T', count, keys, f, queries, f, key.at(begin), key.stride, 0, scores, kKeys);
    for (std::int64_t i = 0; i < count; ++i) {
      const Vectors seen = rows.hidden(scores, i, begin, keys);
      seen.clear_others(seen.row, keys);
      const float before = highest[i];
      highest[i] = std::max(before, highest_of_row(seen.data(), seen.size()));
      const float sum = exp_row(seen.data(), seen.size(), highest[i] == -kInfinity ? 0 : highest[i]);
      const float factor = before == highest[i] ? 1 : std::exp(before - highest[i]);
      powers[i] = powers[i] * factor + sum;
      if (is_first || factor == 1) continue;
      for (std::int64_t c = 0; c < f; ++c) sums[i * f + c] *= factor;
    }
    sgemm(library, 'N', 'N', count, f, keys, scores, kKeys, value.at(begin), value.stride, is_first ? 0 : 1,
          sums, f);
  }
  float* const to_logs = rows.logs(logs);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < f; ++c) sums[i * f + c] /= powers[i];
    to_logs[i] = highest[i] + std::log(powers[i]);
  }
  rows.scatter(sums, result);
}

/// What these queries add to the cotangents of the keys and values; and the cotangents of the queries.
void attend_rows_backward(const Attention& a, const Library& library, const Rows& rows,
                          const AttentionResidual& x, const float* cotangent, const Keys<const float>& key,
                          const Keys<const float>& value, float* of_query, const Keys<float>& of_key,
                          const Keys<float>& of_value, const Terms<float>& of_bias) {
  const std::int64_t f = a.features, count = rows.size();
  const float *const queries = rows.gathered(x.operands.query, 0, a.scale),
                     *const given = rows.gathered(cotangent, 1), *const logs = rows.logs(x.logs);
  float *const scores = scratch(2, count * kKeys), *const cotangents = scratch(3, count * kKeys),
               *const means = scratch(4, count), *const to_query = scratch(6, count * f);
  const float* const results = rows.gathered(x.result, 5);
  for (std::int64_t i = 0; i < count; ++i) {
    means[i] = 0;
    for (std::int64_t c = 0; c < f; ++c) means[i] += given[i * f + c] * results[i * f + c];
  }
  for (std::int64_t begin = rows.begin(); begin < rows.end(); begin += kKeys) {
    const std::int64_t keys = std::min(kKeys, rows.end() - begin);
    sgemm(library, 'N', 'T', count, keys, f, queries, f, key.at(begin), key.stride, 0, scores, kKeys);
    sgemm(library, 'N', 'T', count, keys, f, given, f, value.at(begin), value.stride, 0, cotangents, kKeys);
    for (std::int64_t i = 0; i < count; ++i) {
      float* const of_row = cotangents + i * kKeys;
      const Vectors seen = rows.hidden(scores, i, begin, keys);
      if (seen.end > static_cast<std::size_t>(keys)) std::fill(of_row + keys, of_row + seen.end, 0.F);
      weights_of_row(seen.data(), of_row + seen.begin, seen.size(), logs[i], means[i]);
      seen.clear_others(seen.row, keys);
      seen.clear_others(of_row, keys);
      if (rows.seen(i).none) std::fill(of_row, of_row + keys, 0.F);
      float* const terms = rows.terms(of_bias, i);
      if (terms == nullptr) continue;
      if (of_bias.strides[3] == 0)
        *terms += std::accumulate(of_row, of_row + keys, 0.F);
      else
        for (std::int64_t j = 0; j < keys; ++j) terms[begin + j] += of_row[j];
    }
    sgemm(library, 'T', 'N', keys, f, count, scores, kKeys, given, f, 1, of_value.at(begin), of_value.stride);
    sgemm(library, 'T', 'N', keys, f, count, cotangents, kKeys, queries, f, 1, of_key.at(begin),
          of_key.stride);
    sgemm(library, 'N', 'N', count, f, keys, cotangents, kKeys, key.at(begin), key.stride,
          begin == rows.begin() ? 0 : 1, to_query, f);
  }
  for (std::int64_t i = 0; i < count * f; ++i) to_query[i] *= a.scale;
  rows.scatter(to_query, of_query);
}

}  // namespace

void attend(const Attention& a, const AttentionOperands& x, float* result, float* logs,
            const ForEach& for_each) {
  const Library& library = *find_library();
  const std::int64_t each = Rows::queries_of_a_block(a), blocks = (a.queries + each - 1) / each;
  for_each(a.batch * a.key_heads * blocks, [&](std::int64_t piece) {
    const OneThread one(library);
    // The last queries, which may see most keys, first.
    const std::int64_t block = blocks - 1 - piece / (a.batch * a.key_heads), key_head = piece % a.key_heads,
                       example = piece / a.key_heads % a.batch;
    attend_rows(a, library, Rows(a, x, example, key_head, block * each), x.query,
                keys_of(x.key, a, example, key_head), keys_of(x.value, a, example, key_head), result, logs);
  });
}

void attend_backward(const Attention& a, const AttentionResidual& x, const float* cotangent, float* of_query,
                     float* of_key, float* of_value, const Terms<float>& of_bias, const ForEach& for_each) {
  const Library& library = *find_library();
  const auto backward = [&](std::int64_t example, std::int64_t key_head) {
    const Keys<float> to_key = keys_of(of_key, a, example, key_head),
                      to_value = keys_of(of_value, a, example, key_head);
    for (std::int64_t i = 0; i < a.keys; ++i) {
      std::fill_n(to_key.at(i), a.features, 0.F);
      std::fill_n(to_value.at(i), a.features, 0.F);
    }
    for (std::int64_t first = 0; first < a.queries; first += Rows::queries_of_a_block(a))
      attend_rows_backward(a, library, Rows(a, x.operands, example, key_head, first), x, cotangent,
                           keys_of(x.operands.key, a, example, key_head),
                           keys_of(x.operands.value, a, example, key_head), of_query, to_key, to_value,
                           of_bias);
  };
  // Examples and heads that add to the same elements of the bias are one piece.
  const bool has_bias = of_bias.data != nullptr;
  if (has_bias) std::fill_n(of_bias.data, of_bias.elements, 0.F);
  const std::int64_t examples = has_bias && of_bias.strides[0] == 0 ? 1 : a.batch,
                     heads = has_bias && of_bias.strides[1] == 0 ? 1 : a.key_heads;
  for_each(examples * heads, [&](std::int64_t piece) {
    const OneThread one(library);
    for (std::int64_t example = piece / heads; example < a.batch; example += examples)
      for (std::int64_t head = piece % heads; head < a.key_heads; head += heads) backward(example, head);
  });
}

}  // namespace lockstep::onednn
