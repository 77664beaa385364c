"""Philox4x32-10 in plain Python integers, from the paper of Salmon et al. (2011), and the dropout factors made of it."""

import numpy as np
import torch

WORD = 2**32


def philox(seed, counter):
    """Four words for a counter of four."""
    c, key = list(counter), [seed % WORD, seed // WORD % WORD]
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second // WORD ^ c[1] ^ key[0], second % WORD, first // WORD ^ c[3] ^ key[1], first % WORD]
        key = [(key[0] + 0x9E3779B9) % WORD, (key[1] + 0xBB67AE85) % WORD]
    return c


def factors(seed, dropout_p, heads, queries, keys, features):
    """Factors of E^R [Z, N, M] and of E^X [Z, M, D], in float64."""
    keep = (1 - dropout_p) ** 0.5
    pair, value = np.zeros((heads, queries, keys)), np.zeros((heads, keys, features))
    for z in range(heads):
        for j in range(queries):
            for i in range(keys):
                pair[z, j, i] = philox(seed, (i // 4, j, z, 0))[i % 4]
        for i in range(keys):
            for l in range(features):
                value[z, i, l] = philox(seed, (l, i, z, 1))[0]
    return (torch.from_numpy((words < keep * WORD) / keep) for words in (pair, value))
