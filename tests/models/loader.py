# SPDX-License-Identifier: Apache-2.0
"""The order in which lockstep::data::Loader gives the records of one source (lockstep/data/order.h)."""

import math
import struct

import xxhash

MASK = (1 << 64) - 1


def mix(x):
    x ^= x >> 32
    x = x * 0xD6E8FEB86659FD93 & MASK
    x ^= x >> 29
    x = x * 0x9E3779B97F4A7C15 & MASK
    return x ^ x >> 32


def index_shuffle(n, seed):
    """Of more than 128 numbers: the function of a place that gives the number there (data/index_shuffle.cc)."""
    assert n > 128
    rows = math.isqrt(n - 1) + 1
    columns = -(-n // rows)
    state = mix(seed + 0x632BE59BD9B4E019 & MASK) ^ mix(n * 0x9E3779B97F4A7C15 + 1 & MASK)
    keys = [mix(state + (k + 1) * 0x9E3779B97F4A7C15 & MASK) for k in range(8)]

    def at(i):
        while True:
            row, column = divmod(i, columns)
            for k in range(0, 8, 2):
                row = (row + (mix(column + keys[k] & MASK) * rows >> 64)) % rows
                column = (column + (mix(row + keys[k + 1] & MASK) * columns >> 64)) % columns
            i = row * columns + column
            if i < n:
                return i

    return at


def combine(first, second):
    return xxhash.xxh3_64_intdigest(struct.pack("<QQ", first, second))


def batches(n, size, seed):
    """The numbers of the records of batch 0, 1, ..., for ever."""
    orders, position = {}, 0
    while True:
        batch = []
        for _ in range(size):
            epoch, place = divmod(position, n)
            if epoch not in orders:
                orders = {epoch: index_shuffle(n, combine(combine(seed, 0), epoch))}
            batch.append(orders[epoch](place))
            position += 1
        yield batch
