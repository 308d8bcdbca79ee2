// atom and red.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

enum AtomicOp : uint8_t {
  kAddOp,
  kMinOp,
  kMaxOp,
  kExchange,
  kCompareSwap,
  kInc,
  kDec,
  kAndOp,
  kOrOp,
  kXorOp,
};
constexpr absl::string_view kNames[] = {"add", "min", "max", "exch", "cas",
                                        "inc", "dec", "and", "or",   "xor"};

template <typename T>
T Apply(AtomicOp op, T old, T b, T c) {
  switch (op) {
    case kAddOp:
      return old + b;
    case kMinOp:
      return std::min(old, b);
    case kMaxOp:
      return std::max(old, b);
    case kExchange:
      return b;
    case kCompareSwap:
      return old == b ? c : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case kInc:
        return old >= b ? T{0} : static_cast<T>(old + 1);
      case kDec:
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
      case kAndOp:
        return old & b;
      case kOrOp:
        return old | b;
      case kXorOp:
        return old ^ b;
      default:
        break;
    }
  }
  return old;
}

// r: address, destination, b, c. register_bytes: the Space; mode: the op.
template <typename T>
void Atomic(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  absl::MutexLock lock(&cta.global().atomic_mutex());
  ForLanesWhile(mask, [&](uint32_t lane) {
    Location location;
    const uint64_t address =
        LaneAddress(warp, inst.r[0], inst.Has(Instruction::kWideAddress),
                    inst.immediate, lane);
    std::byte bytes[sizeof(T)];
    if (!Resolve(cta, warp, lane, static_cast<Space>(inst.register_bytes),
                 address, sizeof(T), "atomic access", &location) ||
        !ReadBytes(cta, warp, lane, location, sizeof(T), /*strong=*/true,
                   bytes)) {
      return false;
    }
    T old;
    std::memcpy(&old, bytes, sizeof(T));
    const T next =
        Apply(static_cast<AtomicOp>(inst.mode), old,
              warp.Reg<T>(inst.r[2])[lane], warp.Reg<T>(inst.r[3])[lane]);
    std::memcpy(bytes, &next, sizeof(T));
    if (!WriteBytes(cta, warp, lane, location, sizeof(T), /*strong=*/true,
                    bytes)) {
      return false;
    }
    warp.Reg<T>(inst.r[1])[lane] = old;
    return true;
  });
}

}  // namespace

bool DecodeAtomic(InstructionDecoder& d) {
  const bool returns = d.name() == "atom";
  if (!returns && d.name() != "red") return false;
  Instruction& inst = d.inst();
  Space space = Space::kGeneric;
  const auto take_order = [&] {
    while (d.Take("relaxed") || d.Take("acquire") || d.Take("release") ||
           d.Take("acq_rel") || d.Take("cta") || d.Take("cluster") ||
           d.Take("gpu") || d.Take("sys")) {
    }
  };
  take_order();
  space = TakeSpace(d);
  take_order();
  const absl::string_view op = d.TakeQualifier();
  const auto* found = std::find(std::begin(kNames), std::end(kNames), op);
  if (found == std::end(kNames)) {
    d.Fail("the operation");
    return true;
  }
  inst.mode = static_cast<uint8_t>(found - std::begin(kNames));
  inst.register_bytes = static_cast<uint8_t>(space);
  d.TakeCacheHints();
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t bytes = BytesOf(type);
  const size_t first = returns ? 1 : 0;
  d.Address(d.operand(first));
  if (returns) {
    d.Destination(d.operand(0), bytes);
  } else {
    d.Append(d.Scratch(bytes));
  }
  d.Source(d.operand(first + 1), bytes);
  if (inst.mode == kCompareSwap) {
    d.Source(d.operand(first + 2), bytes);
  } else {
    d.Append(d.Scratch(bytes));
  }
  switch (type) {
    case Type::kB32:
    case Type::kU32:
      d.Run(Atomic<uint32_t>);
      break;
    case Type::kS32:
      d.Run(Atomic<int32_t>);
      break;
    case Type::kB64:
    case Type::kU64:
      d.Run(Atomic<uint64_t>);
      break;
    case Type::kS64:
      d.Run(Atomic<int64_t>);
      break;
    case Type::kF32:
      d.Run(Atomic<float>);
      break;
    case Type::kF64:
      d.Run(Atomic<double>);
      break;
    default:
      d.Fail("the type");
  }
  return true;
}

}  // namespace hone::emulator
