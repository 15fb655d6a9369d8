// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/base/function.h"
#include "lockstep/ops/operand.h"
#include "lockstep/program/vmap_method.h"

/// User functions that compiled programs call on the host while they run. Programs for CUDA do not support
/// them (Error). If such a function throws, the call that runs the program throws the same exception, in the
/// process where it happened; the other processes of the job fail with its text.
///
/// The function is called on one of XLA's threads, while the program waits. It must not run operations on
/// arrays that have a value, and may be called concurrently for several devices.
namespace lockstep {

namespace ir {
struct Primitive;
const Primitive& pure_callback_p();
const Primitive& io_callback_p();
}  // namespace ir

/// Numbers that a callback gets or returns, in row-major order. It owns a copy of them.
class HostArray {
 public:
  HostArray() : HostArray(DType::kF32, {0}, nullptr) {}

  /// A scalar.
  template <class T>
  requires std::is_arithmetic_v<T> HostArray(T number) : HostArray(dtype_of<T>, {}, &number) {}

  /// An array of this shape. Throws ShapeError if the number of values does not match.
  template <class T>
  HostArray(const std::vector<T>& values, Shape shape)
      : HostArray(dtype_of<T>, checked(std::move(shape), values.size()), values.data()) {}
  template <class T>
  HostArray(const std::vector<T>& values)
      : HostArray(values, Shape{static_cast<std::int64_t>(values.size())}) {}

  /// A copy of the elements at `data`; zeros if `data` is null.
  HostArray(DType dtype, Shape shape, const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return num_elements(shape_); }
  const void* data() const { return bytes_.data(); }

  /// The elements. Throws DTypeError unless T is the C++ type of the dtype.
  template <class T>
  std::span<const T> values() const {
    check(dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes_.data()), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<T> values() {
    check(dtype_of<T>);
    return {reinterpret_cast<T*>(bytes_.data()), static_cast<std::size_t>(size())};
  }

  /// The only element. Throws ShapeError unless there is exactly one.
  template <class T>
  T item() const {
    checked({}, static_cast<std::size_t>(size()));
    return values<T>()[0];
  }

 private:
  static Shape checked(Shape shape, std::size_t given);
  void check(DType asked) const;

  DType dtype_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

/// The shape and dtype of a callback's result.
struct ResultType {
  Shape shape;
  DType dtype;
  CallSite site;
  ResultType(Shape shape, DType dtype = DType::kF32,
             std::source_location where = std::source_location::current())
      : shape(std::move(shape)), dtype(dtype), site(CallSite::from(where)) {}
};

struct CallbackOptions {
  /// How the function is called under vmap. Unless kSequential, ResultTypes are those of one example, and the
  /// function gets and returns arrays with the examples in the first dimension.
  VmapMethod vmap_method = VmapMethod::kSequential;
};

namespace internal {

using AnyCallback = std::function<std::vector<HostArray>(std::vector<HostArray>)>;

std::vector<Array> call_back(const ir::Primitive& primitive, AnyCallback function,
                             const std::vector<lockstep::ResultType>& results, const CallbackOptions& options,
                             const std::vector<Array>& operands, const CallSite& site);

template <class F, std::size_t... I>
std::vector<HostArray> call_with(F& function, std::vector<HostArray>& operands, std::index_sequence<I...>) {
  using Result = decltype(std::apply(function, std::tie(operands[I]...)));
  if constexpr (std::is_void_v<Result>) {
    std::apply(function, std::tie(operands[I]...));
    return {};
  } else if constexpr (std::convertible_to<Result, std::vector<HostArray>>) {
    return std::apply(function, std::tie(operands[I]...));
  } else {
    return {HostArray(std::apply(function, std::tie(operands[I]...)))};
  }
}

template <std::size_t kArity, class F>
AnyCallback any_callback(F function) {
  return [function = std::make_shared<F>(std::move(function))](std::vector<HostArray> operands) {
    return call_with(*function, operands, std::make_index_sequence<kArity>());
  };
}

template <class F, class... Args>
std::vector<Array> call_back(const ir::Primitive& primitive, F&& function,
                             const std::vector<lockstep::ResultType>& results, const CallbackOptions& options,
                             const Args&... args) {
  const std::vector<Operand> operands = {Operand(args)...};
  std::vector<Array> arrays;
  for (const Operand& operand : operands) arrays.push_back(operand.as_array());
  const CallSite site = !results.empty() ? results[0].site : CallSiteScope::current();
  return call_back(primitive, any_callback<sizeof...(Args)>(std::decay_t<F>(std::forward<F>(function))),
                   results, options, arrays, site);
}

}  // namespace internal

/// function(operands...), called on the host. It gets a HostArray for each operand, and returns an array of
/// the result's type (or a number for a scalar), or a std::vector of several; for anything else the call that
/// runs the program throws Error. The function must have no side effects: it may be called more than once, on
/// several devices, or not at all. An operand that is split over devices is passed as a whole. There is no
/// derivative (TraceError) unless custom_jvp or custom_vjp defines it.
///   Array y = pure_callback([](const HostArray& x) { return HostArray(solve(x.values<float>())); },
///                           ResultType({8}), x);
template <class F, class... Args>
Array pure_callback(F&& function, const ResultType& result, const CallbackOptions& options,
                    const Args&... args) {
  return internal::call_back(ir::pure_callback_p(), std::forward<F>(function), {result}, options, args...)
      .front();
}
template <class F, class... Args>
Array pure_callback(F&& function, const ResultType& result, const Args&... args) {
  return internal::call_back(ir::pure_callback_p(), std::forward<F>(function), {result}, CallbackOptions(),
                             args...)
      .front();
}
template <class F, class... Args>
std::vector<Array> pure_callback(F&& function, const std::vector<ResultType>& results,
                                 const CallbackOptions& options, const Args&... args) {
  return internal::call_back(ir::pure_callback_p(), std::forward<F>(function), results, options, args...);
}
template <class F, class... Args>
std::vector<Array> pure_callback(F&& function, const std::vector<ResultType>& results, const Args&... args) {
  return internal::call_back(ir::pure_callback_p(), std::forward<F>(function), results, CallbackOptions(),
                             args...);
}

/// Like pure_callback, for a function with side effects: it is called exactly once each time the program
/// reaches it, on the mesh's first device, and all devices get its results. Callbacks, debug::print and
/// collectives of a device keep the program's order, as JAX's do with ordered=True. Under shard_map and pmap
/// each device calls it for its own part; under vmap it is called for each example.
template <class F, class... Args>
Array io_callback(F&& function, const ResultType& result, const Args&... args) {
  return internal::call_back(ir::io_callback_p(), std::forward<F>(function), {result}, CallbackOptions(),
                             args...)
      .front();
}
template <class F, class... Args>
std::vector<Array> io_callback(F&& function, const std::vector<ResultType>& results, const Args&... args) {
  return internal::call_back(ir::io_callback_p(), std::forward<F>(function), results, CallbackOptions(),
                             args...);
}

namespace debug {

/// Like io_callback, for a function without results. The derivative of a program calls it with the operands'
/// values.
template <class F, class... Args>
void callback(F&& function, const Args&... args) {
  internal::call_back(ir::io_callback_p(), std::forward<F>(function), {}, CallbackOptions(), args...);
}

}  // namespace debug
}  // namespace lockstep
