#pragma once

#include "lockstep/ops/creation.h"
#include "lockstep/ops/operand.h"

/// Losses, with optax's names: one for each example, to be averaged by the caller.
namespace lockstep::nn {

using lockstep::one_hot;

/// -log softmax(logits)[label], over the last dimension of the logits. Labels are whole numbers, of the
/// logits' shape without the last dimension (or one that broadcasts to it); a label that is not a class gives
/// logsumexp(logits). Throws DTypeError for labels that are not whole numbers, ShapeError for logits without
/// dimensions or labels that do not broadcast.
Array softmax_cross_entropy_with_integer_labels(const Operand& logits, const Operand& labels);

/// -sum(labels * log softmax(logits)), over the last dimension; labels are probabilities, of the logits'
/// shape.
Array softmax_cross_entropy(const Operand& logits, const Operand& labels);

/// log(1 + exp(-logit)) for label 1, log(1 + exp(logit)) for label 0, and between.
Array sigmoid_binary_cross_entropy(const Operand& logits, const Operand& labels);

/// (predictions - targets)², element by element.
Array squared_error(const Operand& predictions, const Operand& targets = 0.0);

/// Half of it.
Array l2_loss(const Operand& predictions, const Operand& targets = 0.0);

/// Half of the square of the error up to delta, beyond it linear.
Array huber_loss(const Operand& predictions, const Operand& targets = 0.0, double delta = 1.0);

/// log(cosh(predictions - targets)).
Array log_cosh(const Operand& predictions, const Operand& targets = 0.0);

/// max(0, 1 - prediction * target), of targets -1 and 1.
Array hinge_loss(const Operand& predictions, const Operand& targets);

/// The cosine of the angle between vectors, which stand in the last dimension; each is taken at least epsilon
/// long. And 1 less it.
Array cosine_similarity(const Operand& predictions, const Operand& targets, double epsilon = 0);
Array cosine_distance(const Operand& predictions, const Operand& targets, double epsilon = 0);

/// sum(targets * (log(targets) - log_predictions)) over the last dimension.
Array kl_divergence(const Operand& log_predictions, const Operand& targets);

/// Connectionist temporal classification: -log(probability of the labels), the sum over all ways to spread
/// them over the steps with blanks between (Graves and others, 2006). logits are [batch, steps, classes],
/// labels whole numbers, [batch, labels], other than blank_id where they count; paddings, [batch, steps] and
/// [batch, labels], are 1 where there is no step and no label, at the end, else 0. The result is [batch], of
/// the logits' dtype. What is impossible has, in place of -infinity, a logarithm of about log_epsilon. Throws
/// ShapeError for shapes that do not fit, DTypeError for labels that are not whole numbers.
Array ctc_loss(const Operand& logits, const Operand& logit_paddings, const Operand& labels,
               const Operand& label_paddings, std::int64_t blank_id = 0, double log_epsilon = -1e5);

/// (1 - alpha) * labels + alpha / classes.
Array smooth_labels(const Operand& labels, double alpha);

}  // namespace lockstep::nn
