// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/nn.h"
#include "lockstep/ops/ops.h"
#include "tests/golden/functions.h"

namespace lockstep::golden {
namespace {

Arrays parts(const Array& z) { return {real(z), imag(z)}; }
Array z(const Arrays& a) { return complex(a[0], a[1]); }

void add_transforms(Functions& all) {
  all["fft::fft"] = [](const Arrays& a) { return parts(fft::fft(z(a))); };
  all["fft::ifft"] = [](const Arrays& a) { return parts(fft::ifft(z(a))); };
  all["fft::fft(n=8, axis=0)"] = [](const Arrays& a) { return parts(fft::fft(z(a), {.n = 8, .axis = 0})); };
  all["fft::ifft(n=3, ortho)"] = [](const Arrays& a) {
    return parts(fft::ifft(z(a), {.n = 3, .norm = "ortho"}));
  };
  all["fft::fftn"] = [](const Arrays& a) { return parts(fft::fftn(z(a))); };
  all["fft::ifftn(forward)"] = [](const Arrays& a) { return parts(fft::ifftn(z(a), {.norm = "forward"})); };
  all["fft::fft2"] = [](const Arrays& a) { return parts(fft::fft2(z(a))); };
  all["fft::ifft2(s=(3,5), axes=(2,0))"] = [](const Arrays& a) {
    return parts(fft::ifft2(z(a), {.s = {{3, 5}}, .axes = {{2, 0}}}));
  };
  all["fft::rfft"] = [](const Arrays& a) { return parts(fft::rfft(a[0])); };
  all["fft::rfft(n=5)"] = [](const Arrays& a) { return parts(fft::rfft(a[0], {.n = 5})); };
  all["fft::rfftn"] = [](const Arrays& a) { return parts(fft::rfftn(a[0])); };
  all["fft::rfft2"] = [](const Arrays& a) { return parts(fft::rfft2(a[0])); };
  all["fft::ihfft"] = [](const Arrays& a) { return parts(fft::ihfft(a[0])); };
  all["fft::irfft"] = [](const Arrays& a) { return Arrays{fft::irfft(z(a))}; };
  all["fft::irfft(n=7)"] = [](const Arrays& a) { return Arrays{fft::irfft(z(a), {.n = 7})}; };
  all["fft::irfftn"] = [](const Arrays& a) { return Arrays{fft::irfftn(z(a))}; };
  all["fft::irfft2"] = [](const Arrays& a) { return Arrays{fft::irfft2(z(a))}; };
  all["fft::hfft"] = [](const Arrays& a) { return Arrays{fft::hfft(z(a))}; };
  all["fft::fftn(four dimensions)"] = [](const Arrays& a) { return parts(fft::fftn(a[0])); };
  all["fft::irfftn(four dimensions)"] = [](const Arrays& a) {
    return Arrays{fft::irfftn(a[0], {.s = {{2, 2, 3, 6}}})};
  };
  all["fft::fftfreq"] = [](const Arrays&) { return Arrays{fft::fftfreq(7, 0.5)}; };
  all["fft::rfftfreq"] = [](const Arrays&) { return Arrays{fft::rfftfreq(8, 0.25)}; };
  all["fft::fftshift"] = [](const Arrays& a) { return Arrays{fft::fftshift(a[0])}; };
  all["fft::ifftshift(axes=(1,))"] = [](const Arrays& a) { return Arrays{fft::ifftshift(a[0], {{1}})}; };
}

Arrays both(const std::pair<Array, Array>& pair) { return {pair.first, pair.second}; }

void add_samples(Functions& all) {
  for (const std::string mode : {"full", "same", "valid"}) {
    all["convolve(" + mode + ")"] = [mode](const Arrays& a) { return Arrays{convolve(a[0], a[1], mode)}; };
    all["correlate(" + mode + ")"] = [mode](const Arrays& a) { return Arrays{correlate(a[0], a[1], mode)}; };
  }
  all["interp"] = [](const Arrays& a) { return Arrays{interp(a[0], a[1], a[2])}; };
  all["interp(left, right)"] = [](const Arrays& a) {
    return Arrays{interp(a[0], a[1], a[2], {.left = -1, .right = 2.5})};
  };
  all["interp(period)"] = [](const Arrays& a) { return Arrays{interp(a[0], a[1], a[2], {.period = 1.75})}; };
  all["unwrap"] = [](const Arrays& a) { return Arrays{unwrap(a[0])}; };
  all["unwrap(axis=0, period)"] = [](const Arrays& a) {
    return Arrays{unwrap(a[0], {.discont = 2, .axis = 0, .period = 3})};
  };
  all["digitize"] = [](const Arrays& a) { return Arrays{digitize(a[0], a[1])}; };
  all["digitize(right, falling)"] = [](const Arrays& a) { return Arrays{digitize(a[0], flip(a[1]), true)}; };
  all["histogram"] = [](const Arrays& a) { return both(histogram(a[0], 5)); };
  all["histogram(edges, weights)"] = [](const Arrays& a) {
    return both(histogram(a[0], a[2], {.weights = a[1]}));
  };
  all["histogram(range, density)"] = [](const Arrays& a) {
    return both(histogram(a[0], 4, {.range = std::pair(-1.0, 1.0), .density = true}));
  };
  all["histogram_bin_edges"] = [](const Arrays& a) { return Arrays{histogram_bin_edges(a[0], 6)}; };
  all["isin"] = [](const Arrays& a) { return Arrays{isin(a[0], a[1])}; };
  all["isin(invert)"] = [](const Arrays& a) { return Arrays{isin(a[0], a[1], true)}; };
  all["float_power"] = [](const Arrays& a) { return Arrays{float_power(a[0], a[1])}; };
  all["frexp"] = [](const Arrays& a) { return both(frexp(a[0])); };
  all["frexp(special)"] = [](const Arrays& a) { return both(frexp(a[0])); };
}

void add_products(Functions& all) {
  all["ragged_dot"] = [](const Arrays& a) { return Arrays{ragged_dot(a[0], a[1], a[2])}; };
  all["nn::conv_transpose(SAME)"] = [](const Arrays& a) {
    return Arrays{nn::conv_transpose(a[0], a[1], {.strides = {2, 3}})};
  };
  all["nn::conv_transpose(VALID)"] = [](const Arrays& a) {
    return Arrays{nn::conv_transpose(a[0], a[1], {.strides = {2, 1}, .padding = "VALID"})};
  };
  all["nn::conv_transpose(numbers)"] = [](const Arrays& a) {
    return Arrays{nn::conv_transpose(
        a[0], a[1], {.strides = {1, 2}, .padding = {{1, 2}, {0, 1}}, .rhs_dilation = {2, 1}})};
  };
  all["nn::conv_transpose(transpose_kernel)"] = [](const Arrays& a) {
    return Arrays{nn::conv_transpose(a[0], a[1], {.strides = {2, 2}, .transpose_kernel = true})};
  };
  for (const std::string subscripts : {"ij,kj,kl,lm->im", "ij,k,kl->il"}) {
    all["einsum(" + subscripts + ")"] = [subscripts](const Arrays& a) {
      return Arrays{einsum(subscripts, a)};
    };
  }
}

}  // namespace

void add_signal(Functions& all) {
  add_transforms(all);
  add_samples(all);
  add_products(all);
}

}  // namespace lockstep::golden
