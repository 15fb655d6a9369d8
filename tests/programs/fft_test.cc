// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of arrays with split dimensions: what they compute, and what the devices exchange.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "lockstep/jit/grad.h"
#include "lockstep/ops/complex.h"
#include "lockstep/ops/fft.h"
#include "tests/programs/test_exchanges.h"

namespace lockstep {
namespace {

using test::exchanges;
using test::line_mesh;
using test::square_mesh;
using test::waves;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Array complex_waves(const Shape& shape) { return complex(waves(shape), cos(3 * waves(shape))); }

/// The jitted function of the split array has the values that the function has of the whole one; returns what
/// it exchanges.
template <class F>
std::vector<std::string> exchanged(const F& function, const Array& x, const Mesh& mesh,
                                   const PartitionSpec& spec) {
  const Array split = device_put(x, NamedSharding(mesh, spec)), expected = function(x);
  auto jitted = jit(function);
  const double error = max(abs(jitted(split) - expected)).template item<double>();
  EXPECT_LT(error, 2e-6 * max(abs(expected)).template item<double>()) << spec.to_string();
  return exchanges(jitted, split);
}

TEST(SplitFft, OverSeveralDimensions_EqualsThatOfTheWholeArray) {
  const Array real_x = waves({16, 32, 8}), x = complex_waves({16, 32, 8});
  const std::vector<PartitionSpec> specs = {P("x"),
                                            P("x", "y"),
                                            P("x", nullptr, "y"),
                                            P(nullptr, "y", "x"),
                                            P({"x", "y"}),
                                            P(nullptr, nullptr, {"y", "x"})};
  for (const PartitionSpec& spec : specs) {
    exchanged([](const Array& a) { return fft::fftn(a); }, x, square_mesh(), spec);
    exchanged([](const Array& a) { return fft::ifftn(a); }, x, square_mesh(), spec);
    exchanged([](const Array& a) { return fft::ifft2(fft::fftn(a) * 2); }, x, square_mesh(), spec);
    exchanged([](const Array& a) { return fft::irfftn(fft::rfftn(a) * 2); }, real_x, square_mesh(), spec);
    exchanged(grad([](const Array& a) { return sum(square(abs(fft::rfftn(sin(a))))); }), real_x,
              square_mesh(), spec);
  }
}

TEST(SplitFft, AndItsInverse_NeedAnAllToAllForEachSplitDimension) {
  const auto there_and_back = [](const Array& a) { return fft::ifftn(fft::fftn(a) * 2); };
  const Array x = complex_waves({16, 32, 8});
  const auto all_to_alls = Each(HasSubstr("all-to-all of 8192 B"));  // what a device has
  const auto slabs = exchanged(there_and_back, x, square_mesh(), P({"x", "y"}));
  EXPECT_THAT(slabs, SizeIs(2));
  EXPECT_THAT(slabs, all_to_alls);
  const auto pencils = exchanged(there_and_back, x, square_mesh(), P("x", "y"));
  EXPECT_THAT(pencils, SizeIs(4));
  EXPECT_THAT(pencils, all_to_alls);
}

/// A transform of XLA waits for other threads of its pool, and those may all be in collectives, which wait
/// for the transform's device. Such a program hung.
TEST(SplitFft, OfLargeArrays_OnSeveralDevicesOfAProcess_DoNotWaitForEachOther) {
  const Array x = device_put(waves({128, 128, 64}), NamedSharding(line_mesh(), P("x")));
  auto there_and_back = jit([](const Array& a) { return fft::irfftn(fft::rfftn(a)); });
  for (int i = 0; i < 10; ++i) EXPECT_LT(max(abs(there_and_back(x) - x)).item<double>(), 1e-5);
}

TEST(SplitFft, OfABatch_ExchangesNothing) {
  EXPECT_THAT(
      exchanged([](const Array& a) { return fft::fft2(a); }, complex_waves({8, 6, 5}), line_mesh(), P("x")),
      IsEmpty());
}

TEST(SplitFft, OverTheOnlyDimension_NeedsThreeAllToAlls_OrIsGathered) {
  const std::int64_t n = line_mesh().size();
  const auto there_and_back = [](const Array& a) { return fft::ifft(fft::fft(a) * 2); };
  const auto steps = exchanged(there_and_back, complex_waves({n * n * 1024}), line_mesh(), P("x"));
  EXPECT_THAT(steps, SizeIs(6));
  EXPECT_THAT(steps, Each(HasSubstr("all-to-all of " + std::to_string(n * 1024 * 8) + " B")));
  exchanged(there_and_back, complex_waves({n * 63}), line_mesh(), P("x"));
}

}  // namespace
}  // namespace lockstep
