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
    for (int u = 0; u < kUnits; ++u) {
      AccumulateUnit(stage, warp_k_ * kUnits + u);
    }
  }

  // sum(i, j): rows 16·i of the warp's channels, tokens 8·j.
  __device__ __forceinline__ const float (&sum(int i, int j) const)[4] {
    return sum_[i][j];
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
  // m16k16 steps that share one scale, within a unit of 64 columns.
  static constexpr bool kGrouped = Config::kGroup > 0;
  static constexpr int kScaleSteps =
      !kGrouped || Config::kGroup >= layout::kUnitColumns
          ? 4
          : Config::kGroup / 16;
  static constexpr bool kScaleAfter =
      kGrouped && kTokens < kScaleSteps && kTokens <= 2;

  static __device__ __forceinline__ void Zero(float (&d)[4]) {
    d[0] = d[1] = d[2] = d[3] = 0.0f;
  }

  // Two scales (rows g and g + 8 of block i) for the part of unit `unit`.
  __device__ __forceinline__ u32 LoadScales(u32 stage, int unit, int part,
                                            int block) const {
    const int column = unit * layout::kUnitColumns + part * kScaleSteps * 16;
    // A step inside a larger group has its one group at index 0.
    const int group = Config::kGroup >= Config::kBlockK
                          ? 0
                          : column / Config::kGroup;
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

  __device__ __forceinline__ void AccumulateUnit(u32 stage, int unit) {
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
    float partial[kScaleAfter ? kBlocks : 1][kScaleAfter ? kTokens : 1][4];
    u32 scale_low[kGrouped ? kBlocks : 1];
    u32 scale_high[kGrouped ? kBlocks : 1];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 x[kTokens][4];
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
        const int row = warp_m_ * Config::kWarpM + j * 8 + lane_ % 8;
        ptx::LoadMatrix4(
            x[j], stage + S::AOffset(unit, row, half * 4 + lane_ / 8));
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int s = half * 2 + h;
        if constexpr (kGrouped) {
          if (s % kScaleSteps == 0) {
#pragma unroll
            for (int i = 0; i < kBlocks; ++i) {
              const u32 pair =
                  LoadScales(stage, unit, s / kScaleSteps, i);
              scale_low[i] = ptx::Permute(pair, 0, 0x1010);
              scale_high[i] = ptx::Permute(pair, 0, 0x3232);
            }
          }
        }
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
          u32 w[4];
          Decode::Fragment(
              &words[i][s / kStepsPerLoad]
                    [s % kStepsPerLoad * Decode::kWords],
              w);
          if constexpr (kGrouped && !kScaleAfter) {
            w[0] = Type::Mul2(w[0], scale_low[i]);
            w[1] = Type::Mul2(w[1], scale_high[i]);
            w[2] = Type::Mul2(w[2], scale_low[i]);
            w[3] = Type::Mul2(w[3], scale_high[i]);
          }
#pragma unroll
          for (int j = 0; j < kTokens; ++j) {
            if constexpr (kScaleAfter) {
              if (s % kScaleSteps == 0) Zero(partial[i][j]);
              Type::Mma(partial[i][j], w, x[j][h * 2], x[j][h * 2 + 1]);
              if (s % kScaleSteps == kScaleSteps - 1) {
                const float low =
                    Type::ToFloat(static_cast<u16>(scale_low[i]));
                const float high =
                    Type::ToFloat(static_cast<u16>(scale_high[i]));
                sum_[i][j][0] += partial[i][j][0] * low;
                sum_[i][j][1] += partial[i][j][1] * low;
                sum_[i][j][2] += partial[i][j][2] * high;
                sum_[i][j][3] += partial[i][j][3] * high;
              }
            } else {
              Type::Mma(sum_[i][j], w, x[j][h * 2], x[j][h * 2 + 1]);
            }
          }
        }
      }
    }
  }

  float sum_[kBlocks][kTokens][4];
  int lane_;
  int warp_m_;
  int warp_n_;
  int warp_k_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARP_TILE_CUH_
