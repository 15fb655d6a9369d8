// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/losses.h"

#include <functional>
#include <limits>
#include <numbers>

#include "lockstep/nn/activations.h"
#include "lockstep/nn/in_at_least_f32.h"
#include "lockstep/ops/apply.h"
#include "lockstep/ops/comparison.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/indexing.h"
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

/// As ops::elementwise for floating operands, computed in at least f32.
Array loss_of(const std::string& name, const std::string& key, std::initializer_list<const Operand*> operands,
              const std::function<Array(Tracers)>& compose) {
  return ops::elementwise(name, key, Meet::kInexact, operands,
                          [&](Tracers given) { return internal::in_at_least_f32(given, compose); });
}

/// NaN for labels out of range.
Array logit_of(const Array& logits, const Array& labels) {
  const std::int64_t classes = logits.shape().back();
  const bool is_signed = info(labels.dtype()).kind == DTypeKind::kSigned;
  const Array place = is_signed ? where(labels < 0, labels + classes, labels) : labels;
  const Array chosen =
      squeeze(take_along_axis(logits, expand_dims(place, -1), -1, GatherScatterMode::kClip), {-1});
  const Array outside = is_signed ? logical_or(place < 0, place >= classes) : place >= classes;
  return where(outside, std::numeric_limits<double>::quiet_NaN(), chosen);
}

}  // namespace

Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels,
                                                const IntegerLabelOptions& options) {
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
  examples.pop_back();
  const Aval avals[] = {labels.aval(), Aval{labels.type().dtype, examples, false, {}}};
  if (ops::broadcast_shapes(name, avals) != examples) {
    fail<ShapeError>("[{}] labels {} do not fit logits {}{}; expected a label for each example, of shape {}",
                     name, to_string(labels.aval()), to_string(logits.aval()), ops::at(),
                     to_string(examples));
  }
  const std::string key = options.ignore_index ? fmt::format("{}", *options.ignore_index) : "";
  return ops::run(name, key, {logits.as_array(), labels.as_array()}, [&](Tracers t) {
    const Array x = ops::convert(t[0], to_inexact({t[0].dtype(), t[0].aval().weak_type}));
    const Array each = broadcast_to(size_of(t[1].dtype()) < 4 ? astype(t[1], DType::kI32) : t[1], examples);
    return internal::in_at_least_f32(Tracers(&x, 1), [&](Tracers wide) {
      if (!options.ignore_index) return logsumexp(wide[0], -1) - logit_of(wide[0], each);
      const Array ignored = each == *options.ignore_index;
      return where(ignored, 0, logsumexp(wide[0], -1) - logit_of(wide[0], where(ignored, 0, each)));
    });
  });
}

Array softmax_cross_entropy(const Operand& logits, const Operand& labels) {
  CallSiteScope here(logits.site());
  check_classes("softmax_cross_entropy", logits);
  return ops::run("softmax_cross_entropy", "", {logits.as_array(), labels.as_array()}, [](Tracers t) {
    const ElementType types[] = {{t[0].dtype(), t[0].aval().weak_type},
                                 {t[1].dtype(), t[1].aval().weak_type}};
    const Array loss =
        -sum((is_inexact(types[1].dtype) ? ops::widened(t[1]) : t[1]) * log_softmax(ops::widened(t[0])), -1);
    return ops::convert(loss, to_inexact(promote("softmax_cross_entropy", types)));
  });
}

Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels) {
  return loss_of("sigmoid_binary_cross_entropy", "", {&logits, &labels},
                 [](Tracers t) { return t[1] * softplus(-t[0]) + (1.0 - t[1]) * softplus(t[0]); });
}

Array squared_error(const Operand& predictions, const Operand& targets) {
  return loss_of("squared_error", "", {&predictions, &targets},
                 [](Tracers t) { return square(t[0] - t[1]); });
}

Array l2_loss(const Operand& predictions, const Operand& targets) {
  return loss_of("l2_loss", "", {&predictions, &targets},
                 [](Tracers t) { return 0.5 * square(t[0] - t[1]); });
}

Array huber_loss(const Operand& predictions, const Operand& targets, double delta) {
  return loss_of("huber_loss", fmt::format("{}", delta), {&predictions, &targets}, [&](Tracers t) {
    Array error = abs(t[0] - t[1]), near = minimum(error, delta);
    return 0.5 * square(near) + delta * (error - near);
  });
}

Array log_cosh(const Operand& predictions, const Operand& targets) {
  return loss_of("log_cosh", "", {&predictions, &targets}, [](Tracers t) {
    Array error = t[0] - t[1];
    return logaddexp(error, -error) - std::numbers::ln2;
  });
}

Array hinge_loss(const Operand& predictions, const Operand& targets) {
  return loss_of("hinge_loss", "", {&predictions, &targets},
                 [](Tracers t) { return maximum(1.0 - t[0] * t[1], 0.0); });
}

Array cosine_similarity(const Operand& predictions, const Operand& targets, double epsilon) {
  return loss_of("cosine_similarity", fmt::format("{}", epsilon), {&predictions, &targets}, [&](Tracers t) {
    auto unit = [&](const Array& x) {
      Array squares = sum(square(x), {.axis = -1, .keepdims = true});
      return x / sqrt(maximum(squares, epsilon));
    };
    return sum(unit(t[0]) * unit(t[1]), -1);
  });
}

Array cosine_distance(const Operand& predictions, const Operand& targets, double epsilon) {
  return 1.0 - cosine_similarity(predictions, targets, epsilon);
}

Array kl_divergence(const Operand& log_predictions, const Operand& targets) {
  return loss_of("kl_divergence", "", {&log_predictions, &targets}, [](Tracers t) {
    Array logs = where(t[1] == 0, 0.0, log(where(t[1] == 0, 1.0, t[1])));
    return sum(t[1] * (logs - t[0]), -1);
  });
}

Array smooth_labels(const Operand& labels, double alpha) {
  return loss_of("smooth_labels", fmt::format("{}", alpha), {&labels}, [&](Tracers t) {
    const auto classes = static_cast<double>(t[0].shape().empty() ? 1 : t[0].shape().back());
    return (1 - alpha) * t[0] + alpha / classes;
  });
}

}  // namespace lockstep::nn
