#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files that parquet_test.cc reads, with PyPI's pyarrow:

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
FOLDER = pathlib.Path(__file__).parent
pq.write_table(table, FOLDER / "rows.parquet", row_group_size=7, write_page_checksum=True,
               compression="zstd", store_schema=True)

# A row group with more than 2 GiB of texts, which Arrow reads in several chunks: row i is 8 MB of the letter 'a' + i % 4.
# And a column of fixed-size binaries, whose memory counts.
LARGE = 270
words = pa.array([chr(ord("a") + i) * 8_000_000 for i in range(4)])
text = pa.DictionaryArray.from_arrays(pa.array([i % 4 for i in range(LARGE)], pa.int32()), words)
pq.write_table(pa.table({"i": pa.array(range(LARGE), pa.int32()), "text": text}), FOLDER / "large.parquet",
               compression="zstd", compression_level=19, store_schema=False, row_group_size=LARGE)

fixed = pa.DictionaryArray.from_arrays(pa.array([0] * 64, pa.int32()), pa.array([bytes(1 << 20)], pa.binary(1 << 20)))
pq.write_table(pa.table({"fixed": fixed.cast(pa.binary(1 << 20))}), FOLDER / "fixed.parquet", compression="zstd",
               compression_level=19, row_group_size=8)

twice = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])], names=["x", "y", "x"])
pq.write_table(twice, FOLDER / "twice.parquet", compression="none")
