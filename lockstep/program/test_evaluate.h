// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests: runs programs on the CPU plugin.

#include <complex>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/lapack/lapack.h"
#include "lockstep/onednn/onednn.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/program/lowering.h"
#include "lockstep/sleef/sleef.h"
#include "lockstep/sorting/sorting.h"
#include "lockstep/threefry/threefry.h"

namespace lockstep::test {

inline std::size_t count_of(std::string_view what, std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++count;
  return count;
}

/// An array on the host, with its elements as doubles, whatever the dtype; complex numbers are reduced to
/// their real parts.
struct HostArray {
  DType dtype = DType::kF64;
  Shape shape;
  std::vector<double> values;

  Aval aval() const { return {dtype, shape, false, {}}; }
};

inline HostArray scalar(double value, DType dtype = DType::kF64) { return {dtype, {}, {value}}; }

inline HostArray filled(double value, Shape shape, DType dtype = DType::kF64) {
  auto n = static_cast<std::size_t>(num_elements(shape));
  return {dtype, std::move(shape), std::vector<double>(n, value)};
}

/// Random numbers that are the same in every run; integers for an integer or bool dtype.
inline HostArray random(Shape shape, double low, double high, std::uint32_t seed = 1,
                        DType dtype = DType::kF64) {
  HostArray out = filled(0, std::move(shape), dtype);
  std::mt19937 bits(seed);
  for (double& value : out.values) {
    value = low + (high - low) * (static_cast<double>(bits()) / 4294967296.0);
    if (!is_inexact(dtype)) value = std::floor(value);
  }
  return out;
}

/// Calls `use` with a null pointer of the C++ type of the dtype's elements.
template <class Use>
auto with_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::kBool:
      return use(static_cast<bool*>(nullptr));
    case DType::kI8:
      return use(static_cast<std::int8_t*>(nullptr));
    case DType::kI32:
      return use(static_cast<std::int32_t*>(nullptr));
    case DType::kI64:
      return use(static_cast<std::int64_t*>(nullptr));
    case DType::kU8:
      return use(static_cast<std::uint8_t*>(nullptr));
    case DType::kU32:
      return use(static_cast<std::uint32_t*>(nullptr));
    case DType::kF32:
      return use(static_cast<float*>(nullptr));
    case DType::kF64:
      return use(static_cast<double*>(nullptr));
    case DType::kC64:
      return use(static_cast<std::complex<float>*>(nullptr));
    case DType::kC128:
      return use(static_cast<std::complex<double>*>(nullptr));
    default:
      throw std::logic_error("test_evaluate.h does not hold this dtype");
  }
}

inline std::vector<char> to_bytes(const HostArray& array) {
  return with_type(array.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    std::vector<char> bytes(array.values.size() * sizeof(T));
    for (std::size_t i = 0; i < array.values.size(); ++i) {
      T value;
      if constexpr (std::is_class_v<T>)
        value = static_cast<typename T::value_type>(array.values[i]);
      else
        value = static_cast<T>(array.values[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    return bytes;
  });
}

inline HostArray from_bytes(DType dtype, Shape shape, const std::vector<char>& bytes) {
  HostArray out = filled(0, std::move(shape), dtype);
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (std::is_class_v<T>)
        out.values[i] = value.real();
      else
        out.values[i] = static_cast<double>(value);
    }
  });
  return out;
}

inline pjrt::Client& client() {
  static const std::shared_ptr<pjrt::Client> client = [] {
    auto plugin = pjrt::Plugin::load(pjrt::find_plugin());
    plugin->register_ffi_handler(lapack::kLapackTarget, "Host", lapack::lapack_handler());
    plugin->register_ffi_handler(onednn::kOneDnnTarget, "Host", onednn::onednn_handler());
    plugin->register_ffi_handler(sorting::kSortTarget, "Host", sorting::sort_handler());
    plugin->register_ffi_handler(sleef::kSleefTarget, "Host", sleef::sleef_handler());
    plugin->register_ffi_handler(threefry::kThreefryTarget, "Host", threefry::threefry_handler());
    return pjrt::Client::create(plugin, {{"cpu_device_count", std::int64_t{1}}, {"asynchronous", false}});
  }();
  return *client;
}

/// Without `lapack`, decompositions are composed of other operations, as on a machine where it is not
/// installed.
inline std::unique_ptr<pjrt::Executable> compile(const ir::Program& program, const ir::AxisEnv& axes = {},
                                                 bool lapack = true) {
  ir::LowerOptions options;
  options.axes = axes;
  options.lapack = lapack;
  return client().compile(lower(program, options).stablehlo);
}

inline std::vector<HostArray> run(pjrt::Executable& executable, const std::vector<HostArray>& inputs) {
  const pjrt::Device& device = *client().addressable_devices().front();
  std::vector<pjrt::Buffer> buffers;
  for (const HostArray& input : inputs) {
    std::vector<char> bytes = to_bytes(input);
    buffers.push_back(client().buffer_from_host(bytes.data(), input.dtype, input.shape, device));
  }
  std::vector<pjrt::Buffer*> arguments;
  for (pjrt::Buffer& buffer : buffers) arguments.push_back(&buffer);
  std::vector<HostArray> outputs;
  for (pjrt::Buffer& buffer : executable.execute(std::span<pjrt::Buffer* const>(arguments), device)) {
    std::vector<char> bytes(buffer.size_bytes());
    buffer.to_host(bytes.data(), bytes.size());
    outputs.push_back(from_bytes(buffer.dtype(), buffer.dims(), bytes));
  }
  return outputs;
}

/// The program's outputs, on a mesh of one device.
inline std::vector<HostArray> evaluate(const ir::Program& program, const std::vector<HostArray>& inputs,
                                       const ir::AxisEnv& axes = {}, bool lapack = true) {
  return run(*compile(program, axes, lapack), inputs);
}

/// A function of values, to be traced as a program.
using Function = std::function<std::vector<ir::Value>(std::span<const ir::Value>)>;
inline ir::Program trace(const std::vector<Aval>& avals, const Function& function, std::string name = "f") {
  ir::Builder builder(std::move(name));
  std::vector<ir::Value> inputs;
  for (const Aval& aval : avals) inputs.push_back(builder.input(aval));
  return builder.finish(function(inputs));
}

inline std::vector<Aval> avals_of(const std::vector<HostArray>& arrays) {
  std::vector<Aval> avals;
  for (const HostArray& array : arrays) avals.push_back(array.aval());
  return avals;
}

/// Several computations in one program, because compilation takes longer than running the tests.
class Joined {
 public:
  /// Adds inputs with these values, which also vary over `varying`.
  std::vector<ir::Value> inputs(const std::vector<HostArray>& arrays,
                                const std::vector<std::string>& varying = {}) {
    std::vector<ir::Value> values;
    for (const HostArray& array : arrays) {
      Aval aval = array.aval();
      aval.varying = varying;
      values.push_back(builder_.input(std::move(aval)));
      arrays_.push_back(array);
    }
    return values;
  }

  /// Requests these values; returns the index of the first one among the results.
  std::size_t want(const std::vector<ir::Value>& values) {
    outputs_.insert(outputs_.end(), values.begin(), values.end());
    return outputs_.size() - values.size();
  }

  ir::Builder& builder() { return builder_; }
  const std::vector<ir::Value>& outputs() const { return outputs_; }
  ir::Program program() { return builder_.finish(outputs_); }
  std::vector<HostArray> run(const ir::AxisEnv& axes = {}) { return evaluate(program(), arrays_, axes); }

 private:
  ir::Builder builder_{"joined"};
  std::vector<HostArray> arrays_;
  std::vector<ir::Value> outputs_;
};

/// The outputs of a function of values for these inputs.
inline std::vector<HostArray> evaluate(const Function& function, const std::vector<HostArray>& inputs) {
  return evaluate(trace(avals_of(inputs), function), inputs);
}

/// The part of the array from `start` to `limit` along the dimension.
inline HostArray part(const HostArray& x, std::size_t dimension, std::int64_t start, std::int64_t limit) {
  const std::int64_t size = x.shape[dimension];
  std::int64_t inner = 1;
  for (std::size_t d = dimension + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  HostArray out{x.dtype, x.shape, {}};
  out.shape[dimension] = limit - start;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) / inner % size;
    if (place >= start && place < limit) out.values.push_back(x.values[i]);
  }
  return out;
}

/// The array at `index` of its first dimension, which is removed.
inline HostArray at(const HostArray& x, std::int64_t index) {
  HostArray out = part(x, 0, index, index + 1);
  out.shape.erase(out.shape.begin());
  return out;
}

}  // namespace lockstep::test
