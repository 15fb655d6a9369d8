// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <sstream>

#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

const std::vector<std::string>& lacking() {
  static const std::vector<std::string> all = words("");
  return all;
}

const std::vector<std::string>& vocabulary() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> all = words(R"(
      zeros ones full zeros_like ones_like full_like arange linspace eye tri one_hot meshgrid
      add subtract multiply divide floor_divide remainder fmod divmod power negative positive abs sign square
      reciprocal sqrt rsqrt cbrt maximum minimum fmax fmin clip clamp hypot copysign nextafter ldexp heaviside
      equal not_equal less less_equal greater greater_equal isclose allclose array_equal where
      isnan isinf isfinite isposinf isneginf signbit nan_to_num
      logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
      bitwise_count left_shift right_shift gcd lcm
      floor ceil round trunc modf exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2
      sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh sinc deg2rad rad2deg sigmoid
      erf erfc erf_inv gammaln digamma polygamma gamma betaln factorial xlogy xlog1py entr logit ndtr ndtri
      angle astype
      sum mean var std max min prod any all argmax argmin logsumexp ptp count_nonzero average cov corrcoef
      nansum nanmean nanmax nanmin nanvar nanstd nanprod nanargmax nanargmin
      cumsum cumprod cummax cummin cumlogsumexp diff
      reshape ravel transpose swapaxes moveaxis expand_dims squeeze broadcast_to concatenate stack split split_at
      array_split hstack vstack dstack column_stack append tile repeat pad flip flipud fliplr rot90 roll
      diag diagonal trace tril triu slice dynamic_slice dynamic_update_slice
      take take_along_axis put_along_axis searchsorted sort argsort lexsort top_k unique unique_all nonzero
      flatnonzero quantile percentile median bincount segment_sum segment_prod segment_max segment_min
      index at.get at.set at.add at.multiply at.min at.max
      dot matmul tensordot inner vdot outer kron einsum
      linalg::norm linalg::cholesky linalg::triangular_solve linalg::qr linalg::svd linalg::eigh linalg::solve
      linalg::inv linalg::det linalg::slogdet linalg::pinv linalg::matrix_rank linalg::matrix_power
      linalg::lu linalg::lu_factor linalg::lu_solve linalg::solve_triangular linalg::eig linalg::eigvals linalg::schur
      linalg::sqrtm linalg::expm linalg::lstsq
      fft::fft fft::ifft fft::rfft fft::irfft fft::hfft fft::ihfft fft::fftn fft::ifftn fft::rfftn fft::irfftn fft::fft2
      fft::ifft2 fft::rfft2 fft::irfft2 fft::fftfreq fft::rfftfreq fft::fftshift fft::ifftshift
      convolve correlate interp unwrap digitize histogram histogram_bin_edges isin float_power frexp ragged_dot
      nn::conv_transpose
      nn::relu nn::relu6 nn::softplus nn::silu nn::gelu nn::elu nn::selu nn::celu nn::leaky_relu nn::soft_sign
      nn::log_sigmoid nn::hard_tanh nn::hard_sigmoid nn::hard_silu nn::mish nn::squareplus nn::glu nn::sparse_plus
      nn::sparse_sigmoid nn::softmax nn::log_softmax nn::standardize nn::layer_norm nn::rms_norm nn::one_hot
      nn::embedding nn::conv nn::conv_general_dilated nn::max_pool nn::min_pool nn::avg_pool
      nn::dot_product_attention
      nn::softmax_cross_entropy nn::softmax_cross_entropy_with_integer_labels nn::sigmoid_binary_cross_entropy
      nn::squared_error nn::l2_loss nn::huber_loss nn::log_cosh nn::hinge_loss nn::cosine_similarity
      nn::cosine_distance nn::kl_divergence nn::smooth_labels
      cond switch_ while_loop fori_loop scan map remat stop_gradient custom_vjp custom_jvp
      random::key random::split random::fold_in random::bits random::uniform random::normal
      random::truncated_normal random::bernoulli random::categorical random::permutation random::choice
      random::randint random::gumbel random::exponential random::laplace random::logistic random::cauchy
      random::pareto random::weibull_min random::lognormal random::rademacher random::dropout
      random::gamma random::loggamma random::beta random::dirichlet random::chisquare random::t random::poisson
      optim::sgd optim::adam optim::adamw optim::lion optim::rmsprop optim::adagrad optim::chain
      optim::multi_steps optim::global_norm optim::constant_schedule optim::linear_schedule
      optim::polynomial_schedule optim::exponential_decay optim::cosine_decay_schedule
      optim::warmup_cosine_decay_schedule optim::piecewise_constant_schedule optim::join_schedules)");
    all.insert(all.end(), lacking().begin(), lacking().end());
    return all;
  }();
  return all;
}

}  // namespace lockstep::golden
