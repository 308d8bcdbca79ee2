// Quantize and pack a layer's weights: the codes and scales that
// kernels/pack/pack.cc makes, bit for bit, from the same float32 operations in
// the same order.
//
// Algorithm, in two launches, or three where there is a tensor scale:
//   range   a warp per row finds the largest of its scales; the largest of all
//           goes to the workspace
//   scales  a warp per group and pair of rows, g and g + 8 of a block, whose
//           fields are neighbours: least and largest weights, then scales and
//           zero points
//   codes   a lane per lane of a block: the 32 weights of its fragments, their
//           codes, b packed words, stored in the widest pieces; or rows of
//           codes where they are operands as they are
// Weights are read twice (thrice), each time past the L2, and written once as
// codes: at 8192 x 8192 in float16 that is 0.27 GB read (0.4) and 0.03 GB
// written, 0.07 ms (0.1) at 4.3 TB/s.
//
// Data layout: weights [N, K], row-major, in float16, bfloat16 or float32;
// results as in memory/packed_layout.cuh. The workspace holds two 32-bit words,
// zero before: the bits of the largest scale, and the number of weights that
// are not finite.
//
// Config is rendered per layer: kN, kK; kInput, kFormat, kScaleFormat,
// kZeroFormat (numeric/codes.cuh); kBits, kWidth, kLayout, kStoredXor; kGroup,
// kGroups, kGroupN, kEntryBytes, kEntryScaleBytes, kScaleBits, kZeroBits,
// kBlock (see packed_layout.cuh); kTensorScale, kTensorOffset, kLargestScale
// (relative to the tensor scale); kDivisor, the largest value of B that is used,
// and kLow, the least.
#ifndef HONE_DEVICE_PACK_PACK_WEIGHTS_CUH_
#define HONE_DEVICE_PACK_PACK_WEIGHTS_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/numeric/codes.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/warp.cuh"

namespace hone {

template <typename Config>
class PackWeights {
 public:
  static constexpr int kThreads = 256;

  __device__ __forceinline__ PackWeights(const u8* weights, u8* b, u8* scales,
                                         u32* workspace)
      : weights_(weights), b_(b), scales_(scales), workspace_(workspace) {
    const u64 thread = static_cast<u64>(ptx::BlockIdX()) * kThreads +
                       static_cast<u64>(ptx::ThreadIdX());
    warp_ = thread / 32;
    lane_ = static_cast<int>(thread % 32);
  }

  __device__ __forceinline__ void Range() const {
    if (warp_ >= static_cast<u64>(Config::kN)) return;
    const int row = static_cast<int>(warp_);
    float scale = 0;
    if constexpr (kHasZero) {
#pragma unroll 1
      for (int group = 0; group < Config::kGroups; ++group) {
        scale = Max(scale, IdealScale(GroupExtent(row, 1, group)));
      }
    } else {
      // Division is monotonic: the largest scale is that of the largest weight.
      scale = IdealScale(ExtentOf(row, 1, 0, Config::kK));
    }
    // Scales are not negative, and such floats order as integers do.
    if (lane_ == 0) ptx::AtomicMax(workspace_, codes::FloatToBits(scale));
  }

  __device__ __forceinline__ void Scales() const {
    if constexpr (Config::kTensorScale) {
      if (warp_ == 0 && lane_ == 0) {
        ptx::StoreGlobal4(scales_ + Config::kTensorOffset,
                          codes::FloatToBits(TensorScale()));
      }
    }
    if constexpr (Config::kEntryBytes > 0) {
      // 32 pairs an entry; a block scale takes one warp.
      constexpr int kPerEntry = Config::kBlock ? 1 : 32;
      const u64 entry = warp_ / kPerEntry;
      if (entry >= static_cast<u64>(kUnitsN) * Config::kGroups) return;
      const int unit = static_cast<int>(entry / Config::kGroups);
      const int group = static_cast<int>(entry % Config::kGroups);
      u8* to = scales_ + entry * Config::kEntryBytes;
      if constexpr (Config::kBlock) {
        const int row = unit * layout::kUnitRows / Config::kGroupN;
        const Affine a =
            Choose(GroupExtent(row * Config::kGroupN, Config::kGroupN, group));
        if (lane_ < 4) ptx::StoreGlobal4(to + lane_ * 4, a.scale_code);
      } else {
        const int pair = static_cast<int>(warp_ % 32);
        const int row = unit * layout::kUnitRows + pair / 8 * 16 + pair % 8;
        const Affine low = RowAffine(row, group);
        const Affine high = RowAffine(row + 8, group);
        if (lane_ != 0) return;
        PutPair<Config::kScaleBits>(to, pair, low.scale_code, high.scale_code);
        PutPair<Config::kZeroBits>(to + Config::kEntryScaleBytes, pair,
                                   low.zero_code, high.zero_code);
      }
    }
  }

  __device__ __forceinline__ void Codes() const {
    constexpr u64 kBlocks = static_cast<u64>(kUnitsN) * kUnitsK * 4;
    if (warp_ >= kBlocks) return;
    const int unit_n = static_cast<int>(warp_ / 4 / kUnitsK);
    const int unit_k = static_cast<int>(warp_ / 4 % kUnitsK);
    const int row = unit_n * layout::kUnitRows +
                    static_cast<int>(warp_ % 4) * 16 + lane_ / 4;
    const int column = unit_k * layout::kUnitColumns + lane_ % 4 * kParts;
    u32 words[Config::kBits] = {};
    u32 bad = 0;
    Step<0>(row, column, words, bad);
    if constexpr (kSteps > 1) Step<1>(row, column, words, bad);
    if constexpr (kSteps > 2) {
      Step<2>(row, column, words, bad);
      Step<3>(row, column, words, bad);
    }
    if (bad != 0) ptx::AtomicAdd(workspace_ + 1, bad);
    if constexpr (!kRows) StoreWords(words);
  }

 private:
  static constexpr int kUnitsN = static_cast<int>(
      layout::RoundUp(Config::kN, layout::kUnitRows) / layout::kUnitRows);
  static constexpr int kUnitsK = static_cast<int>(
      layout::RoundUp(Config::kK, layout::kUnitColumns) / layout::kUnitColumns);
  static constexpr int kGroupColumns =
      Config::kGroup == 0 ? Config::kK : Config::kGroup;
  // Of an MMA operand (packed_layout.cuh).
  static constexpr bool kRows = Config::kLayout == layout::CodeLayout::kRows;
  static constexpr int kParts = layout::Parts(Config::kWidth);
  static constexpr int kStepColumns = layout::StepColumns(Config::kWidth);
  static constexpr int kSteps = layout::UnitSteps(Config::kWidth);
  static constexpr bool kHasZero = Config::kZeroBits > 0;
  static constexpr bool kHasScale = Config::kScaleBits > 0 || Config::kBlock;

  // Least and largest of some weights and 0.
  struct Extent {
    float low;
    float high;
  };
  // Scale, with the tensor's, and zero point.
  struct Affine {
    float scale;
    float zero;
    u32 scale_code;
    u32 zero_code;
  };

  __device__ __forceinline__ float Load(int row, int column) const {
    const u64 at = static_cast<u64>(row) * Config::kK + column;
    if constexpr (Config::kInput == codes::kSingle) {
      return codes::BitsToFloat(ptx::LoadConstant4(weights_ + at * 4));
    } else if constexpr (Config::kInput == codes::kHalf) {
      return ptx::HalfToFloat(ptx::LoadConstant2(weights_ + at * 2));
    } else {
      return codes::BitsToFloat(
          static_cast<u32>(ptx::LoadConstant2(weights_ + at * 2)) << 16);
    }
  }

  // As std::min and std::max: of equal numbers, such as 0 and −0, the first.
  static __device__ __forceinline__ float Min(float a, float b) {
    return b < a ? b : a;
  }
  static __device__ __forceinline__ float Max(float a, float b) {
    return a < b ? b : a;
  }

  __device__ __forceinline__ Extent GroupExtent(int row0, int rows,
                                                int group) const {
    const int begin = group * kGroupColumns;
    const int last = begin + kGroupColumns;
    return ExtentOf(row0, rows, begin, last < Config::kK ? last : Config::kK);
  }

  // Of rows [row0, row0 + rows) and columns [begin, end); for all lanes of the
  // warp.
  __device__ __forceinline__ Extent ExtentOf(int row0, int rows, int begin,
                                             int end) const {
    Extent e = {0, 0};
#pragma unroll 1
    for (int row = row0; row < row0 + rows && row < Config::kN; ++row) {
#pragma unroll 8
      for (int column = begin + lane_; column < end; column += 32) {
        const float w = Load(row, column);
        e.low = Min(e.low, w);
        e.high = Max(e.high, w);
      }
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      e.low = Min(e.low, ptx::ShuffleXor(e.low, lanes));
      e.high = Max(e.high, ptx::ShuffleXor(e.high, lanes));
    }
    return e;
  }

  static __device__ __forceinline__ float IdealScale(const Extent& e) {
    const float extent = kHasZero ? e.high - e.low : Max(0.0f - e.low, e.high);
    return extent / Config::kDivisor;
  }

  __device__ __forceinline__ float TensorScale() const {
    if constexpr (!Config::kTensorScale) return 1.0f;
    float scale = codes::BitsToFloat(ptx::LoadGlobal4(workspace_));
    if constexpr (kHasScale) {
      scale = scale / Config::kLargestScale;
    }
    return scale == 0 ? 1.0f : scale;
  }

  __device__ __forceinline__ Affine RowAffine(int row, int group) const {
    if (row >= Config::kN) {
      // Padding: scale 1, zero point 0.
      return {1, 0, codes::Encode(1, Config::kScaleFormat), 0};
    }
    return Choose(GroupExtent(row, 1, group));
  }

  __device__ __forceinline__ Affine Choose(const Extent& e) const {
    const float tensor = TensorScale();
    Affine a = {tensor, 0, 0, 0};
    if constexpr (kHasScale) {
      a.scale_code = EncodeScale(IdealScale(e) / tensor);
      a.scale = codes::Decode(a.scale_code, Config::kScaleFormat) * tensor;
      if (a.scale == 0) {
        return {tensor, 0, codes::Encode(1, Config::kScaleFormat), 0};
      }
    }
    if constexpr (kHasZero) {
      a.zero = (0.0f - e.low) / a.scale;
      if constexpr (codes::FormatKind(Config::kZeroFormat) !=
                    codes::kFloatKind) {
        a.zero_code = static_cast<u32>(
            Min(Max(ptx::RoundToEven(a.zero), 0.0f), Config::kDivisor));
      } else {
        a.zero_code = codes::Encode(a.zero, Config::kZeroFormat);
      }
    }
    return a;
  }

  static __device__ __forceinline__ u32 EncodeScale(float ideal) {
    if (!(ideal > 0)) return codes::Encode(1, Config::kScaleFormat);
    const u32 code = codes::Encode(ideal, Config::kScaleFormat);
    if constexpr (Config::kScaleFormat == codes::kPower) {
      if (code < 254 && codes::Decode(code, Config::kScaleFormat) < ideal) {
        return code + 1;
      }
    }
    return code;
  }

  template <int kFieldBits>
  static __device__ __forceinline__ void PutPair(u8* to, int pair, u32 low,
                                                 u32 high) {
    if constexpr (kFieldBits == 4) {
      ptx::StoreGlobal1(to + pair, low | high << 4);
    } else if constexpr (kFieldBits == 8) {
      ptx::StoreGlobal2(to + pair * 2, static_cast<u16>(low | high << 8));
    } else if constexpr (kFieldBits == 16) {
      ptx::StoreGlobal4(to + pair * 4, low | high << 16);
    } else if constexpr (kFieldBits == 32) {
      ptx::StoreGlobal8(to + pair * 8, low, high);
    }
  }

  // The scale and zero point of a row's group, as Scales() stored them.
  __device__ __forceinline__ Affine LoadAffine(int row, int group) const {
    Affine a = {1, 0, 0, 0};
    const u8* entry =
        scales_ +
        (static_cast<u64>(row / layout::kUnitRows) * Config::kGroups + group) *
            Config::kEntryBytes;
    const int index = layout::LaneOrder(row);
    if constexpr (Config::kBlock) {
      a.scale = codes::BitsToFloat(ptx::LoadGlobal4(entry));
    } else if constexpr (Config::kScaleBits > 0) {
      a.scale = codes::Decode(GetField<Config::kScaleBits>(entry, index),
                              Config::kScaleFormat);
    }
    if constexpr (Config::kTensorScale) {
      a.scale *=
          codes::BitsToFloat(ptx::LoadGlobal4(scales_ + Config::kTensorOffset));
    }
    if constexpr (kHasZero) {
      a.zero = codes::Decode(
          GetField<Config::kZeroBits>(entry + Config::kEntryScaleBytes, index),
          Config::kZeroFormat);
    }
    return a;
  }
  template <int kFieldBits>
  static __device__ __forceinline__ u32 GetField(const u8* from, int index) {
    if constexpr (kFieldBits == 4) {
      return ptx::LoadGlobal1(from + index / 2) >> (index % 2 * 4) & 15;
    } else if constexpr (kFieldBits == 8) {
      return ptx::LoadGlobal1(from + index);
    } else if constexpr (kFieldBits == 16) {
      return ptx::LoadGlobal2(from + index * 2);
    } else {
      return ptx::LoadGlobal4(from + index * 4);
    }
  }

  __device__ __forceinline__ void StoreWords(
      const u32 (&words)[Config::kBits]) const {
    u8* to = b_ + warp_ * (128 * Config::kBits);
    constexpr int kFours = Config::kBits / 4 * 4;
#pragma unroll
    for (int w = 0; w < kFours; w += 4) {
      ptx::StoreGlobal16(to + w * 128 + lane_ * 16,
                         {words[w], words[w + 1], words[w + 2], words[w + 3]});
    }
    if constexpr (Config::kBits % 4 >= 2) {
      ptx::StoreGlobal8(to + kFours * 128 + lane_ * 8, words[kFours],
                        words[kFours + 1]);
    }
    if constexpr (Config::kBits % 2 == 1) {
      ptx::StoreGlobal4(to + (Config::kBits - 1) * 128 + lane_ * 4,
                        words[Config::kBits - 1]);
    }
  }

  // The four registers of MMA step kStep. `column` is the lane's first.
  template <int kStep>
  __device__ __forceinline__ void Step(int row, int column,
                                       u32 (&words)[Config::kBits],
                                       u32& bad) const {
    const int first = column + kStep * kStepColumns;
    constexpr int kHalf = kStepColumns / 2;
    Affine low = LoadAffine(row, Group(first));
    Affine high = LoadAffine(row + 8, Group(first));
    Register<kStep * 4>(row, first, low, words, bad);
    Register<kStep * 4 + 1>(row + 8, first, high, words, bad);
    if constexpr (Config::kGroup != 0 && Config::kGroup < kStepColumns) {
      low = LoadAffine(row, Group(first + kHalf));
      high = LoadAffine(row + 8, Group(first + kHalf));
    }
    Register<kStep * 4 + 2>(row, first + kHalf, low, words, bad);
    Register<kStep * 4 + 3>(row + 8, first + kHalf, high, words, bad);
  }
  static __device__ __forceinline__ int Group(int column) {
    return Config::kGroup == 0 ? 0 : column / kGroupColumns;
  }

  // The codes of a register, of columns `column` and up, to their words, or at
  // once to their row.
  template <int kReg, int kPart = 0>
  __device__ __forceinline__ void Register(int row, int column, const Affine& a,
                                           u32 (&words)[Config::kBits],
                                           u32& bad, u32 direct = 0) const {
    if constexpr (kPart == kParts) {
      if constexpr (kRows) {
        const u64 at =
            static_cast<u64>(row) * (kUnitsK * layout::kUnitColumns) +
            static_cast<u64>(column);
        ptx::StoreGlobal4(b_ + at * Config::kBits / 8, direct);
      }
    } else {
      const u32 code = Code(row, column + kPart, a, bad);
      if constexpr (kRows) {
        direct |= code << (kPart * Config::kWidth);
      } else {
        Put<kReg, kPart, 0>(code, words);
      }
      Register<kReg, kPart + 1>(row, column, a, words, bad, direct);
    }
  }

  // As it is stored.
  __device__ __forceinline__ u32 Code(int row, int column, const Affine& a,
                                      u32& bad) const {
    u32 code = 0;
    if (row < Config::kN && column < Config::kK) {
      const float w = Load(row, column);
      if ((codes::FloatToBits(w) & 0x7f800000u) == 0x7f800000u) ++bad;
      float q = w / a.scale;
      if constexpr (kHasZero) q = q + a.zero;
      q = Min(Max(q, Config::kLow), Config::kDivisor);
      code = codes::Encode(q, Config::kFormat);
    }
    return code ^ Config::kStoredXor;
  }

  // Bits kFirst and up of a code to their places.
  template <int kReg, int kPart, int kFirst>
  static __device__ __forceinline__ void Put(u32 code,
                                             u32 (&words)[Config::kBits]) {
    if constexpr (kReg <
                      layout::FieldRegisters(Config::kWidth, Config::kBits) &&
                  Config::kLayout == layout::CodeLayout::kPlain) {
      constexpr layout::BitPlace kTo = layout::PlaceOf(
          Config::kWidth, Config::kBits, Config::kLayout, kReg, kPart, 0);
      words[kTo.word] |= code << kTo.bit;
    } else if constexpr (kFirst < Config::kBits) {
      constexpr layout::BitPlace kTo = layout::PlaceOf(
          Config::kWidth, Config::kBits, Config::kLayout, kReg, kPart, kFirst);
      words[kTo.word] |= (code >> kFirst & 1u) << kTo.bit;
      Put<kReg, kPart, kFirst + 1>(code, words);
    }
  }

  const u8* weights_;
  u8* b_;
  u8* scales_;
  u32* workspace_;
  u64 warp_;
  int lane_;
};

}  // namespace hone

#endif  // HONE_DEVICE_PACK_PACK_WEIGHTS_CUH_
