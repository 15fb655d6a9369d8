#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cudnn_attention.json: the calls of cuDNN that JAX writes for attention. It needs no GPU.

    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python cudnn_attention.py
"""

import itertools
import json
import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import export
from jax._src.cudnn import fused_attention_stablehlo as cudnn
from jax._src.interpreters import mlir
from jax._src.lib.mlir import ir

assert jax.__version__ == "0.10.2", jax.__version__
# What JAX asks the GPU.
cudnn.check_cudnn_version = lambda: 91000
cudnn.check_compute_capability = lambda capability: True
cudnn.is_cuda_compute_capability_equal = lambda capability: False

TARGETS = [
    f"__cudnn$fmha{terms}Softmax{backward}"
    for terms in ("", "ScaleBias")
    for backward in ("", "Backward")
]
BATCH, QUERIES, KEYS, HEADS, KEY_HEADS, FEATURES = 2, 256, 384, 8, 4, 64


def calls(options, with_lengths, terms, dtype, backward):
    names = (["key_value_seq_lengths"] if with_lengths else []) + ([terms] if terms else [])

    def attention(q, k, v, *more):
        return jax.nn.dot_product_attention(
            q, k, v, implementation="cudnn", **options, **dict(zip(names, more))
        )

    def loss(*operands):
        return attention(*operands).astype(jnp.float32).sum()

    q = jax.ShapeDtypeStruct((BATCH, QUERIES, HEADS, FEATURES), dtype)
    k = jax.ShapeDtypeStruct((BATCH, KEYS, KEY_HEADS, FEATURES), dtype)
    operands = [q, k, k] + ([jax.ShapeDtypeStruct((BATCH,), jnp.int32)] if with_lengths else [])
    if terms == "bias":
        operands.append(jax.ShapeDtypeStruct((1, HEADS, QUERIES, KEYS), dtype))
    if terms == "mask":
        operands.append(jax.ShapeDtypeStruct((BATCH, 1, QUERIES, KEYS), jnp.bool_))
    by = (0, 1, 2) + ((len(operands) - 1,) if terms == "bias" else ())
    exported = export.export(
        jax.jit(jax.grad(loss, by) if backward else attention),
        platforms=["cuda"],
        disabled_checks=[export.DisabledSafetyCheck.custom_call(target) for target in TARGETS],
    )(*operands)
    found = []

    def visit(op):
        if op.name == "stablehlo.custom_call":
            attributes = op.attributes
            found.append({
                "target": ir.StringAttr(attributes["call_target_name"]).value,
                "config": json.loads(ir.StringAttr(attributes["backend_config"]).value),
                "layouts": f"operand_layouts = {attributes['operand_layouts']}, "
                f"result_layouts = {attributes['result_layouts']}",
                "types": f"({', '.join(str(x.type) for x in op.operands)}) -> "
                f"({', '.join(str(x.type) for x in op.results)})",
            })
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        ir.Module.parse(exported.mlir_module()).operation.walk(visit)
    return found


cases = []
for dtype, window, is_causal, with_lengths, terms, backward in itertools.product(
    ("bfloat16", "float16"), (None, (31, 0)), (False, True), (False, True), (None, "bias", "mask"), (False, True)
):
    # JAX computes the cotangent of what a mask becomes, too, which nothing reads.
    if (window and (not is_causal or terms)) or (terms == "mask" and backward):
        continue
    options = {"is_causal": is_causal, "local_window_size": window, "scale": 0.375}
    cases.append({
        "dtype": {"bfloat16": "bf16", "float16": "f16"}[dtype],
        "left": window[0] if window else -1,
        "is_causal": is_causal,
        "lengths": with_lengths,
        "terms": terms or "",
        "backward": backward,
        "calls": calls(options, with_lengths, terms, getattr(jnp, dtype), backward),
    })
text = ",\n".join(json.dumps(case, sort_keys=True) for case in cases)
(pathlib.Path(__file__).parent / "cudnn_attention.json").write_text(f"[\n{text}\n]\n")
