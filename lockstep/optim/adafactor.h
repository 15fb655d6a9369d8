// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lockstep/optim/accumulation.h"
#include "lockstep/optim/scaling.h"

namespace lockstep::optim {

/// For each parameter the mean squares of its gradients: of rows and columns if it is factored, otherwise of
/// elements. The arrays that are not used have one element, 0.
template <class Params>
struct FactoredState {
  Array count;
  Params v_row, v_col, v;
};

struct ScaleByFactoredRms;

namespace internal {
/// The part of FactoredState for one parameter; after an update, also with `update`.
struct Factored {
  Array update, v_row, v_col, v;
};
Factored init_factored(const ScaleByFactoredRms& rms, const Array& parameter);
Factored update_factored(const ScaleByFactoredRms& rms, const Array& gradient, const Factored& before,
                         const Array& count);
}  // namespace internal

/// g / sqrt(v), where v is a mean of squares with decay 1 - count^-decay_rate. If the two largest dimensions
/// of an array have at least min_dim_size_to_factor elements, v is the product of the means along each of the
/// two, which takes the memory of two vectors.
struct ScaleByFactoredRms {
  bool factored = true;
  double decay_rate = 0.8;
  std::int64_t step_offset = 0, min_dim_size_to_factor = 128;
  double epsilon = 1e-30;

  template <class Params>
  FactoredState<Params> init(const Params& params) const {
    FactoredState<Params> state{internal::zero_count(tree::leaves(params)), params, params, params};
    auto part = [&](Array internal::Factored::*field) {
      return tree::map([&](const Array& p) { return internal::init_factored(*this, p).*field; }, params);
    };
    state.v_row = part(&internal::Factored::v_row);
    state.v_col = part(&internal::Factored::v_col);
    state.v = part(&internal::Factored::v);
    return state;
  }

  template <class Params>
  std::pair<Params, FactoredState<Params>> update(const Params& updates, const FactoredState<Params>& state,
                                                  const Params&) const {
    const std::vector<Array> rows = tree::leaves(state.v_row), columns = tree::leaves(state.v_col),
                             whole = tree::leaves(state.v);
    std::vector<Array> of_rows, of_columns, of_whole;
    auto next = [&](const Array& g) {
      const std::size_t i = of_rows.size();
      internal::Factored one =
          internal::update_factored(*this, g, {{}, rows[i], columns[i], whole[i]}, state.count);
      of_rows.push_back(one.v_row);
      of_columns.push_back(one.v_col);
      of_whole.push_back(one.v);
      return one.update;
    };
    std::pair<Params, FactoredState<Params>> out{tree::map(next, updates), state};
    out.second.count = internal::incremented(state.count);
    tree::tree_ref(out.second.v_row).replace_leaves(of_rows);
    tree::tree_ref(out.second.v_col).replace_leaves(of_columns);
    tree::tree_ref(out.second.v).replace_leaves(of_whole);
    return out;
  }
};
inline ScaleByFactoredRms scale_by_factored_rms(const ScaleByFactoredRms& options = {}) { return options; }
[[deprecated("name the options: scale_by_factored_rms({.decay_rate = 0.8})")]] inline ScaleByFactoredRms
scale_by_factored_rms(bool factored, double decay_rate = 0.8, std::int64_t step_offset = 0,
                      std::int64_t min_dim_size_to_factor = 128, double epsilon = 1e-30) {
  return {factored, decay_rate, step_offset, min_dim_size_to_factor, epsilon};
}

struct AdafactorOptions {
  std::int64_t min_dim_size_to_factor = 128;
  double decay_rate = 0.8;
  std::int64_t decay_offset = 0;
  bool multiply_by_parameter_scale = true;
  std::optional<double> clipping_threshold = 1.0;
  std::optional<double> momentum = {}, weight_decay_rate = {};
  double eps = 1e-30;
  bool factored = true;
  Mask weight_decay_mask = {};
};

/// Adafactor (Shazeer and Stern, 2018): a chain of scale_by_factored_rms, clip_by_block_rms, the learning
/// rate, scale_by_param_block_rms, momentum and weight decay; the options turn parts off. A template, so that
/// only programs that call it compile the chain.
template <class = void>
auto adafactor(std::optional<Schedule> learning_rate = std::nullopt, AdafactorOptions options = {}) {
  return chain(
      scale_by_factored_rms({options.factored, options.decay_rate, options.decay_offset,
                             options.min_dim_size_to_factor, options.eps}),
      internal::when(options.clipping_threshold.has_value(),
                     clip_by_block_rms(options.clipping_threshold.value_or(1))),
      internal::when(learning_rate.has_value(),
                     scale_by_schedule(learning_rate.value_or(constant_schedule(1)))),
      internal::when(options.multiply_by_parameter_scale, scale_by_param_block_rms()),
      internal::when(options.momentum.has_value(), ema(options.momentum.value_or(0), /*debias=*/false)),
      internal::when(options.weight_decay_rate.has_value(),
                     add_decayed_weights(options.weight_decay_rate.value_or(0), options.weight_decay_mask)),
      scale(-1));
}
template <class = void>
auto adafactor(double learning_rate, AdafactorOptions options = {}) {
  return adafactor(std::optional(constant_schedule(learning_rate)), std::move(options));
}

}  // namespace lockstep::optim
