#include "kernels/emulator/mbarrier.h"

#include "absl/strings/str_cat.h"

namespace hone::emulator {

void MbarrierTable::Reset(uint32_t rank, uint32_t ctas) {
  no_clock_ = VectorClock{};
  no_clock_.rank = rank;
  if (ctas > 1) no_clock_.peers.assign(ctas, CtaClock{});
  barriers_.clear();
  by_offset_.clear();
}

Mbarrier* MbarrierTable::Find(uint32_t offset) {
  const auto it = by_offset_.find(offset);
  return it == by_offset_.end() || !it->second->live ? nullptr : it->second;
}

bool MbarrierTable::Init(uint32_t offset, uint32_t count, Mbarrier** out,
                         std::string* error) {
  if (count == 0 || count > kMaxMbarrierCount) {
    *error = absl::StrCat("mbarrier.init with a count of ", count,
                          ": legal are 1 to ", kMaxMbarrierCount);
    return false;
  }
  Mbarrier*& slot = by_offset_[offset];
  if (slot == nullptr) {
    if (barriers_.size() == kMaxMbarriers) {
      *error = absl::StrCat("more than ", kMaxMbarriers,
                            " mbarriers in one CTA are not emulated");
      return false;
    }
    slot = &barriers_.emplace_back();
    slot->offset = offset;
    slot->agent = kMbarrierAgents + barriers_.size() - 1;
  }
  // The tick goes on rising, so that clocks of an earlier life stay in the
  // past.
  const uint32_t tick = slot->tick;
  const uint32_t agent = slot->agent;
  *slot = Mbarrier();
  slot->offset = offset;
  slot->agent = agent;
  slot->tick = tick;
  slot->live = true;
  slot->arriving = slot->completed = no_clock_;
  slot->expected = slot->pending = count;
  *out = slot;
  return true;
}

void MbarrierTable::TryComplete(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.tx != 0) return;
  ++barrier.phase;
  ++barrier.tick;
  barrier.pending = barrier.expected;
  barrier.expected_bytes = barrier.arrived_bytes = 0;
  Join(barrier.completed, barrier.arriving);
  barrier.completed[barrier.agent] = barrier.tick;
}

bool MbarrierTable::Arrive(Mbarrier& barrier, uint32_t count, bool drop,
                           bool no_complete, std::string* error) {
  if (count == 0 || count > kMaxMbarrierCount) {
    *error = absl::StrCat("an arrival with a count of ", count,
                          ": legal are 1 to ", kMaxMbarrierCount);
    return false;
  }
  if (count > barrier.pending) {
    *error = absl::StrCat("arrival overflow: ", count, " arrivals at phase ",
                          barrier.phase, ", which waits for ", barrier.pending,
                          " of ", barrier.expected);
    return false;
  }
  if (no_complete && count == barrier.pending) {
    *error =
        absl::StrCat("a .noComplete arrival completes phase ", barrier.phase);
    return false;
  }
  if (drop) {
    if (count > barrier.expected) {
      *error = absl::StrCat("arrive_drop of ", count, " of ", barrier.expected,
                            " expected arrivals");
      return false;
    }
    barrier.expected -= count;
  }
  barrier.pending -= count;
  TryComplete(barrier);
  return true;
}

bool MbarrierTable::ExpectTx(Mbarrier& barrier, uint32_t bytes,
                             std::string* error) {
  barrier.tx += bytes;
  barrier.expected_bytes += bytes;
  if (bytes > kMaxMbarrierCount || barrier.tx > kMaxMbarrierCount) {
    *error = absl::StrCat("wrong byte count: the tx-count of phase ",
                          barrier.phase, " rises to ", barrier.tx,
                          "; legal are up to ", kMaxMbarrierCount);
    return false;
  }
  // Bytes may come before they are expected.
  TryComplete(barrier);
  return true;
}

bool MbarrierTable::CompleteTx(Mbarrier& barrier, uint32_t bytes,
                               std::string* error) {
  barrier.tx -= bytes;
  barrier.arrived_bytes += bytes;
  if (barrier.tx < -int64_t{kMaxMbarrierCount}) {
    *error = absl::StrCat("wrong byte count: the tx-count of phase ",
                          barrier.phase, " falls to ", barrier.tx,
                          "; legal are down to -", kMaxMbarrierCount);
    return false;
  }
  TryComplete(barrier);
  return true;
}

bool MbarrierTable::AddPending(Mbarrier& barrier, std::string* error) {
  if (barrier.pending == kMaxMbarrierCount) {
    *error = absl::StrCat("the pending count exceeds ", kMaxMbarrierCount);
    return false;
  }
  ++barrier.pending;
  return true;
}

}  // namespace hone::emulator
