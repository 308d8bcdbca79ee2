// Where each element of packed weights and scales lies. Shared by device code
// and, through kernels/pack, by the host: it has no includes.
//
// Weights B [N, K] are packed in units of 64 rows × 64 columns, N and K padded
// to multiples of 64. A unit holds four blocks of 16 rows; a block gives each
// lane of a warp 32 elements, exactly the A fragments of four m16n8k16 MMAs
// (and a warp's share of a wgmma A fragment). With lane = 4·g + t, MMA step s
// covers columns 16·s .. 16·s+15, and its fragment registers are
//
//   register 0: row g,     columns 2t, 2t+1        (low half, high half)
//   register 1: row g + 8, columns 2t, 2t+1
//   register 2: row g,     columns 2t + 8, 2t + 9
//   register 3: row g + 8, columns 2t + 8, 2t + 9
//
//   4 bits: [N/64][K/64][4 blocks][32 lanes][4 words], word s = step s; the
//           low half of register r is nibble r, its high half nibble r + 4.
//   8 bits: [N/64][K/64][4 blocks][2 groups][32 lanes][4 words], word w of
//           group h: step 2h + w/2; bytes 0..3 are register 2·(w%2) low, high,
//           then register 2·(w%2)+1 low, high.
//
// so that every load is 16 bytes a lane, free of bank conflicts, and a tile of
// 64 rows by any multiple of 64 columns is one contiguous piece. Integer codes
// are stored unsigned, offset by half their range.
//
// Scales [N, G] (G groups along K; 1 for channel scales) are packed as
// [N/64][G][64], the 64 rows in lane order: row r of a unit lies at
// 16·(r/16) + 2·(r%8) + (r/8)%2, so rows g and g + 8 of a block are one pair.
#ifndef HONE_DEVICE_MEMORY_PACKED_LAYOUT_CUH_
#define HONE_DEVICE_MEMORY_PACKED_LAYOUT_CUH_

#ifdef __CUDACC__
#define HONE_HOST_DEVICE __host__ __device__
#else
#define HONE_HOST_DEVICE
#endif

namespace hone::layout {

inline constexpr int kUnitRows = 64;
inline constexpr int kUnitColumns = 64;

HONE_HOST_DEVICE constexpr long long RoundUp(long long value, long long to) {
  return (value + to - 1) / to * to;
}

// Bytes of one unit and of a packed matrix.
HONE_HOST_DEVICE constexpr long long UnitBytes(int bits) {
  return kUnitRows * kUnitColumns * bits / 8;
}
HONE_HOST_DEVICE constexpr long long PackedBytes(long long n, long long k,
                                                 int bits) {
  return RoundUp(n, kUnitRows) / kUnitRows *
         (RoundUp(k, kUnitColumns) / kUnitColumns) * UnitBytes(bits);
}

// Bit offset of the code of B[n][k] in the packed matrix, for 4 and 8 bits.
HONE_HOST_DEVICE constexpr long long CodeBitOffset(long long n, long long k,
                                                   long long k_total,
                                                   int bits) {
  const long long units_k = RoundUp(k_total, kUnitColumns) / kUnitColumns;
  const long long unit = n / kUnitRows * units_k + k / kUnitColumns;
  const int row = static_cast<int>(n % kUnitRows);
  const int column = static_cast<int>(k % kUnitColumns);
  const int block = row / 16;
  const int step = column / 16;
  const int lane = row % 8 * 4 + column % 8 / 2;
  const int reg = row % 16 / 8 + column % 16 / 8 * 2;
  const int high = column % 2;
  const long long unit_bits = UnitBytes(bits) * 8 * unit;
  if (bits == 4) {
    const int word = (block * 32 + lane) * 4 + step;
    return unit_bits + word * 32 + (reg + 4 * high) * 4;
  }
  const int word =
      ((block * 2 + step / 2) * 32 + lane) * 4 + step % 2 * 2 + reg / 2;
  return unit_bits + word * 32 + (reg % 2 * 2 + high) * 8;
}

// Groups along K: of the padded K, so that padding has scales too.
HONE_HOST_DEVICE constexpr long long ScaleGroups(long long k, long long group) {
  return group == 0 ? 1 : (RoundUp(k, kUnitColumns) + group - 1) / group;
}

// Elements of a packed scale tensor, and the index of scale [n][g] in it.
HONE_HOST_DEVICE constexpr long long ScaleElements(long long n,
                                                   long long groups) {
  return RoundUp(n, kUnitRows) * groups;
}
HONE_HOST_DEVICE constexpr long long ScaleIndex(long long n, long long g,
                                                long long groups) {
  const long long row = n % kUnitRows;
  return (n / kUnitRows * groups + g) * kUnitRows + row / 16 * 16 +
         row % 8 * 2 + row / 8 % 2;
}

}  // namespace hone::layout

#endif  // HONE_DEVICE_MEMORY_PACKED_LAYOUT_CUH_
