// How a tile loader moves a piece from global to shared memory: at once with
// cp.async, or in two halves through registers, for SM75 and wherever the
// config asks for it.
//
// A copy has Chunk() for 16 aligned bytes, Bytes() for 16 bytes of a row that
// is aligned to kAlignment only, and Word() for four. The slot numbers a
// thread's chunks and words; it is a constant once loops are unrolled. A piece
// that is not valid becomes zeros.
#ifndef HONE_DEVICE_MEMORY_TILE_COPY_CUH_
#define HONE_DEVICE_MEMORY_TILE_COPY_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/cp_async.cuh"

namespace hone {

// `fallback` stands in for the source when nothing is read, since even an empty
// copy must name a legal address.
struct AsyncCopy {
  static constexpr bool kInRegisters = false;

  template <bool kPredicated>
  __device__ __forceinline__ void Chunk(int, u32 target, const u8* source,
                                        const u8* fallback, bool valid) const {
    if constexpr (kPredicated) {
      ptx::CopyAsync<16>(target, valid ? source : fallback, valid);
    } else {
      ptx::CopyAsync16(target, source);
    }
  }
  __device__ __forceinline__ void Word(int, u32 target, const u8* source,
                                       const u8* fallback, bool valid) const {
    ptx::CopyAsync<4>(target, valid ? source : fallback, valid);
  }
};

// What a thread holds of a k-step between global and shared memory.
template <int kChunks, int kWords>
struct HeldPieces {
  Words4 chunks[kChunks];
  u32 words[kWords == 0 ? 1 : kWords];
};

// Global memory to registers.
template <typename Held>
struct FetchCopy {
  static constexpr bool kInRegisters = true;
  Held& held;

  template <bool kPredicated>
  __device__ __forceinline__ void Chunk(int slot, u32, const u8* source,
                                        const u8*, bool valid) const {
    if (kPredicated && !valid) {
      held.chunks[slot] = {};
    } else {
      held.chunks[slot] = ptx::LoadGlobal16(source);
    }
  }
  // The first `count` bytes.
  template <int kAlignment>
  __device__ __forceinline__ void Bytes(int slot, u32, const u8* source,
                                        int count) const {
    Words4 v = {};
    if constexpr (kAlignment == 16) {
      if (count > 0) v = ptx::LoadGlobal16(source);
    } else {
#pragma unroll
      for (int at = 0; at < 16; at += kAlignment) {
        if (at >= count) break;
        if constexpr (kAlignment == 8) {
          ptx::LoadGlobal8(source + at, v.w[at / 4], v.w[at / 4 + 1]);
        } else if constexpr (kAlignment == 4) {
          v.w[at / 4] = ptx::LoadGlobal4(source + at);
        } else if constexpr (kAlignment == 2) {
          v.w[at / 4] |= ptx::LoadGlobal2(source + at) << at % 4 * 8;
        } else {
          v.w[at / 4] |= ptx::LoadGlobal1(source + at) << at % 4 * 8;
        }
      }
    }
    held.chunks[slot] = v;
  }
  __device__ __forceinline__ void Word(int slot, u32, const u8* source,
                                       const u8*, bool valid) const {
    held.words[slot] = valid ? ptx::LoadGlobal4(source) : 0;
  }
};

// Registers to shared memory.
template <typename Held>
struct StoreCopy {
  static constexpr bool kInRegisters = true;
  const Held& held;

  template <bool kPredicated>
  __device__ __forceinline__ void Chunk(int slot, u32 target, const u8*,
                                        const u8*, bool) const {
    ptx::StoreShared16(target, held.chunks[slot]);
  }
  template <int kAlignment>
  __device__ __forceinline__ void Bytes(int slot, u32 target, const u8*,
                                        int) const {
    ptx::StoreShared16(target, held.chunks[slot]);
  }
  __device__ __forceinline__ void Word(int slot, u32 target, const u8*,
                                       const u8*, bool) const {
    ptx::StoreShared4(target, held.words[slot]);
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_MEMORY_TILE_COPY_CUH_
