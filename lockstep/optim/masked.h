// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/function.h"
#include "lockstep/optim/chain.h"

/// Transformations of a part of the parameters, with optax's names. The state has nothing for the other ones:
///
///   // Trains the heads alone; of the rest adam keeps no moments.
///   auto optimizer = multi_transform(tree::Rules<std::string>{{"head*", "trained"}, {"*", "frozen"}},
///                                    std::pair("trained", adam(1e-3)), std::pair("frozen", set_to_zero()));
namespace lockstep::optim {

/// Some of the arrays of a tree: what the inner transformation of masked or multi_transform gets as its
/// parameters. It is a tree whose arrays have the paths that they have in the whole one, so masks, shardings
/// and checkpoints by path work in the same way.
struct SelectedParams {
  std::vector<std::string> paths;
  std::vector<Array> arrays;

  static void tree_parts(SelectedParams& self, tree::Parts& part);
};

/// The label of each parameter, by its path: a function or a tree::Rules<std::string>.
using Labels = std::function<std::string(const std::string& path, const Array& parameter)>;

template <class Inner>
struct MaskedState {
  Inner inner_state;
};

template <class... Inner>
struct MultiTransformState {
  std::tuple<Inner...> inner_states;
};

namespace internal {

/// For each array of the tree, in order, whether it is selected.
using Selection = std::vector<bool>;
Selection selection(tree::TreeRef params, const Mask& mask);

/// Which arrays have each of these labels. Throws Error, with the path, for a parameter with another label.
std::vector<Selection> selections(tree::TreeRef params, const std::vector<std::string>& labels,
                                  const Labels& label_of);

SelectedParams selected(tree::TreeRef tree, const Selection& selection);

/// Replaces the selected arrays of the tree.
void put_back(tree::TreeRef tree, const Selection& selection, const SelectedParams& changed);

/// Throws ShapeError, with a path, if the trees have arrays in different places.
void check_same_tree(tree::TreeRef updates, tree::TreeRef params);

/// Transforms the selected updates, and returns the next state.
template <class Transformation, class State>
State update_selected(const Transformation& inner, tree::TreeRef updates, const State& state,
                      tree::TreeRef params, const Selection& selection) {
  auto [changed, next] = inner.update(selected(updates, selection), state, selected(params, selection));
  put_back(updates, selection, changed);
  return next;
}

}  // namespace internal

/// `inner` for the parameters that the mask selects, a function or a tree::Rules<bool>. The other updates are
/// returned unchanged, so after masked(set_to_zero(), mask) in a chain they are the only ones that are not 0.
template <class Transformation>
struct Masked {
  Transformation inner;
  Mask mask;

  template <class Params>
  auto init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const tree::TreeRef all = tree::tree_ref(params);
    const SelectedParams some = internal::selected(all, internal::selection(all, mask));
    return MaskedState<decltype(inner.init(some))>{inner.init(some)};
  }

  template <class Params, class State>
  std::pair<Params, State> update(const Params& updates, const State& state, const Params& params,
                                  SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const tree::TreeRef all = tree::tree_ref(params);
    std::pair<Params, State> out(updates, state);
    internal::check_same_tree(tree::tree_ref(updates), all);
    out.second.inner_state = internal::update_selected(inner, tree::tree_ref(out.first), state.inner_state,
                                                       all, internal::selection(all, mask));
    return out;
  }
};
template <class Transformation>
Masked<Transformation> masked(Transformation inner, Mask mask) {
  return {std::move(inner), std::move(mask)};
}

/// Each parameter's updates by the transformation that has its label.
template <class... Transformations>
struct MultiTransform {
  std::vector<std::string> labels;  ///< of the transformations
  std::tuple<Transformations...> transformations;
  Labels param_labels;

  template <class Params>
  auto init(const Params& params, SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const tree::TreeRef all = tree::tree_ref(params);
    const auto selections = internal::selections(all, labels, param_labels);
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      using State = MultiTransformState<decltype(std::get<i>(transformations).init(SelectedParams()))...>;
      return State{{std::get<i>(transformations).init(internal::selected(all, selections[i]))...}};
    }
    (std::index_sequence_for<Transformations...>());
  }

  template <class Params, class State>
  std::pair<Params, State> update(const Params& updates, const State& state, const Params& params,
                                  SourceLocation where = SourceLocation::current()) const {
    CallSiteScope here(CallSite::from(where));
    const tree::TreeRef all = tree::tree_ref(params);
    std::pair<Params, State> out(updates, state);
    internal::check_same_tree(tree::tree_ref(updates), all);
    const auto selections = internal::selections(all, labels, param_labels);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      ((std::get<i>(out.second.inner_states) =
            internal::update_selected(std::get<i>(transformations), tree::tree_ref(out.first),
                                      std::get<i>(state.inner_states), all, selections[i])),
       ...);
    }
    (std::index_sequence_for<Transformations...>());
    return out;
  }
};

/// Each transformation is a pair of its label and itself. The states are in their order. `init` and `update`
/// throw Error if a parameter has a label that is none of these.
template <class... Labelled>
auto multi_transform(Labels param_labels, Labelled... transforms) {
  return MultiTransform<typename Labelled::second_type...>{
      {std::string(transforms.first)...}, {std::move(transforms.second)...}, std::move(param_labels)};
}

/// Updates of 0.
inline auto set_to_zero() {
  return Stateless{[](const Array& u, const Array&) { return zeros_like(u); }};
}

}  // namespace lockstep::optim
