// cp.async.bulk.tensor, its reducing and prefetching kin, and
// prefetch.tensormap. Tile mode, without interleaving.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/emulator/bulk_issue.h"
#include "kernels/emulator/bulk_reduction.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/tensor_map.h"

namespace hone::emulator {
namespace {

using Kind = BulkInstruction::Kind;

// The tensor map at a lane's generic address; false after a fault.
bool ReadTensorMap(Cta& cta, Warp& warp, const Instruction& inst,
                   const BulkInstruction::Address& where, uint32_t lane,
                   TensorMap* map, uint64_t* address) {
  std::byte bytes[kTensorMapBytes];
  const uint64_t at = BulkAddress(warp, inst, where, lane);
  // In halves: the map is promised no more than 64-byte alignment.
  for (uint32_t half : {0, 64}) {
    if (!ReadMemory(cta, warp, inst, lane, Space::kGeneric, at + half, 64,
                    bytes + half)) {
      return false;
    }
  }
  if (DecodeTensorMap(bytes, map, address)) return true;
  cta.Fault(warp, lane,
            "no tensor map: the address holds other bytes than those of a "
            "tensor map of the launch");
  return false;
}

Type ReductionType(AtomicOp op, TensorMap::Element element) {
  const bool bitwise =
      op == AtomicOp::kAnd || op == AtomicOp::kOr || op == AtomicOp::kXor;
  switch (element) {
    case TensorMap::Element::kU32:
      return bitwise ? Type::kB32 : Type::kU32;
    case TensorMap::Element::kS32:
      return bitwise ? Type::kB32 : Type::kS32;
    case TensorMap::Element::kU64:
      return bitwise ? Type::kB64 : Type::kU64;
    case TensorMap::Element::kS64:
      return bitwise ? Type::kB64 : Type::kS64;
    case TensorMap::Element::kF16:
      return Type::kF16;
    case TensorMap::Element::kBF16:
      return Type::kBF16;
    case TensorMap::Element::kF32:
      return Type::kF32;
    case TensorMap::Element::kF64:
      return Type::kF64;
    default:
      return Type::kNone;
  }
}

void Copy(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const BulkInstruction& bulk = cta.kernel().bulk[inst.immediate];
  ForLanesWhile(mask, [&](uint32_t lane) {
    TensorMap map;
    uint64_t address = 0;
    if (!ReadTensorMap(cta, warp, inst, bulk.tensor_map, lane, &map,
                       &address)) {
      return false;
    }
    if (map.dims.size() != bulk.rank) {
      cta.Fault(
          warp, lane,
          absl::StrCat("tensor copy of ", bulk.rank,
                       " dimensions; its tensor map has ", map.dims.size()));
      return false;
    }
    int32_t coordinates[5] = {};
    for (uint32_t i = 0; i < bulk.rank; ++i) {
      coordinates[i] =
          warp.Reg<int32_t>(inst.r[bulk.first_coordinate + i])[lane];
    }
    BulkCopy copy;
    uint32_t shared = 0;
    uint32_t rank = cta.rank();
    const bool write = bulk.kind == Kind::kSharedToGlobal;
    if (bulk.kind != Kind::kPrefetch) {
      const auto& where = write ? bulk.from : bulk.to;
      if (!BulkSharedOffset(cta, warp, inst, where, lane,
                            static_cast<uint32_t>(CopiedBytes(map)),
                            kTensorCopyAlignment,
                            write ? "bulk read" : "bulk write", &shared,
                            write ? nullptr : &rank)) {
        return false;
      }
    }
    if (bulk.reduces) {
      const AtomicOp op = static_cast<AtomicOp>(bulk.op);
      copy.reduce = FindReduction(op, ReductionType(op, map.element), false);
      if (copy.reduce == nullptr) {
        cta.Fault(warp, lane,
                  "tensor reduction: the tensor map's elements do not have "
                  "the operation");
        return false;
      }
    }
    std::string error;
    if (!CheckPlace(map, coordinates, write, &error) ||
        !BoxPieces(map, address, coordinates, shared, write, cta.global(),
                   &copy.pieces, &error)) {
      cta.Fault(warp, lane, error);
      return false;
    }
    if (bulk.kind == Kind::kPrefetch) return true;
    uint64_t bytes = 0;
    for (const BulkPiece& piece : copy.pieces) bytes += piece.end - piece.begin;
    (write ? cta.stats().global_bytes_written
           : cta.stats().global_bytes_read) += bytes;
    copy.fill = FillPattern(map);
    copy.fill_bytes = BytesOf(map.element);
    return IssueBulk(cta, warp, inst, bulk, lane, rank, std::move(copy));
  });
}

void PrefetchMap(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const BulkInstruction& bulk = cta.kernel().bulk[inst.immediate];
  ForLanesWhile(mask, [&](uint32_t lane) {
    TensorMap map;
    uint64_t address = 0;
    return ReadTensorMap(cta, warp, inst, bulk.tensor_map, lane, &map,
                         &address);
  });
}

// [map, {coordinates}]
void TakeTensor(InstructionDecoder& d, const Operand& operand,
                BulkInstruction* bulk) {
  if (operand.kind != Operand::Kind::kAddress || operand.elements.size() != 2) {
    d.Fail("an operand that is no tensor map with coordinates");
    return;
  }
  bulk->tensor_map = TakeBulkAddress(d, operand);
  const auto coordinates = d.Elements(operand.elements[1]);
  if (coordinates.size() != bulk->rank) d.Fail("the number of coordinates");
  bulk->first_coordinate = d.AppendedCount();
  for (const Operand* coordinate : coordinates) d.Source(*coordinate, 4);
}

void Finish(InstructionDecoder& d, const BulkInstruction& bulk,
            Handler handler) {
  d.inst().immediate = static_cast<int64_t>(d.kernel().bulk.size());
  d.kernel().bulk.push_back(bulk);
  d.Run(handler);
}

}  // namespace

void DecodeTensorCopy(InstructionDecoder& d, bool reduces) {
  BulkInstruction bulk;
  bulk.reduces = reduces;
  const bool prefetch = d.Take("prefetch");
  d.Take("tensor");
  const absl::string_view rank = d.TakeQualifier();
  if (rank.size() != 2 || rank[0] < '1' || rank[0] > '5' || rank[1] != 'd') {
    d.Fail("the number of dimensions");
    return;
  }
  bulk.rank = rank[0] - '0';
  AtomicOp op = AtomicOp::kAdd;
  bool multicast = false;
  if (prefetch) {
    bulk.kind = Kind::kPrefetch;
    if (!d.Take("L2") || !d.Take("global")) d.Fail("the destination");
    d.Take("tile");
  } else if (d.Take("global")) {
    bulk.kind = Kind::kSharedToGlobal;
    if (!d.Take("shared::cta") && !d.Take("shared")) d.Fail("the source");
    if (reduces) {
      if (!TakeReductionOp(d, &op)) d.Fail("the operation");
      bulk.op = static_cast<uint8_t>(op);
    }
    d.Take("tile");
    if (!d.Take("bulk_group")) d.Fail("the completion");
  } else {
    bulk.kind = Kind::kGlobalToShared;
    if (!d.Take("shared::cluster") && !d.Take("shared::cta")) {
      d.Fail("the destination");
    }
    if (!d.Take("global")) d.Fail("the source");
    d.Take("tile");
    if (!d.Take("mbarrier::complete_tx::bytes")) d.Fail("the completion");
    multicast = d.Take("multicast::cluster");
    if (reduces) d.Fail("the destination");
  }
  const bool policy = d.TakeCacheHints();
  d.ExpectDone();
  size_t next = 0;
  if (bulk.kind == Kind::kGlobalToShared) {
    bulk.to = TakeBulkAddress(d, d.operand(next++));
  }
  TakeTensor(d, d.operand(next++), &bulk);
  if (bulk.kind == Kind::kGlobalToShared) {
    bulk.mbarrier = TakeBulkAddress(d, d.operand(next++));
    if (multicast) bulk.cta_mask = TakeBulkSource(d, d.operand(next++), 2);
  } else if (bulk.kind == Kind::kSharedToGlobal) {
    bulk.from = TakeBulkAddress(d, d.operand(next++));
  }
  if (policy) ++next;
  if (next != d.operand_count()) d.Fail("the number of operands");
  Finish(d, bulk, Copy);
}

bool DecodeTensorMapPrefetch(InstructionDecoder& d) {
  if (d.name() != "prefetch" || !absl::EndsWith(d.opcode(), ".tensormap")) {
    return false;
  }
  const uint64_t window = d.Take("const")   ? kConstWindow
                          : d.Take("param") ? kParamWindow
                                            : 0;
  d.Take("tensormap");
  d.ExpectDone();
  BulkInstruction bulk;
  bulk.tensor_map = TakeBulkAddress(d, d.operand(0));
  bulk.tensor_map.offset += static_cast<int64_t>(window);
  Finish(d, bulk, PrefetchMap);
  return true;
}

}  // namespace hone::emulator
