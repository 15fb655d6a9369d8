# SPDX-License-Identifier: Apache-2.0
"""Cases of Fourier's transforms, of samples and counts, and of further products. generate.py calls `cases`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# Its own, so that more cases here leave the other inputs as they are.
rng = np.random.default_rng(23)


def grid(shape):
    return (rng.integers(-64, 64, shape) / 64).astype(np.float32)


def inputs():
    return {
        "samples": grid((2, 4, 6)),
        "samples_imag": grid((2, 4, 6)),
        "four_dimensions": grid((2, 2, 3, 4)),
        "signal": grid((9,)),
        "taps": grid((4,)),
        "points": np.sort(rng.choice(64, 6, replace=False)).astype(np.float32) / 16 - 2,
        "heights": grid((6,)),
        "phases": (np.cumsum(grid((2, 8)) * 8, -1)).astype(np.float32),
        "edges": np.array([-2, -1, 0.25, 0.5, 2], np.float32),
        "groups": np.array([1, 0, 2], np.int32),
        "group_matrices": grid((3, 3, 5)),
        "image": grid((2, 4, 5, 3)),
        "cells_4": grid((4, 6)),
        "transposed_kernels": grid((3, 2, 3, 4)),
        "kernels_of_forward": grid((3, 2, 4, 3)),
    }


def parts(z):
    return z.real, z.imag


def cases(case):
    f = jnp.fft
    z = lambda x, y: lax.complex(x, y)
    for name, args, kwargs in [
        ("fft", "", {}), ("ifft", "", {}), ("fft", "n=8, axis=0", dict(n=8, axis=0)),
        ("ifft", "n=3, ortho", dict(n=3, norm="ortho")), ("fftn", "", {}), ("ifftn", "forward", dict(norm="forward")),
        ("fft2", "", {}), ("ifft2", "s=(3,5), axes=(2,0)", dict(s=(3, 5), axes=(2, 0))),
    ]:
        case(f"fft::{name}" + (f"({args})" if args else ""),
             lambda x, y, g=getattr(f, name), k=kwargs: parts(g(z(x, y), **k)), "samples", "samples_imag")
    for name, args, kwargs in [("rfft", "", {}), ("rfft", "n=5", dict(n=5)), ("rfftn", "", {}), ("rfft2", "", {}),
                               ("ihfft", "", {})]:
        case(f"fft::{name}" + (f"({args})" if args else ""),
             lambda x, g=getattr(f, name), k=kwargs: parts(g(x, **k)), "samples")
    for name, args, kwargs in [("irfft", "", {}), ("irfft", "n=7", dict(n=7)), ("irfftn", "", {}), ("irfft2", "", {}),
                               ("hfft", "", {})]:
        case(f"fft::{name}" + (f"({args})" if args else ""),
             lambda x, y, g=getattr(f, name), k=kwargs: g(z(x, y), **k), "samples", "samples_imag")
    case("fft::fftn(four dimensions)", lambda x: parts(f.fftn(x)), "four_dimensions")
    case("fft::irfftn(four dimensions)", lambda x: f.irfftn(x, s=(2, 2, 3, 6)), "four_dimensions")
    case("fft::fftfreq", lambda: f.fftfreq(7, 0.5), diff=False)
    case("fft::rfftfreq", lambda: f.rfftfreq(8, 0.25), diff=False)
    case("fft::fftshift", f.fftshift, "samples")
    case("fft::ifftshift(axes=(1,))", lambda x: f.ifftshift(x, axes=(1,)), "samples")
    for mode in ["full", "same", "valid"]:
        case(f"convolve({mode})", lambda x, y, m=mode: jnp.convolve(x, y, mode=m), "signal", "taps")
        case(f"correlate({mode})", lambda x, y, m=mode: jnp.correlate(x, y, mode=m), "taps", "signal")
    case("interp", jnp.interp, "x", "points", "heights")
    case("interp(left, right)", lambda x, p, h: jnp.interp(x, p, h, left=-1, right=2.5), "x", "points", "heights")
    case("interp(period)", lambda x, p, h: jnp.interp(x, p, h, period=1.75), "x", "points", "heights")
    case("unwrap", jnp.unwrap, "phases")
    case("unwrap(axis=0, period)", lambda x: jnp.unwrap(x, axis=0, period=3, discont=2), "phases")
    case("digitize", lambda x, b: jnp.digitize(x, b), "x", "edges", diff=False, exact=True)
    case("digitize(right, falling)", lambda x, b: jnp.digitize(x, b[::-1], right=True), "x", "edges", diff=False, exact=True)
    case("histogram", lambda x: jnp.histogram(x, bins=5), "x", diff=False)
    case("histogram(edges, weights)", lambda x, w, b: jnp.histogram(x, bins=b, weights=w), "x", "positive", "edges",
         diff=False)
    case("histogram(range, density)", lambda x: jnp.histogram(x, bins=4, range=(-1, 1), density=True), "x", diff=False)
    case("histogram_bin_edges", lambda x: jnp.histogram_bin_edges(x, bins=6), "x", diff=False)
    case("isin", lambda x, y: jnp.isin(x, y), "ints", "nonzero", diff=False, exact=True)
    case("isin(invert)", lambda x, y: jnp.isin(x, y, invert=True), "ints", "nonzero", diff=False, exact=True)
    case("float_power", jnp.float_power, "positive", "y")
    case("frexp", jnp.frexp, "x", diff=False, exact=True)
    case("frexp(special)", jnp.frexp, "special", diff=False, exact=True)
    case("ragged_dot", lambda x, y, g: lax.ragged_dot(x, y, g), "matrix", "group_matrices", "groups")
    for name, k in [("SAME", dict(strides=(2, 3), padding="SAME")), ("VALID", dict(strides=(2, 1), padding="VALID")),
                    ("numbers", dict(strides=(1, 2), padding=((1, 2), (0, 1)), rhs_dilation=(2, 1)))]:
        case(f"nn::conv_transpose({name})",
             lambda x, w, k=k: lax.conv_transpose(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **k), "image", "transposed_kernels")
    case("nn::conv_transpose(transpose_kernel)",
         lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                         transpose_kernel=True), "image", "kernels_of_forward")
    for subscripts in ["ij,kj,kl,lm->im", "ij,k,kl->il"]:
        names = {"ij,kj,kl,lm->im": ("x", "y", "cells_4", "cells"), "ij,k,kl->il": ("x", "vector_4", "cells_4")}[subscripts]
        # Sums of sums, whose terms cancel; XLA chooses their order by what is compiled with them.
        case(f"einsum({subscripts})", lambda *a, s=subscripts: jnp.einsum(s, *a), *names, ulp=False)
