// Where each bit of packed weights and each scale and zero point lies. Shared
// by device code and, through kernels/pack, by the host: it has no includes.
//
// Weights B [N, K] are packed in units of 64 rows × 64 columns, N and K padded
// to multiples of 64. A unit holds four blocks of 16 rows; a block gives each
// lane of a warp 32 codes of b bits, in b 32-bit words: exactly the A fragments
// of the MMAs of 64 columns (and a warp's share of a wgmma A fragment).
//
// Let w be the bits of an MMA operand's element, those of the activations (16,
// 8 or 4): a register holds p = 32/w elements, called its parts, and an MMA
// step covers 8·p columns (m16n8k16, k32, k64), so a unit has w/4 steps and w
// registers. With lane = 4·g + t, step s has the registers R = 4·s + r; part i
// of them is
//
//   r = 0: row g,     column 8ps + pt + i
//   r = 1: row g + 8, column 8ps + pt + i
//   r = 2: row g,     column 8ps + pt + i + 4p
//   r = 3: row g + 8, column 8ps + pt + i + 4p
//
// Codes within the words. Each part of a word has f = w/b fields of b bits and
// e = w − f·b spare bits on top. The first b·f registers take a field each, the
// code of each part in the same part of the word at the same place: R's word is
// R / f and its bit (R % f)·b. The others, 0 to 4 of the w, are spread over the
// spare bits: bit j of the i-th of them is spare bit i·b + j, which is bit
// f·b + (i·b + j) % e of word (i·b + j) / e.
//
//   b                  1   2   3   4   5   6   7   8
//   f       w = 16    16   8   5   4   3   2   2   2
//           w = 8      8   4   2   2   1   1   1
//           w = 4      4   2   1
//   spread  w = 16     0   0   1   0   1   4   2   0   registers
//           w = 8      0   0   2   0   3   2   1
//           w = 4      0   0   1
//
// so that a field costs at most one shift and one lop3, and no bit is wasted.
// That is CodeLayout::kPlain, for integers and for floats with the exponent
// bits of a w-bit activation (five for float16, four and five for float8e4m3
// and e5m2, two for float4e2m1), which are a prefix of it. Other floats have
// their signs apart:
//
//   kSplitSign   The i-th field has its b − 1 lower bits at i·(b − 1) and its
//                sign at bit w − f + i; spare bits lie between. The last field
//                of most types needs no shift, and the last sign never.
//   kCrossSign   floats without exponent (sign and magnitude). The field keeps
//                its b − 1 lower bits in place and the sign lies w − 1 bits
//                above bit 0 of the field, modulo 32; spare bits start at
//                f·b − 1. One rotation and one mask give all parts their
//                magnitude in the low bits and their sign in the top one: a
//                float16 or float8 subnormal.
//
//   kTable       float4e2m1 beside 8-bit floats, for lookups (numeric/
//                windowed.cuh): a word has the codes of two registers, part i
//                of register R with its lower three bits at 16·(R % 2) + 4·i.
//                Signs are the top bits of bytes in one shift: bit 8·i + 7, or
//                8·i + 3 for odd R.
//
// Symmetric integers are stored offset by half their range where w is 16, as
// two's complement where it is less.
//
// Codes as wide as the activations (b = w) need no dequantization. They stay in
// rows: [N padded to 64][K padded to 64], K-major (kRows).
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
// of a block are one pair. The tensor scale, a float32, follows the last entry;
// or, where the scales of a channel keep within a window of octaves, the code
// of each channel's least scale, [N padded to 64] bytes.
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

// An operand's element has `width` bits: 16, 8 or 4.

// Parts of a register, columns of an MMA step and steps (of four registers) of
// a unit.
HONE_HOST_DEVICE constexpr int Parts(int width) { return 32 / width; }
HONE_HOST_DEVICE constexpr int StepColumns(int width) {
  return 8 * Parts(width);
}
HONE_HOST_DEVICE constexpr int UnitSteps(int width) {
  return kUnitColumns / StepColumns(width);
}

// Fields of a part, and the registers (of `width`) that have one.
HONE_HOST_DEVICE constexpr int Fields(int width, int bits) {
  return width / bits;
}
HONE_HOST_DEVICE constexpr int FieldRegisters(int width, int bits) {
  const int registers = bits * Fields(width, bits);
  return registers < width ? registers : width;
}

// A bit of a lane's words.
struct BitPlace {
  int word;
  int bit;
};

// Where the codes lie, and their signs; see above.
enum class CodeLayout : int { kPlain, kSplitSign, kCrossSign, kRows, kTable };

// The layout of a float with so many exponent bits, narrower than `width`.
HONE_HOST_DEVICE constexpr CodeLayout FloatLayout(int width,
                                                  int exponent_bits) {
  const bool prefix = width == 16  ? exponent_bits == 5
                      : width == 8 ? exponent_bits == 4 || exponent_bits == 5
                                   : exponent_bits == 2;
  return exponent_bits == 0 ? CodeLayout::kCrossSign
         : prefix           ? CodeLayout::kPlain
                            : CodeLayout::kSplitSign;
}

// Bit j of the code in part `part` of register `reg`, 0 .. width − 1. Not for
// kRows.
HONE_HOST_DEVICE constexpr BitPlace PlaceOf(int width, int bits,
                                            CodeLayout layout, int reg,
                                            int part, int j) {
  const int fields = Fields(width, bits);
  if (layout == CodeLayout::kTable) {
    const bool odd = reg % 2 != 0;
    return {reg / 2,
            j < 3 ? (odd ? 16 : 0) + 4 * part + j : 8 * part + (odd ? 3 : 7)};
  }
  if (reg < FieldRegisters(width, bits)) {
    const int i = reg % fields;
    const bool sign = j == bits - 1;
    int bit = i * bits + j;
    if (layout == CodeLayout::kSplitSign) {
      bit = sign ? width - fields + i : i * (bits - 1) + j;
    } else if (layout == CodeLayout::kCrossSign && sign) {
      bit = i * bits + width - 1;
    }
    return {reg / fields, (bit + width * part) % 32};
  }
  const int spare_bits = width % bits;
  const int spare = (reg - FieldRegisters(width, bits)) * bits + j;
  const int first = layout == CodeLayout::kSplitSign   ? fields * (bits - 1)
                    : layout == CodeLayout::kCrossSign ? fields * bits - 1
                                                       : fields * bits;
  return {spare / spare_bits, first + spare % spare_bits + width * part};
}

// Index of a lane's word within a block.
HONE_HOST_DEVICE constexpr int WordIndex(int bits, int lane, int word) {
  const int fours = bits / 4 * 4;
  const int twos = fours + bits % 4 / 2 * 2;
  const int width = word < fours ? 4 : word < twos ? 2 : 1;
  const int first = word < fours ? word / 4 * 4 : word < twos ? fours : twos;
  return first * 32 + lane * width + word - first;
}

// Which lane, register and part hold column k of row n, both within a block.
struct FragmentPlace {
  int lane;
  int reg;
  int part;
};
HONE_HOST_DEVICE constexpr FragmentPlace FragmentOf(int width, int row,
                                                    int column) {
  const int parts = Parts(width);
  return {row % 8 * 4 + column % (4 * parts) / parts,
          column / StepColumns(width) * 4 +
              column % StepColumns(width) / (4 * parts) * 2 + row / 8,
          column % parts};
}

// Bit j of the code of B[n][k], counted from the start of the packed matrix.
HONE_HOST_DEVICE constexpr long long CodeBitOffset(long long n, long long k,
                                                   long long k_total, int width,
                                                   int bits, CodeLayout layout,
                                                   int j) {
  if (layout == CodeLayout::kRows) {
    return (n * RoundUp(k_total, kUnitColumns) + k) * bits + j;
  }
  const long long units_k = RoundUp(k_total, kUnitColumns) / kUnitColumns;
  const long long unit = n / kUnitRows * units_k + k / kUnitColumns;
  const int row = static_cast<int>(n % kUnitRows);
  const FragmentPlace at =
      FragmentOf(width, row % 16, static_cast<int>(k % kUnitColumns));
  const BitPlace place = PlaceOf(width, bits, layout, at.reg, at.part, j);
  const long long word = unit * (UnitBytes(bits) / 4) + row / 16 * bits * 32 +
                         WordIndex(bits, at.lane, place.word);
  return word * 32 + place.bit;
}

// Reads a code of packed words, bit by bit.
template <typename Word>
HONE_HOST_DEVICE constexpr unsigned ReadCode(const Word* words, long long n,
                                             long long k, long long k_total,
                                             int width, int bits,
                                             CodeLayout layout) {
  unsigned code = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int j = 0; j < bits; ++j) {
    const long long bit = CodeBitOffset(n, k, k_total, width, bits, layout, j);
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
