#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.safetensors beside this file with the packages safetensors and numpy: a linear layer as torch has it, and
experts of f16."""

import pathlib

import numpy
from safetensors.numpy import save_file

tensors = {"model.linear.weight": numpy.arange(12, dtype="float32").reshape(3, 4)}
for expert in range(2):
    tensors[f"model.experts.{expert}.weight"] = numpy.arange(6, dtype="float16").reshape(2, 3) + 10 * expert
save_file(tensors, pathlib.Path(__file__).parent / "model.safetensors", metadata={"format": "pt"})
