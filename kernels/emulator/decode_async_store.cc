// st.async and red.async: one thread's registers to shared memory of a CTA of
// the cluster, complete on an mbarrier there. Both are performed in the generic
// proxy (PTX ISA), and may land at any moment like bulk copies.
#include <cstring>
#include <utility>

#include "kernels/emulator/bulk_issue.h"
#include "kernels/emulator/bulk_reduction.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

// bulk.from: the first of inst.count values in Instruction::r.
void Store(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const BulkInstruction& bulk = cta.kernel().bulk[inst.immediate];
  const uint32_t bytes = inst.count * inst.bytes;
  ForLanesWhile(mask, [&](uint32_t lane) {
    BulkCopy copy;
    BulkPiece piece;
    uint32_t rank = cta.rank();
    piece.bytes = piece.end = bytes;
    if (!BulkSharedOffset(cta, warp, inst, bulk.to, lane, bytes, bytes,
                          "asynchronous store", &piece.shared, &rank)) {
      return false;
    }
    if (bulk.reduces) {
      copy.reduce = FindReduction(static_cast<AtomicOp>(bulk.op),
                                  static_cast<Type>(bulk.type),
                                  /*to_shared=*/true);
    }
    copy.data.resize(bytes);
    for (uint32_t e = 0; e < inst.count; ++e) {
      std::memcpy(
          copy.data.data() + e * inst.bytes,
          warp.frame + inst.r[bulk.from.r + e] + lane * inst.register_bytes,
          inst.bytes);
    }
    copy.read = true;
    copy.pieces.push_back(piece);
    return IssueBulk(cta, warp, inst, bulk, lane, rank, std::move(copy));
  });
}

}  // namespace

bool DecodeAsyncStore(InstructionDecoder& d) {
  const bool reduces = d.name() == "red";
  if ((!reduces && d.name() != "st") || d.PeekQualifier() != "async") {
    return false;
  }
  d.Take("async");
  Instruction& inst = d.inst();
  BulkInstruction bulk;
  bulk.kind = BulkInstruction::Kind::kRegisterToShared;
  bulk.reduces = reduces;
  if (reduces) {
    if (!d.Take("relaxed") || !d.Take("cluster")) d.Fail("the semantics");
  } else {
    d.Take("weak");
    d.Take("cluster");
  }
  if (!d.Take("shared::cluster")) d.Fail("the state space");
  if (!d.Take("mbarrier::complete_tx::bytes")) d.Fail("the completion");
  inst.count = 1;
  AtomicOp op = AtomicOp::kAdd;
  if (reduces && !TakeReductionOp(d, &op)) d.Fail("the operation");
  if (!reduces && d.Take("v2")) inst.count = 2;
  if (!reduces && d.Take("v4")) inst.count = 4;
  const Type type = d.TakeType();
  d.ExpectDone();
  inst.bytes = BytesOf(type);
  if (reduces) {
    bulk.op = static_cast<uint8_t>(op);
    bulk.type = static_cast<uint8_t>(type);
    if (FindReduction(op, type, /*to_shared=*/true) == nullptr) {
      d.Fail("the operation on the type");
    }
  } else if (type == Type::kPred || inst.bytes < 4 || inst.bytes > 8 ||
             inst.count * inst.bytes > 16) {
    d.Fail("the type");
  }
  if (d.operand_count() != 3) {
    d.Fail("the number of operands");
    return true;
  }
  bulk.to = TakeBulkAddress(d, d.operand(0));
  bulk.from.r = d.AppendedCount();
  inst.register_bytes =
      d.WideElements(d.operand(1), inst.bytes, inst.count, false);
  bulk.mbarrier = TakeBulkAddress(d, d.operand(2));
  inst.immediate = static_cast<int64_t>(d.kernel().bulk.size());
  d.kernel().bulk.push_back(bulk);
  d.Run(Store);
  return true;
}

}  // namespace hone::emulator
