"""Parts of the Triton kernels: tiles of matrices, the keys that a query attends to, weights of pairs, dropout factors.

Notation: B batch, H heads, Z = B * H, N queries, M keys, I score width, D head width; BM queries and BN keys of a tile, BI and
BD columns of a slice.
"""

import triton
import triton.language as tl

SIZES = [*"NMH", "flags", "parts", "threshold", *(f"{tensor}{axis}" for tensor in "vsg" for axis in "bhmnd")]
"""Integers that a kernel is not compiled anew for: widths of rows, which decide how they are read, are constants."""


@triton.jit
def matrix_tile(P, rows, count, first, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return BLOCK columns from `first` on of the given rows of a matrix [count, WIDTH]; 0 outside of it."""
    columns = first + tl.arange(0, BLOCK)
    inside = (rows < count)[:, None]
    if WIDTH % BLOCK != 0:
        inside = inside & (columns < WIDTH)[None, :]
    return tl.load(P + rows[:, None] * WIDTH + columns[None, :], mask=inside, other=0.0)


@triton.jit
def head_rule(RULES, RATES, head):
    """Return low and high end of the interval of keys of a head, the distance that is left out (0, or one that is never
    reached), and the rate."""
    return tl.load(RULES + 3 * head), tl.load(RULES + 3 * head + 1), tl.load(RULES + 3 * head + 2), tl.load(RATES + head)


@triton.jit
def query_places(rows, PLACES, batch, KIND: tl.constexpr):
    """Return the key rows at the positions of queries: later ones with KIND 1, where PLACES are the offsets of the batch."""
    if KIND == 1:
        return rows + tl.load(PLACES + batch)
    return rows


@triton.jit
def key_limits(rows, PLACES, N, M, KIND: tl.constexpr):
    """Return the first key and the last key + 1 of the sequence of each query; with KIND 2 (packed) PLACES [2, N] has them."""
    if KIND == 2:
        return tl.load(PLACES + rows, mask=rows < N, other=0), tl.load(PLACES + N + rows, mask=rows < N, other=0)
    return rows * 0, rows * 0 + M


@triton.jit
def key_span(first, last, low, high, REACH, PLACES, batch, N, M, PADDED: tl.constexpr, KIND: tl.constexpr,
             STEP: tl.constexpr):  # fmt: skip
    """Return the keys that queries `first` to `last` attend to, from a multiple of STEP on."""
    begin, limit = 0, M
    if KIND == 2:
        begin, limit = tl.load(PLACES + first), tl.load(PLACES + N + last)
    start = tl.maximum(query_places(first, PLACES, batch, KIND) + low, begin)
    end = tl.minimum(query_places(last, PLACES, batch, KIND) + high, limit)
    if PADDED:  # between the first and the last token
        start = tl.maximum(start, tl.load(REACH + 2 * batch))
        end = tl.minimum(end, tl.load(REACH + 2 * batch + 1))
    return start // STEP * STEP, end


@triton.jit
def query_span(first, last, low, high, REACH, PLACES, batch, N, PADDED: tl.constexpr, KIND: tl.constexpr,
               STEP: tl.constexpr):  # fmt: skip
    """Return the queries that attend to any of keys `first` to `last`, from a multiple of STEP on."""
    if PADDED:
        first = tl.maximum(first, tl.load(REACH + 2 * batch))
        last = tl.minimum(last, tl.load(REACH + 2 * batch + 1) - 1)
    begin, limit, offset = 0, N, 0
    if KIND == 1:
        offset = tl.load(PLACES + batch)
    if KIND == 2:
        begin, limit = tl.load(PLACES + first), tl.load(PLACES + N + last)
    start, end = tl.maximum(first - high + 1 - offset, begin), tl.minimum(last - low + 1 - offset, limit)
    return start // STEP * STEP, tl.where(first > last, 0, end)


@triton.jit
def allowed_pairs(place, col, begin, end, low, high, skipped, REAL, M, USE_REAL: tl.constexpr):
    """Return which pairs the mask of the head allows; with USE_REAL, only those whose key is a token.

    `place` and `col` are positions of queries and keys, and broadcast: [BM, 1] and [1, BN], or [1, BM] and [BN, 1]; `begin`
    and `end` are the limits of the keys of each query. Queries beyond the last one need no mask: they have no gradient, and
    their output is not written.
    """
    gap = col - place
    ok = (col >= begin) & (col < end) & (gap >= low) & (gap < high) & (gap != skipped)
    if USE_REAL:
        ok = ok & (tl.load(REAL + col, mask=col < M, other=0) != 0)
    return ok


@triton.jit
def allowed_count(rows, places, begin, end, low, high, skipped, COUNTS, N, PADDED: tl.constexpr):
    """Return how many keys each query attends to; COUNTS are the numbers of tokens before each position, [M + 1]."""
    first, last = tl.maximum(places + low, begin), tl.minimum(places + high, end)
    some = (first < last) & (rows < N)
    itself = some & (first <= places) & (places < last)
    count = last - first
    here = itself.to(tl.int32)
    if PADDED:
        count = tl.load(COUNTS + last, mask=some, other=0) - tl.load(COUNTS + first, mask=some, other=0)
        here = tl.load(COUNTS + places + 1, mask=itself, other=0) - tl.load(COUNTS + places, mask=itself, other=0)
    return tl.where(some, count - tl.where(skipped == 0, here, 0), 0)


@triton.jit
def least_distance(places, begin, end, low, high, skipped, rate):
    """Return the distance of the key with the largest bias: of the nearest key, or the farthest if the rate is negative."""
    first, last = tl.maximum(places + low, begin), tl.minimum(places + high, end) - 1
    outside = tl.maximum(tl.maximum(first - places, places - last), 0)
    near = tl.where(outside == skipped, 1, outside)
    return tl.where(rate >= 0, near, tl.maximum(tl.abs(first - places), tl.abs(last - places)))


@triton.jit
def pair_bias(distance, least, rate):
    """Return the bias of pairs, minus the largest one of their query."""
    return -rate * (distance - least).to(tl.float32)


@triton.jit
def sigmoids(r):
    """Return sigmoid(r) and sigmoid(-r), both without cancellation."""
    t = tl.exp(-tl.abs(r))
    return tl.where(r >= 0, 1.0, t) / (1.0 + t), tl.where(r >= 0, t, 1.0) / (1.0 + t)


@triton.jit
def pair_weights(r, ok, bias, shift, LOGSIGMOID: tl.constexpr, BIASED: tl.constexpr):
    """Return E^R of a tile of scores, and its derivative by the scores; `shift` is the maximum of each query (identity)."""
    if LOGSIGMOID:
        e, down = sigmoids(r)
        if BIASED:
            e = e * tl.exp(tl.where(ok, bias, 0.0))
        e = tl.where(ok, e, 0.0)
        return e, e * down
    if BIASED:
        r = r + bias
    e = tl.exp(tl.where(ok, r - shift, float("-inf")))
    return e, e


@triton.jit
def product_tile(one, ONE, TWO, rows, cols, N, M, WIDTH: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr):
    """Return ONE[rows] TWO[cols]^T, slice by slice of the WIDTH columns; `one` is the tile of ONE where there is one slice."""
    if WIDTH <= BLOCK:
        return tl.dot(one, tl.trans(matrix_tile(TWO, cols, M, 0, WIDTH, BLOCK)), input_precision=PRECISION)
    total = tl.zeros([rows.shape[0], cols.shape[0]], tl.float32)
    for first in range(0, WIDTH, BLOCK):
        part = matrix_tile(ONE, rows, N, first, WIDTH, BLOCK)
        total = tl.dot(part, tl.trans(matrix_tile(TWO, cols, M, first, WIDTH, BLOCK)), total, input_precision=PRECISION)
    return total


@triton.jit
def _factor(bits, threshold, kept):
    return tl.where((bits >> 1).to(tl.int32) < threshold, kept, 0.0)


@triton.jit
def pair_factors(SEED, z, rows, first, BN: tl.constexpr, threshold, kept):
    """Return the dropout factors of E^R for queries `rows` and BN keys from `first` on, a multiple of 4.

    One draw of Philox4x32-10 with the counter (key / 4, query, head of the batch, 0) serves four adjacent keys.
    """
    fours = first // 4 + tl.arange(0, BN // 4)
    zero = rows[:, None] * 0 + fours[None, :] * 0
    one, two, three, four = tl.philox(tl.load(SEED), zero + fours[None, :], zero + rows[:, None], zero + z.to(tl.int32), zero)
    bits = tl.join(tl.join(one, three), tl.join(two, four))  # [rows, BN / 4, 2, 2]
    return _factor(tl.reshape(bits, (rows.shape[0], BN)), threshold, kept)


@triton.jit
def value_factors(SEED, z, cols, features, threshold, kept):
    """Return the dropout factors of E^X [cols, features], from the counter (feature, key, head of the batch, 1)."""
    zero = cols[:, None] * 0 + features[None, :] * 0
    bits, _, _, _ = tl.philox(tl.load(SEED), zero + features[None, :], zero + cols[:, None], zero + z.to(tl.int32), zero + 1)
    return _factor(bits, threshold, kept)
