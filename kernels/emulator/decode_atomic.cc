// atom and red.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/atomic_update.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

using Op = AtomicOp;
struct OpName {
  const char* name;
  Op op;
};
constexpr OpName kOps[] = {
    {"add", Op::kAdd},   {"min", Op::kMin}, {"max", Op::kMax},
    {"exch", Op::kExch}, {"cas", Op::kCas}, {"inc", Op::kInc},
    {"dec", Op::kDec},   {"and", Op::kAnd}, {"or", Op::kOr},
    {"xor", Op::kXor},
};

// Atomics on f32 in global memory, unlike those in shared memory, flush
// subnormals.
template <typename T>
uint64_t InGlobal(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(
        FlushSubnormal(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  }
  return bits;
}

// The lanes go one after another, first to last.
// r: destination, address, b, c; count: 1 if it returns the old value.
template <typename T>
void Atomic(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[1], inst.immediate);
  const uint32_t bytes = inst.bytes;
  const Op op = static_cast<Op>(inst.mode >> 4);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Space space = static_cast<Space>(inst.mode & 15);
    uint64_t at = address(lane);
    ResolveGeneric(&space, &at);
    uint64_t old = 0, b = 0, c = 0;
    std::memcpy(&b, warp.frame + inst.r[2] + lane * bytes, bytes);
    std::memcpy(&c, warp.frame + inst.r[3] + lane * bytes, bytes);
    if (space == Space::kShared || space == Space::kSharedCluster) {
      std::byte value[8];
      if (!ReadMemory(cta, warp, inst, lane, space, at, bytes, value)) {
        return false;
      }
      std::memcpy(&old, value, bytes);
      const uint64_t now = AtomicUpdate<T>::Apply(op, old, b, c);
      std::memcpy(value, &now, bytes);
      if (!WriteMemory(cta, warp, inst, lane, space, at, bytes, value)) {
        return false;
      }
    } else if (space == Space::kGlobal) {
      cta.AcquireGlobal(warp, at, inst.Has(Instruction::kAcquire));
      if (!CheckAlignment(cta, warp, lane, at, bytes, "atomic access")) {
        return false;
      }
      GlobalMemory& global = cta.global();
      absl::MutexLock lock(&global.atomic_mutex());
      const std::byte* from = global.ForRead(at, bytes);
      if (from == nullptr) {
        cta.Fault(warp, lane, global.Explain(at, bytes, /*write=*/false));
        return false;
      }
      std::byte* to = global.ForWrite(at, bytes);
      if (to == nullptr) {
        cta.Fault(warp, lane, global.Explain(at, bytes, /*write=*/true));
        return false;
      }
      if (!cta.CheckGlobal(warp, lane, at, bytes, /*write=*/true,
                           /*strong=*/true)) {
        return false;
      }
      cta.ReleaseGlobal(warp, at, inst.Has(Instruction::kRelease));
      std::memcpy(&old, from, bytes);
      const uint64_t now = InGlobal<T>(
          AtomicUpdate<T>::Apply(op, InGlobal<T>(old), InGlobal<T>(b), c));
      std::memcpy(to, &now, bytes);
      cta.stats().global_bytes_read += bytes;
      cta.stats().global_bytes_written += bytes;
    } else {
      cta.Fault(warp, lane, "atomic access to local or constant memory");
      return false;
    }
    if (inst.count != 0) {
      std::memcpy(warp.frame + inst.r[0] + lane * bytes, &old, bytes);
    }
    return true;
  });
}

Handler Choose(Op op, Type type) {
  const bool bitwise = op == Op::kExch || op == Op::kCas || op == Op::kAnd ||
                       op == Op::kOr || op == Op::kXor;
  switch (type) {
    case Type::kB16:
      return op == Op::kCas ? Atomic<uint16_t> : Handler{nullptr};
    case Type::kB32:
      return bitwise ? Atomic<uint32_t> : Handler{nullptr};
    case Type::kB64:
      return bitwise ? Atomic<uint64_t> : Handler{nullptr};
    case Type::kU32:
      return Atomic<uint32_t>;
    case Type::kS32:
      return Atomic<int32_t>;
    case Type::kU64:
      return Atomic<uint64_t>;
    case Type::kS64:
      return Atomic<int64_t>;
    default:
      break;
  }
  if (op != Op::kAdd) return nullptr;
  switch (type) {
    case Type::kF32:
      return Atomic<float>;
    case Type::kF64:
      return Atomic<double>;
    case Type::kF16:
      return Atomic<One16<Half>>;
    case Type::kBF16:
      return Atomic<One16<BFloat>>;
    case Type::kF16x2:
      return Atomic<Pair16<Half>>;
    case Type::kBF16x2:
      return Atomic<Pair16<BFloat>>;
    default:
      return nullptr;
  }
}

}  // namespace

bool DecodeAtomic(InstructionDecoder& d) {
  const bool returns = d.name() == "atom";
  if (!returns && d.name() != "red") return false;
  Instruction& inst = d.inst();
  TakeMemoryOrder(d);
  inst.flags |= Instruction::kStrong;
  Space space = Space::kGeneric;
  TakeSpace(d, &space);
  bool known = false;
  Op op = Op::kAdd;
  for (const OpName& candidate : kOps) {
    if (d.Take(candidate.name)) {
      op = candidate.op;
      known = true;
      break;
    }
  }
  if (!known) d.Fail("the operation");
  d.Take("noftz");
  const bool policy = d.TakeCacheHints();
  const Type type = d.TakeType();
  d.ExpectDone();
  inst.bytes = BytesOf(type);
  inst.count = returns ? 1 : 0;
  inst.mode = static_cast<uint8_t>(static_cast<uint8_t>(op) << 4 |
                                   static_cast<uint8_t>(space));
  const size_t first = returns ? 1 : 0;
  const size_t values = op == Op::kCas ? 2 : 1;
  if (d.operand_count() != first + 1 + values + (policy ? 1 : 0)) {
    d.Fail("the number of operands");
  }
  if (returns) {
    d.Destination(d.operand(0), inst.bytes);
  } else {
    d.Append(d.Scratch(inst.bytes));
  }
  d.Address(d.operand(first));
  d.Source(d.operand(first + 1), inst.bytes);
  d.Source(d.operand(first + values), inst.bytes);
  d.Run(Choose(op, type));
  return true;
}

}  // namespace hone::emulator
