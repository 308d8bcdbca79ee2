// ldmatrix, stmatrix, movmatrix.
//
// All move matrices whose rows are 16 bytes of shared memory, at one address
// each: row r of the whole instruction at the address of lane r. Unless
// transposed, lane l gets bytes 4 * (l % 4) to +3 of row l / 4 of each 8-row
// matrix. Transposed, 16-bit elements: rows 2 * (l % 4) and the next, column
// l / 4. Transposed, 8-bit elements: of each pair of rows, first 2 * (l % 4),
// columns l / 4 and l / 4 + 8, two rows in the low half and two in the high;
// a 16-row matrix takes two registers, rows 4 * (l % 4) + 2 * register and the
// next. The 8-bit forms are laid out as the copy traits of NVIDIA's CUTLASS
// state them for SM100 and SM120; the ISA shows them in figures only.
//
// Sources of 6 or 4 bits are 16 elements packed from the low bits of a row up;
// each becomes the low bits of a byte.
#include <cstring>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

enum class Order : uint8_t {
  kRows,         // not transposed
  kColumns16,    // 16-bit elements, transposed
  kColumns8,     // 8-bit elements, transposed, 8 rows
  kColumns8x16,  // the same, 16 rows
};

// The rows of all matrices; those of one follow those of the one before.
using Rows = uint8_t[kWarpSize][16];

// The byte of a register that `lane` holds in `byte` of its register number
// `r`.
uint8_t& Cell(Rows& rows, Order order, uint32_t r, uint32_t lane,
              uint32_t byte) {
  const uint32_t group = lane / 4, in_group = lane % 4;
  switch (order) {
    case Order::kRows:
      return rows[8 * r + group][4 * in_group + byte];
    case Order::kColumns16:
      return rows[8 * r + 2 * in_group + byte / 2][2 * group + byte % 2];
    case Order::kColumns8:
      return rows[8 * r + 2 * in_group + byte % 2][group + byte / 2 * 8];
    case Order::kColumns8x16:
      break;
  }
  return rows[16 * (r / 2) + 4 * in_group + 2 * (r % 2) + byte % 2]
             [group + byte / 2 * 8];
}

// inst.count: registers. inst.mode: the order. inst.bytes: bytes of a row in
// memory that hold data. The address comes after the registers.
uint32_t RowCount(const Instruction& inst) { return 8u * inst.count; }

bool RowOffset(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
               const LaneAddress& address, absl::string_view verb,
               uint32_t* offset) {
  uint64_t at = address(lane);
  if (at >> kWindowShift == kSharedWindow >> kWindowShift) at -= kSharedWindow;
  return SharedOffset(cta, warp, lane, at, 16, verb, offset);
}

// Spreads 16 elements of `bits` each over 16 bytes.
void Unpack(const std::byte* from, uint32_t bits, uint8_t* to) {
  for (uint32_t e = 0; e < 16; ++e) {
    uint32_t value = 0;
    for (uint32_t b = 0; b < bits; ++b) {
      const uint32_t at = e * bits + b;
      value |= (static_cast<uint32_t>(from[at / 8]) >> at % 8 & 1) << b;
    }
    to[e] = static_cast<uint8_t>(value);
  }
}

void LoadMatrix(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "ldmatrix") ||
      !RequireAllLanes(cta, warp, mask, "ldmatrix")) {
    return;
  }
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  Rows rows;
  for (uint32_t lane = 0; lane < RowCount(inst); ++lane) {
    uint32_t offset = 0;
    if (!RowOffset(cta, warp, inst, lane, address, "matrix read", &offset)) {
      return;
    }
    // The row goes to other lanes than the one with the address, so copies
    // that only one lane has waited for are not there yet for all of them.
    const SharedAccess access = warp.Access(kWarpSize, cta.serial());
    const SharedFault fault = cta.shared().Read(offset, inst.bytes, access);
    if (fault != SharedFault::kNone) {
      cta.FaultShared(warp, lane, fault, "matrix read", offset, inst.bytes);
      return;
    }
    if (inst.bytes == 16) {
      std::memcpy(rows[lane], cta.shared().data(offset), 16);
    } else {
      Unpack(cta.shared().data(offset), inst.bytes / 2, rows[lane]);
    }
  }
  cta.stats().shared_bytes_read += uint32_t{inst.bytes} * RowCount(inst);
  const Order order = static_cast<Order>(inst.mode);
  for (uint32_t r = 0; r < inst.count; ++r) {
    uint32_t* d = warp.Reg<uint32_t>(inst.r[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      uint32_t word = 0;
      for (uint32_t byte = 0; byte < 4; ++byte) {
        word |= uint32_t{Cell(rows, order, r, lane, byte)} << 8 * byte;
      }
      d[lane] = word;
    }
  }
}

void StoreMatrix(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "stmatrix") ||
      !RequireAllLanes(cta, warp, mask, "stmatrix")) {
    return;
  }
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  Rows rows;
  const Order order = static_cast<Order>(inst.mode);
  for (uint32_t r = 0; r < inst.count; ++r) {
    const uint32_t* a = warp.Reg<uint32_t>(inst.r[r]);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        Cell(rows, order, r, lane, byte) =
            static_cast<uint8_t>(a[lane] >> 8 * byte);
      }
    }
  }
  for (uint32_t lane = 0; lane < RowCount(inst); ++lane) {
    uint32_t offset = 0;
    if (!RowOffset(cta, warp, inst, lane, address, "matrix write", &offset)) {
      return;
    }
    const SharedFault fault = cta.shared().Write(
        offset, 16, reinterpret_cast<const std::byte*>(rows[lane]),
        warp.Access(lane, cta.serial()));
    if (fault != SharedFault::kNone) {
      cta.FaultShared(warp, lane, fault, "matrix write", offset, 16);
      return;
    }
  }
  cta.stats().shared_bytes_written += 16u * RowCount(inst);
}

// The transpose of an 8x8 matrix of 16-bit elements that lies in one register
// of an mma fragment.
void TransposeMatrix(Cta& cta, Warp& warp, const Instruction& inst,
                     uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "movmatrix") ||
      !RequireAllLanes(cta, warp, mask, "movmatrix")) {
    return;
  }
  Rows rows;
  const uint32_t* a = warp.Reg<uint32_t>(inst.r[1]);
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      Cell(rows, Order::kRows, 0, lane, byte) =
          static_cast<uint8_t>(a[lane] >> 8 * byte);
    }
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    uint32_t word = 0;
    for (uint32_t byte = 0; byte < 4; ++byte) {
      word |= uint32_t{Cell(rows, Order::kColumns16, 0, lane, byte)}
              << 8 * byte;
    }
    d[lane] = word;
  }
}

void DecodeLoadStoreMatrix(InstructionDecoder& d, bool load) {
  Instruction& inst = d.inst();
  if (!d.Take("sync") || !d.Take("aligned")) d.Fail("the form");
  const absl::string_view shape = d.TakeQualifier();
  uint32_t matrices = d.Take("x1") ? 1 : d.Take("x2") ? 2 : 4;
  if (matrices == 4 && !d.Take("x4")) d.Fail("the number of matrices");
  const bool transposed = d.Take("trans");
  if (!d.Take("shared")) d.Take("shared::cta");
  inst.bytes = 16;
  bool unpacks = false;
  if (d.Take("b8x16")) {
    unpacks = true;
    if (d.Take("b6x16_p32")) {
      inst.bytes = 12;
    } else if (d.Take("b4x16_p64")) {
      inst.bytes = 8;
    } else {
      d.Fail("the source format");
    }
  }
  const Type type = unpacks ? Type::kB8 : d.TakeType();
  d.ExpectDone();
  Order order = Order::kRows;
  bool legal = false;
  inst.count = static_cast<uint8_t>(matrices);
  if (shape == "m8n8" && type == Type::kB16) {
    legal = true;
    order = transposed ? Order::kColumns16 : Order::kRows;
  } else if (load && shape == "m8n16") {
    legal = unpacks && !transposed;
  } else if (load && shape == "m16n16") {
    legal = type == Type::kB8 && transposed && matrices <= 2;
    order = Order::kColumns8x16;
    inst.count = static_cast<uint8_t>(2 * matrices);
  } else if (!load && shape == "m16n8") {
    legal = type == Type::kB8 && !unpacks && transposed;
    order = Order::kColumns8;
  }
  if (!legal) d.Fail("the shape");
  inst.mode = static_cast<uint8_t>(order);
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

bool DecodeMatrixMove(InstructionDecoder& d) {
  if (d.name() == "ldmatrix" || d.name() == "stmatrix") {
    DecodeLoadStoreMatrix(d, d.name() == "ldmatrix");
  } else if (d.name() == "movmatrix") {
    if (!d.Take("sync") || !d.Take("aligned") || !d.Take("m8n8") ||
        !d.Take("trans") || d.TakeType() != Type::kB16) {
      d.Fail("the shape");
    }
    d.ExpectDone();
    d.Destination(d.operand(0), 4);
    d.Source(d.operand(1), 4);
    d.Run(TransposeMatrix);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
