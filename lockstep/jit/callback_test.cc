// SPDX-License-Identifier: Apache-2.0
#include "lockstep/jit/callback.h"

#include <atomic>
#include <mutex>
#include <stdexcept>

#include "lockstep/coordination/server/server.h"
#include "lockstep/jit/control_flow.h"
#include "lockstep/jit/custom_derivative.h"
#include "lockstep/jit/debug.h"
#include "lockstep/jit/grad.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/shard_map.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/jit/vmap.h"
#include "lockstep/runtime/initialize.h"

namespace lockstep {
namespace {

using test::error_of;
using test::expect_equal;
using test::line_mesh;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// The sum of the squares, on the host.
float squares(const HostArray& x) {
  float sum = 0;
  for (float value : x.values<float>()) sum += value * value;
  return sum;
}

Array norm_of(const Array& x) { return pure_callback(squares, ResultType({}), x); }

/// The values that callbacks saw, in order.
class Seen {
 public:
  void add(float value) {
    std::lock_guard lock(mutex_);
    values_.push_back(value);
  }
  std::vector<float> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(values_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<float> values_;
};

TEST(PureCallback, InAndOutsideOfJitAndLoops_GivesTheFunctionsResult) {
  const Array x = array({1.f, 2.f, -2.f});
  EXPECT_EQ(norm_of(x).item<float>(), 9);
  EXPECT_EQ(jit(norm_of)(x).item<float>(), 9);
  auto looped = jit([](Array x) {
    return fori_loop(
        0, 3, [](Array, Array c) { return c * 0.5f + norm_of(c); }, x);
  });
  Array expected = x;
  for (int i = 0; i < 3; ++i) expected = expected * 0.5f + sum(square(expected));
  expect_equal(looped(x), expected);
  auto both = jit([](Array x, Array n) {
    return pure_callback(
        [](const HostArray& x, const HostArray& n) {
          std::vector<double> wide(x.values<float>().begin(), x.values<float>().end());
          return std::vector<HostArray>{HostArray(wide, {3, 1}), n.item<std::int32_t>() + 1};
        },
        {ResultType({3, 1}, float64), ResultType({}, int32)}, x, n);
  });
  const std::vector<Array> results = both(x, array(std::vector<std::int32_t>{4}, Shape{}));
  EXPECT_EQ(results[0].to_host<double>(), (std::vector<double>{1, 2, -2}));
  EXPECT_EQ(results[1].item<std::int32_t>(), 5);
}

TEST(PureCallback, UnderVmap_IsCalledByTheChosenMethod) {
  const Array x = array({{1.f, 2.f}, {3.f, 4.f}, {0.f, 1.f}}), y = array({10.f, 100.f});
  Seen sizes;
  auto scaled = [&](VmapMethod method) {
    return [&sizes, method](const Array& x, const Array& y) {
      return pure_callback(
          [&sizes](const HostArray& x, const HostArray& y) {
            sizes.add(static_cast<float>(x.size()));
            sizes.add(static_cast<float>(y.size()));
            std::vector<float> out;
            for (std::int64_t i = 0; i < x.size(); ++i)
              out.push_back(x.values<float>()[static_cast<std::size_t>(i)] *
                            y.values<float>()[static_cast<std::size_t>(i % y.size())]);
            return HostArray(out, x.shape());
          },
          ResultType({2}), CallbackOptions{method}, x, y);
    };
  };
  const Array expected = x * y;
  auto check = [&](VmapMethod method, const std::vector<float>& seen) {
    expect_equal(jit(vmap(scaled(method), {.in_axes = {0, std::nullopt}}))(x, y), expected);
    EXPECT_EQ(sizes.take(), seen);
  };
  check(VmapMethod::kSequential, {2, 2, 2, 2, 2, 2});
  check(VmapMethod::kExpandDims, {6, 2});
  check(VmapMethod::kBroadcastAll, {6, 6});
  const Array nested = jit(vmap(vmap(norm_of)))(reshape(arange(12.f), {2, 3, 2}));
  expect_equal(nested, sum(square(reshape(arange(12.f), {2, 3, 2})), -1));
}

TEST(PureCallback, SplitOperands_AreGivenWhole_AndSplitExamplesByDevice) {
  const Array x = device_put(array({1.f, 2.f, 3.f, 4.f}), NamedSharding(line_mesh(), P("x")));
  EXPECT_EQ(jit(norm_of)(x).item<float>(), 30);
  const Array rows = device_put(reshape(arange(8.f), {4, 2}), NamedSharding(line_mesh(), P("x")));
  auto each = jit([](Array rows) { return vmap(norm_of)(rows); });
  const Array norms = each(rows);
  expect_equal(norms, sum(square(rows), 1));
  EXPECT_THAT(each.lower(rows).partitioned, ::testing::Not(HasSubstr("all_gather")));
  expect_equal(
      shard_map([](Array x) { return reshape(norm_of(x), {1}); }, {line_mesh(), {P("x")}, {P("x")}})(x),
      square(x));
}

TEST(PureCallback, HasNoDerivative_ExceptACustomOne) {
  auto f = custom_vjp(
      norm_of, [](Array x) { return std::pair(norm_of(x), x); },
      [](Array x, Array ct) {
        return pure_callback(
            [](const HostArray& x, const HostArray& ct) {
              std::vector<float> out;
              for (float value : x.values<float>()) out.push_back(2 * value * ct.item<float>());
              return HostArray(out);
            },
            ResultType({2}), x, ct);
      });
  expect_equal(jit(grad(f))(array({3.f, -1.f})), array({6.f, -2.f}));
  EXPECT_THAT(error_of<TraceError>([] { grad(norm_of)(array({1.f})); }),
              AllOf(HasSubstr("[pure_callback] has no derivative"), HasSubstr("custom_jvp or custom_vjp")));
}

TEST(Callbacks, ThatThrow_ThrowFromTheCallThatRanThem) {
  auto f = jit([](Array x) {
    return pure_callback(
        [](const HostArray& x) -> HostArray {
          if (x.item<float>() > 1) throw std::domain_error("too large: 2");
          return x;
        },
        ResultType({}), x);
  });
  EXPECT_EQ(f(Array(0.5f)).item<float>(), 0.5f);
  EXPECT_EQ(error_of<std::domain_error>([&] { f(Array(2.f)); }), "too large: 2");
  EXPECT_EQ(f(Array(0.25f)).item<float>(), 0.25f);
  auto wrong = [](auto give) {
    return
        [=](Array x) { return pure_callback([=](const HostArray&) { return give(); }, ResultType({2}), x); };
  };
  EXPECT_THAT(error_of<ShapeError>([&] { wrong([] { return HostArray(1.f); })(Array(1.f)); }),
              AllOf(HasSubstr("[pure_callback] expected result 0 of the function as f32[2], got f32[]"),
                    HasSubstr("callback_test.cc:")));
  EXPECT_THAT(error_of<ShapeError>([&] { wrong([] { return std::vector<HostArray>(); })(Array(1.f)); }),
              HasSubstr("expected 1 arrays from the function, got 0"));
  EXPECT_THAT(error_of<DTypeError>([] {
                pure_callback([](const HostArray& x) { return x.item<double>(); }, ResultType({}),
                              Array(1.f));
              }),
              HasSubstr("the elements are f32, and cannot be read as f64"));
}

TEST(IoCallback, IsCalledOncePerRun_InProgramOrder_WithOtherEffects) {
  Seen seen;
  int next = 0;
  auto f = jit([&](Array x) {
    debug::callback([&](const HostArray& x) { seen.add(x.item<float>()); }, sum(x));
    Array drawn =
        io_callback([&](const HostArray&) { return static_cast<float>(next++); }, ResultType({}), x);
    Array total = fori_loop(
        0, 3,
        [&](Array i, Array c) {
          debug::callback(
              [&](const HostArray& i) { seen.add(100 + static_cast<float>(i.item<std::int32_t>())); }, i);
          return c + drawn;
        },
        x);
    debug::callback([&](const HostArray& x) { seen.add(x.values<float>()[0]); }, total);
    return total;
  });
  const Array x = array({1.f, 2.f});
  expect_equal(f(x), x);
  expect_equal(f(x), x + 3);
  EXPECT_EQ(next, 2);
  EXPECT_THAT(seen.take(), ElementsAre(3, 100, 101, 102, 1, 3, 100, 101, 102, 4));
}

TEST(IoCallback, OnSeveralDevices_IsCalledByTheFirst_AndUnderShardMapByEach) {
  Seen seen;
  int calls = 0;
  const Array x = device_put(array({1.f, 2.f, 3.f, 4.f}), NamedSharding(line_mesh(), P("x")));
  auto f = jit([&](Array x) {
    std::vector<Array> drawn = io_callback(
        [&](const HostArray& x) {
          ++calls;
          return std::vector<HostArray>{squares(x), HostArray(std::vector<std::int32_t>{7, 8}), true};
        },
        {ResultType({}), ResultType({2}, int32), ResultType({}, bool_)}, x);
    return std::tuple(x * drawn[0], drawn[1], drawn[2]);
  });
  auto [scaled, numbers, flag] = f(x);
  EXPECT_EQ(calls, 1);
  expect_equal(scaled, x * 30);
  expect_equal(numbers, array({7, 8}));
  EXPECT_TRUE(flag.item<bool>());
  shard_map(
      [&](Array x) {
        debug::callback([&](const HostArray& x) { seen.add(x.item<float>()); }, x);
        return x;
      },
      {line_mesh(), {P("x")}, {P("x")}})(x);
  EXPECT_THAT(seen.take(), UnorderedElementsAre(1, 2, 3, 4));
}

TEST(Callbacks, UnderPmap_AreCalledByEachDeviceWithItsPart) {
  Seen seen;
  const Array x = array({1.f, 2.f, 3.f, 4.f});
  auto f = pmap([&](Array x) {
    debug::callback([&](const HostArray& x) { seen.add(x.item<float>()); }, x);
    const Array drawn =
        io_callback([](const HostArray& x) { return 10 * x.item<float>(); }, ResultType({}), x);
    const Array mapped = vmap([](Array y) { return norm_of(reshape(y, {1})); })(stack({x, -2 * x}));
    return fori_loop(
               0, 2, [](Array, Array c) { return c + norm_of(reshape(c, {1})); }, x + drawn * 0) +
           sum(mapped) + drawn + psum(x, "i");
  });
  const Array once = x + square(x);
  expect_equal(f(x), once + square(once) + 5 * square(x) + 10 * x + 10);
  EXPECT_THAT(seen.take(), UnorderedElementsAre(1, 2, 3, 4));
  auto failing = pmap([](Array x) {
    return pure_callback(
        [](const HostArray& x) -> HostArray {
          if (x.item<float>() > 3) throw std::domain_error("too large: 4");
          return x;
        },
        ResultType({}), x);
  });
  EXPECT_EQ(error_of<std::domain_error>([&] { failing(x); }), "too large: 4");
  expect_equal(failing(x - 1), x - 1);
}

TEST(DebugCallback, UnderTransformations_SeesTheValues) {
  Seen seen;
  auto f = [&](Array x) {
    debug::callback([&](const HostArray& x) { seen.add(x.item<float>()); }, x);
    return x * x;
  };
  EXPECT_EQ(grad(f)(Array(3.f)).item<float>(), 6);
  EXPECT_THAT(seen.take(), ElementsAre(3));
  vmap(f)(array({1.f, 2.f}));
  EXPECT_THAT(seen.take(), ElementsAre(1, 2));
}

LOCKSTEP_CHILD(callbacks_of_processes) {
  initialize();
  const Mesh mesh = make_mesh({{"x", device_count()}});
  const Array x = device_put(arange(static_cast<float>(2 * device_count())), NamedSharding(mesh, P("x")));
  std::atomic<int> calls = 0;
  auto f = jit([&](Array x) {
    return io_callback(
        [&](const HostArray& x) {
          ++calls;
          return squares(x);
        },
        ResultType({}), x);
  });
  float expected = 0;
  for (int i = 0; i < 2 * device_count(); ++i) expected += static_cast<float>(i * i);
  EXPECT_EQ(f(x).item<float>(), expected);
  EXPECT_EQ(calls, process_index() == 0 ? 1 : 0);
  EXPECT_EQ(jit(norm_of)(x).item<float>(), expected);
  const Array mine = array({1.f, 2.f}) + 10 * process_index();
  auto everywhere = pmap([&](Array x) {
    debug::callback([&](const HostArray&) { ++calls; }, x);
    return norm_of(reshape(x, {1})) + 0 * psum(x, "i");
  });
  calls = 0;
  expect_equal(everywhere(mine), square(mine));
  EXPECT_EQ(calls, 2) << "once for each of its devices";
  // An exception of one process's callback fails the others, with its text.
  auto failing = jit([&](Array x) {
    return sum(x) +
           io_callback([](const HostArray&) -> HostArray { throw std::runtime_error("the disk is full"); },
                       ResultType({}), x);
  });
  try {
    failing(x);
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("the disk is full"));
  }
}

TEST(Callbacks, SeveralProcesses_CallBackInOneOfThem_AndFailTogether) {
  for (const testing::ProcessResult& result :
       testing::run_processes(test::job("callbacks_of_processes", 2, 2)))
    EXPECT_EQ(result.exit_code, 0) << result.log;
}

}  // namespace
}  // namespace lockstep
