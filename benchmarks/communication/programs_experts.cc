// SPDX-License-Identifier: Apache-2.0
// Mixtures of 8 experts: a token goes to the best one.

#include "benchmarks/communication/programs.h"

namespace communication {
namespace {

/// GShard's: groups of tokens, and products with one-hot tensors that tell a token's expert and place.
auto one_hot_experts(const Placed& at, std::int64_t capacity) {
  return [=](Array gate, Array w1, Array w2, Array x) {  // x is [groups, tokens, features]
    Array probabilities = ls::nn::softmax(ls::einsum("gsm,me->gse", {x, gate}));
    Array chosen = ls::one_hot(ls::argmax(probabilities, -1), 8);
    Array place = (ls::cumsum(chosen, 1) - 1) * chosen;
    Array kept = chosen * (place < capacity);
    Array slots = ls::one_hot(ls::astype(ls::sum(place, -1), ls::int32), capacity);
    Array dispatch =
        kept[{ls::ellipsis, ls::newaxis}] * slots[{ls::slice(), ls::slice(), ls::newaxis, ls::slice()}];
    Array combine =
        dispatch * ls::max(probabilities, -1)[{ls::slice(), ls::slice(), ls::newaxis, ls::newaxis}];
    Array given = at.constrain(ls::einsum("gsec,gsm->egcm", {dispatch, x}), P("expert"));
    Array hidden = ls::nn::relu(ls::einsum("egcm,emh->egch", {given, w1}));
    Array got = at.constrain(ls::einsum("egch,ehm->egcm", {hidden, w2}), P("expert"));
    return at.constrain(ls::einsum("gsec,egcm->gsm", {combine, got}), P("expert"));
  };
}

/// Tokens are sorted by their expert, and the first of each expert put into its rows of a buffer.
auto sorted_experts(const Placed& at, std::int64_t capacity) {
  return [=](Array gate, Array w1, Array w2, Array x) {  // x is [tokens, features]
    const std::int64_t tokens = x.shape()[0], features = x.shape()[1];
    Array probabilities = ls::nn::softmax(ls::matmul(x, gate));
    Array expert = ls::argmax(probabilities, -1);
    Array order = ls::argsort(expert);
    Array by_expert = expert[order];
    Array place = ls::arange(tokens) - ls::searchsorted(by_expert, ls::arange(8))[by_expert];
    Array given = ls::zeros({8, capacity, features}).at({by_expert, place}).set(x[order]);
    given = at.constrain(given, P("expert"));
    Array hidden = ls::nn::relu(ls::einsum("ecm,emh->ech", {given, w1}));
    Array got = at.constrain(ls::einsum("ech,ehm->ecm", {hidden, w2}), P("expert"));
    Array rows =
        got.at({by_expert, place}).get({.mode = ls::GatherScatterMode::kFillOrDrop, .fill_value = 0.0});
    Array result = ls::zeros_like(x).at(order).set(rows);
    result = result * ls::max(probabilities, -1)[{ls::slice(), ls::newaxis}];
    return at.constrain(result, P("expert"));
  };
}

template <class F>
Measured measure_experts(const Placed& at, const F& function, const ls::Shape& tokens,
                         const std::vector<P>& specs) {
  const P split("expert");
  return measure(at, function, specs, at({512, 8}), at({8, 512, 1024}, split), at({8, 1024, 512}, split),
                 at(tokens, split));
}

template <class Layer>
auto gradient_of(const Layer& layer) {
  return [layer](Array gate, Array w1, Array w2, Array x) {
    auto loss = [&](Array gate, Array w1, Array w2, Array x) { return mean_square(layer(gate, w1, w2, x)); };
    return ls::grad<0, 1, 2>(loss)(gate, w1, w2, x);
  };
}

const std::vector<P> kForward = {P("expert")}, kGradient = {P(), P("expert"), P("expert")};

Measured one_hot() {
  Placed at({{"expert", 8}});
  return measure_experts(at, one_hot_experts(at, 64), {8, 256, 512}, kForward);
}

Measured one_hot_gradient() {
  Placed at({{"expert", 8}});
  return measure_experts(at, gradient_of(one_hot_experts(at, 64)), {8, 256, 512}, kGradient);
}

Measured by_sort() {
  Placed at({{"expert", 8}});
  return measure_experts(at, sorted_experts(at, 512), {2048, 512}, kForward);
}

Measured by_sort_gradient() {
  Placed at({{"expert", 8}});
  return measure_experts(at, gradient_of(sorted_experts(at, 512)), {2048, 512}, kGradient);
}

}  // namespace

void add_experts(Programs& programs) {
  programs.insert(programs.end(), {{"experts by one-hot", one_hot},
                                   {"experts by one-hot, gradient", one_hot_gradient},
                                   {"experts by sort", by_sort},
                                   {"experts by sort, gradient", by_sort_gradient}});
}

}  // namespace communication
