// The measurer's own kernels: operands, the L2 flush with its clock reading,
// the high-precision reference, the comparison and the guard checks.
//
// One translation unit for NVRTC, rendered behind packed_layout.cuh and
// generator.cuh. Compiled once per architecture.

using namespace hone::generator;

namespace {

__device__ inline U64 GlobalThread() {
  return static_cast<U64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline U64 GridThreads() {
  return static_cast<U64>(gridDim.x) * blockDim.x;
}

__device__ inline U64 GlobalTimerNs() {
  U64 ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace

// Codes of `bits` bits; of 4 bits two a byte, and an even count.
extern "C" __global__ void hone_fill_activations(unsigned char* out, U64 count,
                                                 U64 seed, int type, int bits) {
  const U64 step = bits == 4 ? 2 : 1;
  for (U64 i = GlobalThread() * step; i < count; i += GridThreads() * step) {
    const U32 code = ActivationCode(seed, i, type);
    if (bits == 16) {
      reinterpret_cast<unsigned short*>(out)[i] =
          static_cast<unsigned short>(code);
    } else if (bits == 8) {
      out[i] = static_cast<unsigned char>(code);
    } else {
      out[i / 2] = static_cast<unsigned char>(
          code | ActivationCode(seed, i + 1, type) << 4);
    }
  }
}

// A's scales of `rows` rows by `groups` groups, in either order.
extern "C" __global__ void hone_fill_input_scales(float* out, U64 rows,
                                                  U64 groups, U64 seed,
                                                  int a_type,
                                                  int column_major) {
  for (U64 i = GlobalThread(); i < rows * groups; i += GridThreads()) {
    const U64 row = column_major ? i % rows : i / groups;
    const U64 group = column_major ? i / rows : i % groups;
    out[i] = InputScaleValue(seed, row * groups + group, a_type);
  }
}

extern "C" __global__ void hone_fill_bias(unsigned short* out, U64 count,
                                          U64 seed, int type) {
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    out[i] = static_cast<unsigned short>(BiasCode(seed, i, type));
  }
}

// Columns past k hold the code 0, rows past n any code.
__device__ inline U32 StoredCode(U64 row, U64 column, U64 k_padded, U64 k,
                                 U64 seed, const WeightFormat& format) {
  const U32 code = column < k ? WeightCode(seed, row * k_padded + column,
                                           format.format, format.bits)
                              : 0;
  return code ^ static_cast<U32>(format.stored_xor);
}

// A thread makes the words of one lane of one block, or as many words of a row.
extern "C" __global__ void hone_fill_weights(U32* packed, U64 n_padded,
                                             U64 k_padded, U64 k, U64 seed,
                                             WeightFormat format) {
  const auto code_layout =
      static_cast<hone::layout::CodeLayout>(format.code_layout);
  if (code_layout == hone::layout::CodeLayout::kRows) {
    const U64 per_word = 32 / format.bits;
    const U64 words = n_padded * k_padded / per_word;
    for (U64 i = GlobalThread(); i < words; i += GridThreads()) {
      U32 word = 0;
      for (U64 j = 0; j < per_word; ++j) {
        const U64 at = i * per_word + j;
        word |= StoredCode(at / k_padded, at % k_padded, k_padded, k, seed,
                           format)
                << (j * format.bits);
      }
      packed[i] = word;
    }
    return;
  }
  const int parts = hone::layout::Parts(format.width);
  const int step_columns = hone::layout::StepColumns(format.width);
  const U64 units_k = k_padded / hone::layout::kUnitColumns;
  const U64 count = n_padded / 16 * units_k * 32;
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    const int lane = static_cast<int>(i % 32);
    const U64 block = i / 32;
    const U64 unit = block / 4;
    const U64 n0 = unit / units_k * 64 + block % 4 * 16 + lane / 4;
    const U64 k0 = unit % units_k * 64 + lane % 4 * parts;
    U32 words[8] = {};
#pragma unroll 1
    for (int place = 0; place < 32; ++place) {
      const int reg = place / parts;
      const U64 row = n0 + reg % 2 * 8;
      const U64 column = k0 + reg / 4 * step_columns +
                         reg % 4 / 2 * (step_columns / 2) + place % parts;
      const U32 code = StoredCode(row, column, k_padded, k, seed, format);
#pragma unroll 1
      for (int j = 0; j < format.bits; ++j) {
        const hone::layout::BitPlace at = hone::layout::PlaceOf(
            format.width, format.bits, code_layout, reg, place % parts, j);
        words[at.word] |= (code >> j & 1) << at.bit;
      }
    }
    U32* to = packed + block * 32 * format.bits;
    for (int w = 0; w < format.bits; ++w) {
      to[hone::layout::WordIndex(format.bits, lane, w)] = words[w];
    }
  }
}

// Fields of 4 bits come in pairs: both of a pair of rows at once.
__device__ inline void PutPair(unsigned char* to, int pair, int bits, U32 low,
                               U32 high) {
  if (bits == 4) {
    to[pair] = static_cast<unsigned char>(low | high << 4);
    return;
  }
  for (int byte = 0; byte < bits / 8; ++byte) {
    to[2 * pair * bits / 8 + byte] = static_cast<unsigned char>(low >> 8 * byte);
    to[(2 * pair + 1) * bits / 8 + byte] =
        static_cast<unsigned char>(high >> 8 * byte);
  }
}

// The scale tensor: a thread makes the pair of rows g and g + 8 of a block in
// one entry. `tensor` is the tensor scale.
extern "C" __global__ void hone_fill_scales(unsigned char* out, U64 n_padded,
                                            U64 seed, float base, float tensor,
                                            WeightFormat format) {
  const U64 groups = format.groups;
  const U64 count = n_padded / 2 * groups;
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    const int pair = static_cast<int>(i % 32);
    const U64 entry = i / 32;
    const U64 group = entry % groups;
    const U64 row = entry / groups * 64 + pair / 8 * 16 + pair % 8;
    unsigned char* to = out + entry * format.entry_bytes;
    if (format.block != 0 && pair < 2) {
      const U32 code = ScaleCode(seed, row / format.group_n * groups + group,
                                 base, format.scale_format);
      PutPair(to, pair, 32, code, code);
    }
    if (format.scale_bits != 0) {
      PutPair(to, pair, format.scale_bits,
              ScaleCode(seed, row * groups + group, base, format.scale_format),
              ScaleCode(seed, (row + 8) * groups + group, base,
                        format.scale_format));
    }
    if (format.zero_bits != 0) {
      PutPair(to + format.entry_scale_bytes, pair, format.zero_bits,
              ZeroCode(seed, row * groups + group, format.zero_format,
                       format.bits),
              ZeroCode(seed, (row + 8) * groups + group, format.zero_format,
                       format.bits));
    }
  }
  if (format.window_code != 0) {
    for (U64 i = GlobalThread(); i < n_padded; i += GridThreads()) {
      out[format.window_offset + i] =
          static_cast<unsigned char>(format.window_code);
    }
  }
  if (format.tensor_scale != 0 && GlobalThread() == 0) {
    PutPair(out + format.tensor_offset, 0, 32, FloatToBits(tensor), 0);
  }
}

// Reads `count` 16-byte words, so that nothing else stays in the L2, and notes
// how many SM cycles and nanoseconds one SM took for it. The launch has a few
// CTAs per SM; every CTA reads one word in every gridDim.x · blockDim.x.
struct ClockReading {
  U64 cycles;
  U64 ns;
};

extern "C" __global__ void __launch_bounds__(512)
    hone_flush(const uint4* words, U64 count, U32* sink,
               ClockReading* reading) {
  const bool timekeeper = blockIdx.x == 0 && threadIdx.x == 0;
  U64 start_ns = 0;
  long long start_cycle = 0;
  if (timekeeper) {
    // From one tick of the global timer to another: on some GPUs it moves only
    // every microsecond.
    const U64 before = GlobalTimerNs();
    do {
      start_ns = GlobalTimerNs();
    } while (start_ns == before);
    start_cycle = clock64();
  }
  constexpr int kInFlight = 8;
  const U64 step = GridThreads();
  U32 sum = 0;
  U64 i = GlobalThread();
  for (; i + (kInFlight - 1) * step < count; i += kInFlight * step) {
    uint4 word[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) word[j] = __ldcg(words + i + j * step);
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      sum += word[j].x ^ word[j].y ^ word[j].z ^ word[j].w;
    }
  }
  for (; i < count; i += step) {
    const uint4 word = __ldcg(words + i);
    sum += word.x ^ word.y ^ word.z ^ word.w;
  }
  // The buffer's content never gives this sum; the compiler cannot know.
  if (sum == 0x9e3779b9u) *sink = sum;
  if (timekeeper) {
    const U64 before = GlobalTimerNs();
    U64 end_ns = before;
    do {
      end_ns = GlobalTimerNs();
    } while (end_ns == before);
    reading->cycles = static_cast<U64>(clock64() - start_cycle);
    reading->ns = end_ns - start_ns;
  }
}

// A field of an entry.
__device__ inline U32 GetField(const unsigned char* from, int index, int bits) {
  if (bits == 4) return from[index / 2] >> (index % 2 * 4) & 15;
  U32 value = 0;
  for (int byte = 0; byte < bits / 8; ++byte) {
    value |= static_cast<U32>(from[index * bits / 8 + byte]) << 8 * byte;
  }
  return value;
}

// Decode(), once in the code: it has a branch for every kind of format.
__device__ __noinline__ double Value(U32 code, int format) {
  return Decode(code, format);
}

// B[n][kk]: (code − zero) · scale · tensor scale, exact in double but for the
// last product.
__device__ __noinline__ double Weight(const U32* packed, const unsigned char* scales,
                                int n, int kk, int k,
                                const WeightFormat& format) {
  const U32 code =
      hone::layout::ReadCode(packed, n, kk, k, format.width, format.bits,
                             static_cast<hone::layout::CodeLayout>(format.code_layout)) ^
      static_cast<U32>(format.stored_xor);
  double value = Value(code, format.format);
  const int group = format.group == 0 ? 0 : kk / format.group;
  const unsigned char* entry =
      scales + (static_cast<U64>(n) / 64 * format.groups + group) *
                   format.entry_bytes;
  const int index = hone::layout::LaneOrder(n);
  if (format.zero_bits != 0) {
    value -= Value(
        GetField(entry + format.entry_scale_bytes, index, format.zero_bits),
        format.zero_format);
  }
  if (format.block != 0) {
    value *= Value(GetField(entry, 0, 32), kSingle);
  } else if (format.scale_bits != 0) {
    value *= Value(GetField(entry, index, format.scale_bits),
                    format.scale_format);
  }
  if (format.tensor_scale != 0) {
    value *= Value(GetField(scales + format.tensor_offset, 0, 32), kSingle);
  }
  return value;
}

// Codes of `bits` bits.
__device__ inline U32 ReadActivation(const unsigned char* a, U64 index,
                                     int bits) {
  if (bits == 16) return reinterpret_cast<const unsigned short*>(a)[index];
  return bits == 8 ? a[index] : a[index / 2] >> (index % 2 * 4) & 15;
}

// Reference of up to 64 rows of A, given by index, and 64 columns of C per
// CTA: reference[i][n] = sum over k of A · weight, plus bias, and the sum of
// the magnitudes, where a weight counts with at least `floor`.
constexpr int kReferenceTile = 64;
constexpr int kReferenceDepth = 16;

extern "C" __global__ void __launch_bounds__(256)
    hone_reference(const unsigned char* a, InputScales a_scales,
                   const U32* packed, const unsigned char* scales,
                   const unsigned short* bias, const int* rows, int row_count,
                   int n, int k, WeightFormat format, int a_type, int bias_type,
                   double floor, double* reference, float* magnitude) {
  __shared__ double a_tile[kReferenceDepth][kReferenceTile];
  __shared__ double w_tile[kReferenceDepth][kReferenceTile];
  const int tid = static_cast<int>(threadIdx.x);
  const int n0 = static_cast<int>(blockIdx.x) * kReferenceTile;
  const int load_row = tid / 4;
  const int load_k = tid % 4 * 4;
  const U64 a_row =
      load_row < row_count ? static_cast<U64>(rows[load_row]) * k : 0;
  const int tx = tid % 16;
  const int ty = tid / 16;

  double sum[4][4] = {};
  double size[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += kReferenceDepth) {
#pragma unroll 1
    for (int j = 0; j < 4; ++j) {
      const int kk = k0 + load_k + j;
      double a_value = 0;
      double w_value = 0;
      if (kk < k) {
        if (load_row < row_count) {
          a_value = Value(ReadActivation(a, a_row + kk, format.width), a_type);
          if (a_scales.values != nullptr) {
            a_value *= a_scales.values[static_cast<U64>(rows[load_row]) *
                                           a_scales.row_stride +
                                       (a_scales.group == 0
                                            ? 0
                                            : kk / a_scales.group)];
          }
        }
        // Rows past n exist as padding.
        w_value = Weight(packed, scales, n0 + load_row, kk, k, format);
      }
      a_tile[load_k + j][load_row] = a_value;
      w_tile[load_k + j][load_row] = w_value;
    }
    __syncthreads();
#pragma unroll 4
    for (int kk = 0; kk < kReferenceDepth; ++kk) {
      double av[4];
      double wv[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        av[i] = a_tile[kk][ty * 4 + i];
        wv[i] = w_tile[kk][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sum[i][j] = fma(av[i], wv[j], sum[i][j]);
          size[i][j] =
              fma(fabs(av[i]), fmax(fabs(wv[j]), floor), size[i][j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = ty * 4 + i;
      const int column = n0 + tx + 16 * j;
      if (row >= row_count || column >= n) continue;
      double b = 0;
      if (bias != nullptr) b = Value(bias[column], bias_type);
      const U64 at = static_cast<U64>(row) * n + column;
      reference[at] = sum[i][j] + b;
      magnitude[at] = static_cast<float>(size[i][j] + fabs(b));
    }
  }
}

// One row of the output and where its reference lies.
struct RowReference {
  U64 row;
  const double* reference;
  const float* magnitude;
};

// What one CTA found in its part of a row.
struct RowComparison {
  double difference2;
  double reference2;
  // Largest |out - ref| / bound; infinite for a NaN or a miss of a zero bound.
  float ratio;
  U32 column;
};

// CTA (x, y) compares part y of gridDim.y parts of row entry x.
extern "C" __global__ void __launch_bounds__(512)
    hone_compare(const unsigned short* out, int n, int type,
                 const RowReference* rows, double output_relative,
                 double product_relative, RowComparison* result) {
  const RowReference entry = rows[blockIdx.x];
  const unsigned short* row = out + entry.row * n;
  double difference2 = 0;
  double reference2 = 0;
  float ratio = 0;
  U32 column = 0;
  for (int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.y * blockDim.x)) {
    const double value = Value(row[i], type);
    const double expected = entry.reference[i];
    const double difference = fabs(value - expected);
    const double bound = output_relative * fabs(expected) +
                         product_relative * entry.magnitude[i];
    float r = __int_as_float(0x7f800000);
    // False for a NaN, which so keeps the infinite ratio.
    if (difference <= 1e300) {
      difference2 += difference * difference;
      if (bound > 0) {
        r = static_cast<float>(difference / bound);
      } else if (difference == 0) {
        r = 0;
      }
    }
    reference2 += expected * expected;
    if (r > ratio) {
      ratio = r;
      column = static_cast<U32>(i);
    }
  }
  __shared__ RowComparison partial[512];
  partial[threadIdx.x] = {difference2, reference2, ratio, column};
  for (U32 width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) {
      RowComparison& mine = partial[threadIdx.x];
      const RowComparison& other = partial[threadIdx.x + width];
      mine.difference2 += other.difference2;
      mine.reference2 += other.reference2;
      if (other.ratio > mine.ratio) {
        mine.ratio = other.ratio;
        mine.column = other.column;
      }
    }
  }
  if (threadIdx.x == 0) {
    result[blockIdx.x * gridDim.y + blockIdx.y] = partial[0];
  }
}

// What hone_check found; counts of bytes or elements that are wrong.
struct CheckResult {
  U64 first_unequal;
  U64 unequal;
  U64 nans;
};

// Compares two outputs bit by bit, and counts the NaNs of the first one
// (poison that was not overwritten among them). `result` starts as
// {~0, 0, 0}.
extern "C" __global__ void hone_check_repeat(const unsigned short* first,
                                             const unsigned short* second,
                                             U64 count, int type,
                                             CheckResult* result) {
  const U32 infinity = type == kBrain ? 0x7f80 : 0x7c00;
  U64 unequal = 0;
  U64 nans = 0;
  U64 where = ~0ull;
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    const U32 code = first[i];
    if ((code & 0x7fff) > infinity) ++nans;
    if (code != second[i]) {
      ++unequal;
      where = where < i ? where : i;
    }
  }
  if (unequal != 0) {
    atomicAdd(&result->unequal, unequal);
    atomicMin(&result->first_unequal, where);
  }
  if (nans != 0) atomicAdd(&result->nans, nans);
}

// Counts the bytes that differ from `value`.
extern "C" __global__ void hone_check_bytes(const unsigned char* bytes,
                                            U64 count, int value,
                                            CheckResult* result) {
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    if (bytes[i] != value) {
      atomicAdd(&result->unequal, 1ull);
      atomicMin(&result->first_unequal, i);
    }
  }
}

// Adds a hash of each 8-byte word to `sum`, whatever their order of addition:
// other contents have another sum, but for a chance of 2^-64.
extern "C" __global__ void hone_hash_words(const U64* words, U64 count,
                                           U64* sum) {
  U64 hash = 0;
  for (U64 i = GlobalThread(); i < count; i += GridThreads()) {
    hash += Hash(words[i], kActivations, i);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    hash += __shfl_down_sync(~0u, hash, offset);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(sum, hash);
}

// Proves that the device still computes: out[i] = Hash(seed, i) folded with
// shared memory and a barrier.
extern "C" __global__ void hone_sentinel(U64* out, U64 seed) {
  __shared__ U64 exchange[256];
  const U64 i = GlobalThread();
  exchange[threadIdx.x] = Hash(seed, kActivations, i);
  __syncthreads();
  out[i] = exchange[blockDim.x - 1 - threadIdx.x];
}
