#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rows.parquet, which parquet_test.cc reads; with PyPI's pyarrow:

    python3 lockstep/data/testdata/make_parquet.py
"""
import datetime
import decimal
import pathlib

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

N = 20
ROWS = range(N)
numbers = {name: pa.array(numpy.arange(N).astype(kind)) for name, kind in [
    ("i8", "i1"), ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("u8", "u1"), ("u16", "u2"), ("u32", "u4"), ("u64", "u8"),
    ("f16", "f2"), ("f32", "f4"), ("f64", "f8")]}
table = pa.table(numbers | {
    "bool": pa.array([i % 3 == 0 for i in ROWS]),
    "text": pa.array([None if i % 5 == 4 else "row " * (i % 3) + str(i) for i in ROWS]),
    "large_text": pa.array([f"large {i}" for i in ROWS], pa.large_string()),
    "binary": pa.array([bytes(range(i)) for i in ROWS]),
    "fixed": pa.array([bytes([i, 255 - i]) for i in ROWS], pa.binary(2)),
    "tokens": pa.array([list(range(i, i + i % 4)) for i in ROWS], pa.list_(pa.int32())),
    "pair": pa.array([[i, i + 0.5] for i in ROWS], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": i, "b": f"b{i}"} for i in ROWS], pa.struct([("a", pa.int16()), ("b", pa.string())])),
    "day": pa.array([datetime.date(1970, 1, 1 + i) for i in ROWS]),
    "time": pa.array([datetime.datetime(1970, 1, 1, 0, 0, i) for i in ROWS], pa.timestamp("us")),
    "money": pa.array([decimal.Decimal(i) / 100 for i in ROWS], pa.decimal128(9, 2)),
})
pq.write_table(table, pathlib.Path(__file__).parent / "rows.parquet", row_group_size=7, write_page_checksum=True,
               compression="zstd", store_schema=True)
