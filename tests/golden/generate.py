#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/golden.json: what JAX gives for the functions that golden_test.cc names.

Run it with JAX and optax at the versions below (they are checked):
    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 optax==0.2.8 && v/bin/python tests/golden/generate.py
The file is the same, bit for bit, on each run on one machine; another CPU may round the last digit otherwise. With
`--only NAME ...` it writes the cases of these names, with the inputs that they need, and leaves all others as they are.
"""

import argparse
import json
import pathlib

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special as jsp
import numpy as np
import optax

import array_cases
import dtype_cases
import linalg_cases
import program_cases
import signal_cases
from family import check_versions

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "optax": "0.2.8"}

# Numbers that a float32 holds in few digits, so that the file is short.
rng = np.random.default_rng(0)


def grid(low, high, shape):
    values = rng.integers(round(low * 64), round(high * 64), shape) / 64
    return values.astype(np.float32)


INPUTS = {
    "x": grid(-2, 2, (4, 6)),
    "y": grid(-2, 2, (4, 6)),
    "row": grid(-2, 2, (6,)),
    "positive": grid(0.1, 3, (4, 6)),
    "unit": grid(-0.95, 0.95, (4, 6)),
    "above": grid(1.1, 4, (4, 6)),
    "special": np.array([[0.0, -0.0, 1.0, -2.5], [np.inf, -np.inf, np.nan, 3.5]], np.float32),
    "ints": rng.integers(-20, 20, (4, 6)).astype(np.int32),
    "nonzero": (rng.integers(1, 9, (4, 6)) * np.array([1, -1])[rng.integers(0, 2, (4, 6))]).astype(np.int32),
    "bytes": rng.integers(0, 8, (4, 6)).astype(np.uint8),
    "bools": rng.integers(0, 2, (4, 6)).astype(bool),
    "matrix": grid(-2, 2, (4, 3)),
    "wide": grid(-2, 2, (2, 3, 4)),
    "square": (grid(-1, 1, (2, 3, 3)) + 2 * np.eye(3)).astype(np.float32),
    "symmetric": np.array([[2, 0.5, -0.25], [0.5, 3, 0.75], [-0.25, 0.75, 4]], np.float32),
    "vector": grid(-2, 2, (4,)),
    "labels": rng.integers(0, 6, (4,)).astype(np.int32),
    "probabilities": np.array(jax.nn.softmax(grid(-1, 1, (4, 6)))).astype(np.float32),
    "heads": grid(-1, 1, (2, 4, 2, 3)),
    "keys": grid(-1, 1, (2, 4, 2, 3)),
    "values": grid(-1, 1, (2, 4, 2, 3)),
}
INPUTS |= array_cases.inputs(rng, grid) | program_cases.inputs(rng, grid)
INPUTS |= linalg_cases.inputs() | signal_cases.inputs()
INPUTS["with_nan"] = np.where(INPUTS["x"] > 1.5, np.nan, INPUTS["x"]).astype(np.float32)

CASES = []


# Arithmetic: within two units in the last place. Everything else is within 1e-5 of the value and 1e-6, but for these.
ARITHMETIC = """negative abs sign square reciprocal positive add subtract multiply divide sqrt maximum minimum fmax fmin clip
    clamp where floor_divide remainder fmod divmod copysign deg2rad rad2deg power(x,3) power(x,-2) sum mean max min ptp
    prod nansum nanmean nanmax nanmin nanprod average matmul dot tensordot inner vdot outer kron einsum nn::relu nn::relu6
    nn::hard_tanh nn::squared_error nn::l2_loss nn::hinge_loss""".split()
EXCEPTIONS = [  # names, relative, absolute, why
    (["linalg::solve", "linalg::inv", "linalg::pinv", "linalg::det", "linalg::slogdet", "linalg::cholesky",
      "linalg::triangular_solve", "linalg::eigh(values)", "linalg::eigh(projectors)", "linalg::svd(values)",
      "linalg::svd(u² and vh²)", "linalg::qr(q² and r²)", "linalg::svd(batch)", "linalg::svd(wide)", "linalg::pinv(batch)",
      "linalg::pinv(rank 3)", "linalg::lstsq", "linalg::eigvals(abs)", "linalg::eig(abs)", "linalg::schur(abs)",
      "linalg::schur(complex, abs)", "linalg::sqrtm(real and imag)"], 2e-5, 1e-5,
     "Lockstep uses another build of LAPACK than JAX, or none: the rounding differs, also between processors, and the "
     "matrix amplifies the difference"),
    (["linalg::expm", "linalg::expm(large)"], 1e-4, 1e-5,
     "JAX scales by a smaller power of two than Higham's bound requires; its values differ by up to 2e-5 from the exact ones"),
    (["optim::adam", "optim::adamw", "optim::adamw(mask)", "optim::chain(clip_by_global_norm, adam)", "optim::multi_steps"],
     1e-5, 2e-5, "optax computes 1 - b^t in the precision of b^t, which loses digits; Lockstep does not"),
]


def case(name, function, *args, diff=True, ulp=None, exact=False):
    """`diff`: whether derivatives are compared, or only "forwards" or "backwards". The values are to be `exact`, or
    within `ulp` units in the last place, or (`ulp=False`) within a relative and an absolute tolerance."""
    if name.split("(")[0] in ARITHMETIC or name.replace(" ", "") in ARITHMETIC:
        ulp = 2 if ulp is None else ulp
    ulp = None if ulp is False else ulp
    rtol, atol, why = next(((r, a, w) for names, r, a, w in EXCEPTIONS if name in names), (1e-5, 1e-6, None))
    CASES.append(dict(name=name, function=function, args=args, diff=diff, rtol=rtol, atol=atol, ulp=ulp, exact=exact, why=why))


def cases():
    np_ = jnp
    for name in ["negative", "abs", "sign", "square", "exp", "expm1", "tanh", "sin", "cos", "tan", "arctan", "sinh",
                 "cosh", "arcsinh", "exp2", "sinc", "cbrt", "deg2rad", "rad2deg", "reciprocal", "positive"]:
        case(name, getattr(np_, name), "x")
    for name in ["log", "log1p", "log2", "log10", "sqrt"]:
        case(name, getattr(np_, name), "positive")
    case("rsqrt", jax.lax.rsqrt, "positive")
    case("sigmoid", jax.nn.sigmoid, "x")
    for name in ["arcsin", "arccos", "arctanh"]:
        case(name, getattr(np_, name), "unit")
    case("arccosh", np_.arccosh, "above")
    for name in ["floor", "ceil", "round", "trunc"]:
        case(name, getattr(np_, name), "x", exact=True)
    case("round(decimals=1)", lambda x: np_.round(x, 1), "x")
    for name in ["add", "subtract", "multiply"]:
        case(name, getattr(np_, name), "x", "y")
        case(name + "(broadcast)", getattr(np_, name), "x", "row")
    case("divide", np_.divide, "x", "positive")
    for name in ["maximum", "minimum", "hypot", "arctan2", "logaddexp", "logaddexp2", "copysign", "fmax", "fmin"]:
        case(name, getattr(np_, name), "x", "y")
    for name in ["floor_divide", "remainder", "fmod"]:
        case(name, getattr(np_, name), "x", "positive")
        case(name + "(i32)", getattr(np_, name), "ints", "nonzero", diff=False, exact=True)
    case("power", np_.power, "positive", "y")
    case("power(x, 3)", lambda x: x**3, "x")
    case("power(x, -2)", lambda x: x**-2, "positive")
    case("clamp", lambda x, y, z: jax.lax.clamp(x, y, z), "x", "y", "positive")
    case("clip", lambda x: np_.clip(x, -0.5, 0.75), "x")
    case("heaviside", np_.heaviside, "special", "special", diff=False, exact=True)
    case("nextafter", np_.nextafter, "x", "y", diff=False, exact=True)
    case("nextafter(special)", lambda x: np_.nextafter(x, np_.float32(1)), "special", diff=False, exact=True)
    case("ldexp", np_.ldexp, "x", "ints", diff=False, exact=True)
    case("nan_to_num", np_.nan_to_num, "special", diff=False, exact=True)
    case("modf", np_.modf, "x", diff=False, exact=True)
    case("divmod", np_.divmod, "x", "positive", diff=False)
    for name in ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"]:
        case(name, getattr(np_, name), "special", diff=False, exact=True)
    for name in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]:
        case(name, getattr(np_, name), "ints", "nonzero", diff=False, exact=True)
    for name in ["logical_and", "logical_or", "logical_xor"]:
        case(name, getattr(np_, name), "bools", "ints", diff=False, exact=True)
    for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"]:
        case(name, getattr(np_, name), "ints", "nonzero", diff=False, exact=True)
    case("bitwise_not", np_.bitwise_not, "ints", diff=False, exact=True)
    case("bitwise_count", np_.bitwise_count, "ints", diff=False, exact=True)
    case("left_shift", np_.left_shift, "ints", "bytes", diff=False, exact=True)
    case("right_shift", np_.right_shift, "ints", "bytes", diff=False, exact=True)
    case("isclose", lambda x: np_.isclose(x, x * np_.float32(1.000001)), "special", diff=False, exact=True)
    case("allclose", lambda x: np_.allclose(x, x), "x", diff=False, exact=True)
    case("array_equal", lambda x, y: np_.array_equal(x, y), "x", "y", diff=False, exact=True)
    case("where", lambda c, x, y: np_.where(c, x, y), "bools", "x", "y")
    case("astype(i32)", lambda x: x.astype(np_.int32), "x", diff=False, exact=True)
    # jax.scipy.special
    case("erf", jsp.erf, "x")
    case("erfc", jsp.erfc, "x")
    case("erf_inv", jsp.erfinv, "unit")
    case("gammaln", jsp.gammaln, "positive")
    case("gammaln(negative)", jsp.gammaln, "unit", diff=False)
    case("digamma", jsp.digamma, "positive")
    case("polygamma(1)", lambda x: jsp.polygamma(1, x), "positive", diff=False)
    case("gamma", jsp.gamma, "unit", diff=False)
    case("betaln", jsp.betaln, "positive", "above")
    case("factorial", lambda x: jsp.factorial(x), "positive")
    case("xlogy", jsp.xlogy, "x", "positive")
    case("xlog1py", jsp.xlog1py, "x", "positive")
    case("entr", jsp.entr, "positive")
    case("logit", jsp.logit, "probabilities")
    case("ndtr", jsp.ndtr, "x")
    case("ndtri", jsp.ndtri, "probabilities")
    # complex
    case("abs(complex)", lambda x, y: np_.abs(jax.lax.complex(x, y)), "x", "y")
    case("real(exp(complex))", lambda x, y: np_.real(np_.exp(jax.lax.complex(x, y))), "x", "y")
    case("imag(x * conj(y))", lambda x, y: np_.imag(jax.lax.complex(x, y) * np_.conj(jax.lax.complex(y, x))), "x", "y")
    case("angle", lambda x, y: np_.angle(jax.lax.complex(x, y)), "x", "y")
    # reductions
    for name in ["sum", "mean", "max", "min", "var", "std", "ptp"]:
        f = getattr(np_, name)
        case(name, f, "x")
        case(name + "(axis=0)", lambda x, f=f: f(x, axis=0), "x")
        case(name + "(axis=1, keepdims)", lambda x, f=f: f(x, axis=1, keepdims=True), "x")
    case("prod(axis=1)", lambda x: np_.prod(x, axis=1), "unit")
    case("var(ddof=1)", lambda x: np_.var(x, axis=1, ddof=1), "x")
    case("logsumexp(axis=1)", lambda x: jsp.logsumexp(x, axis=1), "x")
    for name in ["any", "all"]:
        case(name + "(axis=1)", lambda x, f=getattr(np_, name): f(x, axis=1), "bools", diff=False, exact=True)
    for name in ["argmax", "argmin"]:
        case(name + "(axis=1)", lambda x, f=getattr(np_, name): f(x, axis=1), "x", diff=False, exact=True)
    case("count_nonzero(axis=0)", lambda x: np_.count_nonzero(x, axis=0), "ints", diff=False, exact=True)
    for name in ["nansum", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "nanprod"]:
        case(name + "(axis=1)", lambda x, f=getattr(np_, name): f(x, axis=1), "with_nan", diff=False)
    for name in ["nanargmax", "nanargmin"]:
        case(name + "(axis=1)", lambda x, f=getattr(np_, name): f(x, axis=1), "with_nan", diff=False, exact=True)
    case("average(weights)", lambda x, w: np_.average(x, axis=1, weights=w), "x", "positive")
    case("cov", np_.cov, "x")
    case("corrcoef", np_.corrcoef, "x")
    # linear algebra
    case("matmul", np_.matmul, "x", "y_t")
    case("dot", np_.dot, "x", "row")
    case("tensordot(axes=1)", lambda x, y: np_.tensordot(x, y, 1), "wide", "matrix")
    case("tensordot(pairs)", lambda x, y: np_.tensordot(x, y, ((2, 1), (0, 1))), "wide", "matrix")
    case("inner", np_.inner, "x", "y")
    case("vdot", np_.vdot, "x", "y")
    case("outer", np_.outer, "row", "vector")
    case("kron", np_.kron, "matrix", "symmetric")
    for subscripts, args in [("ij,kj->ik", ("x", "y")), ("bij,jk->bki", ("wide", "matrix")), ("ij->j", ("x",)),
                             ("...ij,...jk", ("square", "symmetric")), ("ii", ("symmetric",)), ("ij,ij->", ("x", "y")),
                             ("bii->bi", ("square",)), ("ij,jk,kl->il", ("x", "y_t", "x"))]:
        case(f"einsum({subscripts})", lambda *a, s=subscripts: np_.einsum(s, *a), *args)
    sym = lambda x: x @ x.T + 2 * jnp.eye(3)
    case("linalg::cholesky", lambda x: jnp.linalg.cholesky(sym(x)), "symmetric")
    case("linalg::triangular_solve",
         lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True), "symmetric", "matrix_t")
    case("linalg::solve", jnp.linalg.solve, "square", "square_b")
    case("linalg::inv", jnp.linalg.inv, "square")
    case("linalg::det", jnp.linalg.det, "square")
    case("linalg::slogdet", lambda x: tuple(jnp.linalg.slogdet(x)), "square")
    case("linalg::eigh(values)", lambda x: jnp.linalg.eigh(sym(x))[0], "symmetric")
    case("linalg::eigh(projectors)", lambda x: (lambda v: v * jnp.abs(v))(jnp.linalg.eigh(sym(x))[1] ** 1) ** 2,
         "symmetric")
    case("linalg::svd(values)", lambda x: jnp.linalg.svd(x, compute_uv=False), "matrix")
    case("linalg::svd(u² and vh²)", lambda x: tuple(f**2 for f in jnp.linalg.svd(x, full_matrices=False)[::2]), "matrix")
    case("linalg::qr(q² and r²)", lambda x: tuple(f**2 for f in jnp.linalg.qr(x)), "matrix")
    case("linalg::pinv", jnp.linalg.pinv, "matrix")
    case("linalg::matrix_rank", lambda x: jnp.linalg.matrix_rank(jnp.stack([x[0], x[1], x[0] + x[1]])), "matrix",
         diff=False, exact=True)
    case("linalg::matrix_power(3)", lambda x: jnp.linalg.matrix_power(x, 3), "square")
    case("linalg::norm", jnp.linalg.norm, "x")
    case("linalg::norm(ord=1, axis=1)", lambda x: jnp.linalg.norm(x, ord=1, axis=1), "x")
    case("linalg::norm(ord=3, axis=0)", lambda x: jnp.linalg.norm(x, ord=3, axis=0), "x")
    case("linalg::norm(ord=inf, axis=1)", lambda x: jnp.linalg.norm(x, ord=np.inf, axis=1), "x")
    # jax.nn
    nn = jax.nn
    for name in ["relu", "relu6", "softplus", "silu", "gelu", "elu", "selu", "celu", "leaky_relu", "soft_sign",
                 "log_sigmoid", "hard_tanh", "hard_sigmoid", "hard_silu", "mish", "squareplus", "glu", "sparse_plus",
                 "sparse_sigmoid", "softmax", "log_softmax", "standardize"]:
        case("nn::" + name, getattr(nn, name), "x")
    case("nn::gelu(exact)", lambda x: nn.gelu(x, approximate=False), "x")
    case("nn::softmax(axis=0)", lambda x: nn.softmax(x, axis=0), "x")
    case("nn::one_hot", lambda labels: nn.one_hot(labels, 6), "labels", diff=False, exact=True)

    def layer_norm(x, scale, bias):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias

    case("nn::layer_norm", layer_norm, "x", "row", "row_b")
    case("nn::rms_norm", lambda x, s: x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * s, "x", "row")
    case("nn::dot_product_attention", nn.dot_product_attention, "heads", "keys", "values")
    case("nn::dot_product_attention(causal)", lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True),
         "heads", "keys", "values")
    case("nn::softmax_cross_entropy", optax.softmax_cross_entropy, "x", "probabilities")
    case("nn::softmax_cross_entropy_with_integer_labels", optax.softmax_cross_entropy_with_integer_labels, "x", "labels")
    case("nn::sigmoid_binary_cross_entropy", optax.sigmoid_binary_cross_entropy, "x", "probabilities")
    case("nn::squared_error", optax.squared_error, "x", "y")
    case("nn::l2_loss", optax.l2_loss, "x", "y")
    case("nn::huber_loss", optax.huber_loss, "x", "y")
    case("nn::log_cosh", optax.log_cosh, "x", "y")
    case("nn::hinge_loss", optax.hinge_loss, "x", "y")
    case("nn::cosine_similarity", optax.cosine_similarity, "x", "y")
    case("nn::kl_divergence", lambda x, t: optax.kl_divergence(nn.log_softmax(x), t), "x", "probabilities")
    case("nn::smooth_labels", lambda t: optax.smooth_labels(t, 0.1), "probabilities")


def weights(shape):
    """The cotangent of a result: small numbers that a float32 holds."""
    i = np.arange(np.prod(shape, dtype=int))
    return (((i * 7) % 5 - 2) / 2 + 0.25).reshape(shape).astype(np.float32)


def directions(shape):
    """The tangent of an argument."""
    i = np.arange(np.prod(shape, dtype=int))
    return (((i * 5) % 7 - 3) / 4 + 0.125).reshape(shape).astype(np.float32)


def number(v, dtype):
    if dtype.kind in "iub":
        return int(v)
    if not np.isfinite(v):
        return str(v)
    text = np.format_float_scientific(v if dtype.kind == "f" else np.float32(v), unique=True, trim="-")
    return int(float(text)) if float(text).is_integer() and abs(v) < 1e6 and not np.signbit(v) else float(text)


def stored(a):
    a = np.asarray(a)
    flat = a.ravel()
    if a.dtype.kind == "c":  # real and imaginary parts in turn
        flat = np.stack([flat.real, flat.imag], -1).ravel()
    return {"dtype": str(a.dtype), "shape": list(a.shape), "values": [number(v, flat.dtype) for v in flat]}


FILE = pathlib.Path(__file__).with_name("golden.json")


def computed(c):
    """The case's entry in the file."""
    args = [jnp.asarray(INPUTS[name]) for name in c["args"]]
    as_tuple = lambda *a: (lambda r: r if isinstance(r, tuple) else (r,))(c["function"](*a))
    values = as_tuple(*args)
    entry = {"name": c["name"], "args": list(c["args"]), "values": [stored(v) for v in values]}
    if c["exact"]:
        entry["exact"] = True
    elif c["ulp"] is not None:
        entry["ulp"] = c["ulp"]
    else:
        entry["rtol"], entry["atol"] = c["rtol"], c["atol"]
    if c["why"]:
        entry["why"] = c["why"]
    if c["diff"]:
        which = [i for i, a in enumerate(args) if a.dtype.kind == "f"]
        pick = lambda *some: as_tuple(*[some[which.index(i)] if i in which else a for i, a in enumerate(args)])
        some = [args[i] for i in which]
        if c["diff"] != "backwards":
            _, tangents = jax.jvp(pick, some, [jnp.asarray(directions(a.shape)) for a in some])
            entry["jvp"] = [stored(t) for t in tangents]
        if c["diff"] != "forwards":
            _, pull = jax.vjp(pick, *some)
            cotangents = pull(tuple(jnp.asarray(weights(v.shape)) for v in values))
            entry["vjp"] = [stored(t) for t in cotangents]
    return entry


def everything():
    return {"versions": VERSIONS, "inputs": {k: stored(v) for k, v in INPUTS.items()}, "cases": [computed(c) for c in CASES],
            "dtypes": dtype_cases.dtypes(stored), "promotion": dtype_cases.promotion()}


def in_order(entries, names):
    """The entries by name; those that the scripts no longer name are last."""
    return {name: entries[name] for name in [n for n in names if n in entries] + [n for n in entries if n not in names]}


def with_only(names):
    """What the file has, with these cases anew."""
    out = json.loads(FILE.read_text())
    chosen = [c for c in CASES if c["name"] in names]
    if missing := set(names) - {c["name"] for c in chosen}:
        raise SystemExit(f"no case is named {', '.join(sorted(missing))}")
    for name in {name for c in chosen for name in c["args"]}:
        if out["inputs"].setdefault(name, stored(INPUTS[name])) != stored(INPUTS[name]):
            raise SystemExit(f"the input {name} is another one than in the file: write all cases")
    out["inputs"] = in_order(out["inputs"], list(INPUTS))
    entries = {e["name"]: e for e in out["cases"]} | {c["name"]: computed(c) for c in chosen}
    out["cases"] = list(in_order(entries, [c["name"] for c in CASES]).values())
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="write these cases, and leave the others")
    only = parser.parse_args().only
    check_versions(VERSIONS)
    INPUTS["y_t"] = INPUTS["y"].T.copy()
    INPUTS["matrix_t"] = INPUTS["matrix"].T.copy()
    INPUTS["square_b"] = INPUTS["square"][:, :, ::-1].copy()
    INPUTS["row_b"] = INPUTS["row"][::-1].copy()
    cases()
    array_cases.cases(case)
    program_cases.cases(case)
    linalg_cases.cases(case)
    signal_cases.cases(case)
    out = with_only(only) if only else everything()
    lines = ['{"versions": ' + json.dumps(out["versions"]) + ",", '"inputs": {']
    lines.append(",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in out["inputs"].items()))
    lines.append('},\n"cases": [')
    lines.append(",\n".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in out["cases"]))
    lines.append('],\n"dtypes": {')
    lines.append(",\n".join(json.dumps(k) + ": " + json.dumps(v, separators=(",", ":")) for k, v in out["dtypes"].items()))
    lines.append('},\n"promotion": ' + json.dumps(out["promotion"]) + "}\n")
    FILE.write_text("\n".join(lines))
    print(len(only or out["cases"]), "cases")


main()
