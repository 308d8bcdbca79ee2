// ldmatrix, stmatrix and mma.sync.
//
// Fragments, with lane = 4·g + t, as the PTX ISA gives them for m16n8k16 and
// m16n8k8 with 16-bit operands:
//   A (row): register 2h + v holds row g + 8·v, columns 2t, 2t + 1 of half h
//   B (col): register h holds rows 2t, 2t + 1 of half h, column g
//   C, D:    elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
// where half h is columns 8h .. 8h + 7 of K. For m16n8k32 with 8-bit operands a
// register holds four neighbours along K, 4t .. 4t + 3 of a half of 16.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// mode: bit 0: transposed. r[0]: address, r[1...]: count registers.
template <bool kLoad>
void Matrix(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, kLoad ? "ldmatrix" : "stmatrix")) {
    return;
  }
  if (mask != kAllLanes) {
    cta.Fault(warp, std::countr_zero(mask),
              "ldmatrix or stmatrix in a warp of fewer than 32 lanes");
    return;
  }
  const bool transposed = (inst.mode & 1) != 0;
  for (uint32_t matrix = 0; matrix < inst.count; ++matrix) {
    uint32_t* registers = warp.Reg<uint32_t>(inst.r[1 + matrix]);
    uint16_t rows[8][8];
    if constexpr (!kLoad) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        for (uint32_t e = 0; e < 2; ++e) {
          const auto value = static_cast<uint16_t>(registers[lane] >> 16 * e);
          (transposed ? rows[2 * t + e][g] : rows[g][2 * t + e]) = value;
        }
      }
    }
    for (uint32_t row = 0; row < 8; ++row) {
      const uint32_t lane = matrix * 8 + row;
      const uint64_t address =
          LaneAddress(warp, inst.r[0], inst.Has(Instruction::kWideAddress),
                      inst.immediate, lane);
      Location location;
      auto* bytes = reinterpret_cast<std::byte*>(rows[row]);
      if (!Resolve(cta, warp, lane, Space::kShared, address, 16,
                   kLoad ? "ldmatrix read" : "stmatrix write", &location)) {
        return;
      }
      if (kLoad ? !ReadBytes(cta, warp, lane, location, 16, false, bytes)
                : !WriteBytes(cta, warp, lane, location, 16, false, bytes)) {
        return;
      }
    }
    if constexpr (kLoad) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4;
        uint32_t out = 0;
        for (uint32_t e = 0; e < 2; ++e) {
          const uint16_t value =
              transposed ? rows[2 * t + e][g] : rows[g][2 * t + e];
          out |= uint32_t{value} << 16 * e;
        }
        registers[lane] = out;
      }
    }
  }
}

// r: d registers, a registers, b registers, c registers. count: K / 8 halves
// of a (1 or 2).
template <typename Format, bool kHalfAccumulator>
void Mma16(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "mma.sync")) return;
  if (mask != kAllLanes) {
    cta.Fault(warp, std::countr_zero(mask),
              "mma.sync in a warp of fewer than 32 lanes");
    return;
  }
  ++cta.stats().mma;
  const uint32_t halves = inst.count;
  const uint32_t k_total = 8 * halves;
  const uint32_t d_count = kHalfAccumulator ? 2 : 4;
  const uint32_t* ops = inst.r;
  float a[16][16], b[8][16];
  for (uint32_t half = 0; half < halves; ++half) {
    for (uint32_t v = 0; v < 2; ++v) {
      const uint32_t* reg = warp.Reg<uint32_t>(ops[d_count + 2 * half + v]);
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        for (uint32_t e = 0; e < 2; ++e) {
          a[lane / 4 + 8 * v][8 * half + lane % 4 * 2 + e] =
              Decode16<Format>(static_cast<uint16_t>(reg[lane] >> 16 * e));
        }
      }
    }
    const uint32_t* reg = warp.Reg<uint32_t>(ops[d_count + 2 * halves + half]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      for (uint32_t e = 0; e < 2; ++e) {
        b[lane / 4][8 * half + lane % 4 * 2 + e] =
            Decode16<Format>(static_cast<uint16_t>(reg[lane] >> 16 * e));
      }
    }
  }
  const uint32_t* c_ops = ops + d_count + 3 * halves;
  uint32_t results[4][kWarpSize] = {};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t row = lane / 4 + 8 * (e / 2);
      const uint32_t column = lane % 4 * 2 + e % 2;
      double sum;
      if constexpr (kHalfAccumulator) {
        sum = Decode16<Half>(static_cast<uint16_t>(
            warp.Reg<uint32_t>(c_ops[e / 2])[lane] >> 16 * (e % 2)));
      } else {
        sum = warp.Reg<float>(c_ops[e])[lane];
      }
      for (uint32_t k = 0; k < k_total; ++k) {
        sum += static_cast<double>(a[row][k]) * b[column][k];
      }
      if constexpr (kHalfAccumulator) {
        results[e / 2][lane] |= uint32_t{Encode16<Half>(sum)} << 16 * (e % 2);
      } else {
        results[e][lane] = std::bit_cast<uint32_t>(static_cast<float>(sum));
      }
    }
  }
  for (uint32_t i = 0; i < d_count; ++i) {
    std::memcpy(warp.Reg<uint32_t>(ops[i]), results[i], sizeof(results[i]));
  }
}

// m16n8k16 and m16n8k32 with 8-bit integers. mode: bit 0: a signed, bit 1: b
// signed, bit 2: saturate.
void MmaInt8(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "mma.sync")) return;
  if (mask != kAllLanes) {
    cta.Fault(warp, std::countr_zero(mask),
              "mma.sync in a warp of fewer than 32 lanes");
    return;
  }
  ++cta.stats().mma;
  const uint32_t halves = inst.count;
  const uint32_t* ops = inst.r;
  const auto element = [](uint32_t word, uint32_t e, bool is_signed) {
    const auto byte = static_cast<uint8_t>(word >> 8 * e);
    return is_signed ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte};
  };
  const bool a_signed = (inst.mode & 1) != 0;
  const bool b_signed = (inst.mode & 2) != 0;
  int64_t a[16][32], b[8][32];
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t half = 0; half < halves; ++half) {
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t k = 16 * half + lane % 4 * 4 + e;
        for (uint32_t v = 0; v < 2; ++v) {
          a[lane / 4 + 8 * v][k] = element(
              warp.Reg<uint32_t>(ops[4 + 2 * half + v])[lane], e, a_signed);
        }
        b[lane / 4][k] = element(
            warp.Reg<uint32_t>(ops[4 + 2 * halves + half])[lane], e, b_signed);
      }
    }
  }
  int32_t results[4][kWarpSize];
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t e = 0; e < 4; ++e) {
      int64_t sum = warp.Reg<int32_t>(ops[4 + 3 * halves + e])[lane];
      for (uint32_t k = 0; k < 16 * halves; ++k) {
        sum += a[lane / 4 + 8 * (e / 2)][k] * b[lane % 4 * 2 + e % 2][k];
      }
      if ((inst.mode & 4) != 0) {
        sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      }
      results[e][lane] = static_cast<int32_t>(sum);
    }
  }
  for (uint32_t i = 0; i < 4; ++i) {
    std::memcpy(warp.Reg<int32_t>(ops[i]), results[i], sizeof(results[i]));
  }
}

void Registers(InstructionDecoder& d, const Operand& operand, size_t count,
               bool destination) {
  const auto elements = d.Elements(operand);
  if (elements.size() != count) {
    d.Fail("the number of registers");
    return;
  }
  for (const Operand* element : elements) {
    if (destination) {
      d.Destination(*element, 4);
    } else {
      d.Source(*element, 4);
    }
  }
}

void DecodeMma(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  if (!d.Take("sync")) d.Fail("mma without .sync");
  d.Take("aligned");
  const absl::string_view shape = d.TakeQualifier();
  if (!d.Take("row") || !d.Take("col")) d.Fail("the layout");
  const bool saturate = d.Take("satfinite");
  const Type type_d = d.TakeType();
  const Type type_a = d.TakeType();
  const Type type_b = d.TakeType();
  const Type type_c = d.TakeType();
  d.ExpectDone();
  const bool half = type_a == Type::kF16 && type_b == Type::kF16;
  const bool bfloat = type_a == Type::kBF16 && type_b == Type::kBF16;
  const bool int8 = BytesOf(type_a) == 1 && BytesOf(type_b) == 1 &&
                    type_d == Type::kS32 && type_c == Type::kS32;
  Handler handler = nullptr;
  size_t halves = 0;
  if (half || bfloat) {
    halves = shape == "m16n8k16" ? 2 : shape == "m16n8k8" ? 1 : 0;
    if (type_d == Type::kF32 && type_c == Type::kF32) {
      handler = half ? Mma16<Half, false> : Mma16<BFloat, false>;
    } else if (half && type_d == Type::kF16 && type_c == Type::kF16) {
      handler = Mma16<Half, true>;
    }
  } else if (int8) {
    halves = shape == "m16n8k32" ? 2 : shape == "m16n8k16" ? 1 : 0;
    inst.mode =
        static_cast<uint8_t>((IsSigned(type_a) ? 1 : 0) |
                             (IsSigned(type_b) ? 2 : 0) | (saturate ? 4 : 0));
    handler = MmaInt8;
  }
  if (halves == 0 || handler == nullptr) {
    d.Fail("the shape or the types");
    return;
  }
  inst.count = static_cast<uint8_t>(halves);
  const size_t accumulators = type_d == Type::kF16 ? 2 : 4;
  Registers(d, d.operand(0), accumulators, true);
  Registers(d, d.operand(1), 2 * halves, false);
  Registers(d, d.operand(2), halves, false);
  Registers(d, d.operand(3), accumulators, false);
  d.Run(handler);
}

void DecodeLoadStoreMatrix(InstructionDecoder& d, bool load) {
  Instruction& inst = d.inst();
  if (!d.Take("sync")) d.Fail("the instruction without .sync");
  d.Take("aligned");
  if (!d.Take("m8n8")) d.Fail("the shape");
  inst.count = d.Take("x1") ? 1 : d.Take("x2") ? 2 : d.Take("x4") ? 4 : 0;
  if (d.Take("trans")) inst.mode = 1;
  if (inst.count == 0 || !(d.Take("shared") || d.Take("shared::cta")) ||
      d.TakeType() != Type::kB16) {
    d.Fail("the qualifiers");
    return;
  }
  d.ExpectDone();
  d.Address(d.operand(load ? 1 : 0));
  Registers(d, d.operand(load ? 0 : 1), inst.count, load);
  d.Run(load ? Matrix<true> : Matrix<false>);
}

}  // namespace

bool DecodeMatrix(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  if (name == "mma") {
    DecodeMma(d);
  } else if (name == "ldmatrix") {
    DecodeLoadStoreMatrix(d, /*load=*/true);
  } else if (name == "stmatrix") {
    DecodeLoadStoreMatrix(d, /*load=*/false);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
