// SPDX-License-Identifier: Apache-2.0
#include "lockstep/program/primitives/fft_of_parts.h"

#include <algorithm>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/program/primitives/complex.h"
#include "lockstep/program/primitives/elementwise.h"
#include "lockstep/program/primitives/rules.h"
#include "lockstep/program/primitives/shape.h"

namespace lockstep::ir {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr int kWhole = ShardingRule::kWhole;

bool is_real(FftType type) { return type == FftType::kRfft || type == FftType::kIrfft; }
bool is_inverse(FftType type) { return type == FftType::kIfft || type == FftType::kIrfft; }
FftType complex_type(FftType type) { return is_inverse(type) ? FftType::kIfft : FftType::kFft; }

/// A transform over several dimensions, some of them split.
class PencilFft {
 public:
  PencilFft(const FftParams& params, const ShardingRule& rule, const PartPlaces& places)
      : type_(static_cast<FftType>(params.type)),
        lengths_(params.lengths),
        places_(places),
        last_(rule.operands[0].size() - 1),
        first_(last_ + 1 - lengths_.size()) {
    for (int factor : rule.operands[0])
      splits_.push_back(factor != kWhole && places.is_split(factor) ? factor : kWhole);
    for (std::size_t d = first_; d <= last_; ++d) {
      todo_.push_back(d);
      const int factor = splits_[d];
      if (factor == kWhole) continue;
      const std::vector<int>& results = rule.results[0];
      goals_.push_back(
          {factor, static_cast<std::size_t>(std::ranges::find(results, factor) - results.begin())});
    }
  }

  Value run(const Value& x) {
    x_ = x;
    for (std::size_t d = 0; d <= last_; ++d)
      sizes_.push_back(x.aval().shape[d] * (splits_[d] == kWhole ? 1 : places_.num_parts(splits_[d])));
    while (!todo_.empty()) {
      if (const std::vector<std::size_t> dimensions = ready(); !dimensions.empty())
        transform(dimensions);
      else
        make_one_whole();
    }
    while (bring_one_to_its_goal()) {
    }
    for (int factor : gathered_) take_own_part(factor);
    return *x_;
  }

 private:
  struct Goal {
    int factor;
    std::size_t dimension;  ///< of the result
  };

  bool is_todo(std::size_t d) const { return std::ranges::find(todo_, d) != todo_.end(); }
  bool is_whole(std::size_t d) const { return splits_[d] == kWhole; }
  std::size_t goal_of(int factor) const {
    return std::ranges::find(goals_, factor, &Goal::factor)->dimension;
  }

  /// The inverse real transform ends with its last dimension.
  bool waits(std::size_t d) const { return type_ == FftType::kIrfft && d == last_ && todo_.size() > 1; }

  /// The dimensions that can be transformed now.
  std::vector<std::size_t> ready() const {
    std::vector<std::size_t> dimensions;
    for (std::size_t d : todo_)
      if (is_whole(d)) dimensions.push_back(d);
    if (type_ == FftType::kIrfft && dimensions.size() != todo_.size()) std::erase(dimensions, last_);
    return dimensions;
  }

  void transform(const std::vector<std::size_t>& dimensions) {
    const bool with_last = dimensions.back() == last_;
    Integers order, back(last_ + 1), lengths;
    for (std::size_t d = 0; d <= last_; ++d)
      if (std::ranges::find(dimensions, d) == dimensions.end()) order.push_back(static_cast<std::int64_t>(d));
    for (std::size_t d : dimensions) {
      order.push_back(static_cast<std::int64_t>(d));
      lengths.push_back(lengths_[d - first_]);
      std::erase(todo_, d);
    }
    for (std::size_t i = 0; i < order.size(); ++i)
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    const Value done = lax::fft(lax::transpose(*x_, order), with_last ? type_ : complex_type(type_), lengths);
    x_ = lax::transpose(done, back);
    if (with_last) sizes_[last_] = x_->aval().shape[last_];
  }

  /// Makes a dimension whole that is to be transformed: if possible by splitting its goal.
  void make_one_whole() {
    for (std::size_t d : todo_) {
      if (waits(d) || is_whole(d)) continue;
      const std::size_t goal = goal_of(splits_[d]);
      if (is_whole(goal) && !is_todo(goal)) return exchange(d, goal);
    }
    const std::size_t d = *std::ranges::find_if(todo_, [&](std::size_t each) { return !waits(each); });
    if (const std::optional<std::size_t> other = any_whole(splits_[d])) return exchange(d, *other);
    gather(d);
  }

  /// A dimension that these axes can split for a while: if there is one, one that they split evenly.
  std::optional<std::size_t> any_whole(int factor) const {
    std::optional<std::size_t> found;
    for (const bool is_divided : {true, false}) {
      for (std::size_t d = 0; d <= last_ && !found; ++d)
        if (is_whole(d) && (!is_divided || sizes_[d] % places_.num_parts(factor) == 0)) found = d;
    }
    return found;
  }

  /// The axes that split dimension `from` split `to` instead, which is padded with zeros to a multiple.
  void exchange(std::size_t from, std::size_t to) {
    const int factor = std::exchange(splits_[from], kWhole);
    splits_[to] = factor;
    const std::int64_t parts = places_.num_parts(factor);
    resize(to, (sizes_[to] + parts - 1) / parts * parts);
    x_ = places_.all_to_all(*x_, to, from, factor);
    resize(from, sizes_[from]);
  }

  void gather(std::size_t d) {
    gathered_.push_back(splits_[d]);
    x_ = places_.all_gather(*x_, d, std::exchange(splits_[d], kWhole));
    resize(d, sizes_[d]);
  }

  void resize(std::size_t d, std::int64_t size) {
    const Shape& shape = x_->aval().shape;
    if (shape[d] == size) return;
    Integers high(shape.size()), none(shape.size());
    high[d] = size - shape[d];
    x_ = lax::pad(*x_, rules::zeros(*x_, {x_->aval().dtype, {}}), none, high, none);
  }

  bool bring_one_to_its_goal() {
    std::optional<std::size_t> waiting;
    for (const Goal& goal : goals_) {
      const auto at = std::ranges::find(splits_, goal.factor);
      if (at == splits_.end() || splits_[goal.dimension] == goal.factor) continue;
      waiting = static_cast<std::size_t>(at - splits_.begin());
      if (!is_whole(goal.dimension)) continue;
      exchange(*waiting, goal.dimension);
      return true;
    }
    if (!waiting) return false;
    // Each waits for another one to make room.
    if (const std::optional<std::size_t> other = any_whole(splits_[*waiting]))
      exchange(*waiting, *other);
    else
      gather(*waiting);
    return true;
  }

  void take_own_part(int factor) {
    const std::size_t d = goal_of(factor);
    Shape part = x_->aval().shape;
    const DType dtype = place_dtype(part[d]);
    part[d] /= places_.num_parts(factor);
    const Value number = places_.number(factor, dtype);
    std::vector<Value> starts(part.size(), lax::full_like(number, 0));
    starts[d] = lax::mul(number, lax::full_like(number, static_cast<double>(part[d])));
    x_ = lax::dynamic_slice(*x_, std::span<const Value>(starts), part);
  }

  const FftType type_;
  const Integers& lengths_;
  const PartPlaces& places_;
  const std::size_t last_, first_;  ///< dimensions of the transform
  std::vector<int> splits_;         ///< the factor that splits each dimension now
  std::vector<Goal> goals_;
  std::vector<std::size_t> todo_;  ///< the dimensions that are not transformed yet
  std::vector<int> gathered_;      ///< factors that split no dimension any more
  std::optional<Value> x_;
  Integers sizes_;  ///< of the dimensions, without padding, of all devices together
};

/// The transform over the only dimension, of N = p m elements. With n = n1 m + n2 and k = k1 + p k2:
///   X[k] = sum over n2 of w(n2 k2 / m) w(n2 k1 / N) (sum over n1 of w(n1 k1 / p) x[n]), w(t) = exp(-2 pi i
///   t).
Value six_step_fft(const Value& part, FftType type, int factor, const PartPlaces& places) {
  const std::int64_t p = places.num_parts(factor), m = part.aval().shape[0], n = p * m;
  if (m % p != 0) {
    const Value whole = lax::fft(places.all_gather(part, 0, factor), type, {n});
    const Value start[] = {places.start(factor, place_dtype(n))};
    return lax::dynamic_slice(whole, std::span<const Value>(start), {m});
  }
  const DType integer = place_dtype(n), real = real_dtype(part.aval().dtype);
  const auto turned = [&](const Value& x) { return lax::transpose(x, {1, 0}); };
  // All n1, for this device's share of n2.
  const Value columns = places.all_to_all(lax::reshape(part, {1, m}), 1, 0, factor);
  const Value over_k1 = lax::fft(turned(columns), type, {p});  // [n2, k1]
  const Shape shape = over_k1.aval().shape;
  const Value number = places.number(factor, integer);
  const Value first = lax::mul(number, lax::full_like(number, static_cast<double>(m / p)));
  const Value n2 = lax::add(lax::iota(part, integer, shape, 0), lax::broadcast_in_dim(first, shape, {}));
  const Value turns = lax::convert_element_type(lax::mul(n2, lax::iota(part, integer, shape, 1)), real);
  const double step = (is_inverse(type) ? 2 : -2) * std::numbers::pi / static_cast<double>(n);
  const Value angle = lax::mul(turns, lax::full_like(turns, step));
  const Value twiddled = lax::mul(over_k1, lax::complex(lax::cos(angle), lax::sin(angle)));
  // All n2, for this device's k1; then all k1, for its share of k2.
  const Value row = lax::reshape(places.all_to_all(twiddled, 1, 0, factor), {m});
  const Value over_k2 = lax::reshape(lax::fft(row, type, {m}), {1, m});
  return lax::reshape(turned(places.all_to_all(over_k2, 1, 0, factor)), {m});
}

/// Whether the axes that split one of these dimensions can mostly split the others, too.
bool have_common_divisors(std::span<const std::int64_t> sizes) {
  std::int64_t common = 0;
  for (std::int64_t size : sizes) common = std::gcd(common, size);
  return 2 * common >= std::ranges::min(sizes);
}

/// What a device receives of a dimension of so many elements in these all-to-alls.
std::function<Exchanged(std::size_t, std::int64_t)> by_all_to_all(std::int64_t size, std::int64_t times) {
  return [=](std::size_t, std::int64_t parts) {
    return Exchanged{times * (size / parts - size / parts / parts), times};
  };
}

}  // namespace

ShardingRule fft_rule(std::span<const Aval> inputs, std::span<const Aval> outputs, const FftParams& params) {
  const Shape& shape = inputs[0].shape;
  const auto type = static_cast<FftType>(params.type);
  const std::size_t first = shape.size() - params.lengths.size();
  ShardingRule rule = rules::keeping(inputs, outputs, [first](std::size_t d) { return d < first; });
  if (params.lengths.size() == 1) {
    if (first > 0 || is_real(type)) return rule;
    rule.factors.push_back({.size = shape[0], .exchanged = by_all_to_all(shape[0], 3)});
    rule.operands[0][0] = rule.results[0][0] = 0;
    rule.write = [type](const OpParams&, std::span<const Value> operands,
                        const PartPlaces& places) -> std::vector<Value> {
      return {six_step_fft(operands[0], type, 0, places)};
    };
    return rule;
  }
  const std::size_t count = params.lengths.size() - (is_real(type) ? 1 : 0);
  const bool moves = count > 1 && have_common_divisors(std::span(shape).subspan(first, count));
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t goal = !moves ? i : (i + (is_inverse(type) ? count - 1 : 1)) % count;
    rule.operands[0][first + i] = rule.results[0][first + goal] = static_cast<int>(rule.factors.size());
    rule.factors.push_back({.size = std::gcd(shape[first + i], shape[first + goal]),
                            .exchanged = by_all_to_all(shape[first + i], moves ? 1 : 2),
                            .may_move = true});
  }
  rule.write = [params, dimensions = ShardingRule{{}, rule.operands, rule.results}](
                   const OpParams&, std::span<const Value> operands,
                   const PartPlaces& places) -> std::vector<Value> {
    return {PencilFft(params, dimensions, places).run(operands[0])};
  };
  return rule;
}

}  // namespace lockstep::ir
