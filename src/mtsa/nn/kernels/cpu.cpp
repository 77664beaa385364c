// Tensorized attention for CPUs: forward and backward in float32, behind a C interface over pointers.
//
// Built without torch and without Python headers by any C++17 compiler with GNU vector extensions (GCC 12 or later, Clang). On
// x86-64 the code is compiled for AVX-512, AVX2 and SSE2, and the processor decides at run time; elsewhere for 128-bit vectors.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace {

constexpr int64_t VERSION = 3;  // of the interface; see kernels/cpu.py
constexpr float TINY = 1e-20f;  // a denominator below this is not trusted: both its factors are at most 1
constexpr float LARGE = 16.f, SATURATED = 1e-6f;  // values, and the share of the other keys, from which on noise is avoided
constexpr float EMPTY = 0.f, FLAGGED = -1.f, ONE_KEY = -2.f;  // what `total` holds where it is no sum
constexpr long BLOCK = 1024;    // entries that share the key of their dropout factors

// The arguments of one call. Strides count floats, in the order batch, head, position (and key, for pairs).
//
// Packed sequences are the B "batches" of a call whose tensors have one batch: sequence b has the rows bounds[b] to
// bounds[b + 1] - 1. Each head of a sequence is worked on as a call of its own, in which pointers start at its first row.
struct Call {
  long B, H, N, M, I, D;
  const int64_t *bounds, *offsets;  // of packed sequences [B + 1]; position of the first query of each sequence [B]; null: 0
  long rows;                        // of a head in total and shift
  long first, offset, unit;         // of one head: its first row, the position of its first query, and its number b * H + h
  long longest, pairs;              // the longest sequence of keys, and the number of pairs of a head in all sequences
  const float *q, *k, *v, *s;
  long qs[3], ks[3], vs[3], ss[3];
  const uint8_t *key_mask, *query_mask;  // [B, M], [B, N]; null: no padding
  const uint8_t* allowed;
  long as[4];
  const float* bias;
  long bs[4];
  const int64_t *low, *high, *no_self;  // of each head: query j sees keys from j + low to j + high - 1, possibly without j
  const double* rate;                   // of each head: bias -rate * |i - j|
  bool identity;
  float scale;
  double kept;  // probability that a factor survives dropout; 1: no dropout
  uint32_t limit;
  float grown;
  uint64_t seed;
  float *out, *total, *shift;
  long os[3];
  bool of_head;  // whether out, total and shift are of one head alone
  const float* grad;
  long gs[3];
  float *dq, *dk, *dv, *ds;  // with the strides of q, k, v, s
};

inline long entry(const Call& c, long b, long h, long j) { return c.of_head ? j : (b * c.H + h) * c.rows + c.first + j; }  // in total and shift

// Memory of one thread, kept between calls unless it is large.
class Buffer {
 public:
  ~Buffer() { std::free(data_); }
  void reserve(size_t bytes) {
    if (bytes <= size_) return;
    std::free(data_);
    size_ = (bytes + 63) / 64 * 64;
    data_ = static_cast<char*>(std::aligned_alloc(64, size_));
    if (data_ == nullptr) { size_ = 0; throw std::bad_alloc(); }
  }
  void trim() {
    if (size_ > (8u << 20)) { std::free(data_); data_ = nullptr; size_ = 0; }
  }
  void rewind() { used_ = 0; }
  template <typename T> T* take(long count) {
    T* found = reinterpret_cast<T*>(data_ + used_);
    used_ += ((size_t)count * sizeof(T) + 63) / 64 * 64;
    if (used_ > size_) throw std::bad_alloc();  // `needed` is too small
    return found;
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0, used_ = 0;
};

// What a call finds: entries computed by the definition, and for each head the sizes of v * dv and of ds.
struct Stats {
  std::atomic<long> entries{0};
  std::vector<float> product, largest;
};

inline uint64_t mixed(uint64_t seed, uint64_t n) {
  uint64_t x = seed + n * 0x9E3779B97F4A7C15ull + 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

using Work = void (*)(const Call&, long, long, Buffer&, Stats&);
struct Kernels {
  const char* name;
  Work forward, backward, backward_again, redo;
  void (*drop)(const float*, float*, long, long, uint64_t, uint32_t, float);
};

#if defined(__x86_64__)
namespace sse2 {
#define MTSA_LANES 4
#define MTSA_NAME "sse2"
#include "cpu_vector.inl"
#undef MTSA_LANES
#undef MTSA_NAME
}  // namespace sse2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace avx2 {
#define MTSA_LANES 8
#define MTSA_NAME "avx2"
#include "cpu_vector.inl"
#undef MTSA_LANES
#undef MTSA_NAME
}  // namespace avx2
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#endif
namespace avx512 {
#define MTSA_LANES 16
#define MTSA_NAME "avx512"
#include "cpu_vector.inl"
#undef MTSA_LANES
#undef MTSA_NAME
}  // namespace avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
namespace generic {
#define MTSA_LANES 4
#define MTSA_NAME "128-bit"
#include "cpu_vector.inl"
#undef MTSA_LANES
#undef MTSA_NAME
}  // namespace generic
#endif

const Kernels* choose() {
#if defined(__x86_64__)
  const char* most = std::getenv("MTSA_CPU");  // an upper bound, for tests and for comparisons
  __builtin_cpu_init();
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (wide && (most == nullptr || std::strcmp(most, "avx512") == 0)) return &avx512::kernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (most == nullptr || std::strcmp(most, "sse2") != 0)) return &avx2::kernels;
  return &sse2::kernels;
#else
  return &generic::kernels;
#endif
}
const Kernels* const chosen = choose();

// A parallel loop. It runs in the threads of the OpenMP runtime that torch has loaded, where that is known: after a matrix product
// they are awake, and threads of our own would compete with them for the cores. Otherwise, and in a process that was forked after
// that runtime had started its threads, it runs in threads of its own. A loop that is busy makes the caller work alone.
using OpenMpParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
OpenMpParallel openmp_parallel = nullptr;

class Pool {
 public:
  void run(long units, int threads, const std::function<void(long)>& work, void (*finish)() = [] {}) {
    if (threads > units) threads = (int)units;
    std::unique_lock<std::mutex> mine(busy_, std::try_to_lock);
    if (threads < 2 || !mine.owns_lock()) {
      for (long unit = 0; unit < units; unit++) work(unit);
      finish();
      return;
    }
    next_.store(0), units_ = units, work_ = &work, finish_ = finish;
    if (openmp_parallel != nullptr) openmp_parallel([](void* pool) { static_cast<Pool*>(pool)->take(); }, this, (unsigned)threads, 0);
    else run_in_own_threads(threads);
    if (error_) {
      std::exception_ptr error = std::exchange(error_, nullptr);
      std::rethrow_exception(error);
    }
  }

 private:
  void run_in_own_threads(int threads) {
    while ((int)workers_.size() < threads - 1) {
      int number = (int)workers_.size();
      workers_.emplace_back([this, number] { serve(number); });
      workers_.back().detach();
    }
    pending_.store(threads - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      helpers_ = threads - 1, round_++;
    }
    started_.notify_all();
    take();
    for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; spins++) {
      if (spins < 2000) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      ended_.wait(lock, [this] { return pending_.load() == 0; });
    }
  }
  void take() {
    try {
      for (long unit; (unit = next_.fetch_add(1)) < units_;) (*work_)(unit);
      finish_();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      error_ = std::current_exception();
      next_.store(units_);
    }
  }
  void serve(int number) {
    long seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        started_.wait(lock, [&] { return round_ != seen; });
        seen = round_;
        if (number >= helpers_) continue;
      }
      take();
      if (pending_.fetch_sub(1) == 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        ended_.notify_one();
      }
    }
  }
  std::vector<std::thread> workers_;
  std::mutex busy_, mutex_;
  std::condition_variable started_, ended_;
  std::atomic<long> next_{0};
  std::atomic<int> pending_{0};
  long units_ = 0, round_ = 0;
  int helpers_ = 0;
  const std::function<void(long)>* work_ = nullptr;
  void (*finish_)() = nullptr;  // called by each thread at its end
  std::exception_ptr error_;
};

Pool* pool = new Pool;  // never freed: its threads outlive static destruction
#if defined(__unix__) || defined(__APPLE__)
const int registered = pthread_atfork(nullptr, nullptr, [] { pool = new Pool, openmp_parallel = nullptr; });
#endif

thread_local Buffer local;

size_t needed(const Call& c) {
  size_t rows = (size_t)c.longest + 12, lanes = 16, tile = 64, wide = (size_t)std::min(c.longest, 256L) + 64;
  size_t Ip = (size_t)c.I + lanes, Dp = (size_t)c.D + lanes;
  size_t floats = rows * (2 * Ip + 5 * Dp) + tile * (6 * wide + 2 * Ip + 5 * Dp) + wide + 2 * Dp;
  return floats * sizeof(float) + ((size_t)c.longest + 64) * 16 + 64 * 64;
}

double work_of(const Call& c) { return (double)c.H * c.pairs * (c.I + 2 * c.D); }

// The call of one head of one sequence; `b` becomes the batch of its tensors.
Call of_unit(const Call& call, long unit, long& b) {
  Call c = call;
  b = unit / c.H;
  c.unit = unit;
  if (c.offsets != nullptr) c.offset = (long)c.offsets[b];
  if (c.bounds == nullptr) return c;
  c.first = (long)c.bounds[b];
  c.N = c.M = (long)(c.bounds[b + 1] - c.bounds[b]);
  c.seed = mixed(c.seed, (uint64_t)b);
  b = 0;
  c.q += c.first * c.qs[2], c.k += c.first * c.ks[2], c.v += c.first * c.vs[2], c.s += c.first * c.ss[2];
  if (c.allowed != nullptr) c.allowed += c.first * (c.as[2] + c.as[3]);
  if (c.bias != nullptr) c.bias += c.first * (c.bs[2] + c.bs[3]);
  if (!c.of_head && c.out != nullptr) c.out += c.first * c.os[2];
  if (c.grad != nullptr) c.grad += c.first * c.gs[2], c.dq += c.first * c.qs[2], c.dk += c.first * c.ks[2], c.dv += c.first * c.vs[2], c.ds += c.first * c.ss[2];
  return c;
}

void over_heads(const Call& c, int threads, Work work, Stats& stats, const std::vector<long>* heads = nullptr) {
  size_t bytes = needed(c);
  long units = heads == nullptr ? c.B * c.H : (long)heads->size();
  pool->run(units, work_of(c) < 5e5 ? 1 : threads, [&](long unit) {
    long head = heads == nullptr ? unit : (*heads)[unit];
    long b;
    Call one = of_unit(c, head, b);
    if (c.bounds != nullptr && one.N == 0) return;  // an empty sequence
    local.reserve(bytes);
    work(one, b, head % c.H, local, stats);
  }, [] { local.trim(); });
}

const float* floats(int64_t address) { return reinterpret_cast<const float*>(address); }

// Reads the arguments in the order in which kernels/cpu.py writes them.
Call read_call(const int64_t* n, const double* x) {
  Call c{};
  auto next = [&] { return *n++; };
  auto strides = [&](long* to, int count) { for (int i = 0; i < count; i++) to[i] = (long)next(); };
  c.B = next(), c.H = next(), c.N = next(), c.M = next(), c.I = next(), c.D = next();
  c.bounds = reinterpret_cast<const int64_t*>(next()), c.offsets = reinterpret_cast<const int64_t*>(next());
  c.rows = c.N, c.longest = c.M, c.pairs = c.B * c.N * c.M;
  if (c.bounds != nullptr) {
    c.longest = c.pairs = 0;
    for (long b = 0; b < c.B; b++) {
      long length = (long)(c.bounds[b + 1] - c.bounds[b]);
      c.longest = std::max(c.longest, length), c.pairs += length * length;
    }
  }
  c.q = floats(next()), strides(c.qs, 3);
  c.k = floats(next()), strides(c.ks, 3);
  c.v = floats(next()), strides(c.vs, 3);
  c.s = floats(next()), strides(c.ss, 3);
  c.key_mask = reinterpret_cast<const uint8_t*>(next());
  c.query_mask = reinterpret_cast<const uint8_t*>(next());
  c.allowed = reinterpret_cast<const uint8_t*>(next()), strides(c.as, 4);
  c.bias = floats(next()), strides(c.bs, 4);
  c.low = reinterpret_cast<const int64_t*>(next());
  c.high = reinterpret_cast<const int64_t*>(next());
  c.no_self = reinterpret_cast<const int64_t*>(next());
  c.rate = reinterpret_cast<const double*>(next());
  c.identity = next() != 0;
  c.seed = (uint64_t)next();
  c.out = const_cast<float*>(floats(next())), strides(c.os, 3);
  c.total = const_cast<float*>(floats(next()));
  c.shift = const_cast<float*>(floats(next()));
  c.grad = floats(next()), strides(c.gs, 3);
  c.dq = const_cast<float*>(floats(next())), c.dk = const_cast<float*>(floats(next()));
  c.dv = const_cast<float*>(floats(next())), c.ds = const_cast<float*>(floats(next()));
  c.scale = (float)x[0], c.kept = x[1];
  c.limit = c.kept >= 1.0 ? 0xFFFFFFFFu : (uint32_t)(c.kept * 4294967296.0);
  c.grown = (float)(1.0 / c.kept);
  return c;
}

// Heads whose gradient of s is what rounding leaves of v dv - v dv, because one key has all the weight everywhere.
std::vector<long> noisy_heads(const Call& c, const Stats& stats) {
  std::vector<long> found;
  if (c.kept < 1.0) return found;
  double suspect = (double)c.H * c.pairs * c.D <= (1 << 22) ? 2e5 : 1e3;
  float most = 0.f;
  for (float ds : stats.largest) most = std::max(most, ds);
  for (long head = 0; head < c.B * c.H; head++) {
    double noise = 1.1920929e-7 * stats.product[head];
    if (noise > 0.0 && stats.largest[head] <= suspect * noise && noise > 1e-6 * most) found.push_back(head);
  }
  return found;
}

}  // namespace

// The functions return the number of entries (backward: heads) that were computed by the definition, or -1 when memory ran out.
#if defined(_WIN32)
#define MTSA_EXPORT extern "C" __declspec(dllexport)
#else
#define MTSA_EXPORT extern "C" __attribute__((visibility("default")))
#endif

MTSA_EXPORT int64_t mtsa_version() { return VERSION; }
MTSA_EXPORT void mtsa_use_openmp(void* parallel) { openmp_parallel = reinterpret_cast<OpenMpParallel>(parallel); }
MTSA_EXPORT const char* mtsa_instructions() { return chosen->name; }

MTSA_EXPORT int64_t mtsa_forward(const int64_t* integers, const double* reals, int64_t threads) {
  try {
    Call c = read_call(integers, reals);
    Stats stats;
    over_heads(c, (int)threads, chosen->forward, stats);
    return stats.entries.load();
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

MTSA_EXPORT int64_t mtsa_backward(const int64_t* integers, const double* reals, int64_t threads) {
  try {
    Call c = read_call(integers, reals);
    Stats stats;
    stats.product.resize(c.B * c.H), stats.largest.resize(c.B * c.H);
    over_heads(c, (int)threads, c.total == nullptr ? chosen->backward_again : chosen->backward, stats);
    std::vector<long> again = noisy_heads(c, stats);
    if (!again.empty()) over_heads(c, (int)threads, chosen->redo, stats, &again);
    return (int64_t)again.size();
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

MTSA_EXPORT int64_t mtsa_dropout(const float* x, float* y, int64_t count, double kept, uint64_t seed, int64_t threads) {
  uint32_t limit = (uint32_t)std::min(kept * 4294967296.0, 4294967295.0);
  long blocks = ((long)count + BLOCK - 1) / BLOCK, share = std::max(64L, (blocks + 4 * threads - 1) / (4 * (long)threads));
  long units = (blocks + share - 1) / share;
  pool->run(units, units < 2 ? 1 : (int)threads, [&](long unit) {
    long from = unit * share * BLOCK, to = std::min((unit + 1) * share * BLOCK, (long)count);
    chosen->drop(x, y, from, to, seed, limit, (float)(1.0 / kept));
  });
  return 0;
}
