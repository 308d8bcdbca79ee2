// ld, st, ldmatrix, stmatrix, prefetch.
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

// One row of one 8x8 matrix: the address comes from lane 8 * matrix + row.
bool RowOffset(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
               const LaneAddress& address, absl::string_view verb,
               uint32_t* offset) {
  uint64_t at = address(lane);
  if (at >> kWindowShift == kSharedWindow >> kWindowShift) at -= kSharedWindow;
  return SharedOffset(cta, warp, lane, at, 16, verb, offset);
}

// [matrix][row][column]
using Matrices = uint16_t[4][8][8];

// Row r of a matrix belongs to lanes 4r to 4r + 3, two columns each; with
// .trans rows and columns change places.
inline uint16_t& Cell(Matrices& matrices, uint32_t matrix, uint32_t lane,
                      uint32_t half, bool transpose) {
  const uint32_t row = lane / 4;
  const uint32_t column = lane % 4 * 2 + half;
  return transpose ? matrices[matrix][column][row]
                   : matrices[matrix][row][column];
}

void LoadMatrix(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "ldmatrix") ||
      !RequireAllLanes(cta, warp, mask, "ldmatrix")) {
    return;
  }
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  Matrices matrices;
  for (uint32_t lane = 0; lane < 8u * inst.count; ++lane) {
    uint32_t offset = 0;
    if (!RowOffset(cta, warp, inst, lane, address, "matrix read", &offset)) {
      return;
    }
    // The row goes to other lanes than the one with the address, so copies
    // that only one lane has waited for are not there yet for all of them.
    SharedAccess access = warp.Access(kWarpSize, cta.serial());
    const SharedFault fault = cta.shared().Read(offset, 16, access);
    if (fault != SharedFault::kNone) {
      cta.FaultShared(warp, lane, fault, "matrix read", offset, 16);
      return;
    }
    std::memcpy(matrices[lane / 8][lane % 8], cta.shared().data(offset), 16);
  }
  cta.stats().shared_bytes_read += 128u * inst.count;
  const bool transpose = inst.mode != 0;
  for (uint32_t m = 0; m < inst.count; ++m) {
    uint32_t* d = warp.Reg<uint32_t>(inst.r[m]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      d[lane] = Cell(matrices, m, lane, 0, transpose) |
                uint32_t{Cell(matrices, m, lane, 1, transpose)} << 16;
    }
  }
}

void StoreMatrix(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "stmatrix") ||
      !RequireAllLanes(cta, warp, mask, "stmatrix")) {
    return;
  }
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  Matrices matrices;
  const bool transpose = inst.mode != 0;
  for (uint32_t m = 0; m < inst.count; ++m) {
    const uint32_t* a = warp.Reg<uint32_t>(inst.r[m]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      Cell(matrices, m, lane, 0, transpose) = static_cast<uint16_t>(a[lane]);
      Cell(matrices, m, lane, 1, transpose) =
          static_cast<uint16_t>(a[lane] >> 16);
    }
  }
  for (uint32_t lane = 0; lane < 8u * inst.count; ++lane) {
    uint32_t offset = 0;
    if (!RowOffset(cta, warp, inst, lane, address, "matrix write", &offset)) {
      return;
    }
    const SharedFault fault = cta.shared().Write(
        offset, 16,
        reinterpret_cast<const std::byte*>(matrices[lane / 8][lane % 8]),
        warp.Access(lane, cta.serial()));
    if (fault != SharedFault::kNone) {
      cta.FaultShared(warp, lane, fault, "matrix write", offset, 16);
      return;
    }
  }
  cta.stats().shared_bytes_written += 128u * inst.count;
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

void DecodeMatrixMove(InstructionDecoder& d, bool load) {
  Instruction& inst = d.inst();
  if (!d.Take("sync") || !d.Take("aligned") || !d.Take("m8n8")) {
    d.Fail("the shape");
  }
  inst.count = d.Take("x1") ? 1 : d.Take("x2") ? 2 : 4;
  if (inst.count == 4 && !d.Take("x4")) d.Fail("the number of matrices");
  inst.mode = d.Take("trans") ? 1 : 0;
  if (!d.Take("shared")) d.Take("shared::cta");
  if (d.TakeType() != Type::kB16) d.Fail("the type");
  d.ExpectDone();
  const auto elements = d.Elements(d.operand(load ? 0 : 1));
  if (elements.size() != inst.count) d.Fail("the number of registers");
  for (const Operand* element : elements) {
    if (load) {
      d.Destination(*element, 4);
    } else {
      d.Source(*element, 4);
    }
  }
  d.Address(d.operand(load ? 1 : 0));
  d.Run(load ? LoadMatrix : StoreMatrix);
}

}  // namespace

bool DecodeMemory(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  if (name == "ld" || name == "ldu") {
    DecodeLoadStore(d, true);
  } else if (name == "st") {
    DecodeLoadStore(d, false);
  } else if (name == "ldmatrix") {
    DecodeMatrixMove(d, true);
  } else if (name == "stmatrix") {
    DecodeMatrixMove(d, false);
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
