// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {

void add_neural(Functions& all) {
  all["nn::relu"] = [](const Arrays& a) { return Arrays{nn::relu(a[0])}; };
  all["nn::relu6"] = [](const Arrays& a) { return Arrays{nn::relu6(a[0])}; };
  all["nn::softplus"] = [](const Arrays& a) { return Arrays{nn::softplus(a[0])}; };
  all["nn::silu"] = [](const Arrays& a) { return Arrays{nn::silu(a[0])}; };
  all["nn::gelu"] = [](const Arrays& a) { return Arrays{nn::gelu(a[0])}; };
  all["nn::elu"] = [](const Arrays& a) { return Arrays{nn::elu(a[0])}; };
  all["nn::selu"] = [](const Arrays& a) { return Arrays{nn::selu(a[0])}; };
  all["nn::celu"] = [](const Arrays& a) { return Arrays{nn::celu(a[0])}; };
  all["nn::leaky_relu"] = [](const Arrays& a) { return Arrays{nn::leaky_relu(a[0])}; };
  all["nn::soft_sign"] = [](const Arrays& a) { return Arrays{nn::soft_sign(a[0])}; };
  all["nn::log_sigmoid"] = [](const Arrays& a) { return Arrays{nn::log_sigmoid(a[0])}; };
  all["nn::hard_tanh"] = [](const Arrays& a) { return Arrays{nn::hard_tanh(a[0])}; };
  all["nn::hard_sigmoid"] = [](const Arrays& a) { return Arrays{nn::hard_sigmoid(a[0])}; };
  all["nn::hard_silu"] = [](const Arrays& a) { return Arrays{nn::hard_silu(a[0])}; };
  all["nn::mish"] = [](const Arrays& a) { return Arrays{nn::mish(a[0])}; };
  all["nn::squareplus"] = [](const Arrays& a) { return Arrays{nn::squareplus(a[0])}; };
  all["nn::glu"] = [](const Arrays& a) { return Arrays{nn::glu(a[0])}; };
  all["nn::sparse_plus"] = [](const Arrays& a) { return Arrays{nn::sparse_plus(a[0])}; };
  all["nn::sparse_sigmoid"] = [](const Arrays& a) { return Arrays{nn::sparse_sigmoid(a[0])}; };
  all["nn::softmax"] = [](const Arrays& a) { return Arrays{nn::softmax(a[0])}; };
  all["nn::log_softmax"] = [](const Arrays& a) { return Arrays{nn::log_softmax(a[0])}; };
  all["nn::standardize"] = [](const Arrays& a) { return Arrays{nn::standardize(a[0])}; };
  all["nn::gelu(exact)"] = [](const Arrays& a) { return Arrays{nn::gelu(a[0], false)}; };
  all["nn::softmax(axis=0)"] = [](const Arrays& a) { return Arrays{nn::softmax(a[0], 0)}; };
  all["nn::one_hot"] = [](const Arrays& a) { return Arrays{nn::one_hot(a[0], 6)}; };
  all["nn::layer_norm"] = [](const Arrays& a) { return Arrays{nn::layer_norm(a[0], a[1], a[2])}; };
  all["nn::rms_norm"] = [](const Arrays& a) { return Arrays{nn::rms_norm(a[0], a[1])}; };
  all["nn::dot_product_attention"] = [](const Arrays& a) {
    return Arrays{nn::dot_product_attention(a[0], a[1], a[2])};
  };
  all["nn::dot_product_attention(causal)"] = [](const Arrays& a) {
    return Arrays{nn::dot_product_attention(a[0], a[1], a[2], {.is_causal = true})};
  };
  all["nn::dot_product_attention(mask)"] = [](const Arrays& a) {
    return Arrays{nn::dot_product_attention(a[0], a[1], a[2], {.mask = a[3]})};
  };
  all["nn::dot_product_attention(bias, scale)"] = [](const Arrays& a) {
    return Arrays{nn::dot_product_attention(a[0], a[1], a[2], {.bias = a[3], .scale = 0.5})};
  };
  all["nn::dot_product_attention(a key head for two)"] = [](const Arrays& a) {
    return Arrays{nn::dot_product_attention(a[0], a[1], a[2])};
  };
  all["nn::cosine_distance"] = [](const Arrays& a) { return Arrays{nn::cosine_distance(a[0], a[1])}; };
  all["nn::softmax_cross_entropy"] = [](const Arrays& a) {
    return Arrays{nn::softmax_cross_entropy(a[0], a[1])};
  };
  all["nn::softmax_cross_entropy_with_integer_labels"] = [](const Arrays& a) {
    return Arrays{nn::softmax_cross_entropy_with_integer_labels(a[0], a[1])};
  };
  all["nn::sigmoid_binary_cross_entropy"] = [](const Arrays& a) {
    return Arrays{nn::sigmoid_binary_cross_entropy(a[0], a[1])};
  };
  all["nn::squared_error"] = [](const Arrays& a) { return Arrays{nn::squared_error(a[0], a[1])}; };
  all["nn::l2_loss"] = [](const Arrays& a) { return Arrays{nn::l2_loss(a[0], a[1])}; };
  all["nn::huber_loss"] = [](const Arrays& a) { return Arrays{nn::huber_loss(a[0], a[1])}; };
  all["nn::log_cosh"] = [](const Arrays& a) { return Arrays{nn::log_cosh(a[0], a[1])}; };
  all["nn::hinge_loss"] = [](const Arrays& a) { return Arrays{nn::hinge_loss(a[0], a[1])}; };
  all["nn::cosine_similarity"] = [](const Arrays& a) { return Arrays{nn::cosine_similarity(a[0], a[1])}; };
  all["nn::kl_divergence"] = [](const Arrays& a) {
    return Arrays{nn::kl_divergence(nn::log_softmax(a[0]), a[1])};
  };
  all["nn::smooth_labels"] = [](const Arrays& a) { return Arrays{nn::smooth_labels(a[0], 0.1)}; };
}

}  // namespace lockstep::golden
