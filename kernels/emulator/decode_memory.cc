// ld, st, prefetch.
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// Reads one element of memory into a register, extended to its width.
inline void ToRegister(std::byte* to, const std::byte* from,
                       const Instruction& inst) {
  if (inst.bytes == inst.register_bytes) {
    std::memcpy(to, from, inst.bytes);
    return;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, from, inst.bytes);
  if (inst.Has(Instruction::kSigned)) {
    const int unused = 64 - 8 * inst.bytes;
    bits =
        static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  std::memcpy(to, &bits, inst.register_bytes);
}

// r: the elements, then the address. mode: the space.
void Load(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t bytes = inst.count * inst.bytes;
  const uint32_t width = inst.register_bytes;
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  const Space space = static_cast<Space>(inst.mode);
  ForLanesWhile(mask, [&](uint32_t lane) {
    std::byte buffer[64];
    if (!ReadMemory(cta, warp, inst, lane, space, address(lane), bytes,
                    buffer)) {
      return false;
    }
    for (uint32_t e = 0; e < inst.count; ++e) {
      ToRegister(warp.frame + inst.r[e] + lane * width, buffer + e * inst.bytes,
                 inst);
    }
    return true;
  });
}

// Parameters are the same for all lanes.
void LoadParameter(Cta& cta, Warp& warp, const Instruction& inst,
                   uint32_t mask) {
  const std::byte* from = cta.launch().parameters.data() + inst.immediate;
  const uint32_t width = inst.register_bytes;
  for (uint32_t e = 0; e < inst.count; ++e) {
    ForLanes(mask, [&](uint32_t lane) {
      ToRegister(warp.frame + inst.r[e] + lane * width, from + e * inst.bytes,
                 inst);
    });
  }
}

void Store(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t bytes = inst.count * inst.bytes;
  const uint32_t width = inst.register_bytes;
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  const Space space = static_cast<Space>(inst.mode);
  ForLanesWhile(mask, [&](uint32_t lane) {
    std::byte buffer[64];
    for (uint32_t e = 0; e < inst.count; ++e) {
      std::memcpy(buffer + e * inst.bytes,
                  warp.frame + inst.r[e] + lane * width, inst.bytes);
    }
    return WriteMemory(cta, warp, inst, lane, space, address(lane), bytes,
                       buffer);
  });
}

void Nothing(Cta&, Warp&, const Instruction&, uint32_t) {}

void DecodeLoadStore(InstructionDecoder& d, bool load) {
  Instruction& inst = d.inst();
  TakeMemoryOrder(d);
  Space space = Space::kGeneric;
  TakeSpace(d, &space);
  const bool policy = d.TakeCacheHints();
  inst.count = 1;
  if (d.Take("v2")) inst.count = 2;
  if (d.Take("v4")) inst.count = 4;
  if (d.Take("v8")) inst.count = 8;
  const Type type = d.TakeType();
  d.ExpectDone();
  inst.bytes = BytesOf(type);
  if (type == Type::kPred || inst.bytes > 8 || inst.count * inst.bytes > 32) {
    d.Fail("the type");
    return;
  }
  inst.mode = static_cast<uint8_t>(space);
  if (IsSigned(type)) inst.flags |= Instruction::kSigned;
  const Operand& value = d.operand(load ? 0 : 1);
  const Operand& address = d.operand(load ? 1 : 0);
  inst.register_bytes = d.WideElements(value, inst.bytes, inst.count, load);
  if (d.operand_count() != (policy ? 3u : 2u)) {
    d.Fail("the number of operands");
  }
  if (load && space == Space::kParam) {
    // [parameter + offset]: known now.
    inst.immediate = d.ParameterOffset(address, inst.count * inst.bytes);
    d.Run(LoadParameter);
    return;
  }
  if (!load && (space == Space::kParam || space == Space::kConst)) {
    d.Fail("a store to the state space");
  }
  d.Address(address);
  d.Run(load ? Load : Store);
}

}  // namespace

bool DecodeMemory(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  if (name == "ld" || name == "ldu") {
    DecodeLoadStore(d, true);
  } else if (name == "st") {
    DecodeLoadStore(d, false);
  } else if (name == "prefetch" || name == "prefetchu" ||
             name == "createpolicy" || name == "applypriority" ||
             name == "discard") {
    // Hints; a cache policy is a number nobody looks at.
    if (name == "createpolicy") d.Destination(d.operand(0), 8);
    if (name == "discard") d.Fail("the instruction");
    d.Run(Nothing);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
