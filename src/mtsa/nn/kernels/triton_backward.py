"""Backward pass of Algorithm 1 in Triton: scores are computed again; sums have a fixed order, so results are deterministic.

Notation as in `triton_tiles`. With g the gradient of the output and T the denominators, A = g / T is the gradient of the
numerator and C = -A out that of the denominator, both 0 in entries that `triton_repair` computes.
"""

import triton
import triton.language as tl

from .triton_tiles import (
    SIZES,
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
    query_span,
    value_factors,
)


@triton.jit(do_not_specialize=SIZES)
def prepare(G, OUT, TOTAL, A, C, FLAGS, N, H, gb, gh, gn, gd, D: tl.constexpr, DP: tl.constexpr, BM: tl.constexpr, BD:
            tl.constexpr):  # fmt: skip
    """Write A and C with DP >= D columns, and whether any entry of a tile is left to `triton_repair`."""
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles = tl.cdiv(N, BM)
    z = (tile // tiles).to(tl.int64)
    b, h = z // H, z % H
    rows, features = tile % tiles * BM + tl.arange(0, BM), part * BD + tl.arange(0, BD)
    inside = (rows < N)[:, None] & (features < D)[None, :]
    total = tl.load(TOTAL + (z * N + rows[:, None]) * D + features[None, :], mask=inside, other=float("inf"))
    trusted = tl.abs(total) != float("inf")
    tl.store(FLAGS + tile * tl.num_programs(1) + part, tl.max(tl.max((total < 0).to(tl.int32), 1), 0))
    g = tl.load(G + b * gb + h * gh + rows[:, None] * gn + features[None, :] * gd, mask=inside & trusted, other=0.0)
    out = tl.load(OUT + ((b * N + rows[:, None]) * H + h) * D + features[None, :], mask=inside & trusted, other=0.0)
    a = g.to(tl.float32) / tl.where(trusted, total, 1.0)
    at = (z * N + rows[:, None]) * DP + features[None, :]
    written = (rows < N)[:, None] & (features < DP)[None, :]
    tl.store(A + at, a.to(A.dtype.element_ty), mask=written)
    tl.store(C + at, (-a * out.to(tl.float32)).to(C.dtype.element_ty), mask=written)


@triton.jit(do_not_specialize=SIZES)
def queries(Q, K, X, E, A, C, REAL, REACH, PLACES, RULES, RATES, SEED, SHIFT, DQ, N, M, H, scale, threshold, kept, I:
            tl.constexpr, IP: tl.constexpr, DP: tl.constexpr, PADDED: tl.constexpr, KIND: tl.constexpr, LOGSIGMOID:
            tl.constexpr, BIASED: tl.constexpr, DROPOUT: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr, BN:
            tl.constexpr, BI: tl.constexpr, BD: tl.constexpr):  # fmt: skip
    """Write the gradient of a tile of queries, and a slice of their columns."""
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles = tl.cdiv(N, BM)
    z, m0 = (tile // tiles).to(tl.int64), tile % tiles * BM
    b, h = z // H, z % H
    rows = m0 + tl.arange(0, BM)
    Q, K, X, E, A, C = Q + z * N * IP, K + z * M * IP, X + z * M * DP, E + z * M * DP, A + z * N * DP, C + z * N * DP
    low, high, skipped, rate = head_rule(RULES, RATES, h)
    places = query_places(rows, PLACES, b, KIND)
    begin, limit = key_limits(rows, PLACES, N, M, KIND)
    least = least_distance(places, begin, limit, low, high, skipped, rate)
    start, end = key_span(m0, tl.minimum(m0 + BM, N) - 1, low, high, REACH, PLACES, b, N, M, PADDED, KIND, BN)
    shift = tl.zeros([BM], tl.float32)
    if not LOGSIGMOID:
        shift = tl.load(SHIFT + z * N + rows, mask=rows < N, other=0.0)
    q = matrix_tile(Q, rows, N, 0, IP, BI)
    a, c = matrix_tile(A, rows, N, 0, DP, BD), matrix_tile(C, rows, N, 0, DP, BD)
    dq = tl.zeros([BM, BI], tl.float32)
    for n0 in range(start, end, BN):
        cols = n0 + tl.arange(0, BN)
        place, col = places[:, None], cols[None, :]
        r = product_tile(q, Q, K, rows, cols, N, M, IP, BI, PRECISION) * scale
        ok = allowed_pairs(place, col, begin[:, None], limit[:, None], low, high, skipped, REAL + b * M, M,
                           PADDED and not LOGSIGMOID)  # fmt: skip
        bias = pair_bias(tl.abs(col - place), least[:, None], rate)
        _, slope = pair_weights(r, ok, bias, shift[:, None], LOGSIGMOID, BIASED)
        d = product_tile(a, A, X, rows, cols, N, M, DP, BD, PRECISION)
        if DROPOUT:
            d = d * pair_factors(SEED, z, rows, n0, BN, threshold, kept)
        d = d + product_tile(c, C, E, rows, cols, N, M, DP, BD, PRECISION)
        d = (tl.where(ok, d, 0.0) * slope * scale).to(a.dtype)
        dq = tl.dot(d, matrix_tile(K, cols, M, part * BI, IP, BI).to(a.dtype), dq, input_precision=PRECISION)
    columns = part * BI + tl.arange(0, BI)
    at = (z * N + rows[:, None]) * I + columns[None, :]
    tl.store(DQ + at, dq.to(DQ.dtype.element_ty), mask=(rows < N)[:, None] & (columns < I)[None, :])


@triton.jit(do_not_specialize=SIZES)
def keys(Q, K, V, S, X, E, A, C, TOP, REAL, REACH, PLACES, RULES, RATES, SEED, SHIFT, DK, DV, DS, N, M, H, vb, vh, vm, sb, sh,
         sm, scale, threshold, kept, I: tl.constexpr, IP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, PADDED:
         tl.constexpr, KIND: tl.constexpr, LOGSIGMOID: tl.constexpr, BIASED: tl.constexpr, DROPOUT: tl.constexpr, PRECISION:
         tl.constexpr, SCORES: tl.constexpr, VALUES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BI: tl.constexpr, BD:
         tl.constexpr):  # fmt: skip
    """Write the gradients of a tile of keys: of k (SCORES), of v and s (VALUES), or of all three; a slice of their columns."""
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles = tl.cdiv(M, BN)
    z, n0 = (tile // tiles).to(tl.int64), tile % tiles * BN
    b, h = z // H, z % H
    cols = n0 + tl.arange(0, BN)
    Q, K, X, E, A, C = Q + z * N * IP, K + z * M * IP, X + z * M * DP, E + z * M * DP, A + z * N * DP, C + z * N * DP
    low, high, skipped, rate = head_rule(RULES, RATES, h)
    start, end = query_span(n0, tl.minimum(n0 + BN, M) - 1, low, high, REACH, PLACES, b, N, PADDED, KIND, BM)
    k, x, e = matrix_tile(K, cols, M, 0, IP, BI), matrix_tile(X, cols, M, 0, DP, BD), matrix_tile(E, cols, M, 0, DP, BD)
    dk, dx, de = tl.zeros([BN, BI], tl.float32), tl.zeros([BN, BD], tl.float32), tl.zeros([BN, BD], tl.float32)
    for m0 in range(start, end, BM):
        rows = m0 + tl.arange(0, BM)
        row, col = rows[None, :], cols[:, None]  # tiles are [BN, BM], so that what stays is the left operand of products
        place = query_places(row, PLACES, b, KIND)
        begin, limit = key_limits(row, PLACES, N, M, KIND)
        least = least_distance(place, begin, limit, low, high, skipped, rate)
        shift = tl.zeros([1, BM], tl.float32)
        if not LOGSIGMOID:
            shift = tl.load(SHIFT + z * N + row, mask=row < N, other=0.0)
        r = product_tile(k, K, Q, cols, rows, M, N, IP, BI, PRECISION) * scale
        ok = allowed_pairs(place, col, begin, limit, low, high, skipped, REAL + b * M, M, PADDED and not LOGSIGMOID)
        pair, slope = pair_weights(r, ok, pair_bias(tl.abs(col - place), least, rate), shift, LOGSIGMOID, BIASED)
        if DROPOUT:
            factor = tl.trans(pair_factors(SEED, z, rows, n0, BN, threshold, kept))
        if SCORES:
            d = product_tile(x, X, A, cols, rows, M, N, DP, BD, PRECISION)
            if DROPOUT:
                d = d * factor
            d = d + product_tile(e, E, C, cols, rows, M, N, DP, BD, PRECISION)
            d = (tl.where(ok, d, 0.0) * slope * scale).to(x.dtype)
            given = matrix_tile(Q, rows, N, part * BI, IP, BI).to(x.dtype)
            dk = tl.dot(d, given, dk, input_precision=PRECISION)
        if VALUES:
            de = tl.dot(pair.to(x.dtype), matrix_tile(C, rows, N, part * BD, DP, BD), de, input_precision=PRECISION)
            if DROPOUT:
                pair = pair * factor
            dx = tl.dot(pair.to(x.dtype), matrix_tile(A, rows, N, part * BD, DP, BD), dx, input_precision=PRECISION)
    if SCORES:
        columns = part * BI + tl.arange(0, BI)
        at = (z * M + cols[:, None]) * I + columns[None, :]
        tl.store(DK + at, dk.to(DK.dtype.element_ty), mask=(cols < M)[:, None] & (columns < I)[None, :])
    if VALUES:
        features = part * BD + tl.arange(0, BD)
        written = (cols < M)[:, None] & (features < D)[None, :]
        inside = written
        if PADDED:
            inside = inside & (tl.load(REAL + b * M + cols, mask=cols < M, other=0) != 0)[:, None]
        top = tl.load(TOP + z * DP + features, mask=features < D, other=0.0)
        s = tl.load(S + b * sb + h * sh + cols[:, None] * sm + features[None, :], mask=inside, other=float("-inf"))
        v = tl.load(V + b * vb + h * vh + cols[:, None] * vm + features[None, :], mask=inside, other=0.0).to(tl.float32)
        if DROPOUT:
            dx = dx * value_factors(SEED, z, cols, features, threshold, kept)
        weight = tl.exp(s.to(tl.float32) - top[None, :])
        at = (z * M + cols[:, None]) * D + features[None, :]
        tl.store(DV + at, tl.where(inside, weight * dx, 0.0).to(DV.dtype.element_ty), mask=written)
        tl.store(DS + at, tl.where(inside, weight * (v * dx + de), 0.0).to(DS.dtype.element_ty), mask=written)
