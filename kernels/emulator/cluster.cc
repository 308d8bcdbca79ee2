#include "kernels/emulator/cluster.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// A kernel may do something else after a few waits in vain, but not after this
// many in which nothing else happened.
constexpr uint32_t kFruitlessRounds = 32;

Dim3 CtaIndex(const Dim3& cluster, const Dim3& size, uint32_t rank) {
  return {cluster.x * size.x + rank % size.x,
          cluster.y * size.y + rank / size.x % size.y,
          cluster.z * size.z + rank / size.x / size.y};
}

}  // namespace

Cluster::Cluster(const Launch& launch) : launch_(launch) {
  const uint32_t size = launch.plan->cluster.Count();
  for (uint32_t rank = 0; rank < size; ++rank) {
    ctas_.push_back(std::make_unique<Cta>(launch, *this, rank));
  }
}

absl::Status Cluster::Run(Dim3 index, uint64_t seed, uint64_t budget) {
  random_ = Random(seed);
  const uint32_t base = highest_clock_;
  VectorClock empty = {};
  if (size() > 1) empty.peers.resize(size());
  arriving_ = completed_ = empty;
  phase_ = 0;
  fruitless_ = 0;
  std::vector<Cta*> running;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    ctas_[rank]->Start(CtaIndex(index, launch_.plan->cluster, rank),
                       random_.Next(), base);
    running.push_back(ctas_[rank].get());
  }
  uint64_t used = 0;
  uint32_t blocked = 0;  // turns in a row that found no ready warp
  while (!running.empty()) {
    const uint32_t at = running.size() == 1 ? 0 : random_.Below(running.size());
    Cta& cta = *running[at];
    const uint64_t before = cta.stats().instructions;
    const Cta::Turn turn = cta.TakeTurn(budget - used);
    used += cta.stats().instructions - before;
    // A fault may be that of another CTA, whose copy has landed here.
    for (const auto& c : ctas_) {
      if (c->faulted()) return c->status();
    }
    if (turn == Cta::Turn::kDone) running.erase(running.begin() + at);
    if (turn != Cta::Turn::kBlocked) {
      blocked = 0;
      continue;
    }
    // Random draws may miss the one CTA that can run: then look at each.
    if (++blocked < 2 * running.size()) continue;
    const bool stuck = std::all_of(running.begin(), running.end(), [](Cta* c) {
      return std::none_of(
          c->warps().begin(), c->warps().end(),
          [](const Warp& warp) { return warp.state == Warp::State::kReady; });
    });
    if (!stuck) continue;
    if (!Unblock()) FaultDeadlock();
    for (const auto& c : ctas_) {
      if (c->faulted()) return c->status();
    }
  }
  for (const auto& cta : ctas_) {
    highest_clock_ = std::max(highest_clock_, cta->HighestClock());
  }
  return absl::OkStatus();
}

int Cluster::RankOf(uint32_t number) const {
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (NumberOf(rank) == number) return static_cast<int>(rank);
  }
  return -1;
}

Stats Cluster::stats() const {
  Stats sum;
  for (const auto& cta : ctas_) sum += cta->stats();
  return sum;
}

bool Cluster::Unblock() {
  const uint32_t from = random_.Below(size());
  for (uint32_t i = 0; i < size(); ++i) {
    Cta& cta = *ctas_[(from + i) % size()];
    if (!cta.done() && cta.LandOne()) {
      NoteProgress();
      return true;
    }
  }
  if (++fruitless_ > kFruitlessRounds) return false;
  bool polled = false;
  for (const auto& cta : ctas_) polled |= cta->AnswerPolls();
  return polled;
}

void Cluster::FaultDeadlock() {
  std::vector<std::string> parts;
  Cta* blamed = nullptr;
  const Warp* first = nullptr;
  std::string what;
  int most = 0;
  for (const auto& cta : ctas_) {
    std::vector<std::string> waits;
    cta->DescribeWaits(&waits);
    if (size() > 1) {
      for (std::string& wait : waits) {
        wait = absl::StrCat("rank ", cta->rank(), ": ", wait);
      }
    }
    parts.insert(parts.end(), waits.begin(), waits.end());
    std::string kind;
    int weight = 0;
    const Warp* warp = cta->FirstWaiting(&kind, &weight);
    if (warp == nullptr || weight <= most) continue;
    blamed = cta.get();
    first = warp;
    what = kind;
    most = weight;
  }
  const uint32_t lane = first->state == Warp::State::kPolling
                            ? first->poll.lane
                            : std::countr_zero(first->live);
  blamed->Fault(*first, lane,
                absl::StrCat(what, ": ", absl::StrJoin(parts, "; ")));
}

void Cluster::Arrive(Cta& cta, Warp& warp, bool release) {
  if (warp.cluster_arrived) {
    cta.Fault(warp, std::countr_zero(warp.live),
              "barrier.cluster: the warp arrives again without a "
              "barrier.cluster.wait in between");
    return;
  }
  warp.cluster_arrived = true;
  warp.cluster_phase = phase_;
  if (release) {
    Join(arriving_, warp.clock);
    ++warp.clock[warp.index];
  } else {
    // It publishes no memory accesses, but that the CTA has started, and the
    // mbarriers that a fence.mbarrier_init of its own has released.
    CtaClock& known = arriving_.Of(cta.rank());
    known[warp.index] = std::max(known[warp.index], cta.start_clock());
    uint32_t& inits = known[kInits + warp.index];
    inits = std::max(inits, warp.clock[kInits + warp.index]);
  }
  CompleteIfAllArrived();
}

void Cluster::Wait(Cta& cta, Warp& warp) {
  if (!warp.cluster_arrived) {
    cta.Fault(warp, std::countr_zero(warp.live),
              "barrier.cluster: the warp waits without having arrived");
    return;
  }
  warp.waits_for = Warp::WaitsFor::kClusterBarrier;
  warp.state = Warp::State::kWaiting;
  if (warp.cluster_phase != phase_) {
    warp.cluster_arrived = false;
    warp.state = Warp::State::kReady;
    Join(warp.clock, completed_);
    cta.SyncWarp(warp);
  }
}

void Cluster::CompleteIfAllArrived() {
  bool any = false;
  for (const auto& cta : ctas_) {
    for (const Warp& warp : cta->warps()) {
      const bool arrived = warp.cluster_arrived && warp.cluster_phase == phase_;
      if (warp.state != Warp::State::kDone && !arrived) return;
      any |= arrived;
    }
  }
  if (!any) return;
  completed_ = arriving_;
  ++phase_;
  ++ctas_[0]->stats().barriers;
  for (const auto& cta : ctas_) {
    for (Warp& warp : cta->warps()) {
      if (warp.state != Warp::State::kWaiting ||
          warp.waits_for != Warp::WaitsFor::kClusterBarrier) {
        continue;
      }
      warp.cluster_arrived = false;
      warp.state = Warp::State::kReady;
      Join(warp.clock, completed_);
      cta->SyncWarp(warp);
    }
  }
}

Cta* Cluster::Running(Cta& cta, Warp& warp, uint32_t lane, uint32_t rank,
                      absl::string_view verb) {
  if (rank == cta.rank()) return &cta;
  const std::string what = absl::StrCat("shared::cluster ", verb,
                                        " in the CTA with rank ", rank, ": ");
  if (rank >= size()) {
    cta.Fault(warp, lane,
              absl::StrCat("out of bounds: ", what, "the cluster has ", size(),
                           size() == 1 ? " CTA" : " CTAs"));
    return nullptr;
  }
  Cta& target = *ctas_[rank];
  if (target.done()) {
    cta.Fault(warp, lane, absl::StrCat("race: ", what, "that CTA has exited"));
    return nullptr;
  }
  const CtaClock& known = warp.clock.Of(rank);
  bool started = false;
  for (const Warp& other : target.warps()) {
    started |= known[other.index] >= target.start_clock();
  }
  if (!started) {
    cta.Fault(warp, lane,
              absl::StrCat("race: ", what,
                           "nothing orders this after the start of that CTA"));
    return nullptr;
  }
  return &target;
}

Cta* Cluster::Target(Cta& cta, Warp& warp, uint32_t lane, uint32_t rank,
                     uint32_t address, uint32_t bytes, absl::string_view verb,
                     uint32_t* offset) {
  Cta* running = Running(cta, warp, lane, rank, verb);
  if (running == nullptr) return nullptr;
  Cta& target = *running;
  const std::string what = absl::StrCat("shared::cluster ", verb,
                                        " in the CTA with rank ", rank, ": ");
  const uint64_t at = uint64_t{address} - kSharedBase;
  if (!target.shared().InBounds(at, bytes)) {
    cta.Fault(warp, lane,
              absl::StrFormat("out of bounds: %s%d bytes at byte %d of %d",
                              what, bytes, static_cast<int64_t>(at),
                              target.shared().bytes()));
    return nullptr;
  }
  if (!CheckAlignment(cta, warp, lane, address, bytes,
                      absl::StrCat("shared::cluster ", verb))) {
    return nullptr;
  }
  *offset = static_cast<uint32_t>(at);
  return &target;
}

bool Cluster::Read(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
                   uint32_t rank, uint32_t address, uint32_t bytes,
                   std::byte* value) {
  uint32_t offset = 0;
  Cta* target = Target(cta, warp, lane, rank, address, bytes, "read", &offset);
  if (target == nullptr) return false;
  const bool strong = inst.Has(Instruction::kStrong);
  if (strong) target->Acquire(warp, offset);
  const SharedFault fault = target->shared().ReadRemote(
      offset, bytes,
      {cta.rank(), warp.index, warp.statement, strong, &warp.clock});
  if (fault != SharedFault::kNone) {
    cta.FaultShared(warp, lane, fault, "read", offset, bytes, target);
    return false;
  }
  cta.stats().shared_bytes_read += bytes;
  std::memcpy(value, target->shared().data(offset), bytes);
  return true;
}

bool Cluster::Write(Cta& cta, Warp& warp, const Instruction& inst,
                    uint32_t lane, uint32_t rank, uint32_t address,
                    uint32_t bytes, const std::byte* value) {
  uint32_t offset = 0;
  Cta* target = Target(cta, warp, lane, rank, address, bytes, "write", &offset);
  if (target == nullptr) return false;
  const bool strong = inst.Has(Instruction::kStrong);
  const SharedFault fault = target->shared().WriteRemote(
      offset, bytes, value,
      {cta.rank(), warp.index, warp.statement, strong, &warp.clock});
  if (fault != SharedFault::kNone) {
    cta.FaultShared(warp, lane, fault, "write", offset, bytes, target);
    return false;
  }
  if (strong) target->Release(warp, offset);
  cta.stats().shared_bytes_written += bytes;
  return true;
}

}  // namespace hone::emulator
