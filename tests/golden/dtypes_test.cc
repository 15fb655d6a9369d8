// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "lockstep/array/trace.h"
#include "lockstep/jit/jit.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"
#include "tests/golden/stored.h"

// Tests of operations for each dtype, and of the dtype in which two meet, against JAX's (dtype_cases.py).
namespace lockstep::golden {
namespace {

using Binary = std::function<Array(const Array&, const Array&)>;

const std::map<std::string, Binary>& operations() {
  static const std::map<std::string, Binary> all = [] {
    std::map<std::string, Binary> all;
    all["add"] = [](const Array& x, const Array& y) { return x + y; };
    all["subtract"] = [](const Array& x, const Array& y) { return x - y; };
    all["multiply"] = [](const Array& x, const Array& y) { return x * y; };
    all["divide"] = [](const Array& x, const Array& y) { return x / y; };
    all["floor_divide"] = [](const Array& x, const Array& y) { return floor_divide(x, y); };
    all["remainder"] = [](const Array& x, const Array& y) { return remainder(x, y); };
    all["maximum"] = [](const Array& x, const Array& y) { return maximum(x, y); };
    all["equal"] = [](const Array& x, const Array& y) { return x == y; };
    all["less"] = [](const Array& x, const Array& y) { return x < y; };
    all["where"] = [](const Array& x, const Array& y) { return where(x == y, x, y); };
    all["negative"] = [](const Array& x, const Array&) { return -x; };
    all["abs"] = [](const Array& x, const Array&) { return abs(x); };
    all["square"] = [](const Array& x, const Array&) { return square(x); };
    all["power(2)"] = [](const Array& x, const Array&) { return power(x, 2); };
    all["sqrt"] = [](const Array& x, const Array&) { return sqrt(x * x); };
    all["exp"] = [](const Array& x, const Array&) { return exp(x / 4); };
    all["log"] = [](const Array& x, const Array&) { return log(x); };
    all["sin"] = [](const Array& x, const Array&) { return sin(is_complex(x.dtype()) ? x / 4 : x); };
    all["tanh"] = [](const Array& x, const Array&) { return tanh(is_complex(x.dtype()) ? x / 4 : x); };
    all["log1p"] = [](const Array& x, const Array&) { return log1p(abs(x)); };
    all["erf"] = [](const Array& x, const Array&) { return erf(x / 4); };
    all["floor"] = [](const Array& x, const Array&) { return floor(x / 4); };
    all["round"] = [](const Array& x, const Array&) { return round(x / 4); };
    all["clip"] = [](const Array& x, const Array&) { return clip(x, 2, 4); };
    all["weak int"] = [](const Array& x, const Array&) { return x + 3; };
    all["weak float"] = [](const Array& x, const Array&) { return x * 0.5; };
    all["bitwise_and"] = [](const Array& x, const Array& y) { return x & y; };
    all["bitwise_xor"] = [](const Array& x, const Array& y) { return x ^ y; };
    all["bitwise_not"] = [](const Array& x, const Array&) { return ~x; };
    all["left_shift"] = [](const Array& x, const Array&) { return left_shift(x, 2); };
    all["right_shift"] = [](const Array& x, const Array&) { return right_shift(x, 1); };
    all["real"] = [](const Array& x, const Array&) { return real(x); };
    all["imag"] = [](const Array& x, const Array&) { return imag(x); };
    all["conj"] = [](const Array& x, const Array&) { return conj(x); };
    all["sum"] = [](const Array& x, const Array&) { return sum(x); };
    all["prod"] = [](const Array& x, const Array&) { return prod(x, 1); };
    all["mean"] = [](const Array& x, const Array&) { return mean(x, 0); };
    all["var"] = [](const Array& x, const Array&) { return var(x, 1); };
    all["max"] = [](const Array& x, const Array&) { return max(x, 0); };
    all["min"] = [](const Array& x, const Array&) { return min(x); };
    all["any"] = [](const Array& x, const Array&) { return lockstep::any(x, 1); };
    all["all"] = [](const Array& x, const Array&) { return lockstep::all(x, 0); };
    all["logsumexp"] = [](const Array& x, const Array&) { return logsumexp(x); };
    all["argmax"] = [](const Array& x, const Array&) { return argmax(x, 1); };
    all["sort"] = [](const Array& x, const Array&) { return sort(x); };
    all["cumsum"] = [](const Array& x, const Array&) { return cumsum(x, 1); };
    all["matmul"] = [](const Array& x, const Array& y) { return matmul(x, transpose(y)); };
    all["transpose"] = [](const Array& x, const Array&) { return transpose(x); };
    all["take"] = [](const Array& x, const Array&) { return take(x, array({2, 0}), 1); };
    for (const Json& name : file()["promotion"]["names"]) {
      const DType to = dtype_of_numpys(name.get<std::string>());
      all["astype(" + name.get<std::string>() + ")"] = [to](const Array& x, const Array&) {
        return astype(x.dtype() == bool_ ? x : abs(x), to);
      };
    }
    return all;
  }();
  return all;
}

/// Two units in the last place of the dtype's fraction, of 8 bits one, and of functions in f64 a few more.
Tolerance of(DType dtype) {
  const DType parts = real_dtype(dtype);
  const double unit = parts == float64                            ? 1e-15
                      : !is_inexact(dtype)                        ? 0
                      : is_floating(dtype) && size_of(dtype) == 1 ? finfo(dtype).eps
                                                                  : 2 * finfo(dtype).eps;
  return Tolerance(unit, parts == float64 ? 1e-15 : 2.4e-7);
}

/// Where JAX with 64-bit dtypes enabled counts in i64 and meets a Python float in f64, here it is i32 and
/// f32.
Stored narrowed(Stored expected, const std::string& operation, const std::string& dtype) {
  if (operation == "argmax" && expected.dtype == int64) expected.dtype = int32;
  if (operation == "weak float" && (dtype == "int64" || dtype == "uint64")) expected.dtype = float32;
  return expected;
}

TEST(GoldenDTypes, EachOperation_GivesJaxsDTypesAndNumbers) {
  for (const auto& [name, json] : file()["dtypes"].items()) {
    SCOPED_TRACE(name);
    std::vector<std::string> names;
    for (const auto& [operation, result] : json["results"].items()) names.push_back(operation);
    const std::vector<Array> results = jit([&](Array x, Array y) {
      std::vector<Array> all;
      for (const std::string& each : names) all.push_back(operations().at(each)(x, y));
      return all;
    })(Stored(json["x"]).array(), Stored(json["y"]).array());
    for (std::size_t i = 0; i < names.size(); ++i) {
      SCOPED_TRACE(names[i]);
      const Stored expected(json["results"][names[i]]);
      expect_stored(results[i], narrowed(expected, names[i], name), of(results[i].dtype()));
    }
  }
}

/// JAX with 64-bit dtypes enabled makes of Python's numbers, where they decide, i64 and f64; here, as in JAX
/// without, they are i32 and f32.
DType jaxs(const std::string& name, DType x, std::optional<DType> y, bool floating) {
  const DType dtype = dtype_of_numpys(name);
  if (x == bool_ && !y && dtype == int64) return int32;
  if (dtype == float64 && x != float64 && y != float64 && (floating || (y && !is_floating(*y))))
    return float32;
  return dtype;
}

TEST(GoldenDTypes, EachPair_PromotesToJaxsDType) {
  const Json& json = file()["promotion"];
  Trace trace("promotion");
  auto tracer = [&](const Json& name) {
    return trace.input({dtype_of_numpys(name.get<std::string>()), {1}, false, {}});
  };
  std::vector<Array> each;
  for (const Json& name : json["names"]) each.push_back(tracer(name));
  for (std::size_t i = 0; i < each.size(); ++i) {
    const DType x = each[i].dtype();
    SCOPED_TRACE(json["names"][i].get<std::string>());
    for (std::size_t k = 0; k < each.size(); ++k) {
      SCOPED_TRACE(json["names"][k].get<std::string>());
      const Json& expected = json["pairs"][i][k];
      if (expected.is_null()) {
        EXPECT_THROW(each[i] + each[k], DTypeError);
      } else {
        EXPECT_EQ((each[i] + each[k]).dtype(), jaxs(expected.get<std::string>(), x, each[k].dtype(), false));
      }
    }
    EXPECT_EQ((each[i] + 1).dtype(), jaxs(json["int"][i].get<std::string>(), x, std::nullopt, false));
    EXPECT_EQ((each[i] + 1.0).dtype(), jaxs(json["float"][i].get<std::string>(), x, std::nullopt, true));
  }
}

}  // namespace
}  // namespace lockstep::golden
