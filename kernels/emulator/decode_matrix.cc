// mma.sync.
//
// Fragments, with group g = lane / 4 and t = lane % 4: register r of C and D
// holds row g + 8 * (r / 2), columns 2t and 2t + 1. Register r of A holds row
// g + 8 * (r % 2) and, of the 32-bit columns, number t + 4 * (r / 2); register
// r of B holds column g and the 32-bit row t + 4 * r. A 32-bit column is two
// f16 or bf16, or four 8-bit integers, consecutive in k.
#include <cstring>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

constexpr int kM = 16, kN = 8;

// The operands of one instruction. r: d, a, b, c, register counts from kWords,
// the number of 32-bit words in k.
template <int kWords>
struct Fragments {
  static constexpr int kA = kWords / 2;
  static constexpr int kB = kWords / 4;
};

template <typename Format, int kWords, bool kHalfAccumulator>
void MmaFloat(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "mma.sync") ||
      !RequireAllLanes(cta, warp, mask, "mma.sync")) {
    return;
  }
  ++cta.stats().mma;
  constexpr int kK = 2 * kWords;
  constexpr int kA = Fragments<kWords>::kA, kB = Fragments<kWords>::kB;
  constexpr int kCD = kHalfAccumulator ? 2 : 4;
  double a[kM][kK], b[kK][kN], sum[kM][kN];
  for (int r = 0; r < kA; ++r) {
    const uint32_t* x = warp.Reg<uint32_t>(inst.r[kCD + r]);
    for (int lane = 0; lane < 32; ++lane) {
      double* to = &a[lane / 4 + 8 * (r % 2)][2 * (lane % 4 + 4 * (r / 2))];
      to[0] = Decode16<Format>(static_cast<uint16_t>(x[lane]));
      to[1] = Decode16<Format>(static_cast<uint16_t>(x[lane] >> 16));
    }
  }
  for (int r = 0; r < kB; ++r) {
    const uint32_t* x = warp.Reg<uint32_t>(inst.r[kCD + kA + r]);
    for (int lane = 0; lane < 32; ++lane) {
      const int k = 2 * (lane % 4 + 4 * r);
      b[k][lane / 4] = Decode16<Format>(static_cast<uint16_t>(x[lane]));
      b[k + 1][lane / 4] =
          Decode16<Format>(static_cast<uint16_t>(x[lane] >> 16));
    }
  }
  std::memset(sum, 0, sizeof(sum));
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kK; ++k) {
      for (int j = 0; j < kN; ++j) sum[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int r = 0; r < kCD; ++r) {
    const uint32_t at_c = inst.r[kCD + kA + kB + r];
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

template <bool kSignedA, bool kSignedB, int kWords>
void MmaInteger(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "mma.sync") ||
      !RequireAllLanes(cta, warp, mask, "mma.sync")) {
    return;
  }
  ++cta.stats().mma;
  constexpr int kK = 4 * kWords;
  constexpr int kA = Fragments<kWords>::kA, kB = Fragments<kWords>::kB;
  const auto value = [](uint32_t word, int byte, bool is_signed) -> int32_t {
    const uint8_t x = static_cast<uint8_t>(word >> 8 * byte);
    return is_signed ? static_cast<int8_t>(x) : static_cast<int32_t>(x);
  };
  int32_t a[kM][kK], b[kK][kN];
  int64_t sum[kM][kN] = {};
  for (int r = 0; r < kA; ++r) {
    const uint32_t* x = warp.Reg<uint32_t>(inst.r[4 + r]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int e = 0; e < 4; ++e) {
        a[lane / 4 + 8 * (r % 2)][4 * (lane % 4 + 4 * (r / 2)) + e] =
            value(x[lane], e, kSignedA);
      }
    }
  }
  for (int r = 0; r < kB; ++r) {
    const uint32_t* x = warp.Reg<uint32_t>(inst.r[4 + kA + r]);
    for (int lane = 0; lane < 32; ++lane) {
      for (int e = 0; e < 4; ++e) {
        b[4 * (lane % 4 + 4 * r) + e][lane / 4] = value(x[lane], e, kSignedB);
      }
    }
  }
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kK; ++k) {
      for (int j = 0; j < kN; ++j) sum[i][j] += a[i][k] * b[k][j];
    }
  }
  for (int r = 0; r < 4; ++r) {
    const int32_t* c = warp.Reg<int32_t>(inst.r[4 + kA + kB + r]);
    int32_t* d = warp.Reg<int32_t>(inst.r[r]);
    for (int lane = 0; lane < 32; ++lane) {
      int64_t s = sum[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2] + c[lane];
      if (inst.Has(Instruction::kSaturate)) {
        s = std::clamp<int64_t>(s, INT32_MIN, INT32_MAX);
      }
      d[lane] = static_cast<int32_t>(s);
    }
  }
}

template <int kWords>
Handler Integer(Type a, Type b) {
  const bool sa = a == Type::kS8, sb = b == Type::kS8;
  if (!sa && a != Type::kU8) return nullptr;
  if (!sb && b != Type::kU8) return nullptr;
  if (sa) {
    return sb ? MmaInteger<true, true, kWords>
              : MmaInteger<true, false, kWords>;
  }
  return sb ? MmaInteger<false, true, kWords>
            : MmaInteger<false, false, kWords>;
}

template <int kWords>
Handler Float(Type d, Type a, Type b, Type c) {
  if (a != b || c != d) return nullptr;
  if (a == Type::kF16 && d == Type::kF32) return MmaFloat<Half, kWords, false>;
  if (a == Type::kF16 && d == Type::kF16) return MmaFloat<Half, kWords, true>;
  if (a == Type::kBF16 && d == Type::kF32) {
    return MmaFloat<BFloat, kWords, false>;
  }
  return nullptr;
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

}  // namespace

bool DecodeMatrix(InstructionDecoder& d) {
  if (d.name() != "mma") return false;
  if (!d.Take("sync") || !d.Take("aligned")) d.Fail("mma without .sync");
  const absl::string_view shape = d.TakeQualifier();
  if (!d.Take("row") || !d.Take("col")) d.Fail("the layout");
  if (d.Take("satfinite")) d.inst().flags |= Instruction::kSaturate;
  const Type td = d.TakeType(), ta = d.TakeType(), tb = d.TakeType(),
             tc = d.TakeType();
  d.ExpectDone();
  const bool integer = td == Type::kS32 && tc == Type::kS32;
  Handler handler = nullptr;
  int words = 4;
  if (shape == "m16n8k8" && !integer) {
    handler = Float<4>(td, ta, tb, tc);
  } else if (shape == "m16n8k16" && !integer) {
    words = 8;
    handler = Float<8>(td, ta, tb, tc);
  } else if (shape == "m16n8k16") {
    handler = Integer<4>(ta, tb);
  } else if (shape == "m16n8k32" && integer) {
    words = 8;
    handler = Integer<8>(ta, tb);
  }
  const size_t accumulators = td == Type::kF16 ? 2 : 4;
  Registers(d, d.operand(0), accumulators, /*destination=*/true);
  Registers(d, d.operand(1), words / 2, /*destination=*/false);
  Registers(d, d.operand(2), words / 4, /*destination=*/false);
  Registers(d, d.operand(3), accumulators, /*destination=*/false);
  d.Run(handler);
  return true;
}

}  // namespace hone::emulator
