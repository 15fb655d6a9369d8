// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/dtype.h"
#include "lockstep/program/aval.h"
#include "lockstep/sharding/sharding.h"

// Before C++23, x[1, 2] is x[2]; then it does not compile. (A comma in brackets is deprecated, and g++ and
// clang warn.)
#if __cplusplus <= 202002L && defined(__clang__)
#pragma clang diagnostic error "-Wdeprecated-comma-subscript"
#elif __cplusplus <= 202002L && defined(__GNUC__)
#pragma GCC diagnostic error "-Wcomma-subscript"
#endif

namespace lockstep {

class Axes;
class Index;
class IndexUpdate;
class Operand;
struct ReduceOptions;
template <class T>
class ArrayView;

class Array;

namespace internal {
struct ArrayData;
Array array_with(std::shared_ptr<ArrayData> data);
const std::shared_ptr<ArrayData>& data_of(const Array& array);
struct Elements;
Elements elements_in_place(const Array& x, std::string_view what, DType dtype);
}  // namespace internal

/// A type of characters, which C++ counts among the integers.
template <class T>
concept Character = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> ||
    std::same_as<T, char16_t> || std::same_as<T, char32_t>;

/// A C++ number: bool, integer or floating. Characters and enumerators are not numbers.
template <class T>
concept Number = std::is_arithmetic_v<T> && !Character<T>;

/// One device's part of an array.
struct Shard {
  Device device;
  std::vector<IndexRange> index;  ///< for each dimension, the range of the array that it holds
  Shape shape;
  DType dtype;
  const void* data;  ///< row-major, in memory that the host can read, on GPUs a copy; valid while the array
                     ///< lives. Null for another process's part
  int replica_id;    ///< 0 for the first device, in mesh order, that holds this part, 1 for the next
};

/// An immutable n-dimensional array: a handle, cheap to copy. It is concrete and split over devices as its
/// sharding says, or, in a function that is being traced, a tracer: a value of the traced program.
class Array {
 public:
  /// No array. Using it in an operation throws an error.
  Array() = default;

  /// A scalar, on this process's first device. Its dtype is weak: in an operation the other operand's dtype
  /// wins, as with Python numbers in JAX (integer: i32, floating: f32, bool: bool). Throws DTypeError for an
  /// integer that i32 cannot represent; use full({}, number, int64) for it.
  template <Number T>
  Array(T number, std::source_location where = std::source_location::current()) {
    if constexpr (std::same_as<T, bool>)
      set_bool(number);
    else if constexpr (std::floating_point<T>)
      set_real(static_cast<double>(number));
    else
      set_integer(static_cast<std::int64_t>(number), std::is_unsigned_v<T>, where);
  }

  Array(std::nullptr_t) = delete;

  Array(const Array&) = default;
  Array(Array&&) = default;
  Array& operator=(const Array&) & = default;
  Array& operator=(Array&&) & = default;
  void operator=(const Array&) && = delete;  // instead of y[0] = x: y = y.at(0).set(x)

  bool valid() const { return data_ != nullptr; }

  const Aval& aval() const;
  const Shape& shape() const { return aval().shape; }
  DType dtype() const { return aval().dtype; }
  std::int64_t ndim() const { return aval().rank(); }
  std::int64_t size() const { return aval().num_elements(); }

  /// The bytes of one element, and of all.
  std::int64_t itemsize() const { return static_cast<std::int64_t>(size_of(dtype())); }
  std::int64_t nbytes() const { return size() * itemsize(); }

  /// Whether it is a value within a traced function, which has no elements yet.
  bool is_tracer() const;

  /// A part of the array, and an update of a part in a copy: x[{0, slice(1, none), ids}], x.at(ids).add(y).
  /// See lockstep/ops/indexing.h, where they are defined.
  Array operator[](const Index& index) const;
  Array operator[](std::initializer_list<Index> indices) const;
  IndexUpdate at(const Index& index) const;
  IndexUpdate at(std::initializer_list<Index> indices) const;
#if __cpp_multidimensional_subscript >= 202110L
  /// x[1, 2] is x[{1, 2}].
  template <class... Others>
  requires(sizeof...(Others) > 0) Array operator[](const Index& first, const Others&... others) const;
#endif

  /// The functions of the same names in lockstep/ops/ with the array as the first operand: x.sum(0) is sum(x,
  /// 0). `T()` is transpose() and `flatten()` is ravel(). Include <lockstep/ops/ops.h>, or all of Lockstep,
  /// for what they take: x.sum({.axis = 0, .keepdims = true}).
  using Where = std::source_location;
  Array astype(DType dtype, Where where = Where::current()) const;
  Array reshape(const Shape& shape, Where where = Where::current()) const;
  Array ravel(Where where = Where::current()) const;
  Array flatten(Where where = Where::current()) const;
  Array transpose(const std::vector<std::int64_t>& axes = {}, Where where = Where::current()) const;
  Array T(Where where = Where::current()) const;
  Array squeeze(Where where = Where::current()) const;
  Array squeeze(const Axes& axis, Where where = Where::current()) const;
  Array sum(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array sum(const ReduceOptions& options, Where where = Where::current()) const;
  Array prod(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array prod(const ReduceOptions& options, Where where = Where::current()) const;
  Array mean(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array mean(const ReduceOptions& options, Where where = Where::current()) const;
  Array max(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array max(const ReduceOptions& options, Where where = Where::current()) const;
  Array min(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array min(const ReduceOptions& options, Where where = Where::current()) const;
  Array any(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array any(const ReduceOptions& options, Where where = Where::current()) const;
  Array all(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array all(const ReduceOptions& options, Where where = Where::current()) const;
  Array argmax(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array argmin(std::optional<std::int64_t> axis = std::nullopt, Where where = Where::current()) const;
  Array dot(const Operand& other) const;

  /// How the array is split over devices. Throws TraceError for a tracer.
  const Sharding& sharding() const;

  /// Whether all parts are on devices of this process.
  bool is_fully_addressable() const;

  /// Whether every device holds the whole array.
  bool is_fully_replicated() const;

  /// The parts on this process's devices, in mesh order. Blocks until they are computed.
  std::vector<Shard> addressable_shards(std::source_location where = std::source_location::current()) const;

  /// The parts on the devices of all processes, in mesh order. Blocks until this process's parts are
  /// computed.
  std::vector<Shard> global_shards(std::source_location where = std::source_location::current()) const;

  /// Blocks until the array is computed. Throws the error of its computation if that failed. Returns the
  /// array itself.
  const Array& block_until_ready(std::source_location where = std::source_location::current()) const;

  /// All elements, row-major. Blocks. T must be the C++ type of the dtype (DTypeError otherwise). Throws
  /// ShardingError if only another process holds some part.
  template <class T>
  std::vector<T> to_host(std::source_location where = std::source_location::current()) const {
    CallSiteScope scope(CallSite::from(where));
    static_assert(!std::is_same_v<T, bool>, "read a bool array as std::uint8_t");
    std::vector<T> values(static_cast<std::size_t>(size()));
    copy_to_host(values.data(), dtype_of<T>);
    return values;
  }

  /// The only element of an array of size 1, as a T: of the same kind or a wider one (bool, integer,
  /// floating, complex, in this order). A floating number is rounded to T. Blocks. Throws ShapeError for
  /// another size, DTypeError for a narrower kind and for an integer that T cannot represent, and otherwise
  /// as to_host.
  template <class T>
  T item(std::source_location where = std::source_location::current()) const {
    CallSiteScope scope(CallSite::from(where));
    T value;
    read_item(&value, dtype_of<T>);
    return value;
  }

  /// The elements in place, row-major, without a copy. They are there as long as an array has them: until the
  /// last handle is gone, or one is deleted or donated. Blocks. Throws DTypeError if T is not the C++ type of
  /// the dtype (bool may also be read as std::uint8_t), ShardingError if no device of this process holds the
  /// whole array, and Error if the host cannot read the device's memory, as on GPUs.
  template <class T>
  std::span<const T> span(std::source_location where = std::source_location::current()) const& {
    CallSiteScope scope(CallSite::from(where));
    return {static_cast<const T*>(in_place("[span]", dtype_of<T>)), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<const T> span(std::source_location where = std::source_location::current()) const&& = delete;

  /// As span, with the shape and strides, and it keeps the elements itself. See lockstep/array/array_view.h.
  template <class T>
  ArrayView<T> view(std::source_location where = std::source_location::current()) const;

  /// Begins to copy the elements on this process's devices to the host, for a later to_host, item or
  /// addressable_shards, and does not wait for them (jax.Array.copy_to_host_async). The array keeps the copy.
  /// Does nothing where the host can read the devices' memory, as on CPU. Throws TraceError for a tracer, and
  /// Error for an array that was deleted or donated; errors of the computation are thrown where it is read.
  void copy_to_host_async(std::source_location where = std::source_location::current()) const;

  /// As to_host, into size() elements at `destination`. A bool array is read as bool or u8.
  void copy_to_host(void* destination, DType dtype) const;

  /// Frees the memory; a later use is an error. An array that is donated to a computation is deleted, too.
  void delete_();
  bool is_deleted() const;

  /// Shape, dtype and sharding as text: "Array(f32[4], NamedSharding(Mesh(data=4), P('data')))".
  std::string to_string() const;

 private:
  friend internal::Elements internal::elements_in_place(const Array&, std::string_view, DType);
  friend Array internal::array_with(std::shared_ptr<internal::ArrayData> data);
  friend const std::shared_ptr<internal::ArrayData>& internal::data_of(const Array& array);

  explicit Array(std::shared_ptr<internal::ArrayData> data) : data_(std::move(data)) {}

  void set_bool(bool value);
  void set_real(double value);
  void set_integer(std::int64_t value, bool is_unsigned, const std::source_location& where);
  void read_item(void* value, DType dtype) const;
  const void* in_place(std::string_view what, DType dtype) const;

  std::shared_ptr<internal::ArrayData> data_;
};

inline Array internal::array_with(std::shared_ptr<ArrayData> data) { return Array(std::move(data)); }
inline const std::shared_ptr<internal::ArrayData>& internal::data_of(const Array& array) {
  return array.data_;
}

}  // namespace lockstep
