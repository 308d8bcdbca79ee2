// One warp's share of a k-step on mma.sync: weights dequantized in registers
// as the A operand, activations by ldmatrix as the B operand, accumulators
// Dᵀ [kWarpN, kWarpM] in float32.
//
// Group scales go where they cost least. Before the MMA they multiply packed
// weights, four multiplications per m16k16 fragment; after it they fold a
// zero-started partial sum into the accumulators, one fma per accumulator and
// group. The latter wins, and rounds less, while the warp has few tokens.
#ifndef HONE_DEVICE_MMA_WARP_TILE_CUH_
#define HONE_DEVICE_MMA_WARP_TILE_CUH_

#include "kernels/device/memory/tile_loader.cuh"
#include "kernels/device/numeric/dequant.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mma_sync.cuh"

namespace hone {

template <typename Config>
class WarpTile {
 public:
  static constexpr int kBlocks = Config::kWarpN / 16;
  static constexpr int kTokens = Config::kWarpM / 8;

  __device__ __forceinline__ WarpTile() {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) Zero(sum_[i][j]);
    }
    const int thread = static_cast<int>(ptx::ThreadIdX());
    lane_ = thread % 32;
    const int warp = thread / 32;
    warp_n_ = warp % Config::kWarpsN;
    warp_m_ = warp / Config::kWarpsN % Config::kWarpsM;
    warp_k_ = warp / (Config::kWarpsN * Config::kWarpsM);
  }

  // Adds the stage's products.
  __device__ __forceinline__ void Accumulate(u32 stage) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) AccumulateUnit(stage, u);
  }

  // Fragment f = kTokens · i + j: rows 16·i of the warp's channels, tokens
  // 8·j. With lane = 4·g + t its elements are (row g, token 2t), (g, 2t + 1),
  // (g + 8, 2t), (g + 8, 2t + 1).
  static constexpr int kFragments = kBlocks * kTokens;
  __device__ __forceinline__ const float (&fragment(int f) const)[4] {
    return sum_[f / kTokens][f % kTokens];
  }
  __device__ __forceinline__ int lane() const { return lane_; }
  __device__ __forceinline__ int warp_m() const { return warp_m_; }
  __device__ __forceinline__ int warp_n() const { return warp_n_; }
  __device__ __forceinline__ int warp_k() const { return warp_k_; }

 private:
  using S = Stage<Config>;
  using Type = typename Config::AType;
  using Decode = Dequant<Config::kBBits, Type>;

  static constexpr int kUnits = Config::kWarpK / layout::kUnitColumns;
  static constexpr int kSteps = Config::kWarpK / 16;
  // m16k16 steps of this warp that share one scale.
  static constexpr bool kGrouped = Config::kGroup > 0;
  static constexpr int kScaleSteps = kGrouped && Config::kGroup < Config::kWarpK
                                         ? Config::kGroup / 16
                                         : kSteps;
  static constexpr bool kScaleAfter =
      kGrouped && kTokens < kScaleSteps && kTokens <= 4;

  static __device__ __forceinline__ void Zero(float (&d)[4]) {
    d[0] = d[1] = d[2] = d[3] = 0.0f;
  }

  // Column in the stage of the warp's m16k16 step `step`.
  __device__ __forceinline__ int Column(int step) const {
    return (S::kPrivateRings ? 0 : warp_k_ * Config::kWarpK) + step * 16;
  }

  // Two scales (rows g and g + 8 of a block) for the group of step `step`.
  __device__ __forceinline__ u32 LoadScales(u32 stage, int step,
                                            int block) const {
    // A stage inside a larger group has its one group at index 0.
    const int group =
        Config::kGroup >= S::kColumns ? 0 : Column(step) / Config::kGroup;
    const int row = warp_n_ * Config::kWarpN + block * 16;
    return ptx::LoadShared4(
        stage + S::kScaleOffset +
        ((row / layout::kUnitRows * S::kGroups + group) * layout::kUnitRows +
         row % layout::kUnitRows + lane_ / 4 * 2) *
            2);
  }

  __device__ __forceinline__ void LoadWords(u32 stage, int unit, int block,
                                            int group, u32 (&words)[4]) const {
    constexpr int kGroupsPerBlock = Config::kBBits / 4;
    const int row = warp_n_ * Config::kWarpN + block * 16;
    const u32 address =
        stage + S::kBOffset +
        (row / layout::kUnitRows * S::kUnitsK + unit) * S::kUnitBytes +
        (row % layout::kUnitRows / 16 * kGroupsPerBlock + group) * 512 +
        lane_ * 16;
    const Words4 v = ptx::LoadShared16(address);
    words[0] = v.w[0];
    words[1] = v.w[1];
    words[2] = v.w[2];
    words[3] = v.w[3];
  }

  // The warp's unit `u` of 64 columns.
  __device__ __forceinline__ void AccumulateUnit(u32 stage, int u) {
    const int unit = Column(u * 4) / layout::kUnitColumns;
    // 4 bits: one 16-byte load has all four steps; 8 bits: two of them.
    constexpr int kLoads = Config::kBBits / 4;
    constexpr int kStepsPerLoad = 4 / kLoads;
    u32 words[kBlocks][kLoads][4];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int l = 0; l < kLoads; ++l) {
        LoadWords(stage, unit, i, l, words[i][l]);
      }
    }
    // Activations of one step for token tiles in pairs, or of two steps for
    // an odd number of tiles: either way one ldmatrix brings four registers.
    u32 x[kTokens][kPaired ? 2 : 4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      LoadActivations(stage, unit, s, x);
      const int step = u * 4 + s;
      if constexpr (kGrouped) {
        if (step % kScaleSteps == 0) {
#pragma unroll
          for (int i = 0; i < kBlocks; ++i) {
            scales_[i] = LoadScales(stage, step, i);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32 w[4];
        Decode::Fragment(
            &words[i][s / kStepsPerLoad][s % kStepsPerLoad * Decode::kWords],
            w);
        if constexpr (kGrouped && !kScaleAfter) {
          const u32 low = ptx::Permute(scales_[i], 0, 0x1010);
          const u32 high = ptx::Permute(scales_[i], 0, 0x3232);
          w[0] = Type::Mul2(w[0], low);
          w[1] = Type::Mul2(w[1], high);
          w[2] = Type::Mul2(w[2], low);
          w[3] = Type::Mul2(w[3], high);
        }
#pragma unroll
        for (int j = 0; j < kTokens; ++j) {
          const int k = kPaired ? 0 : s % 2 * 2;
          if constexpr (kScaleAfter) {
            if (step % kScaleSteps == 0) Zero(partial_[i][j]);
            Type::Mma(partial_[i][j], w, x[j][k], x[j][k + 1]);
            if (step % kScaleSteps == kScaleSteps - 1) {
              const float low = Type::ToFloat(static_cast<u16>(scales_[i]));
              const float high =
                  Type::ToFloat(static_cast<u16>(scales_[i] >> 16));
              sum_[i][j][0] += partial_[i][j][0] * low;
              sum_[i][j][1] += partial_[i][j][1] * low;
              sum_[i][j][2] += partial_[i][j][2] * high;
              sum_[i][j][3] += partial_[i][j][3] * high;
            }
          } else {
            Type::Mma(sum_[i][j], w, x[j][k], x[j][k + 1]);
          }
        }
      }
    }
  }

  static constexpr bool kPaired = kTokens % 2 == 0;

  __device__ __forceinline__ void LoadActivations(
      u32 stage, int unit, int s, u32 (&x)[kTokens][kPaired ? 2 : 4]) const {
    const int row0 = warp_m_ * Config::kWarpM + lane_ % 8;
    if constexpr (kPaired) {
#pragma unroll
      for (int j = 0; j < kTokens; j += 2) {
        u32 d[4];
        ptx::LoadMatrix4(d,
                         stage + S::AOffset(unit, row0 + j * 8 + lane_ / 16 * 8,
                                            s * 2 + lane_ / 8 % 2));
        x[j][0] = d[0];
        x[j][1] = d[1];
        x[j + 1][0] = d[2];
        x[j + 1][1] = d[3];
      }
    } else if (s % 2 == 0) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
        ptx::LoadMatrix4(
            x[j], stage + S::AOffset(unit, row0 + j * 8, s * 2 + lane_ / 8));
      }
    }
  }

  float sum_[kBlocks][kTokens][4];
  // Within a group: its products not yet scaled, and its scales.
  float partial_[kScaleAfter ? kBlocks : 1][kScaleAfter ? kTokens : 1][4];
  u32 scales_[kGrouped ? kBlocks : 1];
  int lane_;
  int warp_m_;
  int warp_n_;
  int warp_k_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARP_TILE_CUH_
