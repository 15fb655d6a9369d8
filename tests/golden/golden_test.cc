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

/// Calls `check` for groups of cases, whose computations are one program each: a compilation takes longer
/// than what it computes.
template <class Check>
void for_each_group(Check check) {
  const Json& cases = file()["cases"];
  constexpr std::size_t kSize = 12;
  for (std::size_t first = 0; first < cases.size(); first += kSize) {
    std::vector<Case> group;
    for (std::size_t i = first; i < std::min(first + kSize, cases.size()); ++i) group.emplace_back(cases[i]);
    SCOPED_TRACE("cases from " + group.front().json["name"].get<std::string>());
    try {
      check(group);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

using Results = std::vector<Arrays>;  // of each case of a group

/// The functions of a group, each on its own arguments.
auto all_of(const std::vector<Case>& group) {
  return [&group](const Results& arguments) {
    Results results;
    for (std::size_t i = 0; i < group.size(); ++i) results.push_back(group[i].function(arguments[i]));
    return results;
  };
}

TEST(Golden, TheFileAndThisTestNameTheSameFunctions) {
  std::set<std::string> stored, named;
  for (const Json& json : file()["cases"]) EXPECT_TRUE(stored.insert(json["name"].get<std::string>()).second);
  for (const auto& [name, function] : functions()) named.insert(name);
  EXPECT_EQ(stored, named);
}

struct Derivatives {
  Arrays values, forwards, backwards;
};

Derivatives derivatives_of(const Case& c, const Arrays& arguments) {
  if (!c.json.contains("jvp")) return {c.function(arguments), {}, {}};
  Arrays tangents, weights;
  for (const Array& x : arguments) {
    tangents.push_back(is_floating(x.dtype()) ? numbers(x.shape(), 5, 7, 3, 0.25, 0.125) : x);
  }
  auto [values, pull] = vjp(c.function, arguments);
  for (const Array& x : values) weights.push_back(numbers(x.shape(), 7, 5, 2, 0.5, 0.25));
  auto [again, forwards] = jvp(c.function, std::tuple(arguments), std::tuple(tangents));
  return {values, forwards, std::get<0>(pull(weights))};
}

void expect_jaxs(const Case& c, const Derivatives& found) {
  SCOPED_TRACE(c.json["name"].get<std::string>());
  ASSERT_EQ(found.values.size(), c.json["values"].size());
  for (std::size_t i = 0; i < found.values.size(); ++i)
    expect_stored(found.values[i], Stored(c.json["values"][i]), c.rtol, c.atol);
  if (!c.json.contains("jvp")) return;
  // A derivative adds up terms that may cancel: absolute to the size of what is added.
  const double atol = 10 * c.atol, rtol = 5 * c.rtol;
  for (std::size_t i = 0; i < found.forwards.size(); ++i)
    expect_stored(found.forwards[i], Stored(c.json["jvp"][i]), rtol, atol);
  std::size_t next = 0;
  for (std::size_t i = 0; i < c.arguments.size(); ++i) {
    if (is_floating(c.arguments[i].dtype()))
      expect_stored(found.backwards[i], Stored(c.json["vjp"][next++]), rtol, atol);
  }
}

TEST(Golden, ValuesAndDerivativesAreJaxs) {
  for_each_group([](const std::vector<Case>& group) {
    Results arguments;
    for (const Case& c : group) arguments.push_back(c.arguments);
    const std::vector<Derivatives> found = jit([&](const Results& arguments) {
      std::vector<Derivatives> all;
      for (std::size_t i = 0; i < group.size(); ++i) all.push_back(derivatives_of(group[i], arguments[i]));
      return all;
    })(arguments);
    for (std::size_t i = 0; i < group.size(); ++i) expect_jaxs(group[i], found[i]);
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
  for_each_group([&](const std::vector<Case>& group) {
    Results arguments, others, both, spread;
    for (const Case& c : group) {
      arguments.push_back(c.arguments);
      Arrays &other = others.emplace_back(), &pair = both.emplace_back(), &parts = spread.emplace_back();
      for (const Array& x : c.arguments) {
        other.push_back(other_example(x));
        pair.push_back(stack({x, other.back()}));
        parts.push_back(device_put(x, NamedSharding(mesh, x.shape()[0] % 2 == 0 ? P("data") : P())));
      }
    }
    auto alone = jit(all_of(group));
    const Results first = alone(arguments), second = alone(others), parts = alone(spread);
    const Results together = vmap(all_of(group))(both);
    for (std::size_t k = 0; k < group.size(); ++k) {
      const Case& c = group[k];
      SCOPED_TRACE(c.json["name"].get<std::string>());
      ASSERT_EQ(together[k].size(), first[k].size());
      for (std::size_t i = 0; i < first[k].size(); ++i) {
        expect_same(index(together[k][i], 0), first[k][i], c.rtol, c.atol);
        expect_same(index(together[k][i], 1), second[k][i], c.rtol, c.atol);
        expect_same(parts[k][i], first[k][i], c.rtol, c.atol);
      }
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
