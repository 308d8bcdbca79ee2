// The parts of a CTA that deal with asynchronous operations: mbarrier waits,
// proxy fences, and what happens when no warp can run.
#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/cta.h"

namespace hone::emulator {
void Cta::FenceProxy(Warp& warp, uint32_t mask) {
  uint32_t& own = warp.clock[warp.index];
  const uint32_t own_fenced = warp.clock[kFenced + warp.index];
  FenceAll(warp.clock);
  if (mask != warp.live) {
    // Writes of the other lanes do not come before this fence.
    warp.clock[kFenced + warp.index] = own_fenced;
    shared_.NoteProxyFence(warp.index, mask, own);
  }
  ++own;
}

Mbarrier* Cta::UseMbarrier(Cta& target, Warp& warp, uint32_t lane,
                           uint32_t offset) {
  const bool own = &target == this;
  const std::string where =
      own ? Place(offset)
          : absl::StrCat(Place(offset), " of the CTA with rank ",
                         target.rank());
  Mbarrier* barrier = target.mbarriers().Find(offset);
  if (barrier == nullptr) {
    Fault(warp, lane,
          absl::StrCat("no mbarrier: ", where,
                       " holds none; mbarrier.init comes first"));
    return nullptr;
  }
  const CtaClock& known = warp.clock.Of(target.rank());
  if (!(own && barrier->init_warp == warp.index) &&
      barrier->init_clock > std::max(known[barrier->init_warp],
                                     known[kInits + barrier->init_warp])) {
    Fault(warp, lane,
          absl::StrCat("race: the use of the mbarrier at ", where,
                       " is not synchronized with its init by warp ",
                       barrier->init_warp, " at ",
                       Describe(barrier->init_statement)));
    return nullptr;
  }
  if (own) {
    barrier->used[warp.index] = warp.clock[warp.index];
  } else {
    target.shared().NoteRemoteUse(warp.Access(lane, serial_));
  }
  return barrier;
}

bool Cta::CheckAsyncMbarrier(Cta& target, Warp& warp, uint32_t lane,
                             const Mbarrier& barrier) {
  if (barrier.init_fenced ||
      target.shared().IsFenced(barrier.init_warp, barrier.init_lane,
                               barrier.init_clock,
                               warp.clock.Of(target.rank()))) {
    return true;
  }
  Fault(warp, lane,
        absl::StrCat("missing proxy fence: the async proxy may not see the "
                     "init of the mbarrier at ",
                     Place(barrier.offset), " by warp ", barrier.init_warp,
                     " at ", Describe(barrier.init_statement),
                     "; neither fence.mbarrier_init nor fence.proxy.async lies "
                     "between"));
  return false;
}

void Cta::Poll(Warp& warp, uint32_t lane, const Mbarrier& barrier,
               uint32_t phase) {
  warp.state = Warp::State::kPolling;
  warp.poll = {&barrier, phase, lane, false};
  // To be executed again.
  --warp.stack.back().pc;
}

void Cta::WakePollers(const Mbarrier& barrier) {
  for (Warp& warp : warps_) {
    if (warp.state == Warp::State::kPolling && warp.poll.barrier == &barrier &&
        barrier.phase > warp.poll.phase) {
      warp.state = Warp::State::kReady;
      cluster_.NoteProgress();
    }
  }
}

void Cta::ArriveAfterCopies(Warp& warp, uint32_t lane, Mbarrier* barrier) {
  const CopyArrival arrival{lane, serial_, warp.statement, barrier};
  const CopyLanding landing = launch_.options.landing;
  if (landing == CopyLanding::kEarliest ||
      (landing == CopyLanding::kRandom && random_.Below(3) == 0)) {
    ArriveForAllCopies(warp, 1u << lane);
    ArriveForCopies(warp, arrival);
  } else {
    warp.copy_arrivals.push_back(arrival);
  }
}

void Cta::ArriveForAllCopies(Warp& warp, uint32_t mask) {
  for (size_t i = 0; i < warp.copy_arrivals.size();) {
    const CopyArrival arrival = warp.copy_arrivals[i];
    if ((mask >> arrival.lane & 1) == 0) {
      ++i;
      continue;
    }
    warp.copy_arrivals.erase(warp.copy_arrivals.begin() + i);
    ArriveForCopies(warp, arrival);
    // The lane itself knows that its copies are there.
    const auto [agent, tick] = warp.copies_landed[arrival.lane];
    warp.clock[agent] = std::max(warp.clock[agent], tick);
  }
}

void Cta::ArriveForCopies(Warp& warp, const CopyArrival& arrival) {
  Mbarrier& barrier = *arrival.barrier;
  auto kept = warp.copies.begin();
  for (AsyncCopy& copy : warp.copies) {
    if (copy.lane == arrival.lane && copy.serial < arrival.serial) {
      Move(copy);
      shared_.LandAsync(copy.shared_offset, copy.bytes, barrier.agent,
                        barrier.tick + 1);
    } else {
      *kept++ = copy;
    }
  }
  if (kept != warp.copies.end()) {
    warp.copies_landed[arrival.lane] = {barrier.agent, barrier.tick + 1};
    warp.copies.erase(kept, warp.copies.end());
  }
  // Another mbarrier may track the same copies and have come first.
  const auto [agent, tick] = warp.copies_landed[arrival.lane];
  if (agent != barrier.agent) {
    barrier.arriving[agent] = std::max(barrier.arriving[agent], tick);
  }
  std::string error;
  if (!barrier.live) {
    error = "the mbarrier was invalidated while copies were under way to it";
  } else if (MbarrierTable::Arrive(barrier, 1, false, false, &error)) {
    WakePollers(barrier);
    return;
  }
  FaultAt(warp.index, arrival.lane, arrival.statement,
          absl::StrCat("mbarrier at ", Place(barrier.offset), ": ", error));
}

bool Cta::LandOne() {
  for (Warp& warp : warps_) {
    if (warp.copy_arrivals.empty()) continue;
    const CopyArrival arrival = warp.copy_arrivals.front();
    warp.copy_arrivals.erase(warp.copy_arrivals.begin());
    ArriveForCopies(warp, arrival);
    return true;
  }
  return bulk_.LandOne(*this);
}

bool Cta::AnswerPolls() {
  bool any = false;
  for (Warp& warp : warps_) {
    if (warp.state != Warp::State::kPolling) continue;
    warp.state = Warp::State::kReady;
    warp.poll.answer = true;
    any = true;
  }
  return any;
}

void Cta::CheckExit() {
  bulk_.Finish(*this);
  for (const Warp& warp : warps_) {
    if (warp.async.issued <= warp.async.completed) continue;
    Fault(warp, 0,
          "wgmma not waited for: the warp exits with one in flight; "
          "wgmma.wait_group comes first");
  }
  mbarriers_.ForEachLive([&](const Mbarrier& barrier) {
    if (barrier.tx != 0) {
      FaultAt(
          barrier.init_warp, barrier.init_lane, barrier.init_statement,
          absl::StrCat("wrong byte count at exit: ", DescribeBytes(barrier)));
    }
    // Whether it had landed by now was luck.
    const bool observed =
        std::any_of(warps_.begin(), warps_.end(), [&](const Warp& warp) {
          return warp.clock[barrier.agent] >= barrier.landed_tick;
        });
    if (!observed) {
      FaultAt(barrier.landed_warp, barrier.landed_lane,
              barrier.landed_statement,
              "copy not waited for: the CTA exits and nobody has waited for "
              "the mbarrier phase that this bulk copy completes");
    }
  });
}

std::string Cta::DescribeBytes(const Mbarrier& barrier) const {
  return absl::StrCat("phase ", barrier.phase, " of the mbarrier at ",
                      Place(barrier.offset), " expects ",
                      barrier.expected_bytes, " bytes, of which ",
                      barrier.arrived_bytes, " have arrived");
}

std::string Cta::DescribeWait(const Warp& warp) const {
  if (warp.state == Warp::State::kDone) return "has exited";
  if (warp.state == Warp::State::kPolling) {
    const Mbarrier& barrier = *warp.poll.barrier;
    return absl::StrCat("waits, in lane ", warp.poll.lane, ", for phase ",
                        warp.poll.phase, " (parity ", warp.poll.phase % 2,
                        ") of the mbarrier at ", Place(barrier.offset),
                        " (in phase ", barrier.phase, ", ",
                        barrier.expected - barrier.pending, " of ",
                        barrier.expected, " arrivals, ", barrier.arrived_bytes,
                        " of ", barrier.expected_bytes, " bytes)");
  }
  switch (warp.waits_for) {
    case Warp::WaitsFor::kBarrier: {
      const Barrier& barrier = barriers_[warp.barrier];
      return absl::StrCat("waits at barrier ", warp.barrier, " (",
                          barrier.arrived, " of ", barrier.expected,
                          " threads)");
    }
    case Warp::WaitsFor::kClusterBarrier:
      return "waits at barrier.cluster";
    case Warp::WaitsFor::kRegisters:
      return absl::StrCat("waits for ", warp.register_request,
                          " registers per thread (it has ", warp.registers,
                          "; the pool has ", free_registers_ / kWarpSize,
                          " for one warp)");
    case Warp::WaitsFor::kWarpgroup:
      return absl::StrFormat(
          "waits for the other warps of warpgroup %d (warps "
          "0x%x of it have come)",
          warp.index / 4, wgmma_.Arrived(warp.index / 4));
  }
  return "";
}

void Cta::DescribeWaits(std::vector<std::string>* out) const {
  for (const Warp& warp : warps_) {
    out->push_back(absl::StrCat("warp ", warp.index, " ", DescribeWait(warp),
                                " at ", Describe(warp.statement)));
  }
}

const Warp* Cta::FirstWaiting(std::string* what, int* weight) const {
  const Warp* first = nullptr;
  for (const Warp& warp : warps_) {
    if (warp.state == Warp::State::kDone) continue;
    const bool polling = warp.state == Warp::State::kPolling;
    const Mbarrier* barrier = polling ? warp.poll.barrier : nullptr;
    // All have arrived, and still bytes are missing or too many.
    const bool bytes = polling && barrier->tx != 0 && barrier->pending == 0;
    const int found = bytes ? 3 : polling ? 2 : 1;
    if (first != nullptr && found <= *weight) continue;
    first = &warp;
    *weight = found;
    *what = bytes ? absl::StrCat("wrong byte count: ", DescribeBytes(*barrier),
                                 "; deadlock")
                  : "deadlock";
  }
  return first;
}

}  // namespace hone::emulator
