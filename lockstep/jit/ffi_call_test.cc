// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/ffi_call.h"

#include <stdexcept>

#include "lockstep/array/sharding_constraint.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/vmap.h"
#include "xla/ffi/api/ffi.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using ::testing::HasSubstr;
namespace xffi = xla::ffi;

/// by * x, of any shape.
xffi::Error scaled(float by, xffi::Buffer<xffi::F32> x, xffi::ResultBuffer<xffi::F32> y) {
  for (std::size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = by * x.typed_data()[i];
  return xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kScaled, scaled,
    xffi::Ffi::Bind().Attr<float>("by").Arg<xffi::Buffer<xffi::F32>>().Ret<xffi::Buffer<xffi::F32>>());

xffi::Error refusing(std::string_view how, xffi::Buffer<xffi::F32>, xffi::ResultBuffer<xffi::F32>) {
  if (how == "throws") throw std::runtime_error("the kernel threw");
  return xffi::Error(xffi::ErrorCode::kInvalidArgument, "the kernel refuses");
}
XLA_FFI_DEFINE_HANDLER(kRefusing, refusing,
                       xffi::Ffi::Bind()
                           .Attr<std::string_view>("how")
                           .Arg<xffi::Buffer<xffi::F32>>()
                           .Ret<xffi::Buffer<xffi::F32>>());

Array by_kernel(const Array& x, float by) {
  ffi::register_ffi_target<kScaled>("scaled");
  return ffi::ffi_call("scaled", ResultType(x.shape()), {x},
                       {.attributes = {{"by", by}}, .vmap_method = VmapMethod::kBroadcastAll});
}

TEST(FfiCall, UnderJitAndVmapAndSplit_GivesTheKernelsResult) {
  const Array x = array({1.f, -2.f, 0.5f, 4.f});
  expect_equal(by_kernel(x, 2), 2 * x);
  auto f = jit([](Array x) { return by_kernel(x + 1, -0.5f) * 2; });
  expect_equal(f(x), -(x + 1));
  expect_equal(f(device_put(x, NamedSharding(line_mesh(), P("x")))), -(x + 1));
  const Array rows = reshape(arange(6.f), {3, 2});
  expect_equal(vmap([](Array x) { return by_kernel(x, 3); })(rows), 3 * rows);
  expect_equal(vmap([](Array x) {
                 return ffi::ffi_call("scaled", ResultType({2}), {x},
                                      {.attributes = {{"by", 3.f}}, .vmap_method = VmapMethod::kSequential});
               })(rows),
               3 * rows);
}

/// The product of two matrices, or of matrices in the leading dimensions of x.
xffi::Error product(xffi::Buffer<xffi::F32> x, xffi::Buffer<xffi::F32> y, xffi::ResultBuffer<xffi::F32> z) {
  const auto rows = static_cast<std::int64_t>(x.element_count()) / x.dimensions().back();
  const std::int64_t inner = x.dimensions().back(), columns = y.dimensions().back();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < inner; ++k)
        sum += x.typed_data()[i * inner + k] * y.typed_data()[k * columns + j];
      z->typed_data()[i * columns + j] = sum;
    }
  }
  return xffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kProduct, product,
                       xffi::Ffi::Bind()
                           .Arg<xffi::Buffer<xffi::F32>>()
                           .Arg<xffi::Buffer<xffi::F32>>()
                           .Ret<xffi::Buffer<xffi::F32>>());

Array by_product(const Array& x, const Array& y, const std::string& rule,
                 const std::vector<std::string>& reduced = {}) {
  ffi::register_ffi_target<kProduct>("product");
  return ffi::ffi_call(
      "product", ResultType({x.shape()[0], y.shape()[1]}), {x, y},
      {.vmap_method = VmapMethod::kExpandDims, .sharding_rule = rule, .reduction_factors = reduced});
}

TEST(FfiCall, WithAShardingRule_MovesOnlyDimensionsThatMustBeWhole) {
  const Array x = reshape(arange(24.f), {4, 6}), y = reshape(arange(12.f), {6, 2}) - 5;
  const Array expected = matmul(x, y);
  struct Case {
    const char* name;
    std::string rule;
    std::vector<std::string> reduced;
    PartitionSpec of_x, of_y;
    std::string moved;
  };
  const std::string names = "i k, k j -> i j";
  for (const Case& c :
       {Case{"rows", names, {}, P("a"), P(), ""},
        Case{"rows and columns", names, {}, P("a"), P(none, "b"), ""},
        Case{"terms", names, {"k"}, P(none, "b"), P("b"), "psum"},
        Case{"terms that are not summed", names, {}, P(none, "b"), P("b"), "all_gather all_to_all"},
        Case{"whole rows", "* k, k j -> * j", {}, P("a"), P(), "all_gather"},
        Case{"no rule", "", {}, P("a"), P(), "all_gather"}}) {
    SCOPED_TRACE(c.name);
    const Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
    const Array split_x = device_put(x, NamedSharding(mesh, c.of_x)),
                split_y = device_put(y, NamedSharding(mesh, c.of_y));
    auto f = jit([&](Array x, Array y) { return by_product(x, y, c.rule, c.reduced); });
    expect_equal(f(split_x, split_y), expected);
    const std::string program = f.lower(split_x, split_y).partitioned;
    for (const char* each : {"psum", "all_gather", "ppermute", "all_to_all"})
      EXPECT_EQ(program.find(each) != std::string::npos, c.moved.find(each) != std::string::npos)
          << each << "\n"
          << program;
  }
}

TEST(FfiCall, WithAShardingRule_UnevenSizesAndVmap_GiveTheUnsplitResult) {
  const Array x = reshape(arange(15.f), {3, 5}), y = reshape(arange(10.f), {5, 2}) - 4;
  const NamedSharding split(line_mesh(), P("x"));
  auto f = jit([](Array x, Array y) { return by_product(x, y, "i k, k j -> i j", {"k"}); });
  auto with_split = jit([&](Array x, Array y) { return f(with_sharding_constraint(x, split), y); });
  expect_equal(with_split(x, y), matmul(x, y));
  const Array xs = reshape(arange(60.f), {4, 3, 5});
  auto each = jit(vmap([](Array x, Array y) { return by_product(x, y, "i k, k j -> i j"); },
                       {.in_axes = {0, std::nullopt}}));
  const Array split_xs = device_put(xs, split);
  expect_equal(each(split_xs, y), matmul(xs, y));
  EXPECT_THAT(each.lower(split_xs, y).partitioned, ::testing::Not(HasSubstr("all_gather")));
}

TEST(FfiCall, AShardingRuleThatDoesNotFit_IsRefused) {
  auto text = [](const std::string& rule, const std::vector<std::string>& reduced = {}) {
    return error_of<ShapeError>([&] { by_product(ones({4, 6}), ones({6, 2}), rule, reduced); });
  };
  const std::string start = "[ffi_call] the sharding rule \"";
  EXPECT_THAT(text("i k, k j"),
              HasSubstr(start + "i k, k j\" of the kernel product: expected operands -> results"));
  EXPECT_THAT(text("i k -> i j"), HasSubstr("expected 2 operands, got 1"));
  EXPECT_THAT(text("i k, k j -> i j, i"), HasSubstr("expected 1 results, got 2"));
  EXPECT_THAT(text("i k, k -> i j"), HasSubstr("a name for each dimension of operand 1, [6,2], got 1"));
  EXPECT_THAT(text("i i, k j -> i j"), HasSubstr("'i' comes twice in an array"));
  EXPECT_THAT(text("i k, i j -> i j"), HasSubstr("'i' has the sizes 4 and 6"));
  EXPECT_THAT(text("i k, k j -> i j", {"i"}),
              HasSubstr("expected names that only operands have in reduction_factors, got 'i'"));
  EXPECT_THAT(text("i k, k j -> i j", {"z"}), HasSubstr("got 'z'"));
}

TEST(FfiCall, HasNoDerivative_ExceptACustomOne) {
  auto f = custom_vjp([](Array x) { return by_kernel(x, 2); },
                      [](Array x) { return std::pair(by_kernel(x, 2), x); },
                      [](Array, Array ct) { return by_kernel(ct, 2); });
  auto loss = [&](Array x) { return sum(f(x) * x); };
  expect_equal(jit([&](Array x) { return grad(loss)(x); })(array({1.f, 3.f})), array({4.f, 12.f}));
  EXPECT_THAT(error_of<TraceError>([] { grad([](Array x) { return sum(by_kernel(x, 2)); })(array({1.f})); }),
              HasSubstr("[ffi_call] the kernel scaled has no derivative"));
}

TEST(FfiCall, WithinLoopsAndBranches_GivesWhatItGivesOutside_WithDerivatives) {
  using Function = std::function<Array(Array)>;
  const Function kernel = custom_vjp([](Array x) { return by_kernel(x, 0.5f); },
                                     [](Array x) { return std::pair(by_kernel(x, 0.5f), x); },
                                     [](Array, Array ct) { return by_kernel(ct, 0.5f); });
  const Function plain = [](Array x) { return 0.5f * x; };
  auto scanned = [](const Function& half) {
    return [half](Array c, Array xs) {
      auto [last, ys] = scan(
          [&](Array c, Array x) {
            const Array next = half(c + x) + cond(
                                                 sum(x) > 3, [&](Array x) { return half(x) * x; },
                                                 [](Array x) { return sin(x); }, x);
            return std::pair(next, next * x);
          },
          c, xs);
      return sum(last) + sum(ys);
    };
  };
  auto looped = [](const Function& half) {
    return [half](Array c) {
      const Array counted = fori_loop(
          0, 4, [&](Array i, Array c) { return half(c) + i; }, c);
      return while_loop([](Array c) { return sum(c) > 1; }, [&](Array c) { return half(c); }, counted);
    };
  };
  const Array c = array({1.f, -2.f}), xs = reshape(arange(6.f), {3, 2});
  expect_equal(jit(scanned(kernel))(c, xs), scanned(plain)(c, xs));
  expect_equal(jit(looped(kernel))(c), looped(plain)(c));
  const Array cs = stack({c, 2 * c, -c});
  expect_equal(jit(vmap(scanned(kernel), {.in_axes = {0, std::nullopt}}))(cs, xs),
               vmap(scanned(plain), {.in_axes = {0, std::nullopt}})(cs, xs));
  auto gradients = [&](const Function& half) {
    return jit([=](Array c, Array xs) { return grad<0, 1>(scanned(half))(c, xs); })(c, xs);
  };
  const auto found = gradients(kernel), expected = gradients(plain);
  expect_equal(std::get<0>(found), std::get<0>(expected));
  expect_equal(std::get<1>(found), std::get<1>(expected));
  // The same with a split operand within a loop.
  const Array rows = reshape(arange(8.f), {4, 2});
  const Array split = device_put(rows, NamedSharding(line_mesh(), P("x")));
  expect_equal(jit(scanned(kernel))(c, split), scanned(plain)(c, rows));
}

TEST(FfiCall, AnErrorInAKernel_IsThrownToTheCaller) {
  ffi::register_ffi_target<kRefusing>("refusing");
  auto text = [](const char* how) {
    return error_of<Error>([&] {
      ffi::ffi_call("refusing", ResultType({2}), {ones({2})}, {.attributes = {{"how", std::string(how)}}});
    });
  };
  EXPECT_THAT(text("throws"), HasSubstr("the kernel threw"));
  EXPECT_THAT(text("returns"), HasSubstr("the kernel refuses"));
  EXPECT_THAT(error_of<Error>([] { ffi::ffi_call("nothing", ResultType({2}), {ones({2})}); }),
              HasSubstr("[ffi_call] there is no kernel \"nothing\" for cpu (at "));
  ffi::register_ffi_target<kScaled>("scaled");
  EXPECT_THAT(error_of<Error>([] { ffi::register_ffi_target<kRefusing>("scaled"); }),
              HasSubstr("[register_ffi_target] there is another kernel \"scaled\""));
  EXPECT_THAT(error_of<TraceError>([] {
                vmap([](Array x) {
                  return ffi::ffi_call("scaled", ResultType({}), {x}, {.attributes = {{"by", 3.f}}});
                })(ones({2}));
              }),
              HasSubstr("[ffi_call] the kernel scaled is called under vmap"));
}

}  // namespace
}  // namespace lockstep
