# SPDX-License-Identifier: Apache-2.0
"""The functions that edges.py computes: JAX's, by the names that edge_functions.cc has for Lockstep's."""

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp

NUMPY_UNARY = """negative abs sign square exp expm1 tanh sin cos tan arctan sinh cosh arcsinh exp2 sinc cbrt deg2rad rad2deg
    reciprocal positive log log1p log2 log10 sqrt arcsin arccos arctanh arccosh floor ceil round trunc nan_to_num real imag
    conj angle modf""".split()
NUMPY_TESTS = """isnan isinf isfinite isposinf isneginf signbit logical_not bitwise_not bitwise_count isreal iscomplex
    frexp""".split()
SPECIAL_UNARY = {"erf": jsp.erf, "erfc": jsp.erfc, "erf_inv": jsp.erfinv, "gammaln": jsp.gammaln, "digamma": jsp.digamma,
                 "gamma": jsp.gamma, "factorial": jsp.factorial, "entr": jsp.entr, "logit": jsp.logit, "ndtr": jsp.ndtr,
                 "ndtri": jsp.ndtri}
ACTIVATIONS = """relu relu6 softplus silu gelu elu selu celu leaky_relu soft_sign log_sigmoid hard_tanh hard_sigmoid hard_silu
    mish squareplus sparse_plus sparse_sigmoid""".split()
NUMPY_BINARY = """add subtract multiply divide floor_divide remainder fmod divmod power maximum minimum fmax fmin hypot arctan2
    logaddexp logaddexp2 copysign heaviside float_power""".split()
NUMPY_COMPARED = """nextafter equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm isclose""".split()
REDUCTIONS = """sum prod max min mean var std ptp any all argmax argmin count_nonzero nansum nanprod nanmean nanmax nanmin
    nanvar nanstd nanargmax nanargmin median""".split()
RUNNING = "cumsum cumprod cummax cummin diff sort argsort".split()
TARGETS = """bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128
    float8_e4m3fn float8_e5m2""".split()


def functions():
    """By name: the kinds of inputs, the function, and whether it has derivatives."""
    out = {}
    for name in NUMPY_UNARY:
        out[name] = (["x"], getattr(jnp, name), True)
    for name in NUMPY_TESTS:
        out[name] = (["x"], getattr(jnp, name), False)
    for name, f in SPECIAL_UNARY.items():
        out[name] = (["x"], f, True)
    for name in ACTIVATIONS:
        out["nn::" + name] = (["x"], getattr(jax.nn, name), True)
    out["nn::gelu(exact)"] = (["x"], lambda x: jax.nn.gelu(x, approximate=False), True)
    out["rsqrt"] = (["x"], jax.lax.rsqrt, True)
    out["sigmoid"] = (["x"], jax.nn.sigmoid, True)
    out["polygamma(1)"] = (["x"], lambda x: jsp.polygamma(1, x), True)
    out["power(x, 0)"] = (["x"], lambda x: x**0, True)
    out["power(x, 3)"] = (["x"], lambda x: x**3, True)
    out["power(x, -2)"] = (["x"], lambda x: x**-2, True)
    out["power(x, 0.5)"] = (["x"], lambda x: x**0.5, True)
    out["clip(-1, 2)"] = (["x"], lambda x: jnp.clip(x, -1, 2), True)
    out["stop_gradient"] = (["x"], jax.lax.stop_gradient, True)
    for to in TARGETS:
        if to not in ("int64", "uint64", "float64", "complex128"):
            out[f"astype({to})"] = (["x"], lambda x, to=to: x.astype(to), False)
    for name in NUMPY_BINARY:
        out[name] = (["xy"], getattr(jnp, name), True)
    for name in NUMPY_COMPARED:
        out[name] = (["xy"], getattr(jnp, name), False)
    out["xlogy"] = (["xy"], jsp.xlogy, True)
    out["xlog1py"] = (["xy"], jsp.xlog1py, True)
    out["betaln"] = (["xy"], jsp.betaln, True)
    out["where"] = (["xy"], lambda x, y: jnp.where(x, x, y), True)
    out["clamp"] = (["xy"], lambda x, y: jax.lax.clamp(jnp.minimum(x, y), x, y), True)
    all_rows = ["rows", "one", "none"]
    for name in REDUCTIONS:
        out[name + "(axis=1)"] = (all_rows, lambda x, f=getattr(jnp, name): f(x, axis=1), True)
    out["logsumexp(axis=1)"] = (all_rows, lambda x: jsp.logsumexp(x, axis=1), True)
    out["var(ddof=1)"] = (all_rows, lambda x: jnp.var(x, axis=1, ddof=1), True)
    out["quantile(0.3)"] = (all_rows, lambda x: jnp.quantile(x, 0.3, axis=1), True)
    out["quantile(lower)"] = (all_rows, lambda x: jnp.quantile(x, 0.3, axis=1, method="lower"), True)
    for name in RUNNING:
        f = getattr(jax.lax if name in ("cummax", "cummin") else jnp, name)
        out[name + "(rows)"] = (all_rows, lambda x, f=f: f(x, axis=1), True)
    out["cumlogsumexp(rows)"] = (all_rows, lambda x: jax.lax.cumlogsumexp(x, axis=1), True)
    out["sort(descending)"] = (all_rows, lambda x: jnp.sort(x, axis=1, descending=True), True)
    out["argsort(descending)"] = (all_rows, lambda x: jnp.argsort(x, axis=1, descending=True), False)
    out["top_k"] = (["rows", "one"], lambda x: tuple(jax.lax.top_k(x, x.shape[1])), True)
    out["unique"] = (all_rows, lambda x: jnp.unique(x, size=9), False)
    out["searchsorted"] = (["rows"], lambda x: jnp.searchsorted(jnp.sort(x[-1]), x), False)
    out["searchsorted(right)"] = (["rows"], lambda x: jnp.searchsorted(jnp.sort(x[4 % x.shape[0]]), x, side="right"), False)
    out["nonzero"] = (["rows", "none"], lambda x: tuple(jnp.nonzero(x, size=20)), False)
    out["cov"] = (["rows", "one"], jnp.cov, True)
    out["corrcoef"] = (["rows"], jnp.corrcoef, False)
    out["average(weights)"] = (["rows", "one"],
                               lambda x: jnp.average(x, axis=1, weights=jnp.arange(x.shape[1], dtype=jnp.float32)), False)
    out["matmul"] = (all_rows, lambda x: x @ x.T, True)
    out["dot"] = (["rows"], lambda x: jnp.dot(x, x[3]), True)
    out["vdot"] = (["rows"], lambda x: jnp.vdot(x[-1], x[2]), True)
    out["outer"] = (["rows"], lambda x: jnp.outer(x[-1], x[1]), True)
    out["einsum(ij,ij->i)"] = (all_rows, lambda x: jnp.einsum("ij,ij->i", x, x), True)
    out["linalg::norm(axis=1)"] = (all_rows, lambda x: jnp.linalg.norm(x, axis=1), True)
    for order in (0, 1, 3, float("inf"), float("-inf")):
        out[f"linalg::norm(ord={order}, axis=1)"] = (
            all_rows, lambda x, order=order: jnp.linalg.norm(x, ord=order, axis=1), True)
    out["nn::softmax"] = (all_rows, jax.nn.softmax, True)
    out["nn::log_softmax"] = (all_rows, jax.nn.log_softmax, True)
    out["nn::glu"] = (["rows"], jax.nn.glu, True)
    out["reshape"] = (all_rows, lambda x: x.reshape(-1), False)
    out["flip"] = (all_rows, lambda x: jnp.flip(x, 1), False)
    out["roll"] = (all_rows, lambda x: jnp.roll(x, 1, 1), False)
    return out
