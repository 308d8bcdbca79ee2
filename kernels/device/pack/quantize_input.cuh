// Quantize activations: the codes and scales that
// kernels/pack/quantize_input.cc makes, bit for bit, from the same float32
// operations.
//
// Algorithm. The columns that share a scale are a region: a row, or a group of
// one. kLanes threads share a region, each with kVectors vectors of 8 columns
// that it holds in registers (kHeld) between finding the largest magnitude and
// quantizing: X is read once. Up to a warp's lanes exchange maxima by shuffles
// and the thread serves kRegions regions, so that several loads are in flight
// anyway; above that one CTA has one row and warps meet in shared memory. Rows
// too long for registers are read twice.
//
// Magnitudes are compared as integers, the sign bit off: an infinity is above
// all numbers and NaN above that, so one maximum says both how large a region
// is and whether all of it is finite. What is not is repaired apart from the
// common path, which needs no clamp: no |x / scale| rounds past the largest
// value.
//
// Data layout: X [M, K] float16 or bfloat16 and codes [M, K], row-major, dense;
// scales float32 [M, G], or [G, M] (kColumnMajor), or the one given
// (kGivenScale). Pieces are as wide as the rows' alignment allows: 16 bytes
// read and up to 16 written where K is a multiple of 16.
//
// Bytes: 2 read and 1 (4 bits: 1/2) written per element. Measured on an H200, M
// = 4096, K = 8192, cold L2, microseconds (of the rate of a copy of as many
// bytes):
//   float8e4m3  per token 22.3 (110 %), group 128 23.1 (106 %), its scales
//               column-major 25.6 (95 %), group 32 24.2 (101 %)
//   int8        per token 22.6 (108 %), group 128 23.2 (105 %)
//   int4        per token 19.7 (101 %), group 128 22.6 (91 %)
//   float4e2m1  per token 76.5 (27 %): in software, below SM100
// What binds it is memory, but for the last.
//
// Config is rendered per layer: kK; kInput, kFormat (numeric/codes.cuh), kBits;
// kColumns of a region and kGroups, the regions of a row; kThreads, kLanes,
// kVectors, kRegions, kRun (vectors side by side, whose codes are stored
// together), kHeld; kGivenScale, kColumnMajor; kPackedMax (SM90),
// kNarrowConversion (of kFormat).
#ifndef HONE_DEVICE_PACK_QUANTIZE_INPUT_CUH_
#define HONE_DEVICE_PACK_QUANTIZE_INPUT_CUH_

#include "kernels/device/numeric/codes.cuh"
#include "kernels/device/numeric/input_code.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/quantize.cuh"
#include "kernels/device/ptx/warp.cuh"

namespace hone {

template <typename Config>
class QuantizeInput {
 public:
  // `shared`: a word per warp, used where kLanes exceeds a warp.
  __device__ __forceinline__ QuantizeInput(const u8* x, u8* codes, u8* scales,
                                           int m, u32 shared)
      : x_(x), codes_(codes), scales_(scales), m_(m), shared_(shared) {
    const int thread = static_cast<int>(ptx::ThreadIdX());
    lane_ = thread % Config::kLanes;
    slot_ = thread / Config::kLanes;
  }

  __device__ __forceinline__ void Run() const {
    Region regions[Config::kRegions];
#pragma unroll
    for (int i = 0; i < Config::kRegions; ++i) {
      regions[i] =
          At((ptx::BlockIdX() * Config::kRegions + i) * kSlots + slot_);
    }
    if constexpr (Config::kHeld) {
      Words4 x[Config::kRegions][Config::kVectors];
#pragma unroll
      for (int i = 0; i < Config::kRegions; ++i) {
#pragma unroll
        for (int v = 0; v < Config::kVectors; ++v)
          x[i][v] = Load(regions[i], v);
      }
#pragma unroll
      for (int i = 0; i < Config::kRegions; ++i) {
        Magnitude most;
#pragma unroll
        for (int v = 0; v < Config::kVectors; ++v) most.Add(x[i][v]);
        const Scale scale = Choose(regions[i], most);
#pragma unroll
        for (int v = 0; v < Config::kVectors; v += Config::kRun) {
          Words4 run[Config::kRun];
#pragma unroll
          for (int j = 0; j < Config::kRun; ++j) run[j] = x[i][v + j];
          Quantize(regions[i], v, run, scale);
        }
      }
    } else {
      Magnitude most;
#pragma unroll 4
      for (int v = 0; v < Config::kVectors; ++v) most.Add(Load(regions[0], v));
      const Scale scale = Choose(regions[0], most);
#pragma unroll 2
      for (int v = 0; v < Config::kVectors; v += Config::kRun) {
        Words4 run[Config::kRun];
#pragma unroll
        for (int j = 0; j < Config::kRun; ++j) run[j] = Load(regions[0], v + j);
        Quantize(regions[0], v, run, scale);
      }
    }
  }

 private:
  // Regions that a CTA works on side by side.
  static constexpr int kSlots = Config::kThreads / Config::kLanes;
  // The largest power of two that divides a row's bytes.
  static constexpr int Alignment(int row_bytes) {
    return row_bytes & -row_bytes;
  }
  static constexpr int Least(int a, int b) { return a < b ? a : b; }
  // Columns that one load and one store move.
  static constexpr int kLoadColumns = Least(8, Alignment(Config::kK * 2) / 2);
  static constexpr int kStoreBytes =
      Least(Least(16, Config::kRun* Config::kBits),
            Alignment(Config::kK* Config::kBits / 8));
  static constexpr int kStoreColumns = kStoreBytes * 8 / Config::kBits;
  static constexpr int kRunWords = Config::kRun * Config::kBits / 4;
  static constexpr bool kInteger =
      codes::FormatKind(Config::kFormat) == codes::kIntKind;
  // An infinity's magnitude in X's type.
  static constexpr u32 kInfinity =
      Config::kInput == codes::kHalf ? 0x7c00 : 0x7f80;

  struct Region {
    u32 index;
    // Of those from its first column on that lie in the matrix; 0 for regions
    // that do not exist.
    int columns;
    // Its first column, counted from the start of X.
    u64 first;
  };

  struct Scale {
    float inverse;
    // Whether values that are not finite need repair, and all count as zero.
    bool repair;
    bool zero;
  };

  // The largest 16-bit magnitude of many; `high` is shifted up by 16.
  struct Magnitude {
    u32 low = 0;
    u32 high = 0;

    __device__ __forceinline__ void Add(const Words4& x) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Config::kPackedMax) {
          low = ptx::MaxHalves(low, x.w[i] & 0x7fff7fffu);
        } else {
          low = Larger(low, x.w[i] & 0x7fffu);
          high = Larger(high, x.w[i] & 0x7fff0000u);
        }
      }
    }
    __device__ __forceinline__ u32 Get() const {
      return Config::kPackedMax ? Larger(low & 0xffffu, low >> 16)
                                : Larger(low, high >> 16);
    }
  };

  static __device__ __forceinline__ u32 Larger(u32 a, u32 b) {
    return a < b ? b : a;
  }

  __device__ __forceinline__ Region At(u32 index) const {
    Region r;
    r.index = index;
    const u32 row = index / Config::kGroups;
    const int column =
        static_cast<int>(index % Config::kGroups) * Config::kColumns;
    r.first = static_cast<u64>(row) * Config::kK + column;
    r.columns = row >= static_cast<u32>(m_)
                    ? 0
                    : Least(Config::kColumns, Config::kK - column);
    return r;
  }

  // The first column of a thread's vector.
  __device__ __forceinline__ int Column(int v) const {
    return ((v / Config::kRun * Config::kLanes + lane_) * Config::kRun +
            v % Config::kRun) *
           8;
  }

  // Eight columns; zeros past the region's end.
  __device__ __forceinline__ Words4 Load(const Region& r, int v) const {
    const int column = Column(v);
    const u8* from = x_ + (r.first + column) * 2;
    Words4 x = {};
    if constexpr (kLoadColumns == 8) {
      if (column < r.columns) x = ptx::LoadConstant16(from);
    } else {
#pragma unroll
      for (int c = 0; c < 8; c += kLoadColumns) {
        if (column + c >= r.columns) break;
        if constexpr (kLoadColumns == 4) {
          ptx::LoadConstant8(from + c * 2, x.w[c / 2], x.w[c / 2 + 1]);
        } else if constexpr (kLoadColumns == 2) {
          x.w[c / 2] = ptx::LoadConstant4(from + c * 2);
        } else {
          x.w[c / 2] |= static_cast<u32>(ptx::LoadConstant2(from + c * 2))
                        << (c % 2 * 16);
        }
      }
    }
    return x;
  }

  static __device__ __forceinline__ float Value(u32 code) {
    if constexpr (Config::kInput == codes::kHalf) {
      return ptx::HalfToFloat(static_cast<u16>(code));
    } else {
      return ptx::BitsToFloat(code << 16);
    }
  }

  // The region's scale, for each of its threads; one of them stores it.
  __device__ __forceinline__ Scale Choose(const Region& r,
                                          const Magnitude& magnitude) const {
    if constexpr (Config::kGivenScale) {
      const float given = ptx::BitsToFloat(ptx::LoadConstant4(scales_));
      return {ptx::DivideRounded(1.0f, given), false, false};
    } else {
      const u32 most = AmongLanes(magnitude.Get());
      float scale = 1.0f;
      if (most > kInfinity) {
        scale = ptx::BitsToFloat(0x7fc00000u);
      } else if (most != 0) {
        scale =
            ptx::DivideRounded(Value(most == kInfinity ? kInfinity - 1 : most),
                               codes::LargestInput(Config::kFormat));
        if (scale < codes::kLeastInputScale) scale = codes::kLeastInputScale;
      }
      if (lane_ == 0 && r.columns > 0) {
        const u32 row = r.index / Config::kGroups;
        const u64 at = Config::kColumnMajor
                           ? static_cast<u64>(r.index % Config::kGroups) *
                                     static_cast<u64>(m_) +
                                 row
                           : static_cast<u64>(r.index);
        ptx::StoreGlobal4(scales_ + at * 4, ptx::FloatToBits(scale));
      }
      return {ptx::DivideRounded(1.0f, scale), most >= kInfinity,
              most > kInfinity};
    }
  }

  __device__ __forceinline__ u32 AmongLanes(u32 most) const {
#pragma unroll
    for (int lanes = Least(Config::kLanes, 32) / 2; lanes > 0; lanes /= 2) {
      most = Larger(most, ptx::ShuffleXor(most, lanes));
    }
    if constexpr (Config::kLanes > 32) {
      if (lane_ % 32 == 0) ptx::StoreShared4(shared_ + lane_ / 8, most);
      ptx::BarrierSync();
#pragma unroll
      for (int warp = 0; warp < Config::kLanes / 32; ++warp) {
        most = Larger(most, ptx::LoadShared4(shared_ + warp * 4));
      }
    }
    return most;
  }

  // Infinities become the largest finite value, and where a NaN was (`zero`)
  // all becomes 0: the scale says NaN then.
  static __device__ __forceinline__ u32 Repaired(u32 word, bool zero) {
    if (zero) return 0;
    if ((word & 0x7fffu) == kInfinity) word -= 1u;
    if ((word >> 16 & 0x7fffu) == kInfinity) word -= 0x10000u;
    return word;
  }

  // Codes of kRun vectors, stored.
  __device__ __forceinline__ void Quantize(const Region& r, int v,
                                           Words4 (&run)[Config::kRun],
                                           const Scale& scale) const {
    u32 words[kRunWords];
    float inverse = scale.inverse;
    if constexpr (!codes::HasNan(Config::kFormat)) {
      if (scale.repair) {
#pragma unroll
        for (int j = 0; j < Config::kRun; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            run[j].w[i] = Repaired(run[j].w[i], scale.zero);
          }
        }
        if (scale.zero) inverse = 0;
      }
    }
#pragma unroll
    for (int j = 0; j < Config::kRun; ++j) {
      float q[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        q[2 * i] = ptx::MultiplyRounded(Value(run[j].w[i] & 0xffffu), inverse);
        if constexpr (Config::kInput == codes::kHalf) {
          q[2 * i + 1] =
              ptx::MultiplyRounded(Value(run[j].w[i] >> 16), inverse);
        } else {
          q[2 * i + 1] = ptx::MultiplyRounded(
              ptx::BitsToFloat(run[j].w[i] & 0xffff0000u), inverse);
        }
      }
      Encode(q, words + j * (Config::kBits / 4));
    }
    const int column = Column(v);
    u8* to = codes_ + (r.first + column) * Config::kBits / 8;
#pragma unroll
    for (int c = 0; c < Config::kRun * 8; c += kStoreColumns) {
      if (column + c >= r.columns) break;
      Store(to + c * Config::kBits / 8, words, c * Config::kBits / 8);
    }
  }

  // kStoreBytes of `words` from byte `at` on.
  static __device__ __forceinline__ void Store(u8* to,
                                               const u32 (&words)[kRunWords],
                                               int at) {
    const u32 word = words[at / 4];
    if constexpr (kStoreBytes == 16) {
      ptx::StoreGlobal16(to, {words[0], words[1], words[2], words[3]});
    } else if constexpr (kStoreBytes == 8) {
      ptx::StoreGlobal8(to, word, words[at / 4 + 1]);
    } else if constexpr (kStoreBytes == 4) {
      ptx::StoreGlobal4(to, word);
    } else if constexpr (kStoreBytes == 2) {
      ptx::StoreGlobal2(to, static_cast<u16>(word >> at % 4 * 8));
    } else {
      ptx::StoreGlobal1(to, word >> at % 4 * 8);
    }
  }

  // Eight codes, in 8 or 4 bytes.
  static __device__ __forceinline__ void Encode(const float (&q)[8],
                                                u32* words) {
    if constexpr (kInteger) {
      u32 integers[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) integers[i] = ToInteger(q[i]);
      const u32 even =
          LowBytes(integers[0], integers[2], integers[4], integers[6]);
      const u32 odd =
          LowBytes(integers[1], integers[3], integers[5], integers[7]);
      if constexpr (Config::kBits == 8) {
        words[0] = ptx::Permute(even, odd, 0x5140);
        words[1] = ptx::Permute(even, odd, 0x7362);
      } else {
        words[0] = (even & 0x0f0f0f0fu) | (odd << 4 & 0xf0f0f0f0u);
      }
    } else {
#pragma unroll
      for (int i = 0; i < Config::kBits / 4; ++i) words[i] = 0;
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const int bit = i * Config::kBits;
        words[bit / 32] |= Pair(q[i], q[i + 1]) << bit % 32;
      }
    }
  }

  // Two floats' codes side by side.
  static __device__ __forceinline__ u32 Pair(float low, float high) {
    if constexpr (!Config::kNarrowConversion) {
      return codes::InputCode(low, Config::kFormat) |
             codes::InputCode(high, Config::kFormat) << Config::kBits;
    } else if constexpr (Config::kBits == 4) {
      // The conversion makes NaN the largest value.
      return ptx::EncodeE2M1(low == low ? low : 0.0f,
                             high == high ? high : 0.0f);
    } else if constexpr (codes::MantissaBits(Config::kFormat) == 3) {
      return ptx::EncodeE4M3(low, high);
    } else {
      return ptx::EncodeE5M2(low, high);
    }
  }

  // An integer whose low byte is q's nearest one: adding 1.5 · 2^23 leaves no
  // bits for fractions.
  static __device__ __forceinline__ u32 ToInteger(float q) {
    if constexpr (Config::kGivenScale) {
      const float largest = codes::LargestInput(Config::kFormat);
      q = q == q ? q : 0.0f;
      q = q > largest ? largest : q;
      q = q < -largest ? -largest : q;
    }
    return ptx::FloatToBits(q + 12582912.0f);
  }

  static __device__ __forceinline__ u32 LowBytes(u32 a, u32 b, u32 c, u32 d) {
    return ptx::Permute(ptx::Permute(a, b, 0x40), ptx::Permute(c, d, 0x40),
                        0x5410);
  }

  const u8* x_;
  u8* codes_;
  u8* scales_;
  int m_;
  u32 shared_;
  int lane_;
  int slot_;
};

}  // namespace hone

#endif  // HONE_DEVICE_PACK_QUANTIZE_INPUT_CUH_
