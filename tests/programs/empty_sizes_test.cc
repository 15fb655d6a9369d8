// SPDX-License-Identifier: Apache-2.0
// Arrays without elements: what JAX 0.10.2 gives for the same lines, outside of jit and within.

#include <gtest/gtest.h>

#include <functional>

#include "lockstep/base/fail.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/derivatives.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/random.h"
#include "lockstep/testing/errors.h"

namespace lockstep {
namespace {

using Arrays = std::vector<Array>;

struct Result {
  Arrays arrays;
  Result(Array x) : arrays{std::move(x)} {}
  Result(Arrays all) : arrays(std::move(all)) {}
  Result(std::pair<Array, Array> two) : arrays{two.first, two.second} {}
};

struct Case {
  std::string name, expected;  ///< as text_of
  std::function<Result()> compute;
};

/// "f32[2] 0 0; i32[0]".
std::string text_of(const Arrays& arrays) {
  std::string text;
  for (const Array& x : arrays) {
    text += (text.empty() ? "" : "; ") + to_string(Aval{x.dtype(), x.shape(), false, {}});
    for (float value : astype(x, float32).to_host<float>())
      text += std::isnan(value) ? " nan" : fmt::format(" {}", value);
  }
  return text;
}

void expect_all(const std::vector<Case>& all) {
  for (const Case& each : all) {
    try {
      EXPECT_EQ(text_of(each.compute().arrays), each.expected) << each.name;
      EXPECT_EQ(text_of(jit([&] { return each.compute().arrays; })()), each.expected)
          << each.name << ", jitted";
    } catch (const std::exception& error) {
      ADD_FAILURE() << each.name << ": " << error.what();
    }
  }
}

Array o(const Shape& shape) { return ones(shape); }
Array z(const Shape& shape) { return zeros(shape); }
Array no_elements() { return zeros({0}, int32); }
Array six() { return reshape(arange(6, float32), {2, 3}); }
Array i(std::int64_t number) { return full({1}, number, int32); }
constexpr auto kDrop = GatherScatterMode::kFillOrDrop;

TEST(EmptySizes, Products_GiveWhatJaxGives) {
  auto e = [](std::string subscripts, std::vector<Shape> shapes, std::string expected) -> Case {
    return {subscripts, std::move(expected), [=] {
              Arrays operands;
              for (const Shape& shape : shapes) operands.push_back(ones(shape));
              return einsum(subscripts, operands);
            }};
  };
  expect_all({e("ij,kj->ik", {{0, 3}, {2, 3}}, "f32[0,2]"),
              e("ij,jk->ik", {{2, 0}, {0, 3}}, "f32[2,3] 0 0 0 0 0 0"),
              e("ij->ji", {{0, 3}}, "f32[3,0]"),
              e("ij->", {{0, 3}}, "f32[] 0"),
              e("ij->i", {{3, 0}}, "f32[3] 0 0 0"),
              e("ii->i", {{0, 0}}, "f32[0]"),
              e("ii", {{0, 0}}, "f32[] 0"),
              e("bij,bjk->bik", {{0, 2, 3}, {0, 3, 4}}, "f32[0,2,4]"),
              e("bij,bjk->bik", {{2, 0, 3}, {2, 3, 4}}, "f32[2,0,4]"),
              e("bij,bjk->bik", {{2, 1, 0}, {2, 0, 2}}, "f32[2,1,2] 0 0 0 0"),
              e("...ij,...jk->...ik", {{0, 2, 3}, {1, 3, 4}}, "f32[0,2,4]"),
              e("...ij,...jk->...ik", {{0, 2, 3}, {3, 4}}, "f32[0,2,4]"),
              e("...i->...", {{1, 0}}, "f32[1] 0"),
              e("...,...->...", {{1}, {0}}, "f32[0]"),
              e("...ij->...ji", {{0, 1, 3}}, "f32[0,3,1]"),
              e("i,j->ij", {{0}, {2}}, "f32[0,2]"),
              e("i,i->", {{0}, {0}}, "f32[] 0"),
              e("i,j,k->ijk", {{2}, {0}, {3}}, "f32[2,0,3]"),
              // A size of 1 is repeated, as 1 and 0 are.
              e("ij,ij->ij", {{1, 3}, {2, 3}}, "f32[2,3] 1 1 1 1 1 1"),
              e("ij,jk->ik", {{2, 1}, {3, 2}}, "f32[2,2] 3 3 3 3"),
              e("i,i->i", {{1}, {0}}, "f32[0]"),
              {"matmul 0", "f32[0,2]",
               [] {
                 return matmul(o({0, 3}), o({3, 2}));
               }},
              {"matmul 1", "f32[2,3] 0 0 0 0 0 0",
               [] {
                 return matmul(o({2, 0}), o({0, 3}));
               }},
              {"matmul 2", "f32[] 0", [] { return matmul(o({0}), o({0})); }},
              {"matmul 3", "f32[0,2,4]",
               [] {
                 return matmul(o({0, 2, 3}), o({1, 3, 4}));
               }},
              {"matmul 4", "f32[0,2,4]",
               [] {
                 return matmul(o({0, 2, 3}), o({3, 4}));
               }},
              {"matmul 5", "f32[0,4]",
               [] {
                 return matmul(o({3}), o({0, 3, 4}));
               }},
              {"matmul 6", "f32[2,1,2] 0 0 0 0",
               [] {
                 return matmul(o({1, 1, 0}), o({2, 0, 2}));
               }},
              {"tensordot", "f32[2,1] 0 0",
               [] {
                 return tensordot(o({2, 0, 3}), o({0, 3, 1}), 2);
               }},
              {"tensordot of 0 axes", "f32[2,0,3]",
               [] {
                 return tensordot(o({2, 0}), o({3}), 0);
               }},
              {"inner", "f32[2,3] 0 0 0 0 0 0",
               [] {
                 return inner(o({2, 0}), o({3, 0}));
               }},
              {"vdot", "f32[] 0", [] { return vdot(o({0}), o({0})); }},
              {"dot", "f32[2] 0 0",
               [] {
                 return dot(o({2, 0}), o({0}));
               }},
              {"outer", "f32[0,3]", [] { return outer(o({0}), o({3})); }},
              {"kron", "f32[0,4]", [] {
                 return kron(o({0, 2}), o({3, 2}));
               }}});
}

TEST(EmptySizes, Attention_GivesWhatJaxGives) {
  auto a = [](Shape q, Shape k, std::string expected) -> Case {
    return {to_string(q) + to_string(k), std::move(expected), [=]() -> Result {
              return Arrays{nn::dot_product_attention(o(q), o(k), o(k)),
                            nn::dot_product_attention(o(q), o(k), o(k), {.is_causal = true})};
            }};
  };
  expect_all({a({0, 2, 1, 4}, {0, 3, 1, 4}, "f32[0,2,1,4]; f32[0,2,1,4]"),
              a({2, 0, 1, 4}, {2, 3, 1, 4}, "f32[2,0,1,4]; f32[2,0,1,4]"),
              a({2, 1, 1, 2}, {2, 0, 1, 2}, "f32[2,1,1,2] 0 0 0 0; f32[2,1,1,2] 0 0 0 0"),
              a({2, 3, 1, 0}, {2, 3, 1, 0}, "f32[2,3,1,0]; f32[2,3,1,0]")});
}

TEST(EmptySizes, Reductions_GiveWhatJaxGives) {
  using Reduce = Array (*)(const Operand&, ReduceOptions);
  using Vary = Array (*)(const Operand&, VarianceOptions);
  auto of = [](const char* name, const char* dtype, std::string value, auto f) -> Case {
    const std::string expected =
        fmt::format("{0}[] {1}; {0}[] {1}; {0}[3] {1} {1} {1}; {0}[0]", dtype, value);
    return {name, expected, [=]() -> Result {
              return Arrays{f(z({0}), {}), f(z({0, 3}), {}), f(z({0, 3}), {.axis = 0}),
                            f(z({0, 3}), {.axis = 1})};
            }};
  };
  expect_all({of("sum", "f32", "0", Reduce(sum)),
              of("prod", "f32", "1", Reduce(prod)),
              of("any", "bool", "0", Reduce(any)),
              of("all", "bool", "1", Reduce(all)),
              of("mean", "f32", "nan", Reduce(mean)),
              of("var", "f32", "nan", Vary(var)),
              of("std_", "f32", "nan", Vary(std_)),
              of("nansum", "f32", "0", Reduce(nansum)),
              of("nanmean", "f32", "nan", Reduce(nanmean)),
              of("logsumexp", "f32", "-inf", Reduce(logsumexp)),
              of("count_nonzero", "i32", "0", Reduce(count_nonzero)),
              {"max", "f32[0]",
               [] {
                 return max(z({0, 3}), 1);
               }},
              {"min", "f32[0]",
               [] {
                 return min(z({0, 3}), 1);
               }},
              {"nanmax", "f32[0]",
               [] {
                 return nanmax(z({0, 3}), {.axis = 1});
               }},
              {"ptp", "f32[0]",
               [] {
                 return ptp(z({0, 3}), {.axis = 1});
               }},
              {"argmax", "i32[0]",
               [] {
                 return argmax(z({0, 3}), 1);
               }},
              {"argmin", "i32[0]",
               [] {
                 return argmin(z({0, 3}), 1);
               }},
              {"nanargmax", "i32[0]",
               [] {
                 return nanargmax(z({0, 3}), 1);
               }},
              {"average", "f32[] nan", [] { return average(z({0})); }},
              {"median", "f32[0]",
               [] {
                 return median(z({0, 3}), 1);
               }},
              {"quantile", "f32[0]",
               [] {
                 return quantile(z({0, 3}), 0.5, {.axis = 1});
               }},
              {"quantile of no q", "f32[0]", [] { return quantile(o({3}), z({0})); }},
              {"cov", "f32[2,2] nan nan nan nan",
               [] {
                 return cov(z({2, 0}));
               }},
              {"softmax", "f32[0]; f32[2,0]; f32[0,2]",
               []() -> Result {
                 return Arrays{nn::softmax(z({0})), nn::softmax(z({2, 0})), nn::log_softmax(z({0, 2}))};
               }},
              {"norms", "f32[] 0; f32[] 0; f32[] 0; f32[] 0; f32[] 0; f32[0]",
               []() -> Result {
                 return Arrays{linalg::norm(z({0})),
                               linalg::norm(z({0}), {.ord = 1}),
                               linalg::norm(z({0}), {.ord = INFINITY}),
                               linalg::norm(z({0}), {.ord = 0}),
                               linalg::norm(z({0}), {.ord = 3}),
                               linalg::norm(z({0, 3}), {.axis = 1})};
               }},
              {"equal", "bool[] 1; bool[] 0; bool[] 1", []() -> Result {
                 return Arrays{array_equal(z({0}), z({0})), array_equal(z({0}), z({0, 1})),
                               allclose(z({0}), z({1}))};
               }}});
}

TEST(EmptySizes, SortsAndRunningSums_GiveWhatJaxGives) {
  for (const Shape& shape : std::vector<Shape>{{0}, {0, 3}, {3, 0}}) {
    const std::string s = to_string(shape), same = "f32" + s;
    Shape less = shape;
    less.back() = std::max<std::int64_t>(less.back() - 1, 0);
    expect_all({{"sort " + s, same, [=] { return sort(z(shape)); }},
                {"sort 0 " + s, same, [=] { return sort(z(shape), 0); }},
                {"argsort " + s, "i32" + s, [=] { return argsort(z(shape)); }},
                {"cumsum " + s, "f32[0]", [=] { return cumsum(z(shape)); }},
                {"cumsum 0 " + s, same, [=] { return cumsum(z(shape), {.axis = 0, .reverse = true}); }},
                {"cumprod " + s, same, [=] { return cumprod(z(shape), -1); }},
                {"cummax " + s, same, [=] { return cummax(z(shape), 0); }},
                {"cumlogsumexp " + s, same, [=] { return cumlogsumexp(z(shape), 0); }},
                {"diff " + s, "f32" + to_string(less), [=] { return diff(z(shape)); }},
                {"flip " + s, same, [=] { return flip(z(shape)); }},
                {"roll " + s, same, [=] { return roll(z(shape), 1); }},
                {"roll 0 " + s, same, [=] { return roll(z(shape), 1, 0); }}});
  }
  expect_all({{"top_k", "f32[0]; i32[0]", [] { return top_k(z({0}), 0); }},
              {"top_k none", "f32[0]; i32[0]", [] { return top_k(z({3}), 0); }},
              {"top_k of rows", "f32[0,2]; i32[0,2]",
               [] {
                 return top_k(z({0, 3}), 2);
               }},
              {"lexsort", "i32[0]",
               [] {
                 return lexsort({z({0}), z({0})});
               }},
              {"searchsorted", "i32[3] 0 0 0", [] { return searchsorted(z({0}), o({3})); }},
              {"searchsorted none", "i32[0]", [] { return searchsorted(z({3}), z({0})); }},
              {"unique", "f32[2] 5 5", [] { return unique(z({0}), 2, 5); }},
              {"unique none", "f32[0]", [] { return unique(o({3}), 0); }},
              {"nonzero", "i32[2] 0 0", [] { return nonzero(z({0}), 2); }},
              {"nonzero of rows", "i32[1] 0; i32[1] 0",
               [] {
                 return nonzero(z({0, 3}), 1);
               }},
              {"nonzero none", "i32[0]", [] { return nonzero(o({3}), 0); }},
              {"flatnonzero", "i32[2] 0 0", [] { return flatnonzero(z({0}), 2); }},
              {"bincount", "i32[3] 0 0 0", [] { return bincount(no_elements(), 3); }},
              {"bincount none", "i32[0]", [] { return bincount(i(1), 0); }},
              {"segment_sum", "f32[3] 0 0 0", [] { return segment_sum(z({0}), no_elements(), 3); }},
              {"segment_max", "f32[2] -inf -inf", [] { return segment_max(z({0}), no_elements(), 2); }},
              {"segment_prod", "f32[2,2] 1 1 1 1",
               [] {
                 return segment_prod(z({0, 2}), no_elements(), 2);
               }},
              {"segment_sum none", "f32[0]", [] { return segment_sum(o({1}), i(0), 0); }},
              {"segment_sum of rows", "f32[3,0]", [] {
                 return segment_sum(z({1, 0}), i(0), 3);
               }}});
}

TEST(EmptySizes, CreationAndRearrangement_GiveWhatJaxGives) {
  expect_all(
      {{"arange", "i32[0]", [] { return arange(0); }},
       {"linspace", "f32[0]", [] { return linspace(0, 1, 0); }},
       {"eye", "f32[0,0]; f32[0,3]",
        []() -> Result {
          return Arrays{eye(0), eye(0, 3)};
        }},
       {"tri", "f32[0,3]", [] { return tri(0, 3); }},
       {"full", "f32[0,2]",
        [] {
          return full({0, 2}, 3.0);
        }},
       {"one_hot", "f32[0,3]; f32[1,0]",
        []() -> Result {
          return Arrays{one_hot(no_elements(), 3), one_hot(i(0), 0)};
        }},
       {"concatenate", "f32[2,3] 1 1 1 1 1 1",
        [] {
          return concatenate({z({0, 3}), o({2, 3})});
        }},
       {"concatenate none", "f32[0]",
        [] {
          return concatenate({z({0}), z({0})});
        }},
       {"stack", "f32[2,0]",
        [] {
          return stack({z({0}), z({0})});
        }},
       {"hstack", "f32[2] 0 0",
        [] {
          return hstack({z({0}), z({2})});
        }},
       {"append", "f32[1] 1", [] { return append(z({0}), 1.0); }},
       {"split", "f32[0]; f32[0]; f32[0]", [] { return split(z({0}), 3); }},
       {"array_split", "f32[1] 0; f32[1] 0; f32[0]", [] { return array_split(z({2}), 3); }},
       {"repeat", "f32[0]; f32[0]",
        []() -> Result {
          return Arrays{repeat(z({0}), 3), repeat(o({3}), 0)};
        }},
       {"repeat by counts", "f32[0]; f32[2] 1 1; f32[0]",
        []() -> Result {
          return Arrays{repeat(z({0}), no_elements(), {.total_repeat_length = 0}),
                        repeat(o({2}), zeros({2}, int32), {.total_repeat_length = 2}),
                        repeat(o({1}), i(1), {.total_repeat_length = 0})};
        }},
       {"tile", "f32[0]; f32[0]",
        []() -> Result {
          return Arrays{tile(z({0}), 3), tile(o({2}), 0)};
        }},
       {"pad", "f32[2] 0 0",
        [] {
          return pad(z({0}), {{1, 1}});
        }},
       {"pad of rows", "f32[1,3] 5 5 5",
        [] {
          return pad(z({0, 2}), {{1, 0}, {0, 1}}, 5.0);
        }},
       {"meshgrid", "f32[2,0]; f32[2,0]",
        [] {
          return meshgrid({z({0}), z({2})});
        }},
       {"reshape", "f32[3,0]; f32[0,3]",
        []() -> Result {
          return Arrays{reshape(z({0, 3}), {3, 0}), reshape(z({0, 3}), {-1, 3})};
        }},
       {"broadcast_to", "f32[0]", [] { return broadcast_to(z({1}), {0}); }},
       {"add", "f32[0]", [] { return z({0}) + z({1}); }},
       {"where", "f32[0]", [] { return where(z({0}) > 0, z({1}), 2.0); }},
       {"squeeze", "f32[0]",
        [] {
          return squeeze(z({1, 0}));
        }},
       {"transpose", "f32[3,0]",
        [] {
          return transpose(z({0, 3}));
        }},
       {"diag", "f32[0,0]; f32[0]; f32[0]",
        []() -> Result {
          return Arrays{diag(z({0})), diag(z({0, 3})), diagonal(z({3, 0}))};
        }},
       {"trace", "f32[] 0",
        [] {
          return trace(z({0, 3}));
        }},
       {"tril", "f32[0,3]; f32[3,0]",
        []() -> Result {
          return Arrays{tril(z({0, 3})), triu(z({3, 0}))};
        }},
       {"uniform", "f32[0,3]",
        [] {
          return random::uniform(random::key(0), {0, 3});
        }},
       {"normal", "f32[0]", [] { return random::normal(random::key(0), {0}); }},
       {"bits", "u32[0]", [] { return random::bits(random::key(0), {0}); }},
       {"randint", "i32[0]", [] { return random::randint(random::key(0), {0}, 0, 5); }},
       {"permutation", "i32[0]; f32[0,3]",
        []() -> Result {
          return Arrays{random::permutation(random::key(0), 0),
                        random::permutation(random::key(0), z({0, 3}))};
        }},
       {"choice", "i32[0]; i32[0]",
        []() -> Result {
          return Arrays{random::choice(random::key(0), 5, {0}), random::choice(random::key(0), 0, {0})};
        }},
       {"categorical", "i32[0]",
        [] {
          return random::categorical(random::key(0), z({0, 3}));
        }},
       {"random::split", "u32[0,2]", [] { return random::split(random::key(0), 0).data(); }}});
}

TEST(EmptySizes, IndexingAndUpdates_GiveWhatJaxGives) {
  expect_all(
      {{"x[none]", "f32[0,3]", [] { return six()[no_elements()]; }},
       {"x[:, none]", "f32[2,0]",
        [] {
          return six()[{slice(), no_elements()}];
        }},
       {"x[0:0]", "f32[0,3]", [] { return six()[slice(0, 0)]; }},
       {"z[none]", "f32[0,3]",
        [] {
          return z({0, 3})[no_elements()];
        }},
       {"z[:, 1]", "f32[0]",
        [] {
          return z({0, 3})[{slice(), 1}];
        }},
       {"at[none].set", "f32[2,3] 0 1 2 3 4 5", [] { return six().at(no_elements()).set(9.0); }},
       {"at[0:0].set", "f32[2,3] 0 1 2 3 4 5", [] { return six().at(slice(0, 0)).set(9.0); }},
       {"z.at[0].add", "f32[0,3]",
        [] {
          return z({0, 3}).at(i(0)).add(1.0);
        }},
       {"z.at[:, 1].set", "f32[0,3]",
        [] {
          return z({0, 3}).at({slice(), 1}).set(1.0);
        }},
       {"z.at[none].max", "f32[0]", [] { return z({0}).at(no_elements()).max(o({0})); }},
       {"take", "f32[0]; f32[0]; f32[0,1]",
        []() -> Result {
          return Arrays{take(six(), no_elements()), take(z({0}), no_elements()), take(z({0, 3}), i(1), 1)};
        }},
       {"take_along_axis", "f32[2,0]",
        [] {
          return take_along_axis(six(), zeros({2, 0}, int32), 1);
        }},
       {"put_along_axis", "f32[2,3] 0 1 2 3 4 5",
        [] {
          return put_along_axis(six(), zeros({2, 0}, int32), 1.0, 1);
        }},
       {"dynamic_slice", "f32[0,2]; f32[0,2]",
        []() -> Result {
          return Arrays{dynamic_slice(z({0, 3}), {0, 1}, {0, 2}), dynamic_slice(six(), {1, 1}, {0, 2})};
        }},
       {"dynamic_update_slice", "f32[2,3] 0 1 2 3 4 5; f32[0,3]", []() -> Result {
          return Arrays{dynamic_update_slice(six(), z({0, 2}), {1, 1}),
                        dynamic_update_slice(z({0, 3}), z({0, 2}), {0, 1})};
        }}});
}

TEST(EmptySizes, ConvolutionsAndPools_GiveWhatJaxGives) {
  auto conv = [](std::string name, std::string expected, Shape x, Shape kernel,
                 nn::ConvPadding padding) -> Case {
    return {name, expected, [=] { return nn::conv(z(x), o(kernel), {.padding = padding}); }};
  };
  expect_all({conv("no images", "f32[0,4,4,5]", {0, 4, 4, 2}, {3, 3, 2, 5}, "SAME"),
              conv("no rows", "f32[1,0,4,5]", {1, 0, 4, 2}, {3, 3, 2, 5}, "SAME"),
              conv("no rows, valid", "f32[1,0,2,5]", {1, 0, 4, 2}, {3, 3, 2, 5}, "VALID"),
              conv("less than the kernel", "f32[1,0,2,5]", {1, 2, 4, 2}, {3, 3, 2, 5}, "VALID"),
              conv("no features in", "f32[1,1,1,2] 0 0", {1, 3, 3, 0}, {3, 3, 0, 2}, "VALID"),
              conv("no features out", "f32[1,4,4,0]", {1, 4, 4, 2}, {3, 3, 2, 0}, "SAME"),
              {"max_pool", "f32[0,2,2,2]; f32[1,0,2,2]; f32[1,0,2,2]",
               []() -> Result {
                 return Arrays{nn::max_pool(z({0, 4, 4, 2}), {2, 2}, {.strides = {2, 2}}),
                               nn::max_pool(z({1, 0, 4, 2}), {2, 2}, {.strides = {2, 2}}),
                               nn::max_pool(z({1, 0, 4, 2}), {2, 2}, {.strides = {2, 2}, .padding = "SAME"})};
               }},
              {"avg_pool", "f32[1,0,2,2]", [] {
                 return nn::avg_pool(z({1, 1, 4, 2}), {2, 2}, {.strides = {2, 2}});
               }}});
}

TEST(EmptySizes, Decompositions_GiveWhatJaxGives) {
  namespace la = linalg;
  expect_all(
      {{"cholesky", "f32[0,0]; f32[0,2,2]",
        []() -> Result {
          return Arrays{la::cholesky(z({0, 0})), la::cholesky(z({0, 2, 2}))};
        }},
       {"inv", "f32[0,0]; f32[0,2,2]",
        []() -> Result {
          return Arrays{la::inv(z({0, 0})), la::inv(z({0, 2, 2}))};
        }},
       {"det", "f32[] 1; f32[0]",
        []() -> Result {
          return Arrays{la::det(z({0, 0})), la::det(z({0, 2, 2}))};
        }},
       {"slogdet", "f32[] 1; f32[] 0",
        [] {
          return la::slogdet(z({0, 0}));
        }},
       {"eigh", "f32[0]; f32[0,0]; f32[0,2]; f32[0,2,2]",
        []() -> Result {
          auto a = la::eigh(z({0, 0})), b = la::eigh(z({0, 2, 2}));
          return Arrays{a.eigenvalues, a.eigenvectors, b.eigenvalues, b.eigenvectors};
        }},
       {"svd", "f32[0,0]; f32[0]; f32[0,3]; f32[3,0]; f32[0]; f32[0,0]; f32[0,2,2]; f32[0,2]; f32[0,2,2]",
        []() -> Result {
          auto a = la::svd(z({0, 3})), b = la::svd(z({3, 0})), c = la::svd(z({0, 2, 2}));
          return Arrays{a.u, a.s, a.vh, b.u, b.s, b.vh, c.u, c.s, c.vh};
        }},
       {"qr", "f32[0,0]; f32[0,3]; f32[3,0]; f32[0,0]; f32[0,2,2]; f32[0,2,2]",
        []() -> Result {
          auto a = la::qr(z({0, 3})), b = la::qr(z({3, 0})), c = la::qr(z({0, 2, 2}));
          return Arrays{a.q, a.r, b.q, b.r, c.q, c.r};
        }},
       {"pinv", "f32[0,0]; f32[3,0]; f32[0,3]",
        []() -> Result {
          return Arrays{la::pinv(z({0, 0})), la::pinv(z({0, 3})), la::pinv(z({3, 0}))};
        }},
       {"matrix_rank", "i32[0]",
        [] {
          return la::matrix_rank(z({0, 2, 2}));
        }},
       {"matrix_power", "f32[0,0]",
        [] {
          return la::matrix_power(z({0, 0}), 3);
        }},
       {"solve", "f32[0,2]; f32[2,0]",
        []() -> Result {
          return Arrays{la::solve(z({0, 0}), z({0, 2})), la::solve(eye(2), z({2, 0}))};
        }},
       {"triangular_solve", "f32[0,2]", [] {
          return la::triangular_solve(z({0, 0}), z({0, 2}), {.left_side = true});
        }}});
}

TEST(EmptySizes, Transforms_GiveWhatJaxGives) {
  auto g = [](auto f) { return [=](Shape shape) -> Result { return grad(f)(z(shape)); }; };
  auto of = [&](const char* name, std::string expected, Shape shape, auto f) -> Case {
    return {name, expected, [=] { return g(f)(shape); }};
  };
  expect_all({of("sum", "f32[0,3]", {0, 3}, [](Array x) { return sum(x * x); }),
              of("mean", "f32[0,3]", {0, 3}, [](Array x) { return mean(x); }),
              of("matmul", "f32[2,0]", {2, 0},
                 [](Array x) {
                   return sum(matmul(x, o({0, 3})));
                 }),
              of("einsum", "f32[0,3]", {0, 3},
                 [](Array x) {
                   return sum(einsum("ij,kj->ik", {x, o({2, 3})}));
                 }),
              of("logsumexp", "f32[2,0]", {2, 0}, [](Array x) { return sum(logsumexp(x, 1)); }),
              of("sort, running sums, prod, var, norm", "f32[0]", {0},
                 [](Array x) {
                   return sum(sort(x)) + sum(cumsum(x)) + sum(cumprod(x)) + sum(cumlogsumexp(x)) + prod(x) +
                          var(x) + linalg::norm(x);
                 }),
              of("x[none]", "f32[3] 0 0 0", {3}, [](Array x) { return sum(x[no_elements()]); }),
              of("softmax", "f32[2,0]", {2, 0}, [](Array x) { return sum(nn::softmax(x)); }),
              {"kernels of a conv", "f32[2,2,1,1] 0 0 0 0",
               []() -> Result {
                 return grad([](Array w) {
                   return sum(nn::conv(z({1, 1, 2, 1}), w, {.padding = "VALID"}));
                 })(o({2, 2, 1, 1}));
               }},
              {"vmap", "f32[0,3]",
               [] {
                 return vmap([](Array x) { return sin(x); })(z({0, 3}));
               }},
              {"scan", "f32[2] 0 0; f32[0,2]",
               [] {
                 return scan([](Array c, Array x) { return std::pair(c + x, c * 2.0); }, z({2}), z({0, 2}));
               }},
              {"scan of nothing", "f32[0]; f32[3,0]",
               [] {
                 return scan([](Array c, Array x) { return std::pair(c + x, c * 2.0); }, z({0}), z({3, 0}));
               }},
              {"jacobians", "f32[0,0]; f32[0,0]; f32[0,0]",
               []() -> Result {
                 auto twice = [](Array x) { return x * 2.0; };
                 return Arrays{jacrev(twice)(z({0})), jacfwd(twice)(z({0})),
                               hessian([](Array x) { return sum(x * x); })(z({0}))};
               }},
              {"losses", "f32[0]; f32[0]", []() -> Result {
                 return Arrays{nn::softmax_cross_entropy(z({0, 3}), z({0, 3})),
                               nn::softmax_cross_entropy_with_integer_labels(z({0, 3}), no_elements())};
               }}});
}

TEST(EmptySizes, OperationsWithoutAValue_AreErrors) {
  const std::vector<std::pair<std::string, std::function<void()>>> all = {
      {"[max]", [] { max(z({0})); }},
      {"[min]",
       [] {
         min(z({0, 3}), 0);
       }},
      {"[argmax]", [] { argmax(z({0})); }},
      {"[argmin]",
       [] {
         argmin(z({0, 3}), 0);
       }},
      {"[max]", [] { nanmax(z({0})); }},
      {"[median]", [] { median(z({0})); }},
      {"[quantile]",
       [] {
         quantile(z({0, 3}), 0.5, {.axis = 0});
       }},
      {"[index]",
       [] {
         z({0, 3})[i(0)];
       }},
      {"[index]",
       [] {
         z({0, 3})[0];
       }},
      {"[take]", [] { take(z({0}), i(0)); }},
      {"[take]",
       [] {
         take(z({0, 3}), i(0), 0);
       }},
      {"[reshape]",
       [] {
         reshape(z({0, 3}), {-1, 0});
       }},
      {"[max]",
       [] {
         linalg::matrix_rank(z({0, 0}));
       }},
      {"[conv",
       [] {
         nn::conv(z({1, 4, 4, 2}), o({0, 3, 2, 5}), {.padding = "VALID"});
       }},
      {"[random::choice]", [] { random::choice(random::key(0), 0, {1}); }},
      {"[argmax]",
       [] {
         random::categorical(random::key(0), z({3, 0}));
       }},
  };
  for (const auto& [name, use] : all) {
    const std::string message = testing::error_of<Error>(use);
    EXPECT_NE(message.find(name), std::string::npos) << name << ": " << message;
    EXPECT_NE(message.find("empty_sizes_test.cc:"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lockstep
