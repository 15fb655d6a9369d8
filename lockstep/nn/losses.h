// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/ops/creation.h"
#include "lockstep/ops/operand.h"

/// Losses, with optax's names. They return one loss for each example; the caller averages them. Operands of
/// f16, bf16 and 8 bits are computed in f32, and the result is rounded once.
namespace lockstep::nn {

using lockstep::one_hot;

struct IntegerLabelOptions {
  /// Examples with this label have loss 0 and no gradient. PyTorch's default and Hugging Face's data have
  /// -100. For the mean, divide by the number of other examples: sum(losses) / sum(labels != -100).
  std::optional<std::int64_t> ignore_index = {};
};

/// -log softmax(logits)[label], over the last dimension of the logits. Labels are integers, of the logits'
/// shape without the last dimension (or a shape that broadcasts to it). As in optax a negative label counts
/// from the end, and a label out of range gives NaN. Throws DTypeError for labels that are not integers,
/// ShapeError for scalar logits or labels that do not broadcast.
Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels,
                                                const IntegerLabelOptions& options = {});

/// -sum(labels * log softmax(logits)), over the last dimension. Labels are probabilities, of the logits'
/// shape.
Array softmax_cross_entropy(const Operand& logits, const Operand& labels);

/// -(label * log(sigmoid(logit)) + (1 - label) * log(1 - sigmoid(logit))), computed without overflow.
Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels);

/// (predictions - targets)², element by element.
Array squared_error(const Operand& predictions, const Operand& targets = 0.0);

/// squared_error / 2.
Array l2_loss(const Operand& predictions, const Operand& targets = 0.0);

/// error² / 2 for |error| <= delta, and linear beyond.
Array huber_loss(const Operand& predictions, const Operand& targets = 0.0, double delta = 1.0);

/// log(cosh(predictions - targets)).
Array log_cosh(const Operand& predictions, const Operand& targets = 0.0);

/// max(0, 1 - prediction * target), for targets -1 and 1.
Array hinge_loss(const Operand& predictions, const Operand& targets);

/// cosine_similarity: the cosine of the angle between vectors, which are along the last dimension; squared
/// lengths below epsilon count as epsilon. cosine_distance: 1 - cosine_similarity.
Array cosine_similarity(const Operand& predictions, const Operand& targets, double epsilon = 0);
Array cosine_distance(const Operand& predictions, const Operand& targets, double epsilon = 0);

/// sum(targets * (log(targets) - log_predictions)) over the last dimension.
Array kl_divergence(const Operand& log_predictions, const Operand& targets);

/// Connectionist temporal classification: -log(probability of the labels), the sum over all alignments of the
/// labels with the steps, with blanks between (Graves and others, 2006). logits are [batch, steps, classes].
/// labels are integers [batch, labels] that are not blank_id except where padded. The paddings, [batch,
/// steps] and [batch, labels], are 1 for padded positions, which are at the end, and 0 elsewhere. The result
/// is [batch], of the logits' dtype. The logarithm of probability 0 is about log_epsilon instead of
/// -infinity. Throws ShapeError for shapes that do not match, DTypeError for labels that are not integers.
Array ctc_loss(const Operand& logits, const Operand& logit_paddings, const Operand& labels,
               const Operand& label_paddings, std::int64_t blank_id = 0, double log_epsilon = -1e5);

/// (1 - alpha) * labels + alpha / classes.
Array smooth_labels(const Operand& labels, double alpha);

}  // namespace lockstep::nn
