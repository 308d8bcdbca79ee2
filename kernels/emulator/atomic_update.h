// The arithmetic of atom, red and the reducing bulk copies: the new bits of an
// element from its old ones and the operands.
#ifndef HONE_KERNELS_EMULATOR_ATOMIC_UPDATE_H_
#define HONE_KERNELS_EMULATOR_ATOMIC_UPDATE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/emulator/float_format.h"

namespace hone::emulator {

enum class AtomicOp : uint8_t {
  kAdd,
  kMin,
  kMax,
  kExch,
  kCas,
  kInc,
  kDec,
  kAnd,
  kOr,
  kXor,
};

template <typename T>
T AtomicInteger(AtomicOp op, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case AtomicOp::kAdd:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    case AtomicOp::kMin:
      return std::min(old, b);
    case AtomicOp::kMax:
      return std::max(old, b);
    case AtomicOp::kExch:
      return b;
    case AtomicOp::kCas:
      return old == b ? c : old;
    case AtomicOp::kInc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case AtomicOp::kDec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case AtomicOp::kAnd:
      return static_cast<T>(old & b);
    case AtomicOp::kOr:
      return static_cast<T>(old | b);
    case AtomicOp::kXor:
      return static_cast<T>(old ^ b);
  }
  return old;
}

template <typename Format>
struct One16 {};
template <typename Format>
struct Pair16 {};

// The bits in memory after the operation.
template <typename T>
struct AtomicUpdate {
  static uint64_t Apply(AtomicOp op, uint64_t old, uint64_t b, uint64_t c) {
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(AtomicInteger<T>(
        op, static_cast<T>(old), static_cast<T>(b), static_cast<T>(c)));
  }
};
template <>
struct AtomicUpdate<float> {
  static uint64_t Apply(AtomicOp, uint64_t old, uint64_t b, uint64_t) {
    return std::bit_cast<uint32_t>(
        std::bit_cast<float>(static_cast<uint32_t>(old)) +
        std::bit_cast<float>(static_cast<uint32_t>(b)));
  }
};
template <>
struct AtomicUpdate<double> {
  static uint64_t Apply(AtomicOp, uint64_t old, uint64_t b, uint64_t) {
    return std::bit_cast<uint64_t>(std::bit_cast<double>(old) +
                                   std::bit_cast<double>(b));
  }
};
template <typename Format>
struct AtomicUpdate<One16<Format>> {
  static uint64_t Apply(AtomicOp, uint64_t old, uint64_t b, uint64_t) {
    return Encode16<Format>(
        AddToOdd(Decode16<Format>(static_cast<uint16_t>(old)),
                 Decode16<Format>(static_cast<uint16_t>(b))));
  }
};
template <typename Format>
struct AtomicUpdate<Pair16<Format>> {
  static uint64_t Apply(AtomicOp op, uint64_t old, uint64_t b, uint64_t c) {
    return AtomicUpdate<One16<Format>>::Apply(op, old, b, c) |
           AtomicUpdate<One16<Format>>::Apply(op, old >> 16, b >> 16, c) << 16;
  }
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_ATOMIC_UPDATE_H_
