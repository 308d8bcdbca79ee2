// What the epilogue multiplies sums with and adds to them, per token and per
// channel: brought into registers before the mainloop, whose time hides the
// loads. (Read fragment by fragment after it they took a fifth of an 8-bit
// product's time: 8192 x 8192, M = 4096, W8A8 with token and channel scales.)
//
// Lane l holds tokens l, l + 32, ... of its warp, and channels likewise; a
// fragment's are fetched with shuffles. Where tokens are an MMA's rows
// (kTokenRows), a lane holds its own.
#ifndef HONE_DEVICE_EPILOGUE_OUTPUT_SCALES_CUH_
#define HONE_DEVICE_EPILOGUE_OUTPUT_SCALES_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/warp.cuh"

namespace hone {

// Scales of A that the epilogue applies; those of groups are the mainloop's.
enum class AScale : u8 { kNone, kTensor, kToken };

// Warp is WarpTile, WarpgroupTile or TokenWarpgroupTile.
template <typename Config, typename Warp>
class OutputScales {
 public:
  // Scales of whole rows of B; groups have theirs in the mainloop.
  // But of a window the channel's least, which the others are relative to.
  static constexpr bool kChannel =
      Config::kWindow || (Config::kGroup == 0 && Config::kEntryScaleBytes > 0);
  static constexpr bool kToken = Config::kAScale == AScale::kToken;
  // The power of two that the mainloop leaves (numeric/).
  static constexpr int kExponent =
      Config::Weight::template kExponent<typename Config::AType,
                                         Config::kExactWeights>;
  static constexpr bool kTensor = kExponent != 0 || Config::kTensorScale ||
                                  Config::kAScale == AScale::kTensor;

  // Of the warp's part of a tile whose first token and channel are given.
  __device__ __forceinline__ OutputScales(const Warp& warp, int m0, int n0,
                                          int m, const u8* scales,
                                          const u8* a_scales, const u8* bias) {
    const int lane = warp.lane();
    if constexpr (kToken) {
#pragma unroll
      for (int i = 0; i < kTokenWords; ++i) {
        int token;
        if constexpr (Config::kTokenRows) {
          token = m0 + warp.BlockToken(i / 2) + i % 2 * 8 + lane / 4;
        } else {
          token = m0 + warp.warp_m() * Config::kWarpM + i * 32 + lane;
        }
        tokens_[i] = token < m ? ptx::LoadConstant4(a_scales + token * 4ll) : 0;
        ptx::Pin(tokens_[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kChannelWords; ++i) {
      const int n = n0 + warp.BlockChannel(i * 2 + lane / 16) + lane % 16;
      if constexpr (kChannel) {
        // Past N the packed padding ends too.
        channels_[i] = n < kPackedN ? LoadChannel(scales, n) : 0;
        ptx::Pin(channels_[i]);
      }
      if constexpr (Config::kBias) {
        bias_[i] = n < Config::kN
                       ? ptx::LoadConstant2(bias + static_cast<u64>(n) * 2)
                       : u16{0};
        ptx::Pin(bias_[i]);
      }
    }
    if constexpr (Config::kTensorScale) {
      tensor_ = ptx::LoadConstant4(scales + Config::kTensorOffset);
      ptx::Pin(tensor_);
    }
    if constexpr (Config::kAScale == AScale::kTensor) {
      a_tensor_ = ptx::LoadConstant4(a_scales);
      ptx::Pin(a_tensor_);
    }
  }

  // Block i's and tile j's fragment `v` with scales and bias: two tokens of the
  // lane's lower channel and of its upper one, or two channels of its lower
  // token and of its upper one (kTokenRows). By all lanes. Each
  // operation rounds by itself: whether a compiler fuses the last two would
  // depend on the tile.
  __device__ __forceinline__ void Apply(int lane, int i, int j,
                                        const float (&v)[4], float (&low)[2],
                                        float (&high)[2]) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      low[e] = v[e];
      high[e] = v[2 + e];
    }
    if constexpr (kTensor) {
      const float factor = Tensor();
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        low[e] = ptx::Mul(low[e], factor);
        high[e] = ptx::Mul(high[e], factor);
      }
    }
    if constexpr (kChannel) {
      const auto channel = [&](int which) {
        return ChannelToFloat(OfChannel(channels_, lane, i, j, which));
      };
      const float first = channel(0);
      const float second = channel(1);
      low[0] = ptx::Mul(low[0], first);
      low[1] = ptx::Mul(low[1], Config::kTokenRows ? second : first);
      high[0] = ptx::Mul(high[0], Config::kTokenRows ? first : second);
      high[1] = ptx::Mul(high[1], second);
    }
    if constexpr (kToken) {
      const float first = OfToken(lane, i, j, 0);
      const float second = OfToken(lane, i, j, 1);
      low[0] = ptx::Mul(low[0], first);
      low[1] = ptx::Mul(low[1], Config::kTokenRows ? first : second);
      high[0] = ptx::Mul(high[0], Config::kTokenRows ? second : first);
      high[1] = ptx::Mul(high[1], second);
    }
    if constexpr (Config::kBias) {
      const auto bias = [&](int which) {
        return Type::ToFloat(
            static_cast<u16>(OfChannel(bias_, lane, i, j, which)));
      };
      const float first = bias(0);
      const float second = bias(1);
      low[0] += first;
      low[1] += Config::kTokenRows ? second : first;
      high[0] += Config::kTokenRows ? first : second;
      high[1] += second;
    }
  }

 private:
  using Type = typename Config::CType;
  using Scale = typename Config::Scale;
  static constexpr int kTokenWords =
      Config::kTokenRows ? Config::kWarpM / 8 : (Config::kWarpM + 31) / 32;
  static constexpr int kChannelWords = (Config::kWarpN + 31) / 32;
  static constexpr int kPackedN =
      static_cast<int>(layout::RoundUp(Config::kN, layout::kUnitRows));

  // words[index], which may vary in loops that are not unrolled.
  template <int kWords>
  static __device__ __forceinline__ u32 Select(const u32 (&words)[kWords],
                                               int index) {
    u32 word = words[0];
#pragma unroll
    for (int i = 1; i < kWords; ++i) word = index == i ? words[i] : word;
    return word;
  }

  // Of the first or second channel that the lane has in block i and tile j.
  static __device__ __forceinline__ u32 OfChannel(
      const u32 (&words)[kChannelWords], int lane, int i, int j, int which) {
    if constexpr (Config::kTokenRows) {
      return ptx::ShuffleIndex(Select(words, j / 4),
                               j % 4 * 8 + lane % 4 * 2 + which);
    } else {
      return ptx::ShuffleIndex(Select(words, i / 2),
                               i % 2 * 16 + which * 8 + lane / 4);
    }
  }
  // Of its tokens likewise.
  __device__ __forceinline__ float OfToken(int lane, int i, int j,
                                           int which) const {
    if constexpr (Config::kTokenRows) {
      return ptx::BitsToFloat(Select(tokens_, i * 2 + which));
    } else {
      return ptx::BitsToFloat(ptx::ShuffleIndex(
          Select(tokens_, j / 4), j % 4 * 8 + lane % 4 * 2 + which));
    }
  }

  static __device__ __forceinline__ u32 LoadChannel(const u8* scales, int n) {
    const u8* entry = scales + n / layout::kUnitRows * Config::kEntryBytes;
    if constexpr (Config::kWindow) {
      return ptx::LoadConstant1(scales + Config::kWindowOffset + n);
    } else if constexpr (Config::kBlockScale) {
      return ptx::LoadConstant4(entry);
    } else {
      const u8* scale = entry + layout::LaneOrder(n) * (Scale::kBits / 8);
      if constexpr (Scale::kBits == 32) return ptx::LoadConstant4(scale);
      if constexpr (Scale::kBits == 16) return ptx::LoadConstant2(scale);
      return ptx::LoadConstant1(scale);
    }
  }
  static __device__ __forceinline__ float ChannelToFloat(u32 code) {
    if constexpr (Config::kBlockScale) {
      return ptx::BitsToFloat(code);
    } else {
      return Scale::ToFloat(code);
    }
  }

  __device__ __forceinline__ float Tensor() const {
    float factor = ptx::BitsToFloat(static_cast<u32>(127 + kExponent) << 23);
    if constexpr (Config::kTensorScale) factor *= ptx::BitsToFloat(tensor_);
    if constexpr (Config::kAScale == AScale::kTensor) {
      factor *= ptx::BitsToFloat(a_tensor_);
    }
    return factor;
  }

  u32 tokens_[kToken ? kTokenWords : 1];
  u32 channels_[kChannelWords];
  u32 bias_[kChannelWords];
  u32 tensor_;
  u32 a_tensor_;
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_OUTPUT_SCALES_CUH_
