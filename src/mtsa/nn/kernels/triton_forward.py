"""Forward pass of Algorithm 1 in Triton: one tile of scores serves numerator and denominator.

Notation as in `triton_tiles`. X = exp(s - c) v and E = exp(s - c), both [Z, M, D]; c is the maximum of each feature.
"""

import triton
import triton.language as tl

from .triton_tiles import (
    SIZES,
    allowed_count,
    allowed_pairs,
    head_rule,
    key_limits,
    key_span,
    least_distance,
    matrix_tile,
    pair_bias,
    pair_factors,
    pair_weights,
    product_tile,
    query_places,
    value_factors,
)

TINY = tl.constexpr(1e-20)  # the constants of `mtsa.nn.fallback`
LARGE = tl.constexpr(16.0)
SATURATED = tl.constexpr(1e-6)


@triton.jit(do_not_specialize=SIZES)
def prepare(V, S, REAL, SEED, X, E, TOP, LARGEST, M, H, vb, vh, vm, sb, sh, sm, threshold, kept, D: tl.constexpr, DP:
            tl.constexpr, PADDED: tl.constexpr, DROPOUT: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):  # fmt: skip
    """Write X and E with DP >= D columns, 0 at padded keys, the maxima c, and the largest |v| of each slice of features."""
    z, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, h = z // H, z % H
    features = part * BD + tl.arange(0, BD)
    V, S = V + b * vb + h * vh, S + b * sb + h * sh
    top = tl.full([BD], float("-inf"), tl.float32)
    for first in range(0, M, BN):
        cols = first + tl.arange(0, BN)
        real = cols < M
        if PADDED:
            real = tl.load(REAL + b * M + cols, mask=real, other=0) != 0
        inside = real[:, None] & (features < D)[None, :]
        s = tl.load(S + cols[:, None] * sm + features[None, :], mask=inside, other=float("-inf"))
        top = tl.maximum(top, tl.max(s.to(tl.float32), 0))
    top = tl.where(top == float("-inf"), 0.0, top)
    tl.store(TOP + z * DP + features, top, mask=features < DP)
    largest = tl.zeros([BD], tl.float32)
    for first in range(0, M, BN):
        cols = first + tl.arange(0, BN)
        real = cols < M
        if PADDED:
            real = tl.load(REAL + b * M + cols, mask=real, other=0) != 0
        inside = real[:, None] & (features < D)[None, :]
        s = tl.load(S + cols[:, None] * sm + features[None, :], mask=inside, other=float("-inf")).to(tl.float32)
        v = tl.load(V + cols[:, None] * vm + features[None, :], mask=inside, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.max(tl.abs(v), 0))
        weight = tl.exp(s - top[None, :])
        if DROPOUT:
            v = v * value_factors(SEED, z, cols, features, threshold, kept)
        at = (z * M + cols[:, None]) * DP + features[None, :]
        written = (cols < M)[:, None] & (features < DP)[None, :]
        tl.store(E + at, weight.to(E.dtype.element_ty), mask=written)
        tl.store(X + at, (weight * v).to(X.dtype.element_ty), mask=written)
    tl.store(LARGEST + z * tl.num_programs(1) + part, tl.max(largest, 0))


@triton.jit(do_not_specialize=SIZES)
def attend(Q, K, X, E, LARGEST, REAL, COUNTS, REACH, PLACES, RULES, RATES, SEED, OUT, TOTAL, SHIFT, FLAGS, N, M, H, scale,
           threshold, kept, I: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, PADDED: tl.constexpr, KIND: tl.constexpr,
           LOGSIGMOID: tl.constexpr, BIASED: tl.constexpr, DROPOUT: tl.constexpr, CHECK: tl.constexpr, PRECISION:
           tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BI: tl.constexpr, BD: tl.constexpr):  # fmt: skip
    """Write output, denominators and row maxima of a tile of queries and a slice of features.

    Denominators are inf in rows without a key, and -inf where they cannot be trusted: `triton_repair` computes those entries,
    where the flag of the tile is not 0. With CHECK, a second launch flags entries where one key has all the weight: sums of
    squares are close to squares of sums there. It exits at once where values are small, so that it does not matter.
    """
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles = tl.cdiv(N, BM)
    z, m0 = (tile // tiles).to(tl.int64), tile % tiles * BM
    b, h = z // H, z % H
    if CHECK:
        if tl.load(LARGEST + z * tl.num_programs(1) + part) <= LARGE:
            return
    rows, features = m0 + tl.arange(0, BM), part * BD + tl.arange(0, BD)
    Q, K, X, E = Q + z * N * I, K + z * M * I, X + z * M * DP, E + z * M * DP
    low, high, skipped, rate = head_rule(RULES, RATES, h)
    places = query_places(rows, PLACES, b, KIND)
    begin, limit = key_limits(rows, PLACES, N, M, KIND)
    least = least_distance(places, begin, limit, low, high, skipped, rate)
    start, end = key_span(m0, tl.minimum(m0 + BM, N) - 1, low, high, REACH, PLACES, b, N, M, PADDED, KIND, BN)
    num, den = tl.zeros([BM, BD], tl.float32), tl.zeros([BM, BD], tl.float32)
    shift = tl.full([BM], float("-inf"), tl.float32)
    if CHECK and not LOGSIGMOID:
        shift = tl.load(SHIFT + z * N + rows, mask=rows < N, other=0.0)
    q = matrix_tile(Q, rows, N, 0, I, BI)
    for n0 in range(start, end, BN):
        cols = n0 + tl.arange(0, BN)
        r = product_tile(q, Q, K, rows, cols, N, M, I, BI, PRECISION) * scale
        place, col = places[:, None], cols[None, :]
        ok = allowed_pairs(place, col, begin[:, None], limit[:, None], low, high, skipped, REAL + b * M, M,
                           PADDED and not LOGSIGMOID)  # fmt: skip
        bias = pair_bias(tl.abs(col - place), least[:, None], rate)
        if LOGSIGMOID or CHECK:  # no running maximum
            e, _ = pair_weights(r, ok, bias, shift[:, None], LOGSIGMOID, BIASED)
        else:
            if BIASED:
                r = r + bias
            r = tl.where(ok, r, float("-inf"))
            highest = tl.maximum(shift, tl.max(r, 1))
            base = tl.where(highest == float("-inf"), 0.0, highest)
            e, shrink = tl.exp(r - base[:, None]), tl.exp(shift - base)
            num, den, shift = num * shrink[:, None], den * shrink[:, None], highest
        weight = matrix_tile(E, cols, M, part * BD, DP, BD)
        if CHECK:
            num = tl.dot((e * e), weight * weight, num, input_precision=PRECISION)
        else:
            pair = e
            if DROPOUT:
                pair = e * pair_factors(SEED, z, rows, n0, BN, threshold, kept)
            x = matrix_tile(X, cols, M, part * BD, DP, BD)
            num = tl.dot(pair.to(x.dtype), x, num, input_precision=PRECISION)
        den = tl.dot(e.to(weight.dtype), weight, den, input_precision=PRECISION)
    inside = (rows < N)[:, None] & (features < D)[None, :]
    count = allowed_count(rows, places, begin, limit, low, high, skipped, COUNTS + b * (M + 1), N, PADDED)
    some = inside & (count > 0)[:, None]
    at = (z * N + rows[:, None]) * D + features[None, :]
    flag = FLAGS + tile * tl.num_programs(1) + part
    if CHECK:
        full = some & (num >= (1.0 - 2.0 * SATURATED) * den * den)
        tl.store(TOTAL + at, float("-inf"), mask=full)
        tl.store(flag, tl.maximum(tl.load(flag), tl.max(tl.max(full.to(tl.int32), 1), 0)))
    else:
        low_sum = some & (den < TINY)
        total = tl.where(low_sum, float("-inf"), tl.where(some, den, float("inf")))
        tl.store(TOTAL + at, total, mask=inside)
        out = tl.where(some & (den >= TINY), num / tl.where(some & (den > 0), den, 1.0), tl.where(den != den, den, 0.0))
        tl.store(OUT + ((b * N + rows[:, None]) * H + h) * D + features[None, :], out.to(OUT.dtype.element_ty), mask=inside)
        tl.store(flag, tl.max(tl.max(low_sum.to(tl.int32), 1), 0))
        if not LOGSIGMOID:
            if part == 0:
                tl.store(SHIFT + z * N + rows, tl.where(shift == float("-inf"), 0.0, shift), mask=rows < N)
