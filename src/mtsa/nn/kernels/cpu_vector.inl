// Tensorized attention of one head, for vectors of MTSA_LANES floats. cpu.cpp includes this file once for each instruction set.
//
// Letters: N queries, M keys, I score width, D head width. With e[j,i] the factor of the pair scores and w[i,l] = exp(s - top):
//
//   out[j,l] = sum_i e[j,i] w[i,l] v[i,l] / sum_i e[j,i] w[i,l]                    (Algorithm 1 of the paper, steps 3-7)
//
// Padded keys are left out when the tensors are packed, so they cost nothing and nothing stored there is read.

constexpr int W = MTSA_LANES;
typedef float V __attribute__((vector_size(4 * W)));
typedef int32_t VI __attribute__((vector_size(4 * W)));
typedef uint32_t VU __attribute__((vector_size(4 * W)));

constexpr int ROWS = W == 16 ? 4 : 2;   // queries of a block of dot products; keys: 4
constexpr int WIDE = W == 16 ? 5 : 2;   // vectors of a row that stay in registers while rows are added up
constexpr long TILE = 64, CHUNK = 256;  // queries and keys that are worked on together

static inline V load(const float* p) { V x; std::memcpy(&x, p, sizeof x); return x; }
static inline void store(float* p, V x) { std::memcpy(p, &x, sizeof x); }
static inline V splat(float x) { return x - V{}; }
static inline V larger(V a, V b) { return a > b ? a : b; }
static inline V magnitude(V x) { return (V)((VI)x & 0x7FFFFFFF); }

// The first n lanes, with zeros behind them.
static inline V load(const float* p, long n) {
  if (n >= W) return load(p);
  float x[W] = {};
  for (long i = 0; i < n; i++) x[i] = p[i];
  return load(x);
}
static inline void store(float* p, V x, long n) {
  if (n >= W) return store(p, x);
  float y[W];
  store(y, x);
  for (long i = 0; i < n; i++) p[i] = y[i];
}
static inline float largest_lane(V x) {
  float found = x[0];
  for (int i = 1; i < W; i++) found = x[i] > found ? x[i] : found;
  return found;
}

// exp, to about one unit in the last place; 0 below -87.3, inf above 88.7.
static inline V vexp(V x) {
  const V low = splat(-87.33654f), high = splat(88.72284f), magic = splat(12582912.f);
  V y = x > high ? high : x;
  y = y < low ? low : y;
  V t = y * 1.44269504f + magic;
  VI n = (VI)t - (VI)magic;
  V f = t - magic;
  V r = y - f * 0.693359375f;
  r = r + f * 2.12194440e-4f;
  V p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.f;
  VI half = n >> 1;  // in two steps, because 2^128 is no float
  p = p * (V)((half + 127) << 23) * (V)((n - half + 127) << 23);
  return x < low ? V{} : p;
}

// sigmoid(x) and sigmoid(-x), each with a small relative error.
static inline V sigmoid(V x, V* other) {
  V t = vexp(x < 0.f ? x : -x), d = 1.f / (1.f + t), small = t * d;
  *other = x < 0.f ? d : small;
  return x < 0.f ? small : d;
}

// Sums of the lanes of W vectors, as the lanes of one.
template <int G, int HALF, int... T> static inline V pick(V a, V b, std::integer_sequence<int, T...>) {
  return __builtin_shufflevector(a, b, ((T / (G / 2)) * G + T % (G / 2) + HALF * (G / 2))...);
}
template <int G> static inline V lane_sums(const V* x) {
  if constexpr (G == 1) {
    return x[0];
  } else {
    V y[G / 2];
    using S = std::make_integer_sequence<int, W>;
    for (int i = 0; i < G / 2; i++) y[i] = pick<G, 0>(x[2 * i], x[2 * i + 1], S{}) + pick<G, 1>(x[2 * i], x[2 * i + 1], S{});
    return lane_sums<G / 2>(y);
  }
}

// out[r, c] = <a_r, b_c> for ROWS rows a and 4 rows b of `n` floats, a multiple of W.
static inline void dots(const float* a, long lda, const float* b, long ldb, long n, float* out, long ldo) {
  V sum[ROWS * 4];
  for (int i = 0; i < ROWS * 4; i++) sum[i] = V{};
  for (long t = 0; t < n; t += W) {
    V y[4];
    for (int c = 0; c < 4; c++) y[c] = load(b + c * ldb + t);
    for (int r = 0; r < ROWS; r++) {
      V x = load(a + r * lda + t);
      for (int c = 0; c < 4; c++) sum[r * 4 + c] += x * y[c];
    }
  }
  float found[ROWS * 4];
  for (int i = 0; i < ROWS * 4; i += W) store(found + i, lane_sums<W>(sum + i));
  for (int r = 0; r < ROWS; r++) std::memcpy(out + r * ldo, found + r * 4, 4 * sizeof(float));
}

// c[m] += sum_k p[m * pm + k * pk] b[k] for 4 rows c; NV vectors of each row.
template <int NV>
static inline void add_rows(const float* p, long pm, long pk, long k0, long k1, const float* b, long ldb, float* c, long ldc) {
  V sum[4][NV];
  for (int m = 0; m < 4; m++)
    for (int n = 0; n < NV; n++) sum[m][n] = load(c + m * ldc + n * W);
  for (long k = k0; k < k1; k++) {
    V x[NV];
    for (int n = 0; n < NV; n++) x[n] = load(b + k * ldb + n * W);
    for (int m = 0; m < 4; m++) {
      float f = p[m * pm + k * pk];
      for (int n = 0; n < NV; n++) sum[m][n] += f * x[n];
    }
  }
  for (int m = 0; m < 4; m++)
    for (int n = 0; n < NV; n++) store(c + m * ldc + n * W, sum[m][n]);
}

static void add_rows(const float* p, long pm, long pk, long k0, long k1, const float* b, long ldb, float* c, long ldc, long n) {
  long at = 0;
  for (; at + WIDE * W <= n; at += WIDE * W) add_rows<WIDE>(p, pm, pk, k0, k1, b + at, ldb, c + at, ldc);
  switch ((n - at) / W) {
    case 4: if constexpr (WIDE > 4) add_rows<4>(p, pm, pk, k0, k1, b + at, ldb, c + at, ldc); break;
    case 3: if constexpr (WIDE > 3) add_rows<3>(p, pm, pk, k0, k1, b + at, ldb, c + at, ldc); break;
    case 2: if constexpr (WIDE > 2) add_rows<2>(p, pm, pk, k0, k1, b + at, ldb, c + at, ldc); break;
    case 1: add_rows<1>(p, pm, pk, k0, k1, b + at, ldb, c + at, ldc); break;
    default: break;
  }
}

static inline long up(long n, long to) { return (n + to - 1) / to * to; }

// Dropout factors of one row of entries: 0, or 1 / kept.
static inline V drop_factors(VU index, uint64_t row, uint32_t limit, float grown) {
  VU h = index * 0x9E3779B9u ^ (uint32_t)row;
  h = (h ^ (h >> 16)) * 0x7FEB352Du;
  h = ((h ^ (h >> 15)) + (uint32_t)(row >> 32)) * 0x846CA68Bu;
  h = (h ^ (h >> 16)) * 0x9E3779B1u;
  h ^= h >> 15;
  return (V)((VI)(h < limit) & (VI)splat(grown));
}

static inline VU lanes() {
  VU x;
  for (int i = 0; i < W; i++) x[i] = (uint32_t)i;
  return x;
}

static inline V lanes_below(long n, V x) { return (V)((VI)(lanes() < (uint32_t)n) & (VI)x); }

// One head, packed: rows padded with zeros to whole vectors, padded keys left out.
struct Head {
  const Call& c;
  long b, h, Ip, Dp, keys, wide;  // wide: padded floats of a chunk's row
  Buffer& memory;
  int32_t* position;  // of each packed key
  long* before;       // real keys before each position [M + 1]
  float *k, *xw, *top, *value_factor;
  bool large = false;  // whether rounding of the values would be seen where one key has all the weight

  Head(const Call& call, long b_, long h_, Buffer& buffer) : c(call), b(b_), h(h_), memory(buffer) {
    Ip = up(c.I, W), Dp = up(c.D, W);
    memory.rewind();
    before = memory.take<long>(c.M + 1);
    position = memory.take<int32_t>(c.M + 2 * W);
    keys = 0;
    for (long i = 0; i < c.M; i++) {
      before[i] = keys;
      if (c.key_mask == nullptr || c.key_mask[b * c.M + i]) position[keys++] = (int32_t)i;
    }
    before[c.M] = keys;
    for (long i = keys; i < keys + 2 * W && i < c.M + 2 * W; i++) position[i] = -1;
    wide = up(std::min(keys, CHUNK) + 4, W) + W;
    pack();
  }

  const float* key_row(long i) const { return c.k + b * c.ks[0] + h * c.ks[1] + position[i] * c.ks[2]; }
  const float* value_row(long i) const { return c.v + b * c.vs[0] + h * c.vs[1] + position[i] * c.vs[2]; }
  const float* source_row(long i) const { return c.s + b * c.ss[0] + h * c.ss[1] + position[i] * c.ss[2]; }

  void pack() {
    long rows = up(keys, 4) + 4;
    k = memory.take<float>(rows * Ip);
    xw = memory.take<float>(rows * 2 * Dp);
    top = memory.take<float>(Dp);
    value_factor = c.kept < 1.0 ? memory.take<float>(rows * Dp) : nullptr;
    for (long l = 0; l < Dp; l++) top[l] = -INFINITY;
    VI over{};
    for (long i = 0; i < keys; i++) {
      std::memcpy(k + i * Ip, key_row(i), c.I * sizeof(float));
      for (long t = c.I; t < Ip; t++) k[i * Ip + t] = 0.f;
      const float *s = source_row(i), *v = value_row(i);
      for (long l = 0; l < c.D; l += W) {
        store(top + l, larger(load(s + l, c.D - l), load(top + l)));
        over |= (VI)(magnitude(load(v + l, c.D - l)) > LARGE);
      }
    }
    for (int lane = 0; lane < W; lane++) large |= over[lane] != 0;
    for (long i = keys; i < rows; i++) {
      std::memset(k + i * Ip, 0, Ip * sizeof(float));
      std::memset(xw + i * 2 * Dp, 0, 2 * Dp * sizeof(float));
    }
    for (long i = 0; i < keys; i++) {
      const float *s = source_row(i), *v = value_row(i);
      float *x = xw + i * 2 * Dp, *w = x + Dp;
      for (long l = 0; l < c.D; l += W) {
        V e = vexp(load(s + l, c.D - l) - load(top + l));
        if (c.D - l < W) e = lanes_below(c.D - l, e);
        store(w + l, e);
        store(x + l, e * load(v + l, c.D - l));
      }
      if (value_factor != nullptr) {
        uint64_t row = mixed(c.seed ^ 0xD1B54A32D192ED03ull, (uint64_t)((b * c.H + h) * c.M + position[i]));
        for (long t = 0; t < Dp; t += W) {
          V f = drop_factors(lanes() + (uint32_t)t, row, c.limit, c.grown);
          store(value_factor + i * Dp + t, f);
          store(x + t, load(x + t) * f);
        }
      }
    }
  }
};

// The queries of a tile, and the range of keys that each may attend to.
struct Tile {
  long rows = 0, first = 0, last = 0;  // first, last: range of keys of all rows
  long query[TILE], low[TILE], high[TILE], self[TILE], only[TILE];  // self: packed key left out, or -1; only: its single key, or -1
  long blow[TILE / 4], bhigh[TILE / 4];
  bool empty[TILE];
};

static long allowed_at(const Head& a, long j, long i) {
  const Call& c = a.c;
  return c.allowed == nullptr || c.allowed[a.b * c.as[0] + a.h * c.as[1] + j * c.as[2] + a.position[i] * c.as[3]];
}

// Fills the next tile from query `next` on; the first query after it.
static long fill(const Head& a, Tile& t, long next) {
  const Call& c = a.c;
  long low_by = c.low[a.h], high_by = c.high[a.h], most = std::numeric_limits<int32_t>::max();
  t.rows = 0, t.first = a.keys, t.last = 0;
  for (; next < c.N && t.rows < TILE; next++) {
    if (c.query_mask != nullptr && !c.query_mask[a.b * c.N + next]) continue;
    long r = t.rows++, j = next;
    t.query[r] = j;
    long p = j + c.offset;  // its position
    t.low[r] = low_by <= -most ? 0 : a.before[std::clamp(p + low_by, 0L, c.M)];
    t.high[r] = high_by >= most ? a.keys : a.before[std::clamp(p + high_by, 0L, c.M)];
    if (t.high[r] < t.low[r]) t.high[r] = t.low[r];
    t.self[r] = -1;
    if (c.no_self[a.h] && p < c.M && a.before[p + 1] > a.before[p]) t.self[r] = a.before[p];
    if (t.self[r] < t.low[r] || t.self[r] >= t.high[r]) t.self[r] = -1;
    long count = 0, single = -1;
    if (c.allowed == nullptr) {
      count = t.high[r] - t.low[r] - (t.self[r] >= 0);
      single = t.self[r] == t.low[r] ? t.low[r] + 1 : t.low[r];
    } else {
      for (long i = t.low[r]; i < t.high[r]; i++)
        if (i != t.self[r] && allowed_at(a, j, i)) count++, single = i;
    }
    t.empty[r] = count == 0;
    t.only[r] = count == 1 ? single : -1;
    if (t.empty[r]) t.low[r] = t.high[r] = 0, t.self[r] = -1;
    else t.first = std::min(t.first, t.low[r]), t.last = std::max(t.last, t.high[r]);
  }
  for (long r = 0; r < up(t.rows, 4); r += 4) {
    long low = a.keys, high = 0;
    for (long m = r; m < std::min(r + 4, t.rows); m++)
      if (!t.empty[m]) low = std::min(low, t.low[m]), high = std::max(high, t.high[m]);
    if (high == 0) low = 0;  // no row of the block has a key
    t.blow[r / 4] = low, t.bhigh[r / 4] = high;
  }
  if (t.last < t.first) t.first = t.last = 0;
  return next;
}

static inline const float* query_row(const Call& c, long b, long h, long j) { return c.q + b * c.qs[0] + h * c.qs[1] + j * c.qs[2]; }

// The queries of a tile times the scale, packed.
static void pack_queries(const Head& a, const Tile& t, float* q) {
  const Call& c = a.c;
  for (long r = 0; r < up(t.rows, 4); r++) {
    float* row = q + r * a.Ip;
    if (r >= t.rows) { std::memset(row, 0, a.Ip * sizeof(float)); continue; }
    const float* from = query_row(c, a.b, a.h, t.query[r]);
    for (long i = 0; i < c.I; i++) row[i] = from[i] * c.scale;
    for (long i = c.I; i < a.Ip; i++) row[i] = 0.f;
  }
}

// Scores of a tile against keys [from, to), in the blocks of rows that reach them.
static void scores(const Head& a, const Tile& t, const float* q, long from, long to, float* e) {
  for (long r = 0; r < up(t.rows, 4); r += ROWS) {
    long low = std::max(t.blow[r / 4], from), high = std::min(t.bhigh[r / 4], to);
    if (low >= high) continue;
    for (long i = from + (low - from) / 4 * 4; i < high; i += 4) dots(q + r * a.Ip, a.Ip, a.k + i * a.Ip, a.Ip, a.Ip, e + r * a.wide + i - from, a.wide);
  }
}

// bias of the pairs of one query and keys [low, high): distance and the tensor of the caller.
static bool pair_bias(const Head& a, long j, long low, long high, float* bias) {
  const Call& c = a.c;
  float rate = (float)c.rate[a.h];
  if (rate == 0.f && c.bias == nullptr) return false;
  for (long i = low; i < high; i++) {
    long p = a.position[i];
    bias[i - low] = -rate * (float)std::labs(p - (j + c.offset));
    if (c.bias != nullptr) bias[i - low] += c.bias[a.b * c.bs[0] + a.h * c.bs[1] + j * c.bs[2] + p * c.bs[3]];
  }
  return true;
}

// Turns the scores of row r into factors e, and 1 - sigmoid into `other` where it is wanted; zero at forbidden keys.
// `shift` is the row's maximum so far of what is taken off; the result says by how much sums so far must be multiplied.
static float factors(const Head& a, const Tile& t, long r, long from, long to, float* e, float* other, float* bias, float* shift, bool fixed) {
  const Call& c = a.c;
  long blow = std::max(t.blow[r / 4], from), bhigh = std::min(t.bhigh[r / 4], to);
  if (blow >= bhigh) return 1.f;
  long low = std::max(t.low[r], from), high = std::min(t.high[r], to);
  long start = (blow - from) / 4 * 4, end = up(bhigh - from, 4);
  float rescale = 1.f;
  if (t.empty[r] || low >= high) {
    std::memset(e + start, 0, (end - start) * sizeof(float));
    if (other != nullptr) std::memset(other + start, 0, (end - start) * sizeof(float));
    return rescale;
  }
  bool biased = pair_bias(a, t.query[r], low, high, bias);
  auto skipped = [&](long i) { return i == t.self[r] || !allowed_at(a, t.query[r], i); };
  bool holes = t.self[r] >= 0 || c.allowed != nullptr;
  float* x = e + low - from;
  long n = high - low;
  if (c.identity || biased) {  // shifted by the row's maximum: of score and bias, or (the sigmoid is at most 1) of the bias
    if (c.identity && biased) for (long i = 0; i < n; i++) x[i] += bias[i];
    const float* of = c.identity ? x : bias;
    if (!fixed) {
      float highest = *shift;
      for (long i = 0; i < n; i++) if (!(holes && skipped(low + i))) highest = of[i] > highest ? of[i] : highest;
      if (highest > *shift) rescale = *shift == -INFINITY ? 1.f : std::exp(*shift - highest), *shift = highest;
    }
  }
  V taken = splat(*shift == -INFINITY ? 0.f : *shift);
  for (long i = 0; i < n; i += W) {  // what lies beyond the range is overwritten with 0 below
    V y = load(x + i), o = V{};
    if (c.identity) y = vexp(y - taken);
    else y = sigmoid(y, &o);
    if (!c.identity && biased) y = y * vexp(load(bias + i) - taken);
    store(x + i, y);
    if (other != nullptr) store(other + low - from + i, o);
  }
  for (long i = start; i < low - from; i++) e[i] = 0.f;
  for (long i = high - from; i < end; i++) e[i] = 0.f;
  if (holes) for (long i = low; i < high; i++) if (skipped(i)) e[i - from] = 0.f;
  return rescale;
}

// Dropout factors of row r for keys [from, to).
static void pair_factors(const Head& a, const Tile& t, long r, long from, long to, float* f) {
  const Call& c = a.c;
  uint64_t row = mixed(c.seed, (uint64_t)((a.b * c.H + a.h) * c.N + t.query[r]));
  for (long i = 0; i < to - from; i += W) {
    VU index;
    std::memcpy(&index, a.position + from + i, sizeof index);
    store(f + i, drop_factors(index, row, c.limit, c.grown));
  }
}

static float pair_factor_at(const Call& c, long b, long h, long j, long p) {
  if (c.kept >= 1.0) return 1.f;
  uint64_t row = mixed(c.seed, (uint64_t)((b * c.H + h) * c.N + j));
  return drop_factors(VU{} + (uint32_t)p, row, c.limit, c.grown)[0];
}

// The definition in double precision: for entries whose sums underflowed; for entries where one key has all the weight and
// values are large; and for the gradients of heads where one key has all the weight everywhere, which would be rounding noise.

// Exponents of the pairs of query j and all keys, -inf where forbidden; `steep` is the derivative of the score function.
static void exponents(const Head& a, const Tile& t, long r, double* x, double* steep) {
  const Call& c = a.c;
  long j = t.query[r];
  const float* q = query_row(c, a.b, a.h, j);
  for (long i = t.low[r]; i < t.high[r]; i++) {
    if (i == t.self[r] || !allowed_at(a, j, i)) { x[i] = -INFINITY; continue; }
    double score = 0.0;
    const float* k = a.k + i * a.Ip;
    for (long n = 0; n < c.I; n++) score += (double)q[n] * k[n];
    score *= c.scale;
    double small = std::exp(-std::fabs(score));
    x[i] = c.identity ? score : std::min(score, 0.0) - std::log1p(small);
    steep[i] = c.identity ? 1.0 : (score < 0.0 ? 1.0 : small) / (1.0 + small);
    float bias;
    if (pair_bias(a, j, i, i + 1, &bias)) x[i] += bias;
  }
}

// Softmax over the keys of row r for feature l: weights p, and the attended value.
static double softmax(const Head& a, const Tile& t, long r, long l, const double* x, const float* pair, double* p) {
  double highest = -INFINITY, sum = 0.0, value = 0.0;
  for (long i = t.low[r]; i < t.high[r]; i++) highest = std::max(highest, x[i] + a.source_row(i)[l]);
  for (long i = t.low[r]; i < t.high[r]; i++) {
    p[i] = x[i] == -INFINITY ? 0.0 : std::exp(x[i] + a.source_row(i)[l] - highest);
    sum += p[i];
  }
  for (long i = t.low[r]; i < t.high[r]; i++) {
    p[i] /= sum;
    double factor = pair == nullptr ? 1.0 : (double)pair[i] * a.value_factor[i * a.Dp + l];
    if (p[i] != 0.0) value += p[i] * factor * a.value_row(i)[l];
  }
  return value;
}

static const float* drawn_factors(const Head& a, const Tile& t, long r, std::vector<float>& pair) {
  if (a.c.kept >= 1.0) return nullptr;
  pair.resize(a.keys + 2 * W);
  pair_factors(a, t, r, 0, a.keys, pair.data());
  return pair.data();
}

static long forward_definition(const Head& a, const Tile& t, long r, float* out, float* total) {
  std::vector<double> x(a.keys), steep(a.keys), p(a.keys);
  std::vector<float> pair;
  const float* drawn = drawn_factors(a, t, r, pair);
  exponents(a, t, r, x.data(), steep.data());
  long entries = 0;
  for (long l = 0; l < a.c.D; l++) {
    if (!(total[l] < TINY)) continue;
    out[l] = (float)softmax(a, t, r, l, x.data(), drawn, p.data());
    total[l] = FLAGGED;
    entries++;
  }
  return entries;
}

// Adds the gradients of flagged entries; with `all`, computes those of the whole head.
static void backward_definition(const Head& a, bool all) {
  const Call& c = a.c;
  Tile t;
  std::vector<double> x(a.keys), steep(a.keys), p(a.keys), dx(a.keys);
  std::vector<float> pair;
  auto row = [&](float* base, const long* stride, long n) { return base + a.b * stride[0] + a.h * stride[1] + n * stride[2]; };
  if (all) {
    for (long j = 0; j < c.N; j++) std::memset(row(c.dq, c.qs, j), 0, c.I * sizeof(float));
    for (long i = 0; i < a.keys; i++) {
      std::memset(row(c.dk, c.ks, a.position[i]), 0, c.I * sizeof(float));
      std::memset(row(c.dv, c.vs, a.position[i]), 0, c.D * sizeof(float));
      std::memset(row(c.ds, c.ss, a.position[i]), 0, c.D * sizeof(float));
    }
  }
  for (long next = 0; next < c.N;) {
    next = fill(a, t, next);
    for (long r = 0; r < t.rows; r++) {
      if (t.empty[r]) continue;
      long j = t.query[r];
      const float* g = c.grad + a.b * c.gs[0] + a.h * c.gs[1] + j * c.gs[2];
      const float* total = c.total + entry(c, a.b, a.h, j) * c.D;
      bool wanted = all || t.only[r] >= 0;
      for (long l = 0; l < c.D && !wanted; l++) wanted = !(total[l] > 0.f);
      if (!wanted) continue;
      const float* drawn = drawn_factors(a, t, r, pair);
      if (t.only[r] >= 0) {
        float* dv = row(c.dv, c.vs, a.position[t.only[r]]);
        for (long l = 0; l < c.D; l++) dv[l] += g[l] * (drawn == nullptr ? 1.f : drawn[t.only[r]] * a.value_factor[t.only[r] * a.Dp + l]);
        continue;
      }
      exponents(a, t, r, x.data(), steep.data());
      std::fill(dx.begin(), dx.end(), 0.0);
      for (long l = 0; l < c.D; l++) {
        if (!all && total[l] > 0.f) continue;
        double value = softmax(a, t, r, l, x.data(), drawn, p.data());
        for (long i = t.low[r]; i < t.high[r]; i++) {
          if (p[i] == 0.0) continue;
          double factor = drawn == nullptr ? 1.0 : (double)drawn[i] * a.value_factor[i * a.Dp + l];
          double step = g[l] * p[i] * (factor * a.value_row(i)[l] - value);
          row(c.dv, c.vs, a.position[i])[l] += (float)(g[l] * p[i] * factor);
          row(c.ds, c.ss, a.position[i])[l] += (float)step;
          dx[i] += step;
        }
      }
      const float* q = query_row(c, a.b, a.h, j);
      float* dq = row(c.dq, c.qs, j);
      for (long i = t.low[r]; i < t.high[r]; i++) {
        double step = dx[i] * steep[i] * c.scale;
        if (dx[i] == 0.0) continue;
        float* dk = row(c.dk, c.ks, a.position[i]);
        const float* k = a.k + i * a.Ip;
        for (long n = 0; n < c.I; n++) dq[n] += (float)(step * k[n]), dk[n] += (float)(step * q[n]);
      }
    }
  }
}

static void redo_head(const Call& c, long b, long h, Buffer& memory, Stats&) { backward_definition(Head(c, b, h, memory), true); }

// Zeros in the rows of padded positions.
static void clear_padded(float* base, const long* stride, const uint8_t* mask, long b, long h, long count, long width) {
  for (long n = 0; mask != nullptr && n < count; n++)
    if (!mask[b * count + n]) std::memset(base + b * stride[0] + h * stride[1] + n * stride[2], 0, width * sizeof(float));
}

static void forward_head(const Call& c, long b, long h, Buffer& memory, Stats& stats) {
  Head a(c, b, h, memory);
  Tile t;
  clear_padded(c.out, c.os, c.query_mask, b, h, c.N, c.D);
  long wide = a.wide, Dp = a.Dp;
  float* q = memory.take<float>(TILE * a.Ip);
  float* e = memory.take<float>(TILE * wide);
  float* dropped = c.kept < 1.0 ? memory.take<float>(TILE * wide) : nullptr;
  float* bias = memory.take<float>(wide);
  float* sums = memory.take<float>(TILE * 2 * Dp);
  float* unsaved = memory.take<float>(Dp);
  float* peak = a.large ? memory.take<float>(TILE * Dp) : nullptr;  // largest term of each denominator
  float shift[TILE];
  for (long next = 0; next < c.N;) {
    next = fill(a, t, next);
    pack_queries(a, t, q);
    std::memset(sums, 0, up(t.rows, 4) * 2 * Dp * sizeof(float));
    if (peak != nullptr) std::memset(peak, 0, t.rows * Dp * sizeof(float));
    for (long r = 0; r < TILE; r++) shift[r] = -INFINITY;
    for (long from = t.first / 4 * 4; from < t.last; from += CHUNK) {
      long to = std::min(from + CHUNK, t.last);
      scores(a, t, q, from, to, e);
      for (long r = 0; r < up(t.rows, 4); r++) {
        if (r >= t.rows) { std::memset(e + r * wide, 0, wide * sizeof(float)); continue; }
        float rescale = factors(a, t, r, from, to, e + r * wide, nullptr, bias, shift + r, false);
        if (rescale != 1.f) for (long l = 0; l < 2 * Dp; l++) sums[r * 2 * Dp + l] *= rescale;
        if (peak != nullptr) {
          float* row = peak + r * Dp;
          if (rescale != 1.f) for (long l = 0; l < Dp; l++) row[l] *= rescale;
          for (long i = std::max(t.low[r], from); i < std::min(t.high[r], to); i++)
            for (long l = 0; l < Dp; l += W) {
              V term = e[r * wide + i - from] * load(a.xw + i * 2 * Dp + Dp + l), most = load(row + l);
              store(row + l, term > most ? term : most);
            }
        }
      }
      for (long r = 0; r < t.rows; r += 4) {
        long low = std::max(t.blow[r / 4], from), high = std::min(t.bhigh[r / 4], to);
        if (low >= high) continue;
        const float *p = e + r * wide - from, *rows = a.xw;
        if (dropped == nullptr) {
          add_rows(p, wide, 1, low, high, rows, 2 * Dp, sums + r * 2 * Dp, 2 * Dp, 2 * Dp);
        } else {
          long start = (low - from) / W * W;
          for (long m = r; m < std::min(r + 4, t.rows); m++) {
            pair_factors(a, t, m, from + start, high, dropped + m * wide + start);
            for (long i = start; i < high - from; i++) dropped[m * wide + i] *= e[m * wide + i];
          }
          for (long m = t.rows; m < r + 4; m++) std::memset(dropped + m * wide, 0, wide * sizeof(float));
          add_rows(dropped + r * wide - from, wide, 1, low, high, rows, 2 * Dp, sums + r * 2 * Dp, 2 * Dp, Dp);
          add_rows(p, wide, 1, low, high, rows + Dp, 2 * Dp, sums + r * 2 * Dp + Dp, 2 * Dp, Dp);
        }
      }
    }
    for (long r = 0; r < t.rows; r++) {
      long j = t.query[r];
      float* out = c.out + b * c.os[0] + h * c.os[1] + j * c.os[2];
      float* total = c.total == nullptr ? unsaved : c.total + entry(c, b, h, j) * c.D;
      if (c.shift != nullptr) c.shift[entry(c, b, h, j)] = shift[r];
      if (t.empty[r]) {
        for (long l = 0; l < c.D; l++) out[l] = 0.f, total[l] = EMPTY;
      } else if (t.only[r] >= 0) {  // all the weight is on one key
        const float* v = a.value_row(t.only[r]);
        float f = pair_factor_at(c, b, h, j, a.position[t.only[r]]);
        for (long l = 0; l < c.D; l++) out[l] = v[l] * (a.value_factor == nullptr ? 1.f : f * a.value_factor[t.only[r] * Dp + l]), total[l] = ONE_KEY;
      } else {
        const float *n = sums + r * 2 * Dp, *z = n + Dp;
        VI low{};
        for (long l = 0; l < c.D; l += W) {
          V sum = load(z + l);
          VI doubtful = (VI)(sum < TINY);
          if (peak != nullptr) doubtful |= (VI)(load(peak + r * Dp + l) >= sum * (1.f - SATURATED));
          if (c.D - l < W) doubtful = (VI)lanes_below(c.D - l, (V)doubtful);
          low |= doubtful;
          store(out + l, load(n + l) / sum, c.D - l);
          store(total + l, (V)(~doubtful & (VI)sum), c.D - l);
        }
        bool any = false;
        for (int lane = 0; lane < W; lane++) any |= low[lane] != 0;
        if (any) stats.entries += forward_definition(a, t, r, out, total);
      }
    }
  }
}

static void backward_head(const Call& c, long b, long h, Buffer& memory, Stats& stats) {
  Head a(c, b, h, memory);
  Tile t;
  long wide = a.wide, Dp = a.Dp, Ip = a.Ip, rows = up(a.keys, 4) + 4;
  float* q = memory.take<float>(TILE * Ip);
  float* e = memory.take<float>(TILE * wide);
  float* other = c.identity ? nullptr : memory.take<float>(TILE * wide);
  float* de = memory.take<float>(TILE * wide);
  float* dropped = c.kept < 1.0 ? memory.take<float>(TILE * wide) : nullptr;
  float* de2 = c.kept < 1.0 ? memory.take<float>(TILE * wide) : nullptr;
  float* bias = memory.take<float>(wide);
  float* ab = memory.take<float>(TILE * 2 * Dp);  // gradients of numerator and denominator
  float* dq = memory.take<float>(TILE * Ip);
  float* dk = memory.take<float>(rows * Ip);
  float* dxw = memory.take<float>(rows * 2 * Dp);
  std::memset(dk, 0, rows * Ip * sizeof(float));
  std::memset(dxw, 0, rows * 2 * Dp * sizeof(float));
  float shift[TILE];
  bool fast = false, flagged = false;
  for (long next = 0; next < c.N;) {
    next = fill(a, t, next);
    pack_queries(a, t, q);
    std::memset(dq, 0, up(t.rows, 4) * Ip * sizeof(float));
    for (long r = 0; r < up(t.rows, 4); r++) {
      float *da = ab + r * 2 * Dp, *db = da + Dp;
      if (r >= t.rows) { std::memset(da, 0, 2 * Dp * sizeof(float)); continue; }
      long j = t.query[r];
      shift[r] = c.shift[entry(c, b, h, j)];
      const float* out = c.out + b * c.os[0] + h * c.os[1] + j * c.os[2];
      const float* g = c.grad + b * c.gs[0] + h * c.gs[1] + j * c.gs[2];
      const float* z = c.total + entry(c, b, h, j) * c.D;
      bool usual = !t.empty[r] && t.only[r] < 0;
      if (usual) {
        VI low{};
        for (long l = 0; l < c.D; l += W) {
          V sum = load(z + l, c.D - l);
          VI trusted = (VI)(sum > 0.f), missing = ~trusted;
          if (c.D - l < W) missing = (VI)lanes_below(c.D - l, (V)missing);
          low |= missing;
          V value = (V)(trusted & (VI)(load(g + l, c.D - l) / sum));
          store(da + l, value);
          store(db + l, -value * load(out + l, c.D - l));
        }
        for (int lane = 0; lane < W; lane++) flagged |= low[lane] != 0;
        fast = true;
      } else {
        std::memset(da, 0, 2 * Dp * sizeof(float));
        flagged |= t.only[r] >= 0;
      }
      for (long l = up(c.D, W); l < Dp; l++) da[l] = db[l] = 0.f;
    }
    for (long from = t.first / 4 * 4; from < t.last; from += CHUNK) {
      long to = std::min(from + CHUNK, t.last);
      scores(a, t, q, from, to, e);
      for (long r = 0; r < up(t.rows, 4); r += ROWS) {
        long low = std::max(t.blow[r / 4], from), high = std::min(t.bhigh[r / 4], to);
        for (long i = from + (low - from) / 4 * 4; i < high; i += 4) {
          const float *x = ab + r * 2 * Dp, *y = a.xw + i * 2 * Dp;
          float* at = de + r * wide + i - from;
          if (dropped == nullptr) {
            dots(x, 2 * Dp, y, 2 * Dp, 2 * Dp, at, wide);
          } else {
            dots(x, 2 * Dp, y, 2 * Dp, Dp, at, wide);
            dots(x + Dp, 2 * Dp, y + Dp, 2 * Dp, Dp, de2 + r * wide + i - from, wide);
          }
        }
      }
      for (long r = 0; r < up(t.rows, 4); r++) {
        float *er = e + r * wide, *dr = de + r * wide;
        long low = std::max(t.blow[r / 4], from), high = std::min(t.bhigh[r / 4], to);
        if (low >= high) continue;
        long start = (low - from) / 4 * 4, end = up(high - from, 4);
        if (r >= t.rows) {
          std::memset(er + start, 0, (end - start) * sizeof(float));
          std::memset(dr + start, 0, (end - start) * sizeof(float));
          if (dropped != nullptr) std::memset(dropped + r * wide + start, 0, (end - start) * sizeof(float));
          continue;
        }
        factors(a, t, r, from, to, er, other == nullptr ? nullptr : other + r * wide, bias, shift + r, true);
        if (dropped != nullptr) {
          float* f = dropped + r * wide;
          pair_factors(a, t, r, from + start, to, f + start);
          for (long i = start; i < end; i++) dr[i] = dr[i] * f[i] + de2[r * wide + i], f[i] *= er[i];
        }
        const float* o = other == nullptr ? nullptr : other + r * wide;
        for (long i = start; i < end; i++) dr[i] = er[i] == 0.f ? 0.f : dr[i] * er[i] * (o == nullptr ? 1.f : o[i]);
      }
      for (long r = 0; r < t.rows; r += 4) {
        long low = std::max(t.blow[r / 4], from), high = std::min(t.bhigh[r / 4], to);
        if (low < high) add_rows(de + r * wide - from, wide, 1, low, high, a.k, Ip, dq + r * Ip, Ip, Ip);
      }
      for (long i = from; i < to; i += 4) {  // four keys: the rows of queries that reach one of them
        long r0 = t.rows, r1 = 0;
        for (long r = 0; r < t.rows; r += 4)
          if (t.blow[r / 4] < i + 4 && t.bhigh[r / 4] > i) r0 = std::min(r0, r), r1 = r + 4;
        for (long r = r0; r < std::min(r1, up(t.rows, 4)); r += 4)  // blocks in between that do not reach them hold nothing yet
          if (!(t.blow[r / 4] < i + 4 && t.bhigh[r / 4] > i))
            for (long m = r; m < r + 4; m++)
              for (long n = i - from; n < i - from + 4; n++) {
                e[m * wide + n] = de[m * wide + n] = 0.f;
                if (dropped != nullptr) dropped[m * wide + n] = 0.f;
              }
        if (r0 >= r1) continue;
        float* sum = dxw + i * 2 * Dp;
        const float* p = e + i - from;
        if (dropped == nullptr) {
          add_rows(p, 1, wide, r0, r1, ab, 2 * Dp, sum, 2 * Dp, 2 * Dp);
        } else {
          add_rows(dropped + i - from, 1, wide, r0, r1, ab, 2 * Dp, sum, 2 * Dp, Dp);
          add_rows(p, 1, wide, r0, r1, ab + Dp, 2 * Dp, sum + Dp, 2 * Dp, Dp);
        }
        add_rows(de + i - from, 1, wide, r0, r1, q, Ip, dk + i * Ip, Ip, Ip);
      }
    }
    for (long r = 0; r < t.rows; r++) {
      float* to = c.dq + b * c.qs[0] + h * c.qs[1] + t.query[r] * c.qs[2];
      for (long i = 0; i < c.I; i++) to[i] = dq[r * Ip + i] * c.scale;
    }
  }
  V most_v{}, most_dv{}, most_ds{};
  for (long i = 0; i < a.keys; i++) {
    long p = a.position[i];
    float *to_k = c.dk + b * c.ks[0] + h * c.ks[1] + p * c.ks[2], *to_v = c.dv + b * c.vs[0] + h * c.vs[1] + p * c.vs[2];
    float* to_s = c.ds + b * c.ss[0] + h * c.ss[1] + p * c.ss[2];
    const float *v = a.value_row(i), *w = a.xw + i * 2 * Dp + Dp, *dx = dxw + i * 2 * Dp, *dw = dx + Dp;
    const float* u = a.value_factor == nullptr ? nullptr : a.value_factor + i * Dp;
    std::memcpy(to_k, dk + i * Ip, c.I * sizeof(float));
    for (long l = 0; l < c.D; l += W) {
      V step = u == nullptr ? load(dx + l) : load(u + l) * load(dx + l), value = load(v + l, c.D - l), weight = load(w + l);
      V d_value = weight * step, d_source = weight * (value * step + load(dw + l));
      store(to_v + l, d_value, c.D - l);
      store(to_s + l, d_source, c.D - l);
      most_v = larger(magnitude(value), most_v), most_dv = larger(magnitude(d_value), most_dv);
      most_ds = larger(magnitude(d_source), most_ds);
    }
  }
  clear_padded(c.dq, c.qs, c.query_mask, b, h, c.N, c.I);
  clear_padded(c.dk, c.ks, c.key_mask, b, h, c.M, c.I);
  clear_padded(c.dv, c.vs, c.key_mask, b, h, c.M, c.D);
  clear_padded(c.ds, c.ss, c.key_mask, b, h, c.M, c.D);
  stats.product[c.unit] = fast ? largest_lane(most_v) * largest_lane(most_dv) : 0.f;
  stats.largest[c.unit] = largest_lane(most_ds);
  if (flagged) backward_definition(a, false);
}

// The backward pass of a call that saved nothing: output and denominators of the head are computed again.
static void backward_again(const Call& call, long b, long h, Buffer& memory, Stats& stats) {
  std::vector<float> kept(call.N * (2 * call.D + 1));
  Call c = call;
  c.of_head = true;
  c.out = kept.data(), c.os[0] = c.os[1] = 0, c.os[2] = c.D;
  c.total = c.out + c.N * c.D, c.shift = c.total + c.N * c.D;
  forward_head(c, b, h, memory, stats);
  backward_head(c, b, h, memory, stats);
}

// y = x with dropout; the factors of entry n depend on the seed and on n alone.
static void drop(const float* x, float* y, long from, long to, uint64_t seed, uint32_t limit, float grown) {
  for (long n = from; n < to; n += BLOCK) {
    uint64_t row = mixed(seed, (uint64_t)(n / BLOCK));
    long end = std::min(n + BLOCK, to), i = n;
    for (; i + W <= end; i += W) store(y + i, load(x + i) * drop_factors(lanes() + (uint32_t)(i - n), row, limit, grown));
    V f = drop_factors(lanes() + (uint32_t)(i - n), row, limit, grown);
    for (long l = 0; i < end; i++, l++) y[i] = x[i] * f[l];
  }
}

static const Kernels kernels = {MTSA_NAME, forward_head, backward_head, backward_again, redo_head, drop};
