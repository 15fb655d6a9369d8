// SPDX-License-Identifier: Apache-2.0
// Single operations on split values, and reshardings.

#include "benchmarks/communication/programs.h"

namespace communication {
namespace {

Measured all_finite() {
  Placed at({{"fsdp", 8}});
  auto finite = [](Array x, Array y) {
    return ls::logical_and(ls::all(ls::isfinite(x)), ls::all(ls::isfinite(y)));
  };
  return measure(at, finite, {P()}, at({512, 2048}, P("fsdp")), at({2048, 512}, P(nullptr, "fsdp")));
}

Measured argmax() {
  Placed at({{"tensor", 8}});
  auto largest = [](Array x) { return ls::argmax(x, -1); };
  return measure(at, largest, {P()}, at({256, 32768}, P(nullptr, "tensor")));
}

Measured top_k() {
  Placed at({{"tensor", 8}});
  auto largest = [](Array x) { return ls::top_k(x, 40); };
  return measure(at, largest, {P(), P()}, at({256, 32768}, P(nullptr, "tensor")));
}

Measured matmul() {
  Placed at({{"x", 4}, {"y", 2}});
  auto product = [](Array x, Array y) { return ls::matmul(x, y); };
  return measure(at, product, {P("y")}, at({1024, 512}), at({512, 1024}));
}

/// Adds 1, so that the result is not the argument itself.
std::function<Measured()> reshard(const MeshAxes& axes, const P& before, const P& after) {
  return [=] {
    Placed at(axes);
    return measure(
        at, [](Array x) { return x + 1; }, {after}, at({1024, 1024}, before));
  };
}

/// Measures one operation on a value split along its first dimension.
template <class F>
std::function<Measured()> single(F function, const ls::Shape& shape, const P& after,
                                 ls::DType dtype = ls::float32) {
  return [=] {
    Placed at({{"x", 8}});
    return measure(at, function, {after}, at(shape, P("x"), dtype));
  };
}

Measured segment_sum() {
  Placed at({{"x", 8}});
  auto sums = [](Array x, Array ids) { return ls::segment_sum(x, ids, 256); };
  return measure(at, sums, {P()}, at({65536, 64}, P("x")), at({65536}, P("x"), ls::int32));
}

}  // namespace

void add_operations(Programs& programs) {
  const MeshAxes line{{"x", 8}}, grid{{"x", 4}, {"y", 2}};
  const ls::Shape square{1024, 1024};
  const P split("x");
  programs.insert(
      programs.end(),
      {{"all(isfinite)", all_finite},
       {"argmax of split logits", argmax},
       {"top-k of split logits", top_k},
       {"P('x') to P(None, 'x')", reshard(line, P("x"), P(nullptr, "x"))},
       {"P('x', 'y') to P('y', 'x')", reshard(grid, P("x", "y"), P("y", "x"))},
       {"P(('x', 'y')) to P(('y', 'x'))", reshard(grid, P({"x", "y"}), P({"y", "x"}))},
       {"x[37]", single([](Array x) { return x[37]; }, square, P())},
       {"roll by 1", single([](Array x) { return ls::roll(x, 1, 0); }, square, split)},
       {"roll by 200", single([](Array x) { return ls::roll(x, 200, 0); }, square, split)},
       {"halves concatenated",
        single(
            [](Array x) {
              return ls::concatenate({x[ls::slice(512, ls::none)], x[ls::slice(0, 512)]});
            },
            square, split)},
       {"flip", single([](Array x) { return ls::flip(x, 0); }, square, split)},
       {"cumsum", single([](Array x) { return ls::cumsum(x, 0); }, square, split)},
       {"sort", single([](Array x) { return ls::sort(x, 0); }, {1024, 256}, split)},
       {"sort of one dimension", single([](Array x) { return ls::sort(x, 0); }, {1 << 18}, split)},
       {"spectral derivative", single(
                                   [](Array x) {
                                     const Array waves = ls::reshape(ls::fft::fftfreq(128), {128, 1, 1});
                                     return ls::real(ls::fft::ifftn(ls::fft::fftn(x) * waves));
                                   },
                                   {128, 128, 128}, split)},
       {"real spectral derivative", single(
                                        [](Array x) {
                                          const Array waves = ls::reshape(ls::fft::fftfreq(128), {128, 1, 1});
                                          return ls::fft::irfftn(ls::fft::rfftn(x) * waves);
                                        },
                                        {128, 128, 128}, split)},
       {"fft of one dimension", single([](Array x) { return ls::real(ls::fft::fft(x)); }, {1 << 18}, split)},
       {"histogram", single([](Array x) { return ls::bincount(x, 1024); }, {1 << 18}, P(), ls::int32)},
       {"segment_sum", segment_sum},
       {"matmul of whole operands to P('y')", matmul}});
}

}  // namespace communication
