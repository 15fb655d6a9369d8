// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>

#include "lockstep/array/device_put.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fail.h"
#include "lockstep/base/half.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "tests/fuzz/interpreter.h"

namespace lockstep::fuzz {
namespace {

template <class T>
Array typed(const std::vector<double>& data, const Type& type) {
  std::vector<T> elements;
  for (double value : data) elements.push_back(static_cast<T>(value));
  return ops::from_host(elements.data(), elements.size(), type.dtype, type.shape, SourceLocation::current());
}

Array to_array(const std::vector<double>& data, const Type& type) {
  switch (type.dtype) {
    case DType::kBool:
    case DType::kU8:
      return typed<std::uint8_t>(data, type);
    case DType::kI8:
      return typed<std::int8_t>(data, type);
    case DType::kI16:
      return typed<std::int16_t>(data, type);
    case DType::kI32:
      return typed<std::int32_t>(data, type);
    case DType::kI64:
      return typed<std::int64_t>(data, type);
    case DType::kU16:
      return typed<std::uint16_t>(data, type);
    case DType::kU32:
      return typed<std::uint32_t>(data, type);
    case DType::kU64:
      return typed<std::uint64_t>(data, type);
    case DType::kF32:
      return typed<float>(data, type);
    case DType::kF64:
      return typed<double>(data, type);
    case DType::kC64: {
      std::vector<std::complex<float>> elements;
      for (std::size_t i = 0; i < data.size(); i += 2)
        elements.emplace_back(static_cast<float>(data[i]), static_cast<float>(data[i + 1]));
      return ops::from_host(elements.data(), elements.size(), type.dtype, type.shape,
                            SourceLocation::current());
    }
    case DType::kF16:
    case DType::kBF16: {
      std::vector<std::uint16_t> bits;
      for (double value : data) {
        bits.push_back(
            type.dtype == DType::kF16
                ? f16_bits(static_cast<float>(value) + 0.0f)  // -0 is 0
                : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
      }
      return ops::from_host(bits.data(), bits.size(), type.dtype, type.shape, SourceLocation::current());
    }
    default:
      fail("[fuzz] no program has {}", name(type.dtype));
  }
}

template <class T>
void append(std::vector<long double>& to, const void* data, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
  to.push_back(static_cast<long double>(value));
}

/// Element i of row-major memory.
void append_element(std::vector<long double>& to, DType dtype, const void* data, std::size_t i) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return append<std::uint8_t>(to, data, i);
    case DType::kI8:
      return append<std::int8_t>(to, data, i);
    case DType::kI16:
      return append<std::int16_t>(to, data, i);
    case DType::kI32:
      return append<std::int32_t>(to, data, i);
    case DType::kI64:
      return append<std::int64_t>(to, data, i);
    case DType::kU16:
      return append<std::uint16_t>(to, data, i);
    case DType::kU32:
      return append<std::uint32_t>(to, data, i);
    case DType::kU64:
      return append<std::uint64_t>(to, data, i);
    case DType::kF32:
      return append<float>(to, data, i);
    case DType::kF64:
      return append<double>(to, data, i);
    case DType::kC64:
      append<float>(to, data, 2 * i);
      return append<float>(to, data, 2 * i + 1);
    case DType::kF16:
    case DType::kBF16: {
      std::uint16_t bits;
      std::memcpy(&bits, static_cast<const char*>(data) + 2 * i, 2);
      to.push_back(dtype == DType::kF16 ? f16_value(bits) : bf16_value(bits));
      return;
    }
    default:
      fail("[fuzz] no program has {}", name(dtype));
  }
}

Numbers to_numbers(const Array& x) {
  Numbers numbers{{x.dtype(), x.shape()}, {}};
  const auto count = static_cast<std::size_t>(x.size());
  std::vector<char> bytes(count * size_of(x.dtype()) + 1);
  x.copy_to_host(bytes.data(), x.dtype());
  for (std::size_t i = 0; i < count; ++i) append_element(numbers.elements, x.dtype(), bytes.data(), i);
  return numbers;
}

/// The whole computation: values and derivatives of the inputs, in the order of the program.
class Whole {
 public:
  Whole(const Program& program, const Interpreter& interpreter, Arrays inputs)
      : program_(program), interpreter_(interpreter), inputs_(std::move(inputs)) {}

  std::pair<Arrays, Arrays> operator()(const Arrays& arguments, const Arrays& donated) const {
    Arrays inputs = inputs_;  // captured ones stay
    auto next = arguments.begin(), next_donated = donated.begin();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (program_.inputs[i].role == Role::kArgument) inputs[i] = *next++;
      if (program_.inputs[i].role == Role::kDonated) inputs[i] = *next_donated++;
    }
    return compute(inputs);
  }

  std::pair<Arrays, Arrays> compute(const Arrays& inputs) const {
    Arrays values = interpreter_.run(inputs);
    return {values, derivatives(inputs, values)};
  }

 private:
  /// The inexact values as a function of some of the inputs.
  std::function<Arrays(const Arrays&)> function_of(const std::vector<std::size_t>& places,
                                                   const Arrays& inputs) const {
    return [this, places, inputs](const Arrays& given) {
      Arrays all = inputs;
      for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = given[i];
      Arrays values = interpreter_.run(all);
      std::erase_if(values, [](const Array& each) { return !is_inexact(each.dtype()); });
      return values;
    };
  }

  Arrays derivatives(const Arrays& inputs, const Arrays& values) const {
    Arrays cotangents;
    for (const Array& each : values) {
      if (!is_inexact(each.dtype())) continue;
      const Type type{each.dtype(), each.shape()};
      cotangents.push_back(to_array(cotangent(type, cotangents.size()), type));
    }
    const std::vector<std::size_t> inexact = differentiated(program_, false),
                                   floating = differentiated(program_, true);
    auto at = [&](const std::vector<std::size_t>& places) {
      Arrays some;
      for (std::size_t i : places) some.push_back(inputs[i]);
      return some;
    };
    Arrays all;
    if (program_.derivatives >= 1 && !inexact.empty() && !cotangents.empty()) {
      const auto function = function_of(inexact, inputs);
      const auto pulled = vjp(function, at(inexact)).second(cotangents);
      all = std::get<0>(pulled);
    }
    if (program_.derivatives >= 2 && !floating.empty() && !cotangents.empty()) {
      const auto function = function_of(floating, inputs);
      auto loss = [&](const Arrays& x) -> Array {
        Array total = zeros({});
        const Arrays values = function(x);
        for (std::size_t i = 0; i < values.size(); ++i) {
          Array product = values[i] * cotangents[i];
          if (product.dtype() == DType::kC64) product = real(product);
          total = total + sum(astype(product, product.dtype() == DType::kF64 ? DType::kF64 : DType::kF32));
        }
        return astype(total, DType::kF32);
      };
      Arrays along;
      for (std::size_t i = 0; i < floating.size(); ++i) {
        const Type& type = program_.type(program_.inputs[floating[i]].value);
        along.push_back(to_array(direction(type, i), type));
      }
      const Arrays x = at(floating);
      Arrays second;
      if (program_.forward_over_reverse) {
        auto gradient = [&](const Arrays& given) { return grad(loss)(given); };
        second = jvp(gradient, std::tuple(x), std::tuple(along)).second;
      } else {
        auto slope = [&](const Arrays& given) -> Array {
          Array total = zeros({});
          const Arrays gradients = grad(loss)(given);
          for (std::size_t i = 0; i < gradients.size(); ++i) {
            const Array product = gradients[i] * along[i];
            total = total + sum(astype(product, product.dtype() == DType::kF64 ? DType::kF64 : DType::kF32));
          }
          return astype(total, DType::kF32);
        };
        second = grad(slope)(x);
      }
      all.insert(all.end(), second.begin(), second.end());
    }
    return all;
  }

  const Program& program_;
  const Interpreter& interpreter_;
  Arrays inputs_;
};

Arrays results(const Program& program, Mode mode) {
  std::optional<Mesh> mesh;
  if (mode == Mode::kMany) mesh = mesh_of(program.mesh);
  auto lies = [&](const Spec& spec) { return NamedSharding(*mesh, partition_spec(spec)); };
  Arrays inputs, arguments, donated;
  for (const Input& input : program.inputs) {
    Array x = to_array(input.data, program.type(input.value));
    if (mesh) {
      for (const auto& [sizes, spec] : input.before)
        x = device_put(x, NamedSharding(mesh_of(sizes), partition_spec(spec)));
      Spec spec = input.spec;
      if (program.has_in_shardings && input.role == Role::kArgument) spec = program.in_argument;
      if (program.has_in_shardings && input.role == Role::kDonated) spec = program.in_donated;
      x = device_put(x, lies(spec));
    }
    inputs.push_back(x);
    if (input.role == Role::kArgument) arguments.push_back(x);
    if (input.role == Role::kDonated) donated.push_back(x);
  }
  const Interpreter interpreter(program, mesh);
  const Whole whole(program, interpreter, inputs);
  std::pair<Arrays, Arrays> both;
  if (mode == Mode::kEager) {
    both = whole.compute(inputs);
  } else {
    JitOptions options;
    options.name = "fuzz";
    options.donate_argnums = {1};
    // Half of the programs start each collective that has anything to run beside.
    if (mesh && program.seed % 2 == 1) options.overlap_threshold_bytes = 1;
    if (mesh && program.has_in_shardings)
      options.in_shardings = {lies(program.in_argument), lies(program.in_donated)};
    if (mesh && program.has_out_shardings)
      options.out_shardings = {lies(program.out_values), lies(program.out_derivatives)};
    both = jit(whole, options)(arguments, donated);
    if (mesh && program.has_out_shardings) {
      for (const auto& [arrays, spec] :
           {std::pair(both.first, program.out_values), std::pair(both.second, program.out_derivatives)}) {
        for (const Array& each : arrays) {
          if (!each.sharding().is_equivalent_to(lies(spec), each.ndim()))
            throw Error("a result lies as " + each.sharding().to_string() + ", out_shardings said " +
                        lies(spec).to_string());
        }
      }
    }
  }
  both.first.insert(both.first.end(), both.second.begin(), both.second.end());
  return both.first;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return std::ldexp(1.0, -8);
    case DType::kF16:
      return std::ldexp(1.0, -11);
    case DType::kF64:
      return std::ldexp(1.0, -53);
    default:
      return std::ldexp(1.0, -24);
  }
}

std::string pattern_of(const std::string& prefix, std::size_t i) { return prefix + std::to_string(i); }

}  // namespace

// c64 has none that is wider, and f32 stays beside it.
Program widened(Program program) {
  bool complex = false;
  for (const Type& type : program.types) complex = complex || type.dtype == DType::kC64;
  for (Type& type : program.types) {
    if (is_floating(type.dtype))
      type.dtype = complex ? (type.dtype == DType::kF64 ? DType::kF64 : DType::kF32) : DType::kF64;
  }
  return program;
}

double tolerance(const Program& program) {
  double worst = 0;
  for (const Type& type : program.types) {
    if (is_inexact(type.dtype)) worst = std::max(worst, epsilon(type.dtype));
  }
  // Narrow dtypes may differ by few units in the last place, others by more.
  return worst * (worst > 1e-5 ? 16 : 512);
}

std::string to_string(Mode mode) {
  return mode == Mode::kEager ? "eager" : mode == Mode::kOne ? "jit on one device" : "jit over 8 devices";
}

std::vector<double> cotangent(const Type& type, std::size_t i) {
  const std::int64_t n = num_elements(type.shape) * (type.dtype == DType::kC64 ? 2 : 1);
  std::vector<double> data;
  for (std::int64_t k = 0; k < n; ++k)
    data.push_back(static_cast<double>((5 * k + 3 * static_cast<std::int64_t>(i)) % 7 - 3) / 4 + 0.125);
  return data;
}

std::vector<double> direction(const Type& type, std::size_t i) {
  std::vector<double> data = cotangent(type, i + 2);
  std::reverse(data.begin(), data.end());
  return data;
}

std::vector<std::size_t> differentiated(const Program& program, bool floating_only) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const DType dtype = program.type(program.inputs[i].value).dtype;
    if (program.inputs[i].role == Role::kCaptured) continue;
    if (floating_only ? is_floating(dtype) : is_inexact(dtype)) places.push_back(i);
  }
  return places;
}

std::vector<std::string> output_names(const Program& program) {
  std::vector<std::string> names;
  bool inexact = false;
  for (std::size_t i = 0; i < program.body.outputs.size(); ++i) {
    names.push_back(pattern_of("value ", i));
    inexact = inexact || is_inexact(program.type(program.body.outputs[i]).dtype);
  }
  if (!inexact) return names;
  for (int order = 1; order <= program.derivatives; ++order) {
    for (std::size_t i : differentiated(program, order == 2))
      names.push_back(
          pattern_of(order == 1 ? "the cotangent of input " : "the second derivative by input ", i));
  }
  return names;
}

Outcome run(const Program& program, Mode mode) {
  Outcome outcome;
  try {
    for (const Array& each : results(program, mode)) outcome.outputs.push_back(to_numbers(each));
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

std::string compare_parts(const Program& program, const std::vector<Numbers>& expected) {
  Arrays actual;
  try {
    actual = results(program, Mode::kMany);
  } catch (const std::exception& error) {
    return error.what();
  }
  // Parts that this process does not have are taken from the expected results.
  std::vector<Numbers> outputs = expected;
  if (actual.size() != expected.size()) return "there are " + std::to_string(actual.size()) + " results";
  for (std::size_t o = 0; o < actual.size(); ++o) {
    if (actual[o].shape() != expected[o].type.shape || actual[o].dtype() != expected[o].type.dtype)
      return "result " + std::to_string(o) + " is " + actual[o].to_string();
    const std::size_t parts = actual[o].dtype() == DType::kC64 ? 2 : 1;
    for (const Shard& shard : actual[o].addressable_shards()) {
      const auto count = static_cast<std::size_t>(num_elements(shard.shape));
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<long double> element;
        append_element(element, shard.dtype, shard.data, i);
        std::size_t rest = i, at = 0, stride = 1;
        for (std::size_t d = shard.shape.size(); d-- > 0;) {
          const auto size = static_cast<std::size_t>(shard.shape[d]);
          at += (static_cast<std::size_t>(shard.index[d].start) + rest % size) * stride;
          rest /= size;
          stride *= static_cast<std::size_t>(actual[o].shape()[d]);
        }
        for (std::size_t part = 0; part < parts; ++part)
          outputs[o].elements[at * parts + part] = element[part];
      }
    }
  }
  return compare(program, outputs, expected);
}

std::string compare(const Program& program, const std::vector<Numbers>& actual,
                    const std::vector<Numbers>& expected, double slack) {
  if (actual.size() != expected.size())
    return std::to_string(actual.size()) + " results, expected " + std::to_string(expected.size());
  const double relative = slack * tolerance(program);
  const std::vector<std::string> names = output_names(program);
  for (std::size_t o = 0; o < actual.size(); ++o) {
    const Numbers &a = actual[o], &b = expected[o];
    const std::string name = o < names.size() ? names[o] : "result " + std::to_string(o);
    if (!(a.type == b.type))
      return name + " is " + std::string(lockstep::name(a.type.dtype)) + lockstep::to_string(a.type.shape) +
             ", expected " + std::string(lockstep::name(b.type.dtype)) + lockstep::to_string(b.type.shape);
    long double scale = 1;
    for (long double value : b.elements) {
      if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
    }
    const long double allowed = is_inexact(a.type.dtype) ? relative * scale : 0;
    for (std::size_t i = 0; i < a.elements.size(); ++i) {
      const long double x = a.elements[i], y = b.elements[i];
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= allowed) continue;
      std::string text = name + " differs at element " + std::to_string(i) + ": " + std::to_string(x) +
                         ", expected " + std::to_string(y) + "; all: [";
      for (std::size_t k = 0; k < std::min<std::size_t>(a.elements.size(), 16); ++k)
        text += (k > 0 ? " " : "") + std::to_string(static_cast<double>(a.elements[k]));
      text += "], expected [";
      for (std::size_t k = 0; k < std::min<std::size_t>(b.elements.size(), 16); ++k)
        text += (k > 0 ? " " : "") + std::to_string(static_cast<double>(b.elements[k]));
      return text + "]";
    }
  }
  return {};
}

std::string examine(const Program& program, const ExamineOptions& options, std::vector<Numbers>* outputs) {
  const Outcome one = run(program, Mode::kOne);
  if (outputs != nullptr) *outputs = one.outputs;
  if (!one.error.empty()) return to_string(Mode::kOne) + ": " + one.error;
  // The values' types are the program's.
  for (std::size_t i = 0; i < program.body.outputs.size(); ++i) {
    if (!(one.outputs[i].type == program.type(program.body.outputs[i])))
      return to_string(Mode::kOne) + ": value " + std::to_string(i) + " is " +
             std::string(name(one.outputs[i].type.dtype)) + lockstep::to_string(one.outputs[i].type.shape) +
             ", expected " + std::string(name(program.type(program.body.outputs[i]).dtype)) +
             lockstep::to_string(program.type(program.body.outputs[i]).shape);
  }
  for (Mode mode : {Mode::kMany, Mode::kEager}) {
    if (mode == Mode::kEager ? !options.eager : !options.many) continue;
    const Outcome other = run(program, mode);
    if (!other.error.empty()) return to_string(mode) + ": " + other.error;
    std::string difference = compare(program, other.outputs, one.outputs);
    if (difference.empty()) continue;
    // Rounding is a small part of what the results are, and goes where numbers are wider.
    if (compare(program, other.outputs, one.outputs, 64).empty()) {
      const Program wide = widened(program);
      const Outcome wide_one = run(wide, Mode::kOne), wide_other = run(wide, mode);
      if (wide_one.error.empty() && wide_other.error.empty() &&
          compare(wide, wide_other.outputs, wide_one.outputs, 64).empty())
        continue;
    }
    return to_string(mode) + ": " + difference;
  }
  return {};
}

}  // namespace lockstep::fuzz
