// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/function.h"
#include "lockstep/base/function_address.h"
#include "lockstep/jit/numbers.h"
#include "lockstep/tree/tree_type.h"

/// Functions of trees without their C++ types. jit and the transformations work on these, so that their
/// implementation is compiled once; only the call of a user's function is compiled for its types.
namespace lockstep::internal {

/// A function from trees to a tree. Refers to the function.
struct TreeFunction {
  void* function = nullptr;
  /// Returns a new tree of type `result`. May move from the arguments, which have the types `parameters`.
  void* (*call)(void* function, void* const* arguments) = nullptr;
  const tree::TreeType* result = nullptr;
  std::span<const tree::TreeType* const> parameters;

  tree::AnyTree operator()(std::span<const tree::AnyTree> arguments) const;
};

/// A user's function inside a function made from it. It can be called where it is const: the state of a
/// mutable lambda is its own.
template <class F>
struct Held {
  mutable F function;
};

template <class Result, class F, class Parameters, class Index>
struct TreeCall;
template <class Result, class F, class... P, std::size_t... i>
struct TreeCall<Result, F, std::tuple<P...>, std::index_sequence<i...>> {
  static void* call(void* function, [[maybe_unused]] void* const* arguments) {
    return new Result(function_at<F>(function)(std::move(*static_cast<P*>(arguments[i]))...));
  }
};

template <class... P>
inline constexpr std::array<const tree::TreeType*, sizeof...(P)> tree_types{&tree::type_of<P>...};

/// The function as a TreeFunction with parameters P... and result Result.
template <class Result, class F, class... P>
TreeFunction tree_function(F& function, std::type_identity<std::tuple<P...>>) {
  static_assert(!std::is_void_v<Result>, "a function that is traced returns its results");
  return {address_of(function), &TreeCall<Result, F, std::tuple<P...>, std::index_sequence_for<P...>>::call,
          &tree::type_of<Result>, tree_types<P...>};
}

/// The result type of a function for arguments of the types in a tuple.
template <class F, class Parameters>
struct ResultOf;
template <class F, class... P>
struct ResultOf<F, std::tuple<P...>> {
  using Type = std::decay_t<std::invoke_result_t<F&, P...>>;
};
template <class F, class Parameters>
using ResultType = typename ResultOf<F, Parameters>::Type;

/// An argument of a call: a tree, or a number that the function may take as an Array.
class TreeArgument {
 public:
  /// `as_array` converts the number to an Array, if the function takes one; null otherwise.
  TreeArgument(tree::TreeRef given, Array (*as_array)(const void* number))
      : given_(given), as_array_(as_array) {}

  /// Whether it is a number that the function may take as an Array.
  bool is_number() const { return as_array_ != nullptr; }

  Array number_as_array() const { return as_array_(given_.tree); }
  void make_array() { array_ = number_as_array(); }

  /// The number as an Array after make_array(), otherwise the given value.
  tree::TreeRef ref() const { return array_.valid() ? tree::tree_ref(array_) : given_; }

 private:
  tree::TreeRef given_;
  Array (*as_array_)(const void* number);
  Array array_;
};

template <class A>
Array number_of_type_as_array(const void* number) {
  return array_of_number(*static_cast<const A*>(number));
}

/// The argument, for a function that takes a P.
template <class P, class A>
TreeArgument tree_argument(const A& given) {
  if constexpr (std::is_same_v<P, A>)
    return {tree::tree_ref(given), nullptr};
  else
    return {tree::tree_ref(given), &number_of_type_as_array<A>};
}

template <std::size_t n>
using TreeArguments = std::array<TreeArgument, n>;

template <class... P, class... A>
TreeArguments<sizeof...(P)> tree_arguments(std::type_identity<std::tuple<P...>>, const A&... given) {
  return {tree_argument<P, A>(given)...};
}

/// Converts the numbers that the function takes as Arrays, and returns all arguments as the function takes
/// them.
std::vector<tree::TreeRef> with_numbers_as_arrays(std::span<TreeArgument> arguments);

/// A function of lists of arrays.
using ArraysFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// The arrays of all the trees.
std::vector<Array> all_leaves(std::span<const tree::TreeRef> trees);

}  // namespace lockstep::internal
