#include "kernels/emulator/bulk_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/cta.h"

namespace hone::emulator {
namespace {

using Kind = BulkInstruction::Kind;

SharedAccess AccessOf(const BulkCopy& copy, const Warp& warp) {
  SharedAccess access = warp.Access(copy.lane, copy.serial);
  access.statement = copy.statement;
  return access;
}

// The offset in shared memory that a piece is read from.
uint32_t SourceOffset(const BulkCopy& copy, const BulkPiece& piece) {
  return copy.kind == Kind::kSharedToShared ? piece.source : piece.shared;
}

}  // namespace

void BulkCopies::Reset() {
  copies_.clear();
  unwritten_.clear();
}

bool BulkCopies::NoteGlobal(const BulkCopy& copy, const Warp& warp,
                            uint32_t clock) {
  if (copy.kind == Kind::kSharedToShared || copy.IsGeneric()) return true;
  for (const BulkPiece& piece : copy.pieces) {
    // Reductions are atomic, element by element.
    if (piece.end > piece.begin &&
        !copy.issuer->CheckGlobalAt(warp, copy.lane, copy.statement, clock,
                                    piece.address, piece.end - piece.begin,
                                    copy.kind == Kind::kSharedToGlobal,
                                    copy.reduce != nullptr)) {
      return false;
    }
  }
  return true;
}

bool BulkCopies::Issue(Cta& target, Warp& warp, BulkCopy copy) {
  Cta& issuer = *copy.issuer;
  const SharedAccess access = AccessOf(copy, warp);
  const bool to_shared = copy.kind != Kind::kSharedToGlobal;
  for (const BulkPiece& piece : copy.pieces) {
    if (!copy.ReadsShared()) break;
    // What lies outside a tensor is not looked at.
    const uint32_t from = SourceOffset(copy, piece) + piece.begin;
    const uint32_t bytes = piece.end - piece.begin;
    const SharedFault fault =
        issuer.shared().CheckAsyncRead(from, bytes, access);
    if (fault != SharedFault::kNone) {
      issuer.FaultShared(warp, copy.lane, fault, "bulk read", from, bytes);
      return false;
    }
  }
  if (to_shared) {
    for (const BulkPiece& piece : copy.pieces) {
      const SharedFault fault = target.shared().BeginAsyncWrite(
          piece.shared, piece.bytes, copy.reduce != nullptr, copy.IsGeneric(),
          access);
      if (fault != SharedFault::kNone) {
        issuer.FaultShared(warp, copy.lane, fault, "bulk write", piece.shared,
                           piece.bytes, &target == &issuer ? nullptr : &target);
        return false;
      }
    }
  }
  if (!NoteGlobal(copy, warp,
                  to_shared ? warp.clock[warp.index] : Cta::kInFlight)) {
    return false;
  }
  ++issuer.stats().bulk_copies;
  copies_.push_back(std::move(copy));
  MarkSources();
  const CopyLanding landing = target.launch().options.landing;
  if (landing == CopyLanding::kEarliest ||
      (landing == CopyLanding::kRandom && target.random().Below(3) == 0)) {
    Land(target, copies_.size() - 1);
  }
  return !target.faulted() && !issuer.faulted();
}

void BulkCopies::MarkSources() {
  for (const BulkCopy& copy : copies_) {
    if (!copy.ReadsShared()) continue;
    for (const BulkPiece& piece : copy.pieces) {
      copy.issuer->shared().MarkSource(SourceOffset(copy, piece), piece.bytes,
                                       /*in_flight=*/true);
    }
  }
}

void BulkCopies::ReadSource(BulkCopy& copy) {
  if (copy.read) return;
  copy.read = true;
  for (const BulkPiece& piece : copy.pieces) {
    const std::byte* from =
        copy.issuer->shared().data(SourceOffset(copy, piece));
    copy.data.insert(copy.data.end(), from, from + piece.bytes);
  }
}

void BulkCopies::WriteGlobal(Cta& target, BulkCopy& copy) {
  if (copy.written) return;
  copy.written = true;
  // Reductions meet those of CTAs on other host threads.
  absl::MutexLock lock(&target.global().atomic_mutex());
  const std::byte* from = copy.data.data();
  for (const BulkPiece& piece : copy.pieces) {
    const uint32_t bytes = piece.end - piece.begin;
    if (bytes == 0) {
    } else if (copy.reduce != nullptr) {
      copy.reduce(piece.global, from + piece.begin, bytes);
    } else {
      std::memcpy(piece.global, from + piece.begin, bytes);
    }
    from += piece.bytes;
  }
}

// Moves the bytes. A copy to shared memory is then complete and gone; one to
// global memory stays until its thread has waited.
void BulkCopies::Land(Cta& target, size_t index) {
  BulkCopy& copy = copies_[index];
  if (copy.kind != Kind::kGlobalToShared) ReadSource(copy);
  if (copy.kind == Kind::kSharedToGlobal) {
    WriteGlobal(target, copy);
    return;
  }
  Mbarrier& barrier = *copy.barrier;
  SharedMemory& shared = target.shared();
  uint64_t total = 0;
  size_t at = 0;
  for (const BulkPiece& piece : copy.pieces) {
    std::byte* to = shared.data(piece.shared);
    if (copy.kind != Kind::kGlobalToShared) {
      if (copy.reduce != nullptr) {
        copy.reduce(to, copy.data.data() + at, piece.bytes);
      } else {
        std::memcpy(to, copy.data.data() + at, piece.bytes);
      }
      at += piece.bytes;
    } else {
      for (uint32_t i = 0; i < piece.bytes; i += copy.fill_bytes) {
        if (i >= piece.begin && i < piece.end) continue;
        std::memcpy(to + i, &copy.fill, copy.fill_bytes);
      }
      if (piece.end > piece.begin) {
        std::memcpy(to + piece.begin, piece.global, piece.end - piece.begin);
      }
    }
    shared.LandAsync(piece.shared, piece.bytes, barrier.agent, barrier.tick + 1,
                     copy.IsGeneric());
    total += piece.bytes;
  }
  barrier.landed_tick = barrier.tick + 1;
  barrier.landed_warp = copy.warp;
  barrier.landed_lane = copy.lane;
  barrier.landed_statement = copy.statement;
  const BulkCopy landed = std::move(copy);
  copies_.erase(copies_.begin() + index);
  if (landed.kind == Kind::kSharedToShared) {
    for (const BulkPiece& piece : landed.pieces) {
      landed.issuer->shared().MarkSource(piece.source, piece.bytes, false);
    }
    // Other copies may read the same, and reduce to the same bytes.
    Cluster& cluster = target.cluster();
    for (uint32_t rank = 0; rank < cluster.size(); ++rank) {
      cluster.cta(rank).bulk().MarkSources();
    }
  }
  for (const BulkCopy& other : copies_) {
    if (landed.reduce == nullptr || other.reduce == nullptr) continue;
    if (other.kind == Kind::kSharedToGlobal) continue;
    for (const BulkPiece& piece : other.pieces) {
      shared.StayPending(piece.shared, piece.bytes);
    }
  }
  std::string error;
  if (!barrier.live) {
    error = "it was invalidated while a bulk copy was under way to it";
  } else if (MbarrierTable::CompleteTx(barrier, static_cast<uint32_t>(total),
                                       &error)) {
    target.WakePollers(barrier);
    return;
  }
  landed.issuer->FaultAt(
      landed.warp, landed.lane, landed.statement,
      absl::StrCat("mbarrier at ", target.Place(barrier.offset), ": ", error));
}

void BulkCopies::LandSome(Cta& target) {
  if (copies_.empty() ||
      target.launch().options.landing != CopyLanding::kRandom ||
      target.random().Below(8) != 0) {
    return;
  }
  Land(target, target.random().Below(copies_.size()));
}

bool BulkCopies::LandOne(Cta& target) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].kind != Kind::kSharedToGlobal) candidates.push_back(i);
  }
  if (candidates.empty()) return false;
  Land(target, candidates[target.random().Below(candidates.size())]);
  return true;
}

void BulkCopies::Wait(Cta& target, Warp& warp, uint32_t mask, uint32_t keep,
                      bool read_only) {
  std::vector<BulkCopy> kept;
  std::vector<BulkCopy> ended;
  for (BulkCopy& copy : copies_) {
    const bool covered = copy.kind == Kind::kSharedToGlobal &&
                         copy.warp == warp.index &&
                         (mask >> copy.lane & 1) != 0 &&
                         copy.group + keep < warp.bulk_committed[copy.lane];
    if (!covered) {
      kept.push_back(std::move(copy));
      continue;
    }
    ReadSource(copy);
    if (!read_only) {
      WriteGlobal(target, copy);
      NoteGlobal(copy, warp, warp.clock[warp.index]);
    }
    for (const BulkPiece& piece : copy.pieces) {
      target.shared().MarkSource(piece.shared, piece.bytes, false);
      target.shared().NoteRead(piece.shared, piece.bytes, AccessOf(copy, warp));
    }
    // Also one that has been written early: nobody knows it yet.
    if (read_only) ended.push_back(std::move(copy));
  }
  copies_ = std::move(kept);
  MarkSources();
  // What has been read no longer concerns shared memory.
  for (BulkCopy& copy : ended) unwritten_.push_back(std::move(copy));
  if (read_only) return;
  auto left = std::partition(
      unwritten_.begin(), unwritten_.end(), [&](const BulkCopy& copy) {
        return copy.warp != warp.index || (mask >> copy.lane & 1) == 0 ||
               copy.group + keep >= warp.bulk_committed[copy.lane];
      });
  for (auto it = left; it != unwritten_.end(); ++it) {
    WriteGlobal(target, *it);
    NoteGlobal(*it, warp, warp.clock[warp.index]);
  }
  unwritten_.erase(left, unwritten_.end());
}

void BulkCopies::Finish(Cta& target) {
  for (const BulkCopy& copy : copies_) {
    const bool to_global = copy.kind == Kind::kSharedToGlobal;
    copy.issuer->FaultAt(
        copy.warp, copy.lane, copy.statement,
        to_global
            ? "copy not waited for: the CTA exits while this bulk copy may "
              "still read its shared memory; "
              "cp.async.bulk.wait_group.read comes first"
            : "copy not waited for: the CTA exits while this bulk copy to its "
              "shared memory is under way");
  }
  for (BulkCopy& copy : unwritten_) WriteGlobal(target, copy);
  unwritten_.clear();
}

std::string BulkCopies::DescribeReader(Cta& target, uint32_t offset) const {
  Cluster& cluster = target.cluster();
  for (uint32_t rank = 0; rank < cluster.size(); ++rank) {
    for (const BulkCopy& copy : cluster.cta(rank).bulk().copies_) {
      if (!copy.ReadsShared() || copy.issuer != &target) continue;
      for (const BulkPiece& piece : copy.pieces) {
        const uint32_t from = SourceOffset(copy, piece);
        if (offset < from || offset >= from + piece.bytes) continue;
        return absl::StrCat("the bulk copy by lane ", copy.lane, " of warp ",
                            copy.warp, " at ", target.Describe(copy.statement));
      }
    }
  }
  return "a bulk copy";
}

}  // namespace hone::emulator
