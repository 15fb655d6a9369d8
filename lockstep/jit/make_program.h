// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/jit/tree_function.h"
#include "lockstep/program/program.h"

/// Inspecting a function without compiling or running anything.
namespace lockstep {

/// The path of an array in a result, its shape and its dtype.
struct ShapeDtype {
  std::string path;
  Shape shape;
  DType dtype;

  bool operator==(const ShapeDtype&) const = default;
};

namespace internal {
ir::Program program_of(const TreeFunction& function, std::span<TreeArgument> arguments, const CallSite& site);
std::vector<ShapeDtype> shapes_of(const TreeFunction& function, std::span<TreeArgument> arguments,
                                  const CallSite& site);

template <class F, class... P, class... Args>
auto traced_by(auto tracing, F& function, const CallSite& site, std::type_identity<std::tuple<P...>> types,
               const Args&... args) {
  using Result = ResultType<F, std::tuple<P...>>;
  auto arguments = tree_arguments(types, args...);
  return tracing(tree_function<Result>(function, types), arguments, site);
}
}  // namespace internal

/// A function that, for arguments of `function`, returns the program to which it is traced: JAX's make_jaxpr.
/// Its inputs are the arrays of the arguments, then those from outside; to_string(program) prints it.
///   std::cout << to_string(make_program(f)(x, y));
template <class F>
auto make_program(F&& function, std::source_location where = std::source_location::current()) {
  return
      [ held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
        site = CallSite::from(where) ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::traced_by(&internal::program_of, held.function, site,
                               internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

/// A function that, for arguments of `function`, returns the shapes and dtypes of the arrays of its result,
/// in their order: JAX's eval_shape.
template <class F>
auto eval_shape(F&& function, std::source_location where = std::source_location::current()) {
  return
      [ held = internal::Held<std::decay_t<F>>{std::forward<F>(function)},
        site = CallSite::from(where) ]<class... Args>(const Args&... args) requires CallableWith<F, Args...> {
    return internal::traced_by(&internal::shapes_of, held.function, site,
                               internal::PassedTypes<std::decay_t<F>&, Args...>(), args...);
  };
}

}  // namespace lockstep
