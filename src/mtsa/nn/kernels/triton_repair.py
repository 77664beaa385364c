"""Entries that a product of two factors cannot represent, computed by the definition in Triton; see `mtsa.nn.fallback`.

The kernels are always launched and exit at once where nothing is flagged, so the host does not wait for the device.
One query at a time is compared with tiles of keys. Notation as in `triton_tiles`; BI is at least I here.
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
    pair_bias,
    pair_factors,
    query_places,
    sigmoids,
    value_factors,
)


@triton.jit
def _row_exponent(q, K, REAL, place, begin, limit, cols, low, high, skipped, rate, M, scale, I: tl.constexpr, PADDED:
                  tl.constexpr, LOGSIGMOID: tl.constexpr, BIASED: tl.constexpr, BI: tl.constexpr):  # fmt: skip
    """Return for one query and a tile of keys: sigma_t(score) + bias, its derivative, which are allowed, and the keys."""
    columns = tl.arange(0, BI)
    k = tl.load(K + cols[:, None] * I + columns[None, :], mask=(cols < M)[:, None] & (columns < I)[None, :], other=0.0)
    k = k.to(tl.float32)
    r = tl.sum(k * q[None, :], 1) * scale
    ok = allowed_pairs(place, cols, begin, limit, low, high, skipped, REAL, M, PADDED)
    slope = tl.full([cols.shape[0]], 1.0, tl.float32)
    if LOGSIGMOID:
        _, slope = sigmoids(r)
        r = tl.minimum(r, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(r)))
    if BIASED:
        r = r + pair_bias(tl.abs(cols - place), least_distance(place, begin, limit, low, high, skipped, rate), rate)
    return tl.where(ok, r, float("-inf")), slope, ok, k


@triton.jit
def _row_factors(SEED, z, row, first, BN: tl.constexpr, threshold, kept):
    """Return the dropout factors of E^R for one query and BN keys."""
    return tl.reshape(pair_factors(SEED, z, row + tl.arange(0, 1), first, BN, threshold, kept), (BN,))


@triton.jit
def _row_softmax(q, K, V, S, REAL, SEED, z, row, place, begin, limit, features, wide, start, end, low, high, skipped, rate, M,
                 vm, sm, scale, threshold, kept, I: tl.constexpr, PADDED: tl.constexpr, LOGSIGMOID: tl.constexpr, BIASED:
                 tl.constexpr, DROPOUT: tl.constexpr, BN: tl.constexpr, BI: tl.constexpr):  # fmt: skip
    """Return for one query and each feature: maximum and sum of the weights, a centre, and the mean of v minus the centre.

    The centre is the value of the key with the largest weight: differences from it keep their precision where that key has
    nearly all the weight. With dropout it is 0.
    """
    top = tl.zeros_like(features).to(tl.float32) + float("-inf")
    total = tl.zeros_like(features).to(tl.float32)
    mean, centre = total, total
    for first in range(start, end, BN):
        cols = first + tl.arange(0, BN)
        exponent, _, ok, _ = _row_exponent(q, K, REAL, place, begin, limit, cols, low, high, skipped, rate, M, scale, I,
                                           PADDED, LOGSIGMOID, BIASED, BI)  # fmt: skip
        inside = ok[:, None] & wide[None, :]
        s = tl.load(S + cols[:, None] * sm + features[None, :], mask=inside, other=float("-inf")).to(tl.float32)
        v = tl.load(V + cols[:, None] * vm + features[None, :], mask=inside, other=0.0).to(tl.float32)
        whole = tl.where(inside, exponent[:, None] + s, float("-inf"))
        peak = tl.max(whole, 0)
        highest = tl.maximum(top, peak)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        weight, shrink = tl.exp(whole - base[None, :]), tl.exp(top - base)
        if DROPOUT:
            v = v * value_factors(SEED, z, cols, features, threshold, kept)
            factor = _row_factors(SEED, z, row, first, BN, threshold, kept)
            mean = mean * shrink + tl.sum(weight * factor[:, None] * v, 0)
        else:
            value = tl.max(tl.where(inside & (whole == peak[None, :]), v, float("-inf")), 0)
            moved = tl.where(peak > top, value, centre)
            mean = (mean + total * (centre - moved)) * shrink + tl.sum(weight * tl.where(inside, v - moved[None, :], 0.0), 0)
            centre = moved
        total = total * shrink + tl.sum(weight, 0)
        top = highest
    return top, total, centre, mean / tl.where(total > 0, total, 1.0)


@triton.jit(do_not_specialize=SIZES)
def attend(Q, K, V, S, REAL, REACH, PLACES, RULES, RATES, SEED, OUT, TOTAL, FLAGS, N, M, H, vb, vh, vm, sb, sh, sm, scale,
           threshold, kept, I: tl.constexpr, D: tl.constexpr, PADDED: tl.constexpr, KIND: tl.constexpr, LOGSIGMOID:
           tl.constexpr, BIASED: tl.constexpr, DROPOUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BI: tl.constexpr,
           BD: tl.constexpr):  # fmt: skip
    """Write the output of flagged entries; BM and BD are those of the forward pass."""
    tile, part = tl.program_id(0), tl.program_id(1)
    if tl.load(FLAGS + tile * tl.num_programs(1) + part) == 0:
        return
    tiles = tl.cdiv(N, BM)
    z, m0 = (tile // tiles).to(tl.int64), tile % tiles * BM
    b, h = z // H, z % H
    K, V, S = K + z * M * I, V + b * vb + h * vh, S + b * sb + h * sh
    low, high, skipped, rate = head_rule(RULES, RATES, h)
    features, columns = part * BD + tl.arange(0, BD), tl.arange(0, BI)
    wide = features < D
    for row in range(m0, tl.minimum(m0 + BM, N)):
        flagged = tl.load(TOTAL + (z * N + row) * D + features, mask=wide, other=1.0) < 0
        if tl.max(flagged.to(tl.int32), 0) > 0:
            q = tl.load(Q + (z * N + row) * I + columns, mask=columns < I, other=0.0).to(tl.float32)
            start, end = key_span(row, row, low, high, REACH, PLACES, b, N, M, PADDED, KIND, BN)
            place = query_places(row, PLACES, b, KIND)
            begin, limit = key_limits(row, PLACES, N, M, KIND)
            _, _, centre, mean = _row_softmax(q, K, V, S, REAL + b * M, SEED, z, row, place, begin, limit, features, wide,
                                              start, end, low, high, skipped, rate, M, vm, sm, scale, threshold, kept, I,
                                              PADDED, LOGSIGMOID, BIASED, DROPOUT, BN, BI)  # fmt: skip
            at = OUT + ((b * N + row) * H + h) * D + features
            tl.store(at, (centre + mean).to(OUT.dtype.element_ty), mask=flagged)


@triton.jit
def _largest(P, count, BLOCK: tl.constexpr):
    """Return the largest magnitude of `count` adjacent numbers."""
    largest = tl.zeros([BLOCK], tl.float32)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.abs(tl.load(P + at, mask=at < count, other=0.0).to(tl.float32)))
    return tl.max(largest, 0)


@triton.jit
def _any(P, count, BLOCK: tl.constexpr):
    """Return whether any of `count` adjacent flags is not 0."""
    found = tl.zeros([BLOCK], tl.int32)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        found = tl.maximum(found, tl.load(P + at, mask=at < count, other=0))
    return tl.max(found, 0)


@triton.jit
def _copy(TARGET, SOURCE, count, BLOCK: tl.constexpr):
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        found = tl.load(SOURCE + at, mask=at < count, other=0.0)
        tl.store(TARGET + at, found.to(TARGET.dtype.element_ty), mask=at < count)


@triton.jit
def _fill_zero(P, count, BLOCK: tl.constexpr):
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        tl.store(P + at, tl.zeros([BLOCK], P.dtype.element_ty), mask=at < count)


@triton.jit(do_not_specialize=SIZES)
def differentiate(Q, K, V, S, G, REAL, REACH, PLACES, RULES, RATES, SEED, TOTAL, FLAGS, LARGEST, MOST, DQ, DK, DV, DS, WK, WV,
                  WS, N, M, H, flags, parts, vb, vh, vm, sb, sh, sm, gb, gh, gn, gd, scale, threshold, kept, suspect, I:
                  tl.constexpr, IP: tl.constexpr, D: tl.constexpr, PADDED: tl.constexpr, KIND: tl.constexpr, LOGSIGMOID:
                  tl.constexpr, BIASED: tl.constexpr, DROPOUT: tl.constexpr, CHECK: tl.constexpr, APART: tl.constexpr, BN:
                  tl.constexpr, BI: tl.constexpr, BD: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """Add the gradients of the flagged entries of a head, which belongs to one program, so that no sum is shared.

    With CHECK, all entries of a head are computed whose gradient of s is nothing but rounding noise; MOST is the largest
    gradient of s of all heads. WK, WV and WS are float32 copies of DK, DV and DS to add to (APART), or the same tensors.
    """
    z = tl.program_id(0).to(tl.int64)
    b, h = z // H, z % H
    Q, K, V, S = Q + z * N * IP, K + z * M * IP, V + b * vb + h * vh, S + b * sb + h * sh
    DQ, DK, DV, DS = DQ + z * N * I, DK + z * M * I, DV + z * M * D, DS + z * M * D
    WK, WV, WS = WK + z * M * I, WV + z * M * D, WS + z * M * D
    low, high, skipped, rate = head_rule(RULES, RATES, h)
    noisy = 0
    if CHECK:
        noise = 1.1920929e-7 * _largest(LARGEST + z * parts, parts, BLOCK) * _largest(DV, M * D, BLOCK)
        least = tl.where(noise > 1e-6 * tl.load(MOST), _largest(DS, M * D, BLOCK), float("inf"))
        noisy = tl.where(least <= suspect * noise, 1, 0)
    if _any(FLAGS + z * flags, flags, BLOCK) + noisy == 0:
        return
    bound = 0.0
    if noisy != 0:
        bound = float("inf")
        _fill_zero(DQ, N * I, BLOCK)
        _fill_zero(DK, M * I, BLOCK)
        _fill_zero(DV, M * D, BLOCK)
        _fill_zero(DS, M * D, BLOCK)
        tl.debug_barrier()
    if APART:
        _copy(WK, DK, M * I, BLOCK)
        _copy(WV, DV, M * D, BLOCK)
        _copy(WS, DS, M * D, BLOCK)
        tl.debug_barrier()
    columns = tl.arange(0, BI)
    for row in range(N):
        start, end = key_span(row, row, low, high, REACH, PLACES, b, N, M, PADDED, KIND, BN)
        place = query_places(row, PLACES, b, KIND)
        begin, limit = key_limits(row, PLACES, N, M, KIND)
        dq = tl.zeros([BI], tl.float32)
        q = tl.load(Q + row * IP + columns, mask=columns < I, other=0.0).to(tl.float32)
        for part in range(tl.cdiv(D, BD)):
            features = part * BD + tl.arange(0, BD)
            wide = features < D
            total = tl.load(TOTAL + (z * N + row) * D + features, mask=wide, other=float("inf"))
            flagged = total < bound
            if tl.max(flagged.to(tl.int32), 0) > 0:
                top, total, centre, mean = _row_softmax(
                    q, K, V, S, REAL + b * M, SEED, z, row, place, begin, limit, features, wide, start, end, low, high,
                    skipped, rate, M, vm, sm, scale, threshold, kept, IP, PADDED, LOGSIGMOID, BIASED, DROPOUT, BN,
                    BI)  # fmt: skip
                top = tl.where(top == float("-inf"), 0.0, top)
                g = tl.load(G + b * gb + h * gh + row * gn + features * gd, mask=flagged, other=0.0).to(tl.float32)
                for first in range(start, end, BN):
                    cols = first + tl.arange(0, BN)
                    exponent, slope, ok, k = _row_exponent(q, K, REAL + b * M, place, begin, limit, cols, low, high, skipped,
                                                           rate, M, scale, IP, PADDED, LOGSIGMOID, BIASED, BI)  # fmt: skip
                    inside = ok[:, None] & flagged[None, :]
                    s = tl.load(S + cols[:, None] * sm + features[None, :], mask=inside, other=float("-inf")).to(tl.float32)
                    v = tl.load(V + cols[:, None] * vm + features[None, :], mask=inside, other=0.0).to(tl.float32)
                    whole = tl.where(inside, exponent[:, None] + s - top[None, :], float("-inf"))
                    passed = g[None, :] * tl.exp(whole) / tl.where(total > 0, total, 1.0)[None, :]
                    dv = passed
                    if DROPOUT:
                        factor = _row_factors(SEED, z, row, first, BN, threshold, kept)[:, None]
                        values = value_factors(SEED, z, cols, features, threshold, kept)
                        v, dv = v * values * factor, dv * values * factor
                    step = tl.where(inside, passed * (v - centre[None, :] - mean[None, :]), 0.0)
                    at = cols[:, None] * D + features[None, :]
                    tl.store(WV + at, tl.load(WV + at, mask=inside, other=0.0) + tl.where(inside, dv, 0.0), mask=inside)
                    tl.store(WS + at, tl.load(WS + at, mask=inside, other=0.0) + step, mask=inside)
                    d = tl.where(ok, tl.sum(step, 1) * slope * scale, 0.0)
                    dq += tl.sum(d[:, None] * k, 0)
                    at = cols[:, None] * I + columns[None, :]
                    inside = ok[:, None] & (columns < I)[None, :]
                    tl.store(WK + at, tl.load(WK + at, mask=inside, other=0.0) + d[:, None] * q[None, :], mask=inside)
                    tl.debug_barrier()
        at = DQ + row * I + columns
        before = tl.load(at, mask=columns < I, other=0.0)
        tl.store(at, (before.to(tl.float32) + dq).to(DQ.dtype.element_ty), mask=columns < I)
    if APART:
        tl.debug_barrier()
        _copy(DK, WK, M * I, BLOCK)
        _copy(DV, WV, M * D, BLOCK)
        _copy(DS, WS, M * D, BLOCK)
