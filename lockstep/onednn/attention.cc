// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
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

/// The keys from `first` to `end` that a query sees. If it sees none, all keys count the same.
struct Seen {
  std::int64_t first, end;
  bool none;
};

Seen seen_by(const Attention& a, std::int64_t length, std::int64_t query) {
  const std::int64_t first = a.left < 0 ? 0 : std::max<std::int64_t>(0, query - a.left),
                     end = a.right < 0 ? length : std::min(length, query + a.right + 1);
  return first < end ? Seen{first, end, false} : Seen{0, a.keys, true};
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
  Rows(const Attention& a, const std::int32_t* lengths, std::int64_t example, std::int64_t key_head,
       std::int64_t first)
      : a_(a),
        group_(a.heads / a.key_heads),
        first_(first),
        count_(std::min(queries_of_a_block(a), a.queries - first)),
        offset_(((example * a.queries + first) * a.key_heads + key_head) * group_ * a.features),
        logs_(((example * a.key_heads + key_head) * a.queries + first) * group_),
        length_(lengths == nullptr ? a.keys : std::clamp<std::int64_t>(lengths[example], 0, a.keys)) {
    for (std::int64_t i = 0; i < count_; ++i) {
      const Seen seen = seen_by(a, length_, first + i);
      begin_ = std::min(begin_, seen.first);
      end_ = std::max(end_, seen.end);
    }
  }

  static std::int64_t queries_of_a_block(const Attention& a) {
    return std::max<std::int64_t>(1, kRows * a.key_heads / a.heads);
  }

  std::int64_t size() const { return count_ * group_; }
  /// All keys that its queries see are from begin() on, before end().
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  Seen seen(std::int64_t row) const { return seen_by(a_, length_, first_ + row / group_); }

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

  /// Hides the scores of keys that the row does not see, of `keys` keys from `key` on.
  Vectors hidden(float* scores, std::int64_t row, std::int64_t key, std::int64_t keys) const {
    float* const x = scores + row * kKeys;
    const Seen s = seen(row);
    const std::int64_t first = std::clamp<std::int64_t>(s.first - key, 0, keys),
                       end = std::clamp<std::int64_t>(s.end - key, 0, keys);
    if (first >= end) return {x, 0, 0};
    constexpr auto kMultiple = static_cast<std::int64_t>(kRowMultiple);
    const std::int64_t from = first / kMultiple * kMultiple,
                       to = (end + kMultiple - 1) / kMultiple * kMultiple;
    if (s.none) std::fill(x + first, x + end, 0.F);
    std::fill(x + from, x + first, -kInfinity);
    std::fill(x + end, x + to, -kInfinity);
    return {x, static_cast<std::size_t>(from), static_cast<std::size_t>(to)};
  }

 private:
  std::int64_t width() const { return group_ * a_.features; }

  const Attention& a_;
  const std::int64_t group_, first_, count_, offset_, logs_, length_;
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
                          const Keys<float>& of_value) {
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
    attend_rows(a, library, Rows(a, x.lengths, example, key_head, block * each), x.query,
                keys_of(x.key, a, example, key_head), keys_of(x.value, a, example, key_head), result, logs);
  });
}

void attend_backward(const Attention& a, const AttentionResidual& x, const float* cotangent, float* of_query,
                     float* of_key, float* of_value, const ForEach& for_each) {
  const Library& library = *find_library();
  for_each(a.batch * a.key_heads, [&](std::int64_t piece) {
    const OneThread one(library);
    const std::int64_t example = piece / a.key_heads, key_head = piece % a.key_heads;
    const Keys<float> to_key = keys_of(of_key, a, example, key_head),
                      to_value = keys_of(of_value, a, example, key_head);
    for (std::int64_t i = 0; i < a.keys; ++i) {
      std::fill_n(to_key.at(i), a.features, 0.F);
      std::fill_n(to_value.at(i), a.features, 0.F);
    }
    for (std::int64_t first = 0; first < a.queries; first += Rows::queries_of_a_block(a))
      attend_rows_backward(a, library, Rows(a, x.operands.lengths, example, key_head, first), x, cotangent,
                           keys_of(x.operands.key, a, example, key_head),
                           keys_of(x.operands.value, a, example, key_head), of_query, to_key, to_value);
  });
}

}  // namespace lockstep::onednn
