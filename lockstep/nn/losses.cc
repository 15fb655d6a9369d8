// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/losses.h"

#include <numbers>

#include "lockstep/nn/activations.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/shape.h"

namespace lockstep::nn {
namespace {

using ops::Meet;
using ops::Tracers;

void check_classes(std::string_view operation, const Operand& logits) {
  if (logits.shape().empty()) {
    fail<ShapeError>("[{}] expected logits with a last dimension of classes, got {}{}", operation,
                     to_string(logits.aval()), ops::at());
  }
}

}  // namespace

Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels) {
  CallSiteScope here(logits.site());
  const std::string name = "softmax_cross_entropy_with_integer_labels";
  check_classes(name, logits);
  if (!is_integer(labels.type().dtype)) {
    fail<DTypeError>(
        "[{}] expected whole numbers as labels, got {}{}; convert with astype, or use softmax_cross_entropy "
        "for probabilities",
        name, to_string(labels.aval()), ops::at());
  }
  Shape examples = logits.shape();
  const std::int64_t classes = examples.back();
  examples.pop_back();
  const Aval avals[] = {labels.aval(), Aval{labels.type().dtype, examples, false, {}}};
  if (ops::broadcast_shapes(name, avals) != examples) {
    fail<ShapeError>("[{}] labels {} do not fit logits {}{}; expected a label for each example, of shape {}",
                     name, to_string(labels.aval()), to_string(logits.aval()), ops::at(),
                     to_string(examples));
  }
  return ops::run(name, "", {logits.as_array(), labels.as_array()}, [&](Tracers t) {
    const ElementType type = to_inexact({t[0].dtype(), t[0].aval().weak_type});
    Array x = ops::convert(t[0], type);
    // Selected by comparison, not by a gather: so nothing moves if the classes are split over devices.
    Array chosen = one_hot(broadcast_to(t[1], examples), classes, DType::kBool);
    return logsumexp(x, -1) - sum(where(chosen, x, 0), -1);
  });
}

Array softmax_cross_entropy(const Operand& logits, const Operand& labels) {
  CallSiteScope here(logits.site());
  check_classes("softmax_cross_entropy", logits);
  return ops::run("softmax_cross_entropy", "", {logits.as_array(), labels.as_array()},
                  [](Tracers t) { return -sum(t[1] * log_softmax(t[0]), -1); });
}

Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels) {
  return ops::elementwise("sigmoid_binary_cross_entropy", "", Meet::kInexact, {&logits, &labels},
                          [](Tracers t) { return t[1] * softplus(-t[0]) + (1.0 - t[1]) * softplus(t[0]); });
}

Array squared_error(const Operand& predictions, const Operand& targets) {
  return ops::elementwise("squared_error", "", Meet::kInexact, {&predictions, &targets},
                          [](Tracers t) { return square(t[0] - t[1]); });
}

Array l2_loss(const Operand& predictions, const Operand& targets) {
  return ops::elementwise("l2_loss", "", Meet::kInexact, {&predictions, &targets},
                          [](Tracers t) { return 0.5 * square(t[0] - t[1]); });
}

Array huber_loss(const Operand& predictions, const Operand& targets, double delta) {
  return ops::elementwise("huber_loss", fmt::format("{}", delta), Meet::kInexact, {&predictions, &targets},
                          [&](Tracers t) {
                            Array error = abs(t[0] - t[1]), near = minimum(error, delta);
                            return 0.5 * square(near) + delta * (error - near);
                          });
}

Array log_cosh(const Operand& predictions, const Operand& targets) {
  return ops::elementwise("log_cosh", "", Meet::kInexact, {&predictions, &targets}, [](Tracers t) {
    Array error = t[0] - t[1];
    return logaddexp(error, -error) - std::numbers::ln2;
  });
}

Array hinge_loss(const Operand& predictions, const Operand& targets) {
  return ops::elementwise("hinge_loss", "", Meet::kInexact, {&predictions, &targets},
                          [](Tracers t) { return maximum(1.0 - t[0] * t[1], 0.0); });
}

Array cosine_similarity(const Operand& predictions, const Operand& targets, double epsilon) {
  return ops::elementwise("cosine_similarity", fmt::format("{}", epsilon), Meet::kInexact,
                          {&predictions, &targets}, [&](Tracers t) {
                            auto unit = [&](const Array& x) {
                              Array squares = sum(square(x), {.axis = -1, .keepdims = true});
                              return x / maximum(sqrt(squares), epsilon);
                            };
                            return sum(unit(t[0]) * unit(t[1]), -1);
                          });
}

Array cosine_distance(const Operand& predictions, const Operand& targets, double epsilon) {
  return 1.0 - cosine_similarity(predictions, targets, epsilon);
}

Array kl_divergence(const Operand& log_predictions, const Operand& targets) {
  return ops::elementwise("kl_divergence", "", Meet::kInexact, {&log_predictions, &targets}, [](Tracers t) {
    Array logs = where(t[1] == 0, 0.0, log(where(t[1] == 0, 1.0, t[1])));
    return sum(t[1] * (logs - t[0]), -1);
  });
}

Array smooth_labels(const Operand& labels, double alpha) {
  return ops::elementwise(
      "smooth_labels", fmt::format("{}", alpha), Meet::kInexact, {&labels}, [&](Tracers t) {
        const auto classes = static_cast<double>(t[0].shape().empty() ? 1 : t[0].shape().back());
        return (1 - alpha) * t[0] + alpha / classes;
      });
}

}  // namespace lockstep::nn
