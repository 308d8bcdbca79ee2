// From accumulators to the output.
//
// Fragments (see mma/warp_tile.cuh) of warps that share channels and tokens
// are summed in a fixed order through shared memory, each warp taking its share
// of the fragments. Then each fragment is scaled, biased and converted, and
// passes through a 16-bit tile in shared memory, [kBlockM][kBlockN + 8] (the
// pad spreads a fragment's stores over all banks), to be written in rows of 16
// bytes.
//
// With split-K each CTA first writes its fragments in float32 to the
// workspace. The last one of a tile to arrive sums those of all splits in the
// order of the splits, whichever order they came in: the result is the same
// bits every time. Workspace layout: [tiles] 32-bit counters, zero before and
// after a launch, padded to 256 bytes; then [tiles][kSplitK][kBlockM·kBlockN]
// float32 in fragment order.
#ifndef HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
#define HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

// Scales of A that the epilogue applies; those of groups are the mainloop's.
enum class AScale : u8 { kNone, kTensor, kToken };

// Warp is WarpTile or WarpgroupTile.
template <typename Config, typename Warp>
class Epilogue {
 public:
  static constexpr int kReduceBytes =
      Config::kWarpsK > 1
          ? Config::kWarpsK* Config::kBlockM* Config::kBlockN * 4
          : 0;
  static constexpr int kTileStride = Config::kBlockN + 8;
  static constexpr int kSharedBytes =
      kReduceBytes + Config::kBlockM * kTileStride * 2;

  __device__ __forceinline__ Epilogue(const Warp& warp,
                                      const TileSchedule<Config>& tile,
                                      u32 shared, u32 shared_flag,
                                      const u8* scales, const u8* a_scales,
                                      const u8* bias)
      : warp_(warp),
        tile_(tile),
        reduce_(shared),
        output_(shared + kReduceBytes),
        flag_(shared_flag),
        scales_(scales),
        a_scales_(a_scales),
        bias_(bias) {}

  __device__ __forceinline__ void Run(u8* c, u8* workspace, int m) const {
    if constexpr (Config::kWarpsK > 1) {
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
        float v[4];
        warp_.fragment(f, v);
        ptx::StoreShared16(ReduceSlot(warp_.warp_k(), f), ToWords(v));
      }
      Warp::Sync();
    }
    if constexpr (Config::kSplitK > 1) {
      if (!SumSplits(workspace, m)) return;
    } else {
      ForEachFragment([&](int f, const float(&v)[4]) { Finish(f, v, m); });
    }
    Warp::Sync();
    WriteTile(c, m);
  }

  // Fragment f, `v`, with scales and bias: two tokens of the lane's lower
  // channel and of its upper one.
  __device__ __forceinline__ void Scaled(int f, const float (&v)[4], int m,
                                         float (&low)[2],
                                         float (&high)[2]) const {
    const int n =
        tile_.tile_n * Config::kBlockN + warp_.channel(f) + warp_.lane() / 4;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      low[e] = v[e];
      high[e] = v[2 + e];
    }
    if constexpr (kFactor) {
      const float factor = Factor();
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        low[e] *= factor;
        high[e] *= factor;
      }
    }
    if constexpr (kChannelScale) {
      float scale_low = 0.0f;
      float scale_high = 0.0f;
      // Past N the packed padding ends too.
      if (n < kPackedN) LoadScales(n, scale_low, scale_high);
      low[0] *= scale_low;
      low[1] *= scale_low;
      high[0] *= scale_high;
      high[1] *= scale_high;
    }
    if constexpr (Config::kAScale == AScale::kToken) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = tile_.tile_m * Config::kBlockM + warp_.token(f) +
                          warp_.lane() % 4 * 2 + e;
        const float scale =
            token < m
                ? ptx::BitsToFloat(ptx::LoadConstant4(a_scales_ + token * 4ll))
                : 0.0f;
        low[e] *= scale;
        high[e] *= scale;
      }
    }
    if constexpr (Config::kBias) {
      const float bias_low = n < Config::kN ? LoadBias(n) : 0.0f;
      const float bias_high = n + 8 < Config::kN ? LoadBias(n + 8) : 0.0f;
      low[0] += bias_low;
      low[1] += bias_low;
      high[0] += bias_high;
      high[1] += bias_high;
    }
  }

  static __device__ __forceinline__ Words4 ToWords(const float (&v)[4]) {
    Words4 words;
#pragma unroll
    for (int e = 0; e < 4; ++e) words.w[e] = ptx::FloatToBits(v[e]);
    return words;
  }

  static __device__ __forceinline__ void Add(float (&v)[4], const Words4& words,
                                             bool first) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float value = ptx::BitsToFloat(words.w[e]);
      v[e] = first ? value : v[e] + value;
    }
  }

  // Sixteen bytes of eight channels of token `m_index` from `n_index` on, as
  // far as the output has them.
  static __device__ __forceinline__ void Store(u8* c, int m, int m_index,
                                               int n_index, u32 shared) {
    if (m_index >= m || n_index >= Config::kN) return;
    const Words4 words = ptx::LoadShared16(shared);
    u8* destination =
        c + (static_cast<u64>(m_index) * Config::kN + n_index) * 2;
    if constexpr (Config::kN % 8 == 0) {
      ptx::StoreGlobal16(destination, words);
    } else {
      // Rows of N elements are not 16-byte aligned.
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (n_index + e >= Config::kN) break;
        ptx::StoreGlobal2(destination + e * 2,
                          static_cast<u16>(words.w[e / 2] >> (e % 2 * 16)));
      }
    }
  }

 private:
  using Type = typename Config::CType;
  static constexpr int kFragments = Warp::kFragments;
  static constexpr u32 kTileBytes = Config::kBlockM * Config::kBlockN * 4;
  // Fragments that this warp finishes.
  static constexpr int kShare =
      (kFragments + Config::kWarpsK - 1) / Config::kWarpsK;

  // A fragment's 16 bytes of this lane, within [warp along m, n][fragment].
  __device__ __forceinline__ u32 FragmentOffset(int f) const {
    const int warp = warp_.warp_m() * Config::kWarpsN + warp_.warp_n();
    return ((warp * kFragments + f) * 32 + warp_.lane()) * 16;
  }
  __device__ __forceinline__ u32 ReduceSlot(int warp_k, int f) const {
    return reduce_ + warp_k * kTileBytes + FragmentOffset(f);
  }

  // Calls do_(f, v) for this warp's share of the fragments, summed over the
  // warps along K.
  template <typename Do>
  __device__ __forceinline__ void ForEachFragment(Do do_) const {
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      float v[4];
      if constexpr (Config::kWarpsK == 1) {
        warp_.fragment(i, v);
        do_(i, v);
      } else {
        const int f = i * Config::kWarpsK + warp_.warp_k();
        if (kFragments % Config::kWarpsK != 0 && f >= kFragments) break;
#pragma unroll
        for (int w = 0; w < Config::kWarpsK; ++w) {
          Add(v, ptx::LoadShared16(ReduceSlot(w, f)), w == 0);
        }
        do_(f, v);
      }
    }
  }

  // False when another CTA of this tile will finish it.
  __device__ __forceinline__ bool SumSplits(u8* workspace, int m) const {
    const int tiles = TileSchedule<Config>::Tiles(m);
    u32* counter = reinterpret_cast<u32*>(workspace) + tile_.tile;
    u8* partials = workspace + layout::RoundUp(tiles * 4ll, 256) +
                   static_cast<u64>(tile_.tile) * Config::kSplitK * kTileBytes;
    u8* own = partials + tile_.split * kTileBytes;
    ForEachFragment([&](int f, const float(&v)[4]) {
      ptx::StoreGlobal16(own + FragmentOffset(f), ToWords(v));
    });
    ptx::ThreadFence();
    Warp::Sync();
    if (ptx::ThreadIdX() == 0) {
      const bool last = ptx::AtomicIncrement(counter) == Config::kSplitK - 1;
      // Nobody else touches the counter once the last CTA has come.
      if (last) ptx::StoreGlobal4(counter, 0);
      ptx::StoreShared4(flag_, last);
    }
    Warp::Sync();
    if (ptx::LoadShared4(flag_) == 0) return false;
    ptx::ThreadFence();
    // All splits' loads of a few fragments at a time, then their sums: the
    // latency is paid once a batch.
    constexpr int kBatch = kShare < 4 ? kShare : 4;
#pragma unroll 1
    for (int base = 0; base < kShare; base += kBatch) {
      Words4 words[kBatch][Config::kSplitK];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int f = (base + b) * Config::kWarpsK + warp_.warp_k();
        if (f >= kFragments) break;
#pragma unroll
        for (int split = 0; split < Config::kSplitK; ++split) {
          words[b][split] = ptx::LoadGlobalL2(partials + split * kTileBytes +
                                              FragmentOffset(f));
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int f = (base + b) * Config::kWarpsK + warp_.warp_k();
        if (f >= kFragments) break;
        float v[4];
#pragma unroll
        for (int split = 0; split < Config::kSplitK; ++split) {
          Add(v, words[b][split], split == 0);
        }
        Finish(f, v, m);
      }
    }
    return true;
  }

  // Scale, bias, conversion, and into the output tile.
  __device__ __forceinline__ void Finish(int f, const float (&v)[4],
                                         int m) const {
    float low[2];
    float high[2];
    Scaled(f, v, m, low, high);
    if constexpr (Warp::kStoresMatrices) {
      // Lane l has the address of the eight channels, from the fragment's first
      // or ninth, of token l % 8.
      const int lane = warp_.lane();
      const u32 address = output_ + ((lane % 8 + warp_.token(f)) * kTileStride +
                                     lane / 8 % 2 * 8 + warp_.channel(f)) *
                                        2;
      Warp::StoreTransposed(address, Type::Pack(low[0], low[1]),
                            Type::Pack(high[0], high[1]));
    } else {
      const int column = warp_.channel(f) + warp_.lane() / 4;
      const int row = warp_.token(f) + warp_.lane() % 4 * 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const u32 packed = Type::Pack(low[e], high[e]);
        const u32 address = output_ + ((row + e) * kTileStride + column) * 2;
        ptx::StoreShared2(address, static_cast<u16>(packed));
        ptx::StoreShared2(address + 16, static_cast<u16>(packed >> 16));
      }
    }
  }

  static constexpr int kPackedN =
      static_cast<int>(layout::RoundUp(Config::kN, layout::kUnitRows));
  // Scales of whole rows; groups have theirs in the mainloop.
  static constexpr bool kChannelScale =
      Config::kGroup == 0 && Config::kEntryScaleBytes > 0;
  // The power of two that the mainloop leaves (numeric/).
  static constexpr int kExponent =
      Config::Weight::template kExponent<typename Config::AType,
                                         Config::kExactWeights>;
  static constexpr bool kFactor = kExponent != 0 || Config::kTensorScale ||
                                  Config::kAScale == AScale::kTensor;

  __device__ __forceinline__ float Factor() const {
    float factor = ptx::BitsToFloat(static_cast<u32>(127 + kExponent) << 23);
    if constexpr (Config::kTensorScale) {
      factor *=
          ptx::BitsToFloat(ptx::LoadConstant4(scales_ + Config::kTensorOffset));
    }
    if constexpr (Config::kAScale == AScale::kTensor) {
      factor *= ptx::BitsToFloat(ptx::LoadConstant4(a_scales_));
    }
    return factor;
  }

  // Of rows n and n + 8, which are one pair.
  __device__ __forceinline__ void LoadScales(int n, float& low,
                                             float& high) const {
    using Scale = typename Config::Scale;
    const u8* entry = scales_ + n / layout::kUnitRows * Config::kEntryBytes;
    const u8* pair = entry + layout::LaneOrder(n) * (Scale::kBits / 8);
    if constexpr (Config::kBlockScale) {
      low = high = ptx::BitsToFloat(ptx::LoadConstant4(entry));
    } else if constexpr (Scale::kBits == 32) {
      low = Scale::ToFloat(ptx::LoadConstant4(pair));
      high = Scale::ToFloat(ptx::LoadConstant4(pair + 4));
    } else {
      u32 codes;
      if constexpr (Scale::kBits == 16) {
        codes = ptx::LoadConstant4(pair);
      } else {
        codes = ptx::LoadConstant2(pair);
      }
      low = Scale::ToFloat(codes & ((1u << Scale::kBits) - 1));
      high = Scale::ToFloat(codes >> Scale::kBits);
    }
  }

  __device__ __forceinline__ float LoadBias(int n) const {
    return Type::ToFloat(ptx::LoadConstant2(bias_ + static_cast<u64>(n) * 2));
  }

  __device__ __forceinline__ void WriteTile(u8* c, int m) const {
    constexpr int kRowVectors = Config::kBlockN / 8;
    constexpr int kVectors = Config::kBlockM * kRowVectors;
#pragma unroll 4
    for (int base = 0; base < kVectors; base += Config::kThreads) {
      const int i = base + static_cast<int>(ptx::ThreadIdX());
      if (kVectors % Config::kThreads != 0 && i >= kVectors) break;
      const int row = i / kRowVectors;
      const int column = i % kRowVectors * 8;
      const int m_index = tile_.tile_m * Config::kBlockM + row;
      const int n_index = tile_.tile_n * Config::kBlockN + column;
      Store(c, m, m_index, n_index, output_ + (row * kTileStride + column) * 2);
    }
  }

  const Warp& warp_;
  const TileSchedule<Config>& tile_;
  u32 reduce_;
  u32 output_;
  u32 flag_;
  const u8* scales_;
  const u8* a_scales_;
  const u8* bias_;
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
