#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "lockstep/array/device_put.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/ops/ops.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/runtime/initialize.h"
#include "tests/golden/functions.h"

// Functions against what JAX gives for them (generate.py). For each: its values; where it has derivatives,
// those forwards and backwards; under vmap, on two examples, what it gives for each; with operands split over
// two devices, what it gives on one. docs/operations.md is the table of what was compared.
namespace lockstep::golden {
namespace {

using Json = nlohmann::json;

class TwoDevices : public ::testing::Environment {
  void SetUp() override { initialize({.num_cpu_devices = 2}); }
  void TearDown() override { shutdown(); }
};
const ::testing::Environment* const kTwoDevices = ::testing::AddGlobalTestEnvironment(new TwoDevices);

const Json& file() {
  static const Json all = [] {
    std::ifstream in(LOCKSTEP_GOLDEN_FILE);
    return Json::parse(in);
  }();
  return all;
}

const Functions& functions() {
  static const Functions all = [] {
    Functions all;
    add_elementwise(all);
    add_special(all);
    add_reductions(all);
    add_linear_algebra(all);
    add_neural(all);
    return all;
  }();
  return all;
}

double number(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "-inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

/// An array of golden.json.
struct Stored {
  DType dtype;
  Shape shape;
  std::vector<double> values;

  explicit Stored(const Json& json) : shape(json["shape"].get<Shape>()) {
    const std::string name = json["dtype"].get<std::string>();
    dtype = name == "float32" ? float32 : name == "int32" ? int32 : name == "uint8" ? uint8 : bool_;
    for (const Json& value : json["values"]) {
      const double x = number(value);
      values.push_back(dtype == float32 ? static_cast<float>(x) : x);
    }
  }

  Array array() const { return astype(lockstep::array(values, shape), dtype); }
};

std::vector<double> doubles(const Array& x) {
  if (x.dtype() != float32) return astype(x, float64).to_host<double>();
  const std::vector<float> narrow = x.to_host<float>();
  return {narrow.begin(), narrow.end()};
}

/// Each element of x as expected, NaN where it is NaN; within rtol and atol, or exact where they are 0.
void expect_stored(const Array& x, const Stored& expected, double rtol, double atol) {
  ASSERT_EQ(x.shape(), expected.shape);
  ASSERT_EQ(x.dtype(), expected.dtype);
  const std::vector<double> found = doubles(x);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = expected.values[i];
    if (found[i] == want || (std::isnan(found[i]) && std::isnan(want))) continue;
    ASSERT_LE(std::abs(found[i] - want), atol + rtol * std::abs(want))
        << "element " << i << ": " << found[i] << ", not " << want;
  }
}

void expect_same(const Array& x, const Array& y, double rtol, double atol) {
  Stored expected = Stored(Json{{"dtype", "bool"}, {"shape", y.shape()}, {"values", Json::array()}});
  expected.dtype = y.dtype();
  expected.values = doubles(y);
  expect_stored(x, expected, rtol, atol);
}

/// The numbers that generate.py's weights() and directions() are.
Array numbers(const Shape& shape, int factor, int modulus, double middle, double scale, double shift) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * factor % modulus - middle) * scale + shift);
  }
  return array(values, shape);
}

struct Case {
  const Json& json;
  Function function;
  Arrays arguments;
  double rtol, atol;

  explicit Case(const Json& json)
      : json(json),
        function(functions().at(json["name"].get<std::string>())),
        rtol(json.value("rtol", 0.0)),
        atol(json.value("atol", 0.0)) {
    for (const Json& name : json["args"])
      arguments.push_back(Stored(file()["inputs"][name.get<std::string>()]).array());
  }
};

/// Calls check for each case, which is named in failures.
template <class Check>
void for_each_case(Check check) {
  for (const Json& json : file()["cases"]) {
    SCOPED_TRACE(json["name"].get<std::string>());
    try {
      check(Case(json));
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Golden, TheFileAndThisTestNameTheSameFunctions) {
  std::set<std::string> stored, named;
  for (const Json& json : file()["cases"]) EXPECT_TRUE(stored.insert(json["name"].get<std::string>()).second);
  for (const auto& [name, function] : functions()) named.insert(name);
  EXPECT_EQ(stored, named);
}

TEST(Golden, ValuesAndDerivativesAreJaxs) {
  for_each_case([](const Case& c) {
    std::vector<bool> floats;
    for (const Array& x : c.arguments) floats.push_back(is_floating(x.dtype()));
    const bool differentiated = c.json.contains("jvp");
    Arrays tangents;
    for (const Array& x : c.arguments) {
      tangents.push_back(is_floating(x.dtype()) ? numbers(x.shape(), 5, 7, 3, 0.25, 0.125) : x);
    }
    auto all = jit([&](const Arrays& arguments, const Arrays& tangents) {
      if (!differentiated) return std::tuple(c.function(arguments), Arrays(), Arrays());
      auto [values, pull] = vjp(c.function, arguments);
      Arrays weights;
      for (const Array& x : values) weights.push_back(numbers(x.shape(), 7, 5, 2, 0.5, 0.25));
      auto [again, forwards] = jvp(c.function, std::tuple(arguments), std::tuple(tangents));
      return std::tuple(values, forwards, std::get<0>(pull(weights)));
    });
    auto [values, forwards, backwards] = all(c.arguments, tangents);
    ASSERT_EQ(values.size(), c.json["values"].size());
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_stored(values[i], Stored(c.json["values"][i]), c.rtol, c.atol);
    if (!differentiated) return;
    // A derivative adds up terms that may cancel: absolute to the size of what is added.
    const double atol = 10 * c.atol, rtol = 5 * c.rtol;
    for (std::size_t i = 0; i < values.size(); ++i)
      expect_stored(forwards[i], Stored(c.json["jvp"][i]), rtol, atol);
    std::size_t next = 0;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      if (floats[i]) expect_stored(backwards[i], Stored(c.json["vjp"][next++]), rtol, atol);
    }
  });
}

/// Another example: the leading dimension's parts the other way round; of a square matrix itself.
Array other_example(const Array& x) {
  if (x.ndim() > 1 && x.shape()[0] == x.shape().back()) return x;
  std::vector<Array> parts = split(x, x.shape()[0], 0);
  std::reverse(parts.begin(), parts.end());
  return concatenate(parts);
}

TEST(Golden, UnderVmapAndSplitOverDevices_EachFunctionIsAsByItself) {
  const Mesh mesh = make_mesh({{"data", 2}});
  for_each_case([&](const Case& c) {
    Arrays others, both, spread;
    for (const Array& x : c.arguments) {
      others.push_back(other_example(x));
      both.push_back(stack({x, others.back()}));
      spread.push_back(device_put(x, NamedSharding(mesh, x.shape()[0] % 2 == 0 ? P("data") : P())));
    }
    auto alone = jit(c.function);
    const Arrays first = alone(c.arguments), second = alone(others);
    const Arrays together = vmap(c.function)(both), parts = alone(spread);
    ASSERT_EQ(together.size(), first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      expect_same(index(together[i], 0), first[i], c.rtol, c.atol);
      expect_same(index(together[i], 1), second[i], c.rtol, c.atol);
      expect_same(parts[i], first[i], c.rtol, c.atol);
    }
  });
}

std::string table() {
  std::string text;
  for (const Json& json : file()["cases"]) {
    const std::string name = json["name"].get<std::string>();
    const bool differentiated = json.contains("jvp");
    std::string tolerance = "equal";
    if (!json.value("exact", false)) {
      std::ostringstream number;
      number << json["rtol"].get<double>() << ", " << json["atol"].get<double>();
      tolerance = number.str();
    }
    text += "| `" + name + "` | " + tolerance + " | " + (differentiated ? "yes | yes" : "- | -") +
            " | yes | yes |\n";
  }
  return text;
}

/// With LOCKSTEP_WRITE_DOCS set, the page is written anew and not compared.
TEST(Golden, TheTableOfThePageIsThis) {
  std::ifstream in(LOCKSTEP_OPERATIONS_PAGE);
  std::stringstream page;
  page << in.rdbuf();
  const std::string text = page.str(), head = "| --- | --- | --- | --- | --- | --- |\n";
  const std::size_t begin = text.find(head);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t from = begin + head.size();
  std::size_t to = from;
  while (to < text.size() && text[to] == '|') to = text.find('\n', to) + 1;
  if (std::getenv("LOCKSTEP_WRITE_DOCS") != nullptr) {
    std::ofstream(LOCKSTEP_OPERATIONS_PAGE) << text.substr(0, from) << table() << text.substr(to);
    return;
  }
  EXPECT_EQ(text.substr(from, to - from), table()) << "write it with LOCKSTEP_WRITE_DOCS=1";
}

}  // namespace
}  // namespace lockstep::golden
