// Where each bit of packed weights and each scale and zero point lies. Shared
// by device code and, through kernels/pack, by the host: it has no includes.
//
// Weights B [N, K] are packed in units of 64 rows × 64 columns, N and K padded
// to multiples of 64. A unit holds four blocks of 16 rows; a block gives each
// lane of a warp 32 codes of b bits, in b 32-bit words: exactly the A fragments
// of four m16n8k16 MMAs (and a warp's share of a wgmma A fragment). With
// lane = 4·g + t, MMA step s covers columns 16·s .. 16·s+15, and its fragment
// registers are R = 4·s + r:
//
//   r = 0: row g,     columns 2t, 2t+1        (low half, high half)
//   r = 1: row g + 8, columns 2t, 2t+1
//   r = 2: row g,     columns 2t + 8, 2t + 9
//   r = 3: row g + 8, columns 2t + 8, 2t + 9
//
// Codes within the words. Each half of a word has f = 16/b fields of b bits
// and e = 16 − f·b spare bits on top. The first b·f registers take a field
// each, the low half's code in the low half of the word and the high half's at
// the same place in the high half: R's word is R / f and its bit (R % f)·b. The
// others, 0 to 4 of the 16, are spread over the spare bits: bit j of the i-th
// of them is spare bit i·b + j, which is bit f·b + (i·b + j) % e of word
// (i·b + j) / e.
//
//   b        1   2   3   4   5   6   7   8
//   f       16   8   5   4   3   2   2   2
//   spread   0   0   1   0   1   4   2   0   registers of 16
//
// so that a field costs at most one shift and one lop3, and no bit is wasted.
// That is CodeLayout::kPlain, for integers (symmetric ones are stored unsigned,
// offset by half their range) and for floats with five exponent bits, which are
// a prefix of float16. Other floats have their signs apart:
//
//   kSplitSign   floats with 1 to 4 or more than 5 exponent bits. The i-th
//                field has its b − 1 lower bits at i·(b − 1) and its sign at
//                bit 16 − f + i; spare bits lie between. In float16 the last
//                field of most types needs no shift, and the last sign never.
//   kCrossSign   floats without exponent (sign and magnitude). The field keeps
//                its b − 1 lower bits in place and the sign lies 15 bits above
//                bit 0 of the field, modulo 32; spare bits start at f·b − 1.
//                One rotation and one mask give both codes as float16
//                subnormals.
//
// Words within a block. The b words of a lane come in groups of four, then two,
// then one: 4-, 8- and 16-byte loads, each free of bank conflicts:
//
//   block  [b/4 × [32 lanes][4 words]] [[32][2] if b & 2] [[32][1] if b & 1]
//   matrix [N/64][K/64][4 blocks][b · 32 words]
//
// A tile of 64 rows by any multiple of 64 columns is one contiguous piece.
//
// Scales and zero points come in entries, [N/64][G] of them, G groups along K
// (1 for channel scales). An entry holds the 64 scales of a unit's rows (or for
// block scales the one float32, four times), then their 64 zero points, both in
// lane order: row r lies at 16·(r/16) + 2·(r%8) + (r/8)%2, so rows g and g + 8
// of a block are one pair. The tensor scale, a float32, follows the last entry.
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

// Fields of a half word, and the registers (of 16) that have one.
HONE_HOST_DEVICE constexpr int Fields(int bits) { return 16 / bits; }
HONE_HOST_DEVICE constexpr int FieldRegisters(int bits) {
  return bits * Fields(bits) < 16 ? bits * Fields(bits) : 16;
}

// A bit of a lane's words.
struct BitPlace {
  int word;
  int bit;
};

// Where the sign of a code lies; see above.
enum class CodeLayout : int { kPlain, kSplitSign, kCrossSign };

// The layout of a float with so many exponent bits.
HONE_HOST_DEVICE constexpr CodeLayout FloatLayout(int exponent_bits) {
  return exponent_bits == 0   ? CodeLayout::kCrossSign
         : exponent_bits == 5 ? CodeLayout::kPlain
                              : CodeLayout::kSplitSign;
}

// Bit j of the code in half `half` of register `reg`, 0 .. 15.
HONE_HOST_DEVICE constexpr BitPlace PlaceOf(int bits, CodeLayout layout,
                                            int reg, int half, int j) {
  const int fields = Fields(bits);
  if (reg < FieldRegisters(bits)) {
    const int i = reg % fields;
    const bool sign = j == bits - 1;
    int bit = i * bits + j;
    if (layout == CodeLayout::kSplitSign) {
      bit = sign ? 16 - fields + i : i * (bits - 1) + j;
    } else if (layout == CodeLayout::kCrossSign && sign) {
      bit = i * bits + 15;
    }
    return {reg / fields, (bit + 16 * half) % 32};
  }
  const int spare_bits = 16 % bits;
  const int spare = (reg - FieldRegisters(bits)) * bits + j;
  const int first = layout == CodeLayout::kSplitSign   ? fields * (bits - 1)
                    : layout == CodeLayout::kCrossSign ? fields * bits - 1
                                                       : fields * bits;
  return {spare / spare_bits, first + spare % spare_bits + 16 * half};
}

// Index of a lane's word within a block.
HONE_HOST_DEVICE constexpr int WordIndex(int bits, int lane, int word) {
  const int fours = bits / 4 * 4;
  const int twos = fours + bits % 4 / 2 * 2;
  const int width = word < fours ? 4 : word < twos ? 2 : 1;
  const int first = word < fours ? word / 4 * 4 : word < twos ? fours : twos;
  return first * 32 + lane * width + word - first;
}

// Bit j of the code of B[n][k], counted from the start of the packed matrix.
HONE_HOST_DEVICE constexpr long long CodeBitOffset(long long n, long long k,
                                                   long long k_total, int bits,
                                                   CodeLayout layout, int j) {
  const long long units_k = RoundUp(k_total, kUnitColumns) / kUnitColumns;
  const long long unit = n / kUnitRows * units_k + k / kUnitColumns;
  const int row = static_cast<int>(n % kUnitRows);
  const int column = static_cast<int>(k % kUnitColumns);
  const int block = row / 16;
  const int lane = row % 8 * 4 + column % 8 / 2;
  const int reg = column / 16 * 4 + column % 16 / 8 * 2 + row % 16 / 8;
  const BitPlace place = PlaceOf(bits, layout, reg, column % 2, j);
  const long long word = unit * (UnitBytes(bits) / 4) + block * bits * 32 +
                         WordIndex(bits, lane, place.word);
  return word * 32 + place.bit;
}

// Reads a code of packed words, bit by bit.
template <typename Word>
HONE_HOST_DEVICE constexpr unsigned ReadCode(const Word* words, long long n,
                                             long long k, long long k_total,
                                             int bits, CodeLayout layout) {
  unsigned code = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int j = 0; j < bits; ++j) {
    const long long bit = CodeBitOffset(n, k, k_total, bits, layout, j);
    code |= (static_cast<unsigned>(words[bit / 32]) >> (bit % 32) & 1u) << j;
  }
  return code;
}

// Groups along K: of the padded K, so that padding has scales too; 1 when one
// group spans all columns.
HONE_HOST_DEVICE constexpr long long ScaleGroups(long long k, long long group) {
  return group == 0 || group >= k
             ? 1
             : (RoundUp(k, kUnitColumns) + group - 1) / group;
}

// Place of row n's scale or zero point among the 64 of its entry.
HONE_HOST_DEVICE constexpr int LaneOrder(long long n) {
  const int row = static_cast<int>(n % kUnitRows);
  return row / 16 * 16 + row % 8 * 2 + row / 8 % 2;
}

// Bytes of the scales of an entry: `scale_bits` of each row's (0: the layer
// has none in entries), or a block's float32 four times over.
HONE_HOST_DEVICE constexpr int EntryScaleBytes(int scale_bits, bool block) {
  return block ? 16 : kUnitRows * scale_bits / 8;
}
HONE_HOST_DEVICE constexpr int EntryBytes(int scale_bits, bool block,
                                          int zero_bits) {
  return EntryScaleBytes(scale_bits, block) + kUnitRows * zero_bits / 8;
}

}  // namespace hone::layout

#endif  // HONE_DEVICE_MEMORY_PACKED_LAYOUT_CUH_
