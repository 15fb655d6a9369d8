// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/activations.h"
#include "lockstep/nn/losses.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/einsum.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/nested_call.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

using ops::Tracers;

void check(const Operand& logits, const Operand& logit_paddings, const Operand& labels,
           const Operand& label_paddings, std::int64_t blank_id) {
  const Shape &x = logits.shape(), &y = labels.shape();
  if (!is_integer(labels.type().dtype)) {
    fail<DTypeError>("[ctc_loss] expected labels of whole numbers, got {}{}", to_string(labels.aval()),
                     ops::at());
  }
  if (x.size() != 3 || y.size() != 2 || x[0] != y[0] || logit_paddings.shape() != Shape{x[0], x[1]} ||
      label_paddings.shape() != y) {
    fail<ShapeError>(
        "[ctc_loss] expected logits of [batch, steps, classes], labels of [batch, labels] and paddings of "
        "[batch, steps] and [batch, labels], got {}, {}, {} and {}{}",
        to_string(logits.aval()), to_string(labels.aval()), to_string(logit_paddings.aval()),
        to_string(label_paddings.aval()), ops::at());
  }
  if (blank_id < 0 || blank_id >= x[2]) {
    fail<ShapeError>("[ctc_loss] expected a blank that is one of the {} classes, got {}{}", x[2], blank_id,
                     ops::at());
  }
}

/// x moved by `places` to the end of the last dimension; the first ones are the value.
Array moved(const Array& x, std::int64_t places, const Operand& value) {
  const std::int64_t rows = x.shape()[0], columns = x.shape()[1];
  if (places >= columns) return full_like(x, value);
  return pad(slice(x, {0, 0}, {rows, columns - places}), {{0, 0}, {places, 0}}, value);
}

/// The labels with a blank before, between and after them: [batch, 2 labels + 1].
Array with_blanks(const Array& labels, std::int64_t blank_id) {
  const Array blanks = full_like(labels, blank_id);
  const Shape flat = {labels.shape()[0], 2 * labels.shape()[1]};
  const Array last = full({flat[0], 1}, blank_id, labels.dtype());
  return concatenate({reshape(stack({blanks, labels}, -1), flat), last}, 1);
}

}  // namespace

Array ctc_loss(const Operand& logits, const Operand& logit_paddings, const Operand& labels,
               const Operand& label_paddings, std::int64_t blank_id, double log_epsilon) {
  CallSiteScope here(logits.site());
  check(logits, logit_paddings, labels, label_paddings, blank_id);
  const ElementType type = to_inexact(logits.type());
  return ops::run(
      "ctc_loss", fmt::format("{} {}", blank_id, log_epsilon),
      {logits.as_array(type), logit_paddings.as_array(), labels.as_array(), label_paddings.as_array()},
      [&](Tracers t) {
        const Array x = ops::convert(t[0], {at_least_f32(type.dtype), type.weak}), &labels = t[2];
        const std::int64_t steps = x.shape()[1];
        const Array states = with_blanks(labels, blank_id);
        // The log-probability of each state's label in each step: [steps, batch, states].
        const Array emitted = transpose(
            einsum("btk,bsk->bts", {log_softmax(x), one_hot(states, x.shape()[2], x.dtype())}), {1, 0, 2});
        // A label may directly follow the previous one, without a blank, if they differ.
        const Array may_skip = logical_and(states != blank_id, states != moved(states, 2, blank_id));
        // The logarithms of the probabilities to be in each state; before the first step in the first.
        const Array first = one_hot(zeros({x.shape()[0]}, DType::kI32), states.shape()[1], x.dtype());
        const Array begin = (1.0 - first) * log_epsilon;
        auto step = [&](const std::vector<Array>& carry, const std::vector<Array>& elements) {
          const Array& before = carry[0];
          const Array skipping = where(may_skip, moved(before, 2, log_epsilon), log_epsilon);
          const Array reached =
              logaddexp(logaddexp(before, moved(before, 1, log_epsilon)), skipping) + elements[0];
          const Array padding = expand_dims(elements[1], -1);
          return std::vector<Array>{padding * before + (1.0 - padding) * reached};
        };
        const Array paddings = transpose(astype(t[1], x.dtype()));
        const Array last =
            lockstep::internal::scan_of_arrays("ctc_loss", {begin}, {emitted, paddings}, steps, step)[0];
        // The last label, or the blank after it.
        const Array count = sum(1.0 - astype(t[3], x.dtype()), {.axis = 1});
        const Array end = one_hot(astype(2.0 * count, DType::kI32), states.shape()[1], x.dtype());
        return ops::convert(-sum(end * logaddexp(last, moved(last, 1, log_epsilon)), {.axis = 1}), type);
      });
}

}  // namespace lockstep::nn
