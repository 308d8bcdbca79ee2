// mma.sync.
//
// Fragments are the same for every type if counted in 32-bit words. With group
// g = lane / 4 and t = lane % 4: register r of A holds row g + 8 * (r % 2) and,
// of the words along k, number t + 4 * (r / 2); register r of B holds column g
// and word t + 4 * r. A word is two 16-bit, four 8-bit or eight 4-bit elements,
// consecutive in k from the low bits up. Accumulator number i of a lane is at
// row g + 8 * (i / 2), column 2t + i % 2; f16 accumulators lie two to a
// register. Shapes m8n8 have the first row group only.
//
// kind::f8f6f4 keeps narrower elements in bytes: 6 bits in the low bits, e2m1
// in bits 2 to 5. Block scales: row r of A takes its scales from the lane of
// quad r % 8 with t = 2 * thread-id + r / 8, column n of B from the lane of
// quad n with t = thread-id; one byte per chunk of k, from byte-id up.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"
#include "kernels/emulator/narrow_float.h"

namespace hone::emulator {
namespace {

constexpr int kN = 8;

// One register of all lanes: out[lane * elements per word + element].
template <typename T>
using WordDecoder = void (*)(const uint32_t* words, T* out);

template <typename Format>
void Decode16Words(const uint32_t* words, double* out) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    out[2 * lane] = Decode16<Format>(static_cast<uint16_t>(words[lane]));
    out[2 * lane + 1] =
        Decode16<Format>(static_cast<uint16_t>(words[lane] >> 16));
  }
}
template <typename Format, int kShift>
void Decode8Words(const uint32_t* words, double* out) {
  for (uint32_t i = 0; i < 4 * kWarpSize; ++i) {
    out[i] = DecodeNarrow<Format>(
        static_cast<uint8_t>(words[i / 4] >> 8 * (i % 4)) >> kShift);
  }
}
void DecodeE2M1Words(const uint32_t* words, double* out) {
  for (uint32_t i = 0; i < 8 * kWarpSize; ++i) {
    out[i] = DecodeNarrow<E2M1>(words[i / 8] >> 4 * (i % 8) & 15);
  }
}
template <int kElementBits, bool kIsSigned>
void DecodeIntegerWords(const uint32_t* words, int32_t* out) {
  constexpr uint32_t kPerWord = 32 / kElementBits;
  for (uint32_t i = 0; i < kPerWord * kWarpSize; ++i) {
    // The element moves to the top and back, for its sign.
    const uint32_t top = words[i / kPerWord]
                         << (32 - kElementBits - kElementBits * (i % kPerWord));
    out[i] = kIsSigned ? static_cast<int32_t>(top) >> (32 - kElementBits)
                       : static_cast<int32_t>(top >> (32 - kElementBits));
  }
}

struct FloatElement {
  const char* name;
  WordDecoder<double> bytes;   // as 8-bit (f16, bf16: 16-bit) elements
  WordDecoder<double> packed;  // as 4-bit ones
};
enum FloatIndex : uint8_t { kIsF16, kIsBF16, kIsE4M3, kIsE5M2, kFirstF6F4 };
constexpr FloatElement kFloats[] = {
    {"f16", Decode16Words<Half>, nullptr},
    {"bf16", Decode16Words<BFloat>, nullptr},
    {"e4m3", Decode8Words<E4M3, 0>, nullptr},
    {"e5m2", Decode8Words<E5M2, 0>, nullptr},
    {"e3m2", Decode8Words<E3M2, 0>, nullptr},
    {"e2m3", Decode8Words<E2M3, 0>, nullptr},
    {"e2m1", Decode8Words<E2M1, 2>, DecodeE2M1Words},
};
struct IntegerElement {
  const char* name;
  int bits;
  WordDecoder<int32_t> decode;
};
constexpr IntegerElement kIntegers[] = {
    {"s8", 8, DecodeIntegerWords<8, true>},
    {"u8", 8, DecodeIntegerWords<8, false>},
    {"s4", 4, DecodeIntegerWords<4, true>},
    {"u4", 4, DecodeIntegerWords<4, false>},
};

// The counts that a shape fixes. kWords: 32-bit words along k.
template <int kRows, int kWords>
struct Shape {
  static constexpr int kA = kRows / 8 * (kWords / 4);
  static constexpr int kB = kWords / 4;
  static constexpr int kAccumulators = kRows / 4;
};

// A as [row][k] and B as [k][column].
template <typename T, int kRows, int kWords, int kPerWord>
struct Operands {
  static constexpr int kK = kWords * kPerWord;
  T a[kRows][kK];
  T b[kK][kN];

  // at: where A's registers begin in inst.r; B's follow.
  void Load(Warp& warp, const Instruction& inst, int at, WordDecoder<T> load_a,
            WordDecoder<T> load_b) {
    using S = Shape<kRows, kWords>;
    constexpr int kRowGroups = kRows / 8;
    T word[kWarpSize * kPerWord];
    for (int r = 0; r < S::kA; ++r) {
      load_a(warp.Reg<uint32_t>(inst.r[at + r]), word);
      for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4 + 8 * (r % kRowGroups);
        const int k = kPerWord * (lane % 4 + 4 * (r / kRowGroups));
        for (int e = 0; e < kPerWord; ++e) {
          a[row][k + e] = word[lane * kPerWord + e];
        }
      }
    }
    for (int r = 0; r < S::kB; ++r) {
      load_b(warp.Reg<uint32_t>(inst.r[at + S::kA + r]), word);
      for (int lane = 0; lane < 32; ++lane) {
        const int k = kPerWord * (lane % 4 + 4 * r);
        for (int e = 0; e < kPerWord; ++e) {
          b[k + e][lane / 4] = word[lane * kPerWord + e];
        }
      }
    }
  }

  void Multiply(T (&sum)[kRows][kN]) const {
    std::memset(sum, 0, sizeof(sum));
    for (int i = 0; i < kRows; ++i) {
      for (int k = 0; k < kK; ++k) {
        for (int j = 0; j < kN; ++j) sum[i][j] += a[i][k] * b[k][j];
      }
    }
  }
};

bool BeginMma(Cta& cta, Warp& warp, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "mma.sync") ||
      !RequireAllLanes(cta, warp, mask, "mma.sync")) {
    return false;
  }
  ++cta.stats().mma;
  return true;
}

// What a selector operand says, the same in every lane and less than `limit`;
// false after a fault.
bool Selector(Cta& cta, Warp& warp, uint32_t slot, uint32_t step,
              uint32_t limit, absl::string_view what, uint32_t* value) {
  const uint16_t* x = warp.Reg<uint16_t>(slot);
  *value = x[0];
  bool good = *value < limit && *value % step == 0;
  for (uint32_t lane = 1; lane < kWarpSize; ++lane) good &= x[lane] == x[0];
  if (!good) {
    cta.Fault(warp, 0, absl::StrCat("mma.sync with an illegal ", what));
  }
  return good;
}

float DecodeScale(const Instruction& inst, uint32_t word, uint32_t byte) {
  const uint8_t code = static_cast<uint8_t>(word >> 8 * byte);
  return inst.register_bytes == 0 ? DecodeE8M0(code)
                                  : DecodeNarrow<E4M3>(code & 0x7f);
}

// Multiplies the operands by their scales. inst.bytes: scales per row; at:
// where scale-a, byte-id-a, thread-id-a and the same for b begin in inst.r.
template <int kRows, int kWords, int kPerWord>
bool ApplyScales(Cta& cta, Warp& warp, const Instruction& inst, int at,
                 Operands<double, kRows, kWords, kPerWord>& x) {
  constexpr int kK = kWords * kPerWord;
  const uint32_t chunks = inst.bytes;
  uint32_t byte_a, thread_a, byte_b, thread_b;
  if (!Selector(cta, warp, inst.r[at + 1], chunks, 4, "byte-id-a", &byte_a) ||
      !Selector(cta, warp, inst.r[at + 2], 1, 2, "thread-id-a", &thread_a) ||
      !Selector(cta, warp, inst.r[at + 4], chunks, 4, "byte-id-b", &byte_b) ||
      !Selector(cta, warp, inst.r[at + 5], 1, 4, "thread-id-b", &thread_b)) {
    return false;
  }
  const uint32_t* scale_a = warp.Reg<uint32_t>(inst.r[at]);
  const uint32_t* scale_b = warp.Reg<uint32_t>(inst.r[at + 3]);
  const int chunk = kK / chunks;
  for (int i = 0; i < kRows; ++i) {
    const uint32_t word = scale_a[4 * (i % 8) + 2 * thread_a + i / 8];
    for (int k = 0; k < kK; ++k) {
      x.a[i][k] *= DecodeScale(inst, word, byte_a + k / chunk);
    }
  }
  for (int j = 0; j < kN; ++j) {
    const uint32_t word = scale_b[4 * j + thread_b];
    for (int k = 0; k < kK; ++k) {
      x.b[k][j] *= DecodeScale(inst, word, byte_b + k / chunk);
    }
  }
  return true;
}

// mode, count: the types of A and B, as indices of kFloats. bytes: block scales
// per row, or 0.
template <int kWords, int kPerWord, bool kHalfAccumulator>
void MmaFloat(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!BeginMma(cta, warp, mask)) return;
  constexpr int kRows = 16;
  using S = Shape<kRows, kWords>;
  constexpr int kCD = kHalfAccumulator ? 2 : 4;
  Operands<double, kRows, kWords, kPerWord> x;
  const FloatElement& a = kFloats[inst.mode];
  const FloatElement& b = kFloats[inst.count];
  x.Load(warp, inst, kCD, kPerWord == 8 ? a.packed : a.bytes,
         kPerWord == 8 ? b.packed : b.bytes);
  if (inst.bytes != 0 &&
      !ApplyScales(cta, warp, inst, 2 * kCD + S::kA + S::kB, x)) {
    return;
  }
  double sum[kRows][kN];
  x.Multiply(sum);
  for (int r = 0; r < kCD; ++r) {
    const uint32_t at_c = inst.r[kCD + S::kA + S::kB + r];
    if constexpr (kHalfAccumulator) {
      const uint32_t* c = warp.Reg<uint32_t>(at_c);
      uint32_t* d = warp.Reg<uint32_t>(inst.r[r]);
      for (int lane = 0; lane < 32; ++lane) {
        const double* s = &sum[lane / 4 + 8 * r][2 * (lane % 4)];
        const uint32_t low = Encode16<Half>(
            s[0] + Decode16<Half>(static_cast<uint16_t>(c[lane])));
        const uint32_t high = Encode16<Half>(
            s[1] + Decode16<Half>(static_cast<uint16_t>(c[lane] >> 16)));
        d[lane] = high << 16 | low;
      }
    } else {
      const float* c = warp.Reg<float>(at_c);
      float* d = warp.Reg<float>(inst.r[r]);
      for (int lane = 0; lane < 32; ++lane) {
        const double s = sum[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
        d[lane] = static_cast<float>(s + c[lane]);
      }
    }
  }
}

// mode, count: the types of A and B, as indices of kIntegers.
template <int kRows, int kWords, int kPerWord>
void MmaInteger(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!BeginMma(cta, warp, mask)) return;
  using S = Shape<kRows, kWords>;
  constexpr int kCD = S::kAccumulators;
  Operands<int32_t, kRows, kWords, kPerWord> x;
  x.Load(warp, inst, kCD, kIntegers[inst.mode].decode,
         kIntegers[inst.count].decode);
  // At most 32 products of less than 2^16, or 64 of less than 2^8.
  int32_t sum[kRows][kN];
  x.Multiply(sum);
  for (int r = 0; r < kCD; ++r) {
    const int32_t* c = warp.Reg<int32_t>(inst.r[kCD + S::kA + S::kB + r]);
    int32_t* d = warp.Reg<int32_t>(inst.r[r]);
    for (int lane = 0; lane < 32; ++lane) {
      int64_t s = sum[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
      s += c[lane];
      if (inst.Has(Instruction::kSaturate)) {
        s = std::clamp<int64_t>(s, INT32_MIN, INT32_MAX);
      }
      d[lane] = static_cast<int32_t>(s);
    }
  }
}

// What a shape's name stands for.
struct ShapeName {
  const char* name;
  int rows, k;
};
constexpr ShapeName kShapes[] = {
    {"m16n8k8", 16, 8},   {"m16n8k16", 16, 16}, {"m16n8k32", 16, 32},
    {"m16n8k64", 16, 64}, {"m8n8k16", 8, 16},   {"m8n8k32", 8, 32},
};

template <int kWords, int kPerWord>
Handler FloatHandler(bool half) {
  return half ? MmaFloat<kWords, kPerWord, true>
              : MmaFloat<kWords, kPerWord, false>;
}

Handler ChooseFloat(int words, int per_word, bool half) {
  switch (10 * words + per_word) {
    case 42:
      return FloatHandler<4, 2>(half);
    case 82:
      return FloatHandler<8, 2>(half);
    case 44:
      return FloatHandler<4, 4>(half);
    case 84:
      return FloatHandler<8, 4>(half);
    case 88:
      return half ? nullptr : MmaFloat<8, 8, false>;
    default:
      return nullptr;
  }
}

Handler ChooseInteger(int rows, int words, int per_word) {
  switch (100 * rows + 10 * words + per_word) {
    case 844:
      return MmaInteger<8, 4, 4>;
    case 848:
      return MmaInteger<8, 4, 8>;
    case 1644:
      return MmaInteger<16, 4, 4>;
    case 1684:
      return MmaInteger<16, 8, 4>;
    case 1648:
      return MmaInteger<16, 4, 8>;
    case 1688:
      return MmaInteger<16, 8, 8>;
    default:
      return nullptr;
  }
}

template <typename Table>
int IndexOf(const Table& table, absl::string_view name) {
  for (size_t i = 0; i < std::size(table); ++i) {
    if (name == table[i].name) return static_cast<int>(i);
  }
  return -1;
}

void Registers(InstructionDecoder& d, const Operand& operand, size_t count,
               bool destination) {
  const auto elements = d.Elements(operand);
  if (elements.size() != count) d.Fail("the number of registers");
  for (const Operand* element : elements) {
    if (destination) {
      d.Destination(*element, 4);
    } else {
      d.Source(*element, 4);
    }
  }
}

enum class Kind : uint8_t { kPlain, kF8F6F4, kMxF8F6F4, kMxF4, kMxF4NvF4 };

struct Qualifiers {
  Kind kind = Kind::kPlain;
  int shape = -1;
  int scales = 0;  // block scales per row
};

// The qualifiers between .aligned and the types. The kind may stand on either
// side of the shape.
Qualifiers TakeQualifiers(InstructionDecoder& d) {
  Qualifiers q;
  bool layout = false, block_scale = false;
  while (true) {
    const absl::string_view next = d.PeekQualifier();
    const int shape = IndexOf(kShapes, next);
    if (shape >= 0) {
      q.shape = shape;
    } else if (next == "kind::f8f6f4") {
      q.kind = Kind::kF8F6F4;
    } else if (next == "kind::mxf8f6f4") {
      q.kind = Kind::kMxF8F6F4;
      if (q.scales == 0) q.scales = 1;
    } else if (next == "kind::mxf4") {
      q.kind = Kind::kMxF4;
      if (q.scales == 0) q.scales = 2;
    } else if (next == "kind::mxf4nvf4") {
      q.kind = Kind::kMxF4NvF4;
    } else if (next == "block_scale") {
      block_scale = true;
    } else if (next == "scale_vec::1X") {
      q.scales = 1;
    } else if (next == "scale_vec::2X") {
      q.scales = 2;
    } else if (next == "scale_vec::4X") {
      q.scales = 4;
    } else if (next == "row") {
      d.TakeQualifier();
      layout = d.PeekQualifier() == "col";
    } else if (next == "satfinite") {
      d.inst().flags |= Instruction::kSaturate;
    } else {
      break;
    }
    d.TakeQualifier();
  }
  if (q.shape < 0) d.Fail("the shape");
  if (!layout) d.Fail("the layout");
  if (block_scale != (q.kind > Kind::kF8F6F4)) d.Fail("the block scales");
  return q;
}

// Whether PTX has A of type a and B of type b under this kind.
bool LegalTypes(Kind kind, int a, int b) {
  switch (kind) {
    case Kind::kPlain:
      return a < kIsE4M3 ? a == b
                         : a < kFirstF6F4 && b >= kIsE4M3 && b < kFirstF6F4;
    case Kind::kF8F6F4:
    case Kind::kMxF8F6F4:
      return a >= kIsE4M3 && b >= kIsE4M3;
    case Kind::kMxF4:
    case Kind::kMxF4NvF4:
      return kFloats[a].packed != nullptr && kFloats[b].packed != nullptr;
  }
  return false;
}

bool LegalScales(Kind kind, int scales, absl::string_view type) {
  switch (kind) {
    case Kind::kMxF8F6F4:
      return scales == 1 && type == "ue8m0";
    case Kind::kMxF4:
      return scales == 2 && type == "ue8m0";
    case Kind::kMxF4NvF4:
      return (type == "ue8m0" && (scales == 2 || scales == 4)) ||
             (type == "ue4m3" && scales == 4);
    default:
      return scales == 0 && type.empty();
  }
}

void DecodeMma(InstructionDecoder& d) {
  if (!d.Take("sync") || !d.Take("aligned")) d.Fail("mma without .sync");
  Instruction& inst = d.inst();
  const Qualifiers q = TakeQualifiers(d);
  const absl::string_view td = d.TakeQualifier(), ta = d.TakeQualifier(),
                          tb = d.TakeQualifier(), tc = d.TakeQualifier();
  const absl::string_view scale_type =
      q.scales != 0 ? d.TakeQualifier() : absl::string_view();
  d.ExpectDone();
  if (!d.status().ok()) return;
  const ShapeName& shape = kShapes[q.shape];
  const bool integer = td == "s32";
  const int a = integer ? IndexOf(kIntegers, ta) : IndexOf(kFloats, ta);
  const int b = integer ? IndexOf(kIntegers, tb) : IndexOf(kFloats, tb);
  if (a < 0 || b < 0 || td != tc) {
    d.Fail("the types");
    return;
  }
  int per_word = 0;
  Handler handler = nullptr;
  size_t accumulators = 4;
  if (integer) {
    per_word = 32 / kIntegers[a].bits;
    if (kIntegers[a].bits != kIntegers[b].bits) d.Fail("the types");
    accumulators = shape.rows / 4;
    handler = ChooseInteger(shape.rows, shape.k / per_word, per_word);
  } else {
    const bool half = td == "f16";
    per_word = a < kIsE4M3 ? 2 : q.kind >= Kind::kMxF4 ? 8 : 4;
    const bool legal = shape.rows == 16 && LegalTypes(q.kind, a, b) &&
                       (half ? a != kIsBF16 : td == "f32") &&
                       LegalScales(q.kind, q.scales, scale_type) &&
                       (q.scales == 0 || !half) &&
                       (q.kind == Kind::kPlain || shape.k == 8 * per_word) &&
                       !inst.Has(Instruction::kSaturate);
    if (!legal) d.Fail("this combination of types");
    accumulators = half ? 2 : 4;
    handler = ChooseFloat(shape.k / per_word, per_word, half);
  }
  const int words = shape.k / per_word;
  Registers(d, d.operand(0), accumulators, /*destination=*/true);
  Registers(d, d.operand(1), shape.rows / 8 * words / 4,
            /*destination=*/false);
  Registers(d, d.operand(2), words / 4, /*destination=*/false);
  Registers(d, d.operand(3), accumulators, /*destination=*/false);
  if (q.scales != 0) {
    for (size_t i : {4, 6}) {
      Registers(d, d.operand(i), 1, /*destination=*/false);
      const auto selectors = d.Elements(d.operand(i + 1));
      if (selectors.size() != 2) d.Fail("the number of selectors");
      for (const Operand* selector : selectors) d.Source(*selector, 2);
    }
  }
  inst.mode = static_cast<uint8_t>(a);
  inst.count = static_cast<uint8_t>(b);
  inst.bytes = static_cast<uint8_t>(q.scales);
  inst.register_bytes = scale_type == "ue4m3" ? 1 : 0;
  d.Run(handler);
}

}  // namespace

bool DecodeMatrix(InstructionDecoder& d) {
  if (d.name() != "mma") return false;
  DecodeMma(d);
  return true;
}

}  // namespace hone::emulator
