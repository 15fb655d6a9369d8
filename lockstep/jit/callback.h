#pragma once

#include <concepts>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/ops/operand.h"
#include "lockstep/program/vmap_method.h"

/// Functions of the user's own that compiled programs call while they run, on the host. Programs for CUDA's
/// collectives cannot (Error). An exception that such a function throws is thrown, as it is, by the call that
/// runs the program, in the process where it happened; the others of the job fail with what happened there.
///
/// Such a function is called on a thread of XLA's, while the program waits: it must not run operations on
/// arrays that have a value, and may be called for several devices at the same time.
namespace lockstep {

struct Primitive;
const Primitive& pure_callback_p();
const Primitive& io_callback_p();

/// Numbers that a callback is given or gives, row by row: a copy of its own, which may be kept.
class HostArray {
 public:
  HostArray() : HostArray(DType::kF32, {0}, nullptr) {}

  /// A scalar.
  template <class T>
  requires std::is_arithmetic_v<T> HostArray(T number) : HostArray(dtype_of<T>, {}, &number) {}

  /// Numbers in this shape. Throws ShapeError where there are more or fewer.
  template <class T>
  HostArray(const std::vector<T>& values, Shape shape)
      : HostArray(dtype_of<T>, checked(std::move(shape), values.size()), values.data()) {}
  template <class T>
  HostArray(const std::vector<T>& values)
      : HostArray(values, Shape{static_cast<std::int64_t>(values.size())}) {}

  /// Of elements that lie at `data`; zeros where that is null.
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

  /// The only element. Throws ShapeError where there are others.
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

/// The shape and dtype of what a callback gives.
struct ResultType {
  Shape shape;
  DType dtype;
  CallSite site;
  ResultType(Shape shape, DType dtype = DType::kF32,
             std::source_location where = std::source_location::current())
      : shape(std::move(shape)), dtype(dtype), site(CallSite::from(where)) {}
};

struct CallbackOptions {
  /// How it is called under vmap. Where not kSequential, ResultTypes are those of an example, and the
  /// function is given and gives arrays with the examples in front.
  VmapMethod vmap_method = VmapMethod::kSequential;
};

namespace internal {

using AnyCallback = std::function<std::vector<HostArray>(std::vector<HostArray>)>;

std::vector<Array> call_back(const Primitive& primitive, AnyCallback function,
                             const std::vector<lockstep::ResultType>& results, const CallbackOptions& options,
                             const std::vector<Array>& operands, const CallSite& site);

template <class F, std::size_t... I>
std::vector<HostArray> call_with(F& function, std::vector<HostArray>& operands, std::index_sequence<I...>) {
  using Result = decltype(std::invoke(function, operands[I]...));
  if constexpr (std::is_void_v<Result>) {
    std::invoke(function, operands[I]...);
    return {};
  } else if constexpr (std::convertible_to<Result, std::vector<HostArray>>) {
    return std::invoke(function, operands[I]...);
  } else {
    return {HostArray(std::invoke(function, operands[I]...))};
  }
}

template <std::size_t kArity, class F>
AnyCallback any_callback(F function) {
  return [function = std::make_shared<F>(std::move(function))](std::vector<HostArray> operands) {
    return call_with(*function, operands, std::make_index_sequence<kArity>());
  };
}

template <class F, class... Args>
std::vector<Array> call_back(const Primitive& primitive, F&& function,
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

/// function(operands...), on the host: it takes a HostArray for each operand, and gives one of the result's
/// type (a number for a scalar), or a std::vector of several; anything else is an Error of the call that runs
/// the program. It has no effect: it may be called more than once, on several devices, or not at all. Of
/// operands that are spread over devices it gets the whole. It has no derivative (TraceError), but for one
/// that custom_jvp or custom_vjp gives it.
///   Array y = pure_callback([](const HostArray& x) { return HostArray(solve(x.values<float>())); },
///                           ResultType({8}), x);
template <class F, class... Args>
Array pure_callback(F&& function, const ResultType& result, const CallbackOptions& options,
                    const Args&... args) {
  return internal::call_back(pure_callback_p(), std::forward<F>(function), {result}, options, args...)
      .front();
}
template <class F, class... Args>
Array pure_callback(F&& function, const ResultType& result, const Args&... args) {
  return internal::call_back(pure_callback_p(), std::forward<F>(function), {result}, CallbackOptions(),
                             args...)
      .front();
}
template <class F, class... Args>
std::vector<Array> pure_callback(F&& function, const std::vector<ResultType>& results,
                                 const CallbackOptions& options, const Args&... args) {
  return internal::call_back(pure_callback_p(), std::forward<F>(function), results, options, args...);
}
template <class F, class... Args>
std::vector<Array> pure_callback(F&& function, const std::vector<ResultType>& results, const Args&... args) {
  return internal::call_back(pure_callback_p(), std::forward<F>(function), results, CallbackOptions(),
                             args...);
}

/// The same for a function with an effect: it is called exactly once whenever the program comes here, on the
/// mesh's first device, and all devices get its results. Callbacks, debug::print and collectives of a device
/// keep the program's order, as those of JAX do with ordered=True. Under shard_map and pmap each device calls
/// it for its own part; under vmap it is called for each example.
template <class F, class... Args>
Array io_callback(F&& function, const ResultType& result, const Args&... args) {
  return internal::call_back(io_callback_p(), std::forward<F>(function), {result}, CallbackOptions(), args...)
      .front();
}
template <class F, class... Args>
std::vector<Array> io_callback(F&& function, const std::vector<ResultType>& results, const Args&... args) {
  return internal::call_back(io_callback_p(), std::forward<F>(function), results, CallbackOptions(), args...);
}

namespace debug {

/// The same for a function without results. The derivative of a program calls it with the operands' values.
template <class F, class... Args>
void callback(F&& function, const Args&... args) {
  internal::call_back(io_callback_p(), std::forward<F>(function), {}, CallbackOptions(), args...);
}

}  // namespace debug
}  // namespace lockstep
