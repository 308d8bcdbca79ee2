#include "kernels/emulator/bulk_reduction.h"

#include <cstring>
#include <type_traits>

namespace hone::emulator {
namespace {

template <typename T, AtomicOp kOp>
void Reduce(std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T old, value;
    std::memcpy(&old, to + i, sizeof(T));
    std::memcpy(&value, from + i, sizeof(T));
    if constexpr (std::is_floating_point_v<T>) {
      // Unlike red.add.f32, with subnormals (PTX ISA 9.4; an H200 agrees).
      old += value;
    } else {
      old = AtomicInteger<T>(kOp, old, value, T{0});
    }
    std::memcpy(to + i, &old, sizeof(T));
  }
}

template <typename Format, AtomicOp kOp>
void Reduce16(std::byte* to, const std::byte* from, uint32_t bytes) {
  for (uint32_t i = 0; i + 2 <= bytes; i += 2) {
    uint16_t old, value;
    std::memcpy(&old, to + i, 2);
    std::memcpy(&value, from + i, 2);
    const float a = Decode16<Format>(old), b = Decode16<Format>(value);
    if (kOp == AtomicOp::kAdd) {
      old = Encode16<Format>(AddToOdd(a, b));
    } else if (std::isnan(a) && std::isnan(b)) {
      old = kNan16;
    } else if (std::isnan(a) || (kOp == AtomicOp::kMin ? b < a : b > a) ||
               // -0 is less than +0.
               (a == b && (kOp == AtomicOp::kMin) == std::signbit(b))) {
      old = value;
    }
    std::memcpy(to + i, &old, 2);
  }
}

template <typename T>
Reduction Bitwise(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAnd:
      return Reduce<T, AtomicOp::kAnd>;
    case AtomicOp::kOr:
      return Reduce<T, AtomicOp::kOr>;
    case AtomicOp::kXor:
      return Reduce<T, AtomicOp::kXor>;
    default:
      return nullptr;
  }
}

template <typename T>
Reduction Arithmetic(AtomicOp op, bool add, bool order) {
  if (op == AtomicOp::kAdd && add) return Reduce<T, AtomicOp::kAdd>;
  if (op == AtomicOp::kMin && order) return Reduce<T, AtomicOp::kMin>;
  if (op == AtomicOp::kMax && order) return Reduce<T, AtomicOp::kMax>;
  return nullptr;
}

template <typename Format>
Reduction Arithmetic16(AtomicOp op) {
  switch (op) {
    case AtomicOp::kAdd:
      return Reduce16<Format, AtomicOp::kAdd>;
    case AtomicOp::kMin:
      return Reduce16<Format, AtomicOp::kMin>;
    case AtomicOp::kMax:
      return Reduce16<Format, AtomicOp::kMax>;
    default:
      return nullptr;
  }
}

}  // namespace

Reduction FindReduction(AtomicOp op, Type type, bool to_shared) {
  switch (type) {
    case Type::kB32:
      return Bitwise<uint32_t>(op);
    case Type::kB64:
      return to_shared ? nullptr : Bitwise<uint64_t>(op);
    case Type::kU32:
      if (op == AtomicOp::kInc) return Reduce<uint32_t, AtomicOp::kInc>;
      if (op == AtomicOp::kDec) return Reduce<uint32_t, AtomicOp::kDec>;
      return Arithmetic<uint32_t>(op, true, true);
    case Type::kS32:
      return Arithmetic<int32_t>(op, true, true);
    case Type::kU64:
      return Arithmetic<uint64_t>(op, true, !to_shared);
    case Type::kS64:
      return Arithmetic<int64_t>(op, false, !to_shared);
    default:
      break;
  }
  if (to_shared) return nullptr;
  switch (type) {
    case Type::kF32:
      return op == AtomicOp::kAdd ? Reduce<float, AtomicOp::kAdd>
                                  : Reduction{nullptr};
    case Type::kF64:
      return op == AtomicOp::kAdd ? Reduce<double, AtomicOp::kAdd>
                                  : Reduction{nullptr};
    case Type::kF16:
      return Arithmetic16<Half>(op);
    case Type::kBF16:
      return Arithmetic16<BFloat>(op);
    default:
      return nullptr;
  }
}

bool TakeReductionOp(InstructionDecoder& d, AtomicOp* op) {
  static constexpr struct {
    const char* name;
    AtomicOp op;
  } kOps[] = {{"add", AtomicOp::kAdd}, {"min", AtomicOp::kMin},
              {"max", AtomicOp::kMax}, {"inc", AtomicOp::kInc},
              {"dec", AtomicOp::kDec}, {"and", AtomicOp::kAnd},
              {"or", AtomicOp::kOr},   {"xor", AtomicOp::kXor}};
  for (const auto& known : kOps) {
    if (d.Take(known.name)) {
      *op = known.op;
      return true;
    }
  }
  return false;
}

}  // namespace hone::emulator
