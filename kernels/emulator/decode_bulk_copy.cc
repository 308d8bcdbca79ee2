// cp.async.bulk and cp.reduce.async.bulk of contiguous bytes, their groups and
// prefetches.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/bulk_issue.h"
#include "kernels/emulator/bulk_reduction.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

using Kind = BulkInstruction::Kind;

const BulkInstruction& BulkOf(const Cta& cta, const Instruction& inst) {
  return cta.kernel().bulk[inst.immediate];
}

// The host bytes of a lane's global address, or nullptr after a fault.
std::byte* GlobalBytes(Cta& cta, Warp& warp, uint32_t lane, uint64_t address,
                       uint32_t bytes, bool write) {
  if (address % 16 != 0) {
    cta.Fault(warp, lane,
              absl::StrFormat("misaligned: bulk copy at global address 0x%x; "
                              "it must be a multiple of 16",
                              address));
    return nullptr;
  }
  std::byte* data = write ? cta.global().ForWrite(address, bytes)
                          : cta.global().ForRead(address, bytes);
  if (data == nullptr) {
    cta.Fault(warp, lane, cta.global().Explain(address, bytes, write));
  }
  return data;
}

// Whether a copy of this kind may write shared memory of the CTA with `rank`.
bool CheckRank(Cta& cta, Warp& warp, const BulkInstruction& bulk, uint32_t lane,
               uint32_t rank) {
  const bool own = rank == cta.rank();
  if (bulk.to_cta && !own) {
    cta.Fault(warp, lane,
              absl::StrFormat("bulk copy to shared::cta in the CTA with rank "
                              "%d; it must be the CTA that issues it, rank %d",
                              rank, cta.rank()));
    return false;
  }
  if (bulk.kind == Kind::kSharedToShared && cta.cluster().size() == 1) {
    // An H200 stops with an illegal instruction.
    cta.Fault(warp, lane,
              "bulk operation from shared to shared memory in a launch without "
              "clusters");
    return false;
  }
  if (bulk.kind == Kind::kSharedToShared && !bulk.reduces && own) {
    cta.Fault(warp, lane,
              "bulk copy from shared memory to the CTA's own; the destination "
              "must be in another CTA of the cluster");
    return false;
  }
  return true;
}

void Copy(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const BulkInstruction& bulk = BulkOf(cta, inst);
  ForLanesWhile(mask, [&](uint32_t lane) {
    const uint32_t bytes = warp.Reg<uint32_t>(inst.r[bulk.size])[lane];
    if (bytes % 16 != 0) {
      cta.Fault(warp, lane,
                absl::StrFormat("bulk copy of %d bytes: legal are multiples "
                                "of 16",
                                bytes));
      return false;
    }
    if (bytes == 0) return true;
    BulkCopy copy;
    BulkPiece piece;
    uint32_t rank = cta.rank();
    piece.bytes = piece.end = bytes;
    if (bulk.kind == Kind::kSharedToGlobal) {
      if (!BulkSharedOffset(cta, warp, inst, bulk.from, lane, bytes, 16,
                            "bulk read", &piece.shared)) {
        return false;
      }
    } else if (bulk.kind != Kind::kPrefetch) {
      if (!BulkSharedOffset(cta, warp, inst, bulk.to, lane, bytes, 16,
                            "bulk write", &piece.shared, &rank) ||
          !CheckRank(cta, warp, bulk, lane, rank)) {
        return false;
      }
    }
    if (bulk.kind == Kind::kSharedToShared) {
      if (!BulkSharedOffset(cta, warp, inst, bulk.from, lane, bytes, 16,
                            "bulk read", &piece.source)) {
        return false;
      }
    } else {
      const bool write = bulk.kind == Kind::kSharedToGlobal;
      const auto& address = write ? bulk.to : bulk.from;
      const uint64_t at = BulkAddress(warp, inst, address, lane);
      // A reduction reads what it adds to.
      if (bulk.reduces &&
          GlobalBytes(cta, warp, lane, at, bytes, false) == nullptr) {
        return false;
      }
      piece.address = at;
      piece.global = GlobalBytes(cta, warp, lane, at, bytes, write);
      if (piece.global == nullptr) return false;
      if (bulk.kind == Kind::kPrefetch) return true;
      (write ? cta.stats().global_bytes_written
             : cta.stats().global_bytes_read) += bytes;
    }
    if (bulk.reduces) {
      copy.reduce = FindReduction(static_cast<AtomicOp>(bulk.op),
                                  static_cast<Type>(bulk.type),
                                  bulk.kind == Kind::kSharedToShared);
    }
    copy.pieces.push_back(piece);
    return IssueBulk(cta, warp, inst, bulk, lane, rank, std::move(copy));
  });
}

void Commit(Cta&, Warp& warp, const Instruction&, uint32_t mask) {
  ForLanes(mask, [&](uint32_t lane) { ++warp.bulk_committed[lane]; });
}

void Wait(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  cta.bulk().Wait(cta, warp, mask, static_cast<uint32_t>(inst.immediate),
                  inst.mode != 0);
}

bool TakeSharedCta(InstructionDecoder& d) {
  return d.Take("shared::cta") || d.Take("shared");
}

}  // namespace

bool DecodeBulkCopy(InstructionDecoder& d) {
  const bool reduces = absl::StartsWith(d.opcode(), "cp.reduce.async.bulk");
  if (!reduces && !absl::StartsWith(d.opcode(), "cp.async.bulk")) return false;
  d.Take("reduce");
  d.Take("async");
  d.Take("bulk");
  if (d.PeekQualifier() == "tensor" ||
      absl::StartsWith(d.opcode(), "cp.async.bulk.prefetch.tensor")) {
    DecodeTensorCopy(d, reduces);
    return true;
  }
  Instruction& inst = d.inst();
  if (d.Take("commit_group")) {
    d.ExpectDone();
    d.Run(Commit);
    return true;
  }
  if (d.Take("wait_group")) {
    inst.mode = d.Take("read") ? 1 : 0;
    d.ExpectDone();
    inst.immediate = static_cast<int64_t>(d.Constant(d.operand(0)));
    d.Run(Wait);
    return true;
  }
  BulkInstruction bulk;
  bulk.reduces = reduces;
  size_t next = 0;
  if (!reduces && d.Take("prefetch")) {
    bulk.kind = Kind::kPrefetch;
    if (!d.Take("L2") || !d.Take("global")) d.Fail("the destination");
  } else if (d.Take("global")) {
    bulk.kind = Kind::kSharedToGlobal;
    if (!TakeSharedCta(d)) d.Fail("the source");
    if (!d.Take("bulk_group")) d.Fail("the completion");
  } else {
    if (!d.Take("shared::cluster")) {
      if (!TakeSharedCta(d)) d.Fail("the destination");
      bulk.to_cta = true;
    }
    if (!reduces && d.Take("global")) {
      bulk.kind = Kind::kGlobalToShared;
    } else if (TakeSharedCta(d)) {
      bulk.kind = Kind::kSharedToShared;
    } else {
      d.Fail("the source");
    }
    if (!d.Take("mbarrier::complete_tx::bytes")) d.Fail("the completion");
  }
  const bool multicast =
      bulk.kind == Kind::kGlobalToShared && d.Take("multicast::cluster");
  const bool policy = d.TakeCacheHints();
  if (reduces) {
    AtomicOp op = AtomicOp::kAdd;
    if (!TakeReductionOp(d, &op)) d.Fail("the operation");
    d.Take("noftz");
    const Type type = d.TakeType();
    if (FindReduction(op, type, bulk.kind == Kind::kSharedToShared) ==
        nullptr) {
      d.Fail("the operation on the type");
    }
    bulk.op = static_cast<uint8_t>(op);
    bulk.type = static_cast<uint8_t>(type);
  }
  d.ExpectDone();
  if (bulk.kind != Kind::kPrefetch) {
    bulk.to = TakeBulkAddress(d, d.operand(next++));
  }
  bulk.from = TakeBulkAddress(d, d.operand(next++));
  bulk.size = TakeBulkSource(d, d.operand(next++), 4);
  if (bulk.kind == Kind::kGlobalToShared ||
      bulk.kind == Kind::kSharedToShared) {
    bulk.mbarrier = TakeBulkAddress(d, d.operand(next++));
  }
  if (multicast) bulk.cta_mask = TakeBulkSource(d, d.operand(next++), 2);
  if (policy) ++next;
  if (next != d.operand_count()) d.Fail("the number of operands");
  inst.immediate = static_cast<int64_t>(d.kernel().bulk.size());
  d.kernel().bulk.push_back(bulk);
  d.Run(Copy);
  return true;
}

}  // namespace hone::emulator
