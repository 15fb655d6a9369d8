#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cudnn_attention.json: the calls of cuDNN that JAX writes for attention. It needs no GPU.

    python3 -m venv v && v/bin/pip install jax==0.10.2 jaxlib==0.10.2 && v/bin/python cudnn_attention.py
"""

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

TARGETS = ["__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"]
BATCH, QUERIES, KEYS, HEADS, KEY_HEADS, FEATURES = 2, 256, 384, 8, 4, 64


def calls(options, with_lengths, dtype, backward):
    def attention(q, k, v, *lengths):
        more = {"key_value_seq_lengths": lengths[0]} if lengths else {}
        return jax.nn.dot_product_attention(q, k, v, implementation="cudnn", **options, **more)

    def loss(*operands):
        return attention(*operands).astype(jnp.float32).sum()

    q = jax.ShapeDtypeStruct((BATCH, QUERIES, HEADS, FEATURES), dtype)
    k = jax.ShapeDtypeStruct((BATCH, KEYS, KEY_HEADS, FEATURES), dtype)
    operands = [q, k, k] + ([jax.ShapeDtypeStruct((BATCH,), jnp.int32)] if with_lengths else [])
    exported = export.export(
        jax.jit(jax.grad(loss, (0, 1, 2)) if backward else attention),
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
for dtype in ("bfloat16", "float16"):
    for window in (None, (31, 0)):
        for is_causal in (False, True):
            if window and not is_causal:
                continue
            for with_lengths in (False, True):
                for backward in (False, True):
                    options = {"is_causal": is_causal, "local_window_size": window, "scale": 0.375}
                    cases.append({
                        "dtype": {"bfloat16": "bf16", "float16": "f16"}[dtype],
                        "left": window[0] if window else -1,
                        "is_causal": is_causal,
                        "lengths": with_lengths,
                        "backward": backward,
                        "calls": calls(options, with_lengths, getattr(jnp, dtype), backward),
                    })
text = ",\n".join(json.dumps(case, sort_keys=True) for case in cases)
(pathlib.Path(__file__).parent / "cudnn_attention.json").write_text(f"[\n{text}\n]\n")
