// One warp's share of a k-step on mma.sync: weights dequantized in registers
// (or, where their codes are operands as they are, brought by ldmatrix) as the
// A operand, activations by ldmatrix as the B operand, accumulators Dᵀ [kWarpN,
// kWarpM] in float32, or in int32 where integers are multiplied.
//
// An MMA step covers 32 bytes of a row of operands: m16n8k16 of 16-bit types,
// k32 of 8-bit, k64 of 4-bit ones.
//
// Group scales go where they cost least. Before the MMA they multiply packed
// weights, four multiplications per m16k16 fragment; after it they fold a
// zero-started partial sum into the accumulators, one fma per accumulator and
// group (kScaleAfter). The latter wins, and rounds less, while the warp has few
// tokens; scales that type A cannot hold, all of 8- and 4-bit types and those
// of activations have no other place. A group may be as narrow as half a step.
//
// Accumulation in float16 (kHalfAccumulate) sums at most the four MMAs of a
// unit, or those of a scale group if they are fewer, in float16, then in
// float32: the MMA has the rate of float16 and K has no limit.
//
// Weights stay a power of two away from their values where that saves work
// (see numeric/); the epilogue takes it off.
#ifndef HONE_DEVICE_MMA_WARP_TILE_CUH_
#define HONE_DEVICE_MMA_WARP_TILE_CUH_

#include "kernels/device/memory/tile_loader.cuh"
#include "kernels/device/mma/strip.cuh"
#include "kernels/device/mma/sums.cuh"
#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/numeric/windowed.cuh"
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
      for (int j = 0; j < kTokens; ++j) SetZero(sum_[i][j]);
    }
    const int thread = static_cast<int>(ptx::ThreadIdX());
    lane_ = thread % 32;
    const int warp = thread / 32;
    warp_n_ = warp % Config::kWarpsN;
    warp_m_ = warp / Config::kWarpsN % Config::kWarpsM;
    warp_k_ = warp / (Config::kWarpsN * Config::kWarpsM);
  }

  // What the mainloop never reloads: zero points of a layer without groups, and
  // channels' least scales, `least`, where scales keep within a window.
  // `entries` are those of the tile's first unit, `units` what is left of them.
  __device__ __forceinline__ void Begin(const u8* entries, int units,
                                        const u8* least) {
    if constexpr (Config::kWindow) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32 low = 0;
        u32 high = 0;
        if (UnitOf(i) < units) {
          const u8* row = least + BlockChannel(i) + lane_ / 4;
          low = ptx::LoadConstant1(row);
          high = ptx::LoadConstant1(row + 8);
        }
        tables_[i] = Weight::template Base<Type>(low, high);
      }
    }
    if constexpr (kHasZero && !kGrouped) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        const int unit = UnitOf(i);
        if (unit >= units) {
          zeros_[i] = {0, 0};
          continue;
        }
        const u8* pair =
            entries + unit * Config::kEntryBytes + ZeroOffset(RowOf(i));
        u32 codes;
        if constexpr (Zero::kBits == 4) {
          codes = ptx::LoadConstant1(pair);
        } else if constexpr (Zero::kBits == 8) {
          codes = ptx::LoadConstant2(pair);
        } else {
          codes = ptx::LoadConstant4(pair);
        }
        zeros_[i] = Zero::template Pair<Type>(codes);
      }
    }
  }

  // Adds the stage's products.
  __device__ __forceinline__ void Accumulate(u32 stage) {
    if constexpr (kStrip == Strip::kArithmetic) return;
    // Activations of one step for token tiles in pairs, or of two steps for an
    // odd number of tiles: either way one ldmatrix brings four registers.
    u32 x[kTokens][kPaired ? 2 : 4];
#pragma unroll
    for (int u = 0; u < kUnits; ++u) AccumulateUnit(stage, u, x);
  }

  // There is no stmatrix before SM90.
  static constexpr bool kStoresMatrices = false;
  // A barrier of the warps that compute.
  static __device__ __forceinline__ void Sync() { ptx::BarrierSync(); }

  // Fragment f = kTiles · i + j: rows 16·i of the warp's channels, tokens
  // 8·j. With lane = 4·g + t its elements are (row g, token 2t), (g, 2t + 1),
  // (g + 8, 2t), (g + 8, 2t + 1).
  static constexpr int kTiles = kTokens;
  static constexpr int kFragments = kBlocks * kTiles;
  __device__ __forceinline__ void fragment(int f, float (&v)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      v[e] = static_cast<float>(sum_[f / kTokens][f % kTokens][e]);
    }
  }
  // Its first channel and token within the tile.
  __device__ __forceinline__ int channel(int f) const {
    return BlockChannel(f / kTokens);
  }
  // That of block i.
  __device__ __forceinline__ int BlockChannel(int i) const {
    return warp_n_ * Config::kWarpN + i * 16;
  }
  __device__ __forceinline__ int token(int f) const {
    return warp_m_ * Config::kWarpM + f % kTokens * 8;
  }
  __device__ __forceinline__ int lane() const { return lane_; }
  __device__ __forceinline__ int warp_m() const { return warp_m_; }
  __device__ __forceinline__ int warp_n() const { return warp_n_; }
  __device__ __forceinline__ int warp_k() const { return warp_k_; }

 private:
  using S = Stage<Config>;
  using Type = typename Config::AType;
  using Weight = typename Config::Weight;
  using Scale = typename Config::Scale;
  using Zero = typename Config::Zero;

  static constexpr bool kPaired = kTokens % 2 == 0;
  static constexpr int kUnits = Config::kWarpK / layout::kUnitColumns;
  static constexpr int kUnitSteps = layout::UnitSteps(Type::kBits);
  static constexpr int kStepColumns = layout::StepColumns(Type::kBits);
  static constexpr bool kGrouped = Config::kGroup > 0;
  static constexpr bool kAGrouped = Config::kAGroup > 0;
  // Columns of this warp that share their scales, and the steps they take.
  static constexpr int Least(int a, int b) { return a < b ? a : b; }
  static constexpr int kScaleColumns = Least(
      Config::kWarpK, Least(kGrouped ? Config::kGroup : Config::kWarpK,
                            kAGrouped ? Config::kAGroup : Config::kWarpK));
  static constexpr bool kHalfSteps = kScaleColumns < kStepColumns;
  static constexpr int kScaleSteps =
      kHalfSteps ? 1 : kScaleColumns / kStepColumns;
  static constexpr bool kScaleAfter = Config::kScaleAfter;
  static constexpr bool kScaleBefore = kGrouped && !kScaleAfter;
  static constexpr bool kHasZero = Zero::kBits != 0;
  // Sums that start at zero and join the accumulators after kPartialSteps.
  static constexpr bool kPartial = kScaleAfter || Config::kHalfAccumulate;
  static constexpr int kPartialSteps = !Config::kHalfAccumulate ? kScaleSteps
                                       : kScaleAfter && kScaleSteps < 4
                                           ? kScaleSteps
                                           : 4;
  using Partial =
      typename ChoosePartial<Config::kHalfAccumulate, typename Type::Sum>::Type;
  using Sum = typename ChooseSum<kPartial, typename Type::Sum>::Type;

  template <typename T>
  static __device__ __forceinline__ void SetZero(T (&d)[4]) {
    d[0] = d[1] = d[2] = d[3] = T{0};
  }
  static __device__ __forceinline__ void SetZero(u32 (&d)[2]) {
    d[0] = d[1] = 0;
  }

  // Column in the stage of the warp's MMA step `step`.
  __device__ __forceinline__ int Column(int step) const {
    return (S::kPrivateRings ? 0 : warp_k_ * Config::kWarpK) +
           step * kStepColumns;
  }

  // Block i's packed unit along N, of the tile, and its first row there, for
  // entries. Where warps do not straddle units the former is the warp's, and
  // the latter's part that depends on i a constant.
  static constexpr bool kAligned = layout::kUnitRows % Config::kWarpN == 0;
  __device__ __forceinline__ int UnitOf(int i) const {
    const int row = warp_n_ * Config::kWarpN;
    return (kAligned ? row : row + i * 16) / layout::kUnitRows;
  }
  __device__ __forceinline__ int RowOf(int i) const {
    const int row = warp_n_ * Config::kWarpN;
    return kAligned ? row % layout::kUnitRows + i * 16
                    : (row + i * 16) % layout::kUnitRows;
  }

  // Offset in an entry of the pair of zero points of rows g and g + 8 of the
  // block whose rows start at `row` of its unit.
  __device__ __forceinline__ u32 ZeroOffset(int row) const {
    return Config::kEntryScaleBytes + (row + lane_ / 4 * 2) * Zero::kBits / 8;
  }

  // Scales and zero points for the groups of column `column` of the stage.
  __device__ __forceinline__ void LoadGroup(u32 stage, int column) {
    if constexpr (kGrouped) LoadEntries(stage, column);
    if constexpr (kAGrouped) {
      // A stage inside a larger group has its one group at index 0.
      const int group =
          Config::kAGroup >= S::kColumns ? 0 : column / Config::kAGroup;
      const int row = warp_m_ * Config::kWarpM + lane_ % 4 * 2;
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
        u32 scales[2];
        ptx::LoadShared8(stage + S::kAScaleOffset +
                             (group * Config::kBlockM + row + j * 8) * 4,
                         scales[0], scales[1]);
        a_scales_[j][0] = ptx::BitsToFloat(scales[0]);
        a_scales_[j][1] = ptx::BitsToFloat(scales[1]);
      }
    }
  }

  // B's, of rows g and g + 8 of each block.
  __device__ __forceinline__ void LoadEntries(u32 stage, int column) {
    const int group =
        Config::kGroup >= S::kColumns ? 0 : column / Config::kGroup;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const int row = RowOf(i);
      const u32 entry = stage + S::kScaleOffset +
                        (UnitOf(i) * S::kGroups + group) * Config::kEntryBytes;
      const u32 pair = entry + (row + lane_ / 4 * 2) * (Scale::kBits / 8);
      if constexpr (Config::kBlockScale) {
        scales_[i] = ptx::LoadShared4(entry);
      } else if constexpr (Scale::kBits == 8) {
        scales_[i] = ptx::LoadShared2(pair);
      } else {
        scales_[i] = ptx::LoadShared4(pair);
      }
      if constexpr (kScaleBefore && !Config::kWindow) {
        scales_[i] = Scale::template Pair<Type>(scales_[i]);
      }
      if constexpr (kHasZero) {
        const u32 zero = entry + ZeroOffset(row);
        u32 codes;
        if constexpr (Zero::kBits == 4) {
          codes = ptx::LoadShared1(zero);
        } else if constexpr (Zero::kBits == 8) {
          codes = ptx::LoadShared2(zero);
        } else {
          codes = ptx::LoadShared4(zero);
        }
        zeros_[i] = Zero::template Pair<Type>(codes);
      }
    }
  }

  // The lane's words of a block, in the widest loads (see packed_layout.cuh).
  __device__ __forceinline__ void LoadWords(
      u32 stage, int unit, int block, u32 (&words)[Config::kBBits]) const {
    constexpr int kBits = Config::kBBits;
    const int row = warp_n_ * Config::kWarpN + block * 16;
    const u32 address =
        stage + S::kBOffset +
        (row / layout::kUnitRows * S::kUnitsK + unit) * S::kUnitBytes +
        row % layout::kUnitRows / 16 * (kBits * 128);
#pragma unroll
    for (int w = 0; w + 4 <= kBits; w += 4) {
      const Words4 v = ptx::LoadShared16(address + w * 128 + lane_ * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[w + i] = v.w[i];
    }
    constexpr int kFours = kBits / 4 * 4;
    if constexpr (kBits % 4 >= 2) {
      ptx::LoadShared8(address + kFours * 128 + lane_ * 8, words[kFours],
                       words[kFours + 1]);
    }
    if constexpr (kBits % 2 == 1) {
      words[kBits - 1] =
          ptx::LoadShared4(address + (kBits - 1) * 128 + lane_ * 4);
    }
  }

  // Adds a partial sum to the accumulators, scaled if it is not yet.
  __device__ __forceinline__ void Flush(int i, int j) {
    float v[4];
    ToFloats(partial_[i][j], v);
    if constexpr (kAGrouped) {
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] *= a_scales_[j][e % 2];
    }
    if constexpr (kGrouped && kScaleAfter) {
      float low;
      float high;
      if constexpr (Config::kBlockScale) {
        low = high = ptx::BitsToFloat(scales_[i]);
      } else {
        constexpr u32 kMask = (1u << Scale::kBits) - 1;
        low = Scale::ToFloat(scales_[i] & kMask);
        high = Scale::ToFloat(scales_[i] >> Scale::kBits);
      }
      sum_[i][j][0] += v[0] * low;
      sum_[i][j][1] += v[1] * low;
      sum_[i][j][2] += v[2] * high;
      sum_[i][j][3] += v[3] * high;
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) sum_[i][j][e] += v[e];
    }
  }
  template <typename T>
  static __device__ __forceinline__ void ToFloats(const T (&d)[4],
                                                  float (&v)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) v[e] = static_cast<float>(d[e]);
  }
  static __device__ __forceinline__ void ToFloats(const u32 (&d)[2],
                                                  float (&v)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      v[e] = Type::ToFloat(static_cast<u16>(d[e / 2] >> (e % 2 * 16)));
    }
  }

  // The warp's unit `u` of 64 columns.
  __device__ __forceinline__ void AccumulateUnit(
      u32 stage, int u, u32 (&x)[kTokens][kPaired ? 2 : 4]) {
    u32 words[kBlocks][Config::kBBits];
    if constexpr (!Config::kDirect) {
      const int unit = Column(u * kUnitSteps) / layout::kUnitColumns;
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) LoadWords(stage, unit, i, words[i]);
    }
    AccumulateStep<0>(stage, u, words, x);
    if constexpr (kUnitSteps > 1) AccumulateStep<1>(stage, u, words, x);
    if constexpr (kUnitSteps > 2) {
      AccumulateStep<2>(stage, u, words, x);
      AccumulateStep<3>(stage, u, words, x);
    }
  }

  template <int kStep>
  __device__ __forceinline__ void AccumulateStep(
      u32 stage, int u, const u32 (&words)[kBlocks][Config::kBBits],
      u32 (&x)[kTokens][kPaired ? 2 : 4]) {
    const int step = u * kUnitSteps + kStep;
    LoadActivations(stage, step, x);
    if constexpr ((kGrouped || kAGrouped) && kStrip != Strip::kDequantization) {
      if (step % kScaleSteps == 0) LoadGroup(stage, Column(step));
    }
    // Where an odd number of tiles has the step's registers.
    const int k = kPaired ? 0 : step % 2 * 2;
    if constexpr (kHalfSteps) {
      u32 w[kBlocks][4];
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        LoadFragment<kStep>(stage, step, i, words[i], w[i]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (half == 1) LoadGroup(stage, Column(step) + kStepColumns / 2);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
          for (int j = 0; j < kTokens; ++j) {
            SetZero(partial_[i][j]);
            Type::HalfMma(partial_[i][j], w[i][2 * half], w[i][2 * half + 1],
                          x[j][k + half]);
            Flush(i, j);
          }
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32 w[4];
        LoadFragment<kStep>(stage, step, i, words[i], w);
#pragma unroll
        for (int j = 0; j < kTokens; ++j) {
          if constexpr (kStrip == Strip::kMmas) {
#pragma unroll
            for (int r = 0; r < 4; ++r) ptx::Pin(w[r]);
          } else if constexpr (kPartial && kStrip != Strip::kDequantization) {
            if (step % kPartialSteps == 0) SetZero(partial_[i][j]);
            Type::Mma(partial_[i][j], w, x[j][k], x[j][k + 1]);
            if (step % kPartialSteps == kPartialSteps - 1) Flush(i, j);
          } else {
            Type::Mma(sum_[i][j], w, x[j][k], x[j][k + 1]);
          }
        }
      }
    }
  }

  // Block i's fragment of a step: the MMA's A operand.
  template <int kStep>
  __device__ __forceinline__ void LoadFragment(
      u32 stage, int step, int i, const u32 (&words)[Config::kBBits],
      u32 (&w)[4]) const {
    if constexpr (Config::kDirect) {
      const int at = Column(step) / kStepColumns;
      const int row = warp_n_ * Config::kWarpN + i * 16 + lane_ % 16;
      ptx::LoadMatrix4(w, stage + S::kBOffset +
                              S::template RowOffset<Config::kBlockN>(
                                  at / 4, row, at % 4 * 2 + lane_ / 16));
    } else if constexpr (kStrip == Strip::kDequantization) {
#pragma unroll
      for (int r = 0; r < 4; ++r) w[r] = words[r % Config::kBBits];
      return;
    } else if constexpr (Config::kWindow) {
      Weight::template Fragment<kStep>(
          words, Weight::template Scaled<Type>(tables_[i], scales_[i]), w);
    } else {
      DequantFragment<Weight, Type, Config::kExactWeights, kStep>(
          words, zeros_[kHasZero ? i : 0], w);
    }
    if constexpr (kScaleBefore && !Config::kWindow &&
                  kStrip != Strip::kDequantization) {
      const u32 low = ptx::Permute(scales_[i], 0, 0x1010);
      const u32 high = ptx::Permute(scales_[i], 0, 0x3232);
      w[0] = Type::Mul2(w[0], low);
      w[1] = Type::Mul2(w[1], high);
      w[2] = Type::Mul2(w[2], low);
      w[3] = Type::Mul2(w[3], high);
    }
  }

  // The step's activations; of two steps for an odd number of tiles.
  __device__ __forceinline__ void LoadActivations(
      u32 stage, int step, u32 (&x)[kTokens][kPaired ? 2 : 4]) const {
    const int at = Column(step) / kStepColumns;
    const int segment = at / 4;
    const int chunk = at % 4 * 2;
    const int row0 = warp_m_ * Config::kWarpM + lane_ % 8;
    if constexpr (kPaired) {
#pragma unroll
      for (int j = 0; j < kTokens; j += 2) {
        u32 d[4];
        ptx::LoadMatrix4(d, stage + S::template RowOffset<>(
                                        segment, row0 + j * 8 + lane_ / 16 * 8,
                                        chunk + lane_ / 8 % 2));
        x[j][0] = d[0];
        x[j][1] = d[1];
        x[j + 1][0] = d[2];
        x[j + 1][1] = d[3];
      }
    } else if (step % 2 == 0) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
        ptx::LoadMatrix4(x[j],
                         stage + S::template RowOffset<>(segment, row0 + j * 8,
                                                         chunk + lane_ / 8));
      }
    }
  }

  Sum sum_[kBlocks][kTokens][4];
  // Products not yet in the accumulators.
  Partial partial_[kPartial ? kBlocks : 1][kPartial ? kTokens : 1];
  // Of the current group: as stored, or as pairs of Type before the MMA.
  u32 scales_[kGrouped ? kBlocks : 1];
  // Of the current group, tokens 2t and 2t + 1 of each tile.
  float a_scales_[kAGrouped ? kTokens : 1][2];
  TablePair tables_[Config::kWindow ? kBlocks : 1];
  ZeroPair zeros_[kHasZero ? kBlocks : 1];
  int lane_;
  int warp_m_;
  int warp_n_;
  int warp_k_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARP_TILE_CUH_
