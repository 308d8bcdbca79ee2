// The 64-bit descriptors by which wgmma finds a matrix in shared memory (PTX
// ISA, "Matrix descriptor format" and "Shared memory matrix layout").
//
// Everything is made of rows of 16 bytes. K-major: a row holds consecutive k of
// one m or n; 8 rows form a core matrix. MN-major: a row holds 8 consecutive m
// or n of one k. Without a swizzle core matrices are 128 contiguous bytes; with
// one, their rows are a swizzle span apart and the address bits from 4 up are
// exclusive-ored with those from 7 up.
#ifndef HONE_KERNELS_EMULATOR_MATRIX_DESCRIPTOR_H_
#define HONE_KERNELS_EMULATOR_MATRIX_DESCRIPTOR_H_

#include <cstdint>

namespace hone::emulator {

struct MatrixDescriptor {
  explicit MatrixDescriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4),
        base((bits >> 49) & 7) {
    // 0: none, 1: 128 bytes, 2: 64 bytes, 3: 32 bytes.
    constexpr uint32_t kSpans[] = {16, 128, 64, 32};
    span = kSpans[bits >> 62];
  }

  // The address of a row: of m or n `index` and the half `k` (0, 1) of the 32
  // bytes of K; or, MN-major, of the group of 8 m or n `index` and of `k`.
  uint32_t KMajor(uint32_t index, uint32_t k) const {
    const uint32_t chunk = span == 16 ? k * leading : k * 16;
    return Swizzle(start + index / 8 * stride + index % 8 * span + chunk);
  }
  uint32_t MnMajor(uint32_t index, uint32_t k) const {
    if (span == 16) {
      return start + index * stride + k % 8 * 16 + k / 8 * leading;
    }
    const uint32_t per_span = span / 16;
    return Swizzle(start + index / per_span * leading + index % per_span * 16 +
                   k / 8 * stride + k % 8 * span);
  }

  uint32_t start = 0;  // byte addresses and offsets
  uint32_t leading = 0;
  uint32_t stride = 0;
  uint32_t base = 0;  // the line, modulo 8, at which the pattern starts
  uint32_t span = 16;

 private:
  uint32_t Swizzle(uint32_t address) const {
    const uint32_t line = (address >> 7) - base;
    return address ^ (line << 4 & (span - 16));
  }
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_MATRIX_DESCRIPTOR_H_
