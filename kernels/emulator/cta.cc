#include "kernels/emulator/cta.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"

namespace hone::emulator {
namespace {

// Frames start out with this in every register.
constexpr std::byte kRegisterPattern{0xcb};

std::string Plural(uint64_t n, absl::string_view noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

}  // namespace

Cta::Cta(const Launch& launch, Cluster& cluster, uint32_t rank)
    : launch_(launch), cluster_(cluster), rank_(rank) {
  const uint32_t threads = launch.plan->block.Count();
  const uint32_t warps = (threads + kWarpSize - 1) / kWarpSize;
  warps_.resize(warps);
  frames_.assign(size_t{kernel().frame_bytes} * warps + 64, kRegisterPattern);
  locals_.resize(size_t{kernel().local_bytes} * warps * kWarpSize);
  // Registers are 64-byte aligned, for the vector units of the host.
  const size_t misaligned = reinterpret_cast<uintptr_t>(frames_.data()) % 64;
  std::byte* frame = frames_.data() + (64 - misaligned) % 64;
  for (uint32_t w = 0; w < warps; ++w) {
    warps_[w].index = w;
    warps_[w].frame = frame + size_t{w} * kernel().frame_bytes;
    warps_[w].local =
        locals_.data() + size_t{w} * kWarpSize * kernel().local_bytes;
  }
}

void Cta::FillFrame(Warp& warp, Dim3 index) {
  const Kernel& k = kernel();
  for (const ConstantSlot& slot : k.constants) {
    if (slot.bytes == 1) {
      *warp.Reg<uint32_t>(slot.offset) = static_cast<uint32_t>(slot.bits);
      continue;
    }
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      std::memcpy(warp.frame + slot.offset + size_t{lane} * slot.bytes,
                  &slot.bits, slot.bytes);
    }
  }
  const SpecialRegisters& s = k.special;
  const LaunchPlan& plan = *launch_.plan;
  const auto fill = [&](uint32_t offset, uint32_t value) {
    std::fill_n(warp.Reg<uint32_t>(offset), kWarpSize, value);
  };
  const auto fill3 = [&](const uint32_t(&offsets)[3], const Dim3& value) {
    fill(offsets[0], value.x);
    fill(offsets[1], value.y);
    fill(offsets[2], value.z);
  };
  fill3(s.ntid, plan.block);
  fill3(s.ctaid, index);
  fill3(s.nctaid, plan.grid);
  fill(s.warpid, warp.index);
  fill(s.nwarpid, warps_.size());
  fill(s.smid, 0);
  fill(s.nsmid, 1);
  fill(s.dynamic_smem_size, plan.smem_bytes);
  fill(s.total_smem_size, kSharedBase + shared_.bytes());
  const Dim3& size = plan.cluster;
  fill3(s.cluster_ctaid,
        {index.x % size.x, index.y % size.y, index.z % size.z});
  fill3(s.cluster_nctaid, size);
  fill3(s.clusterid, {index.x / size.x, index.y / size.y, index.z / size.z});
  fill3(s.nclusterid,
        {plan.grid.x / size.x, plan.grid.y / size.y, plan.grid.z / size.z});
  fill(s.cluster_ctarank, rank_);
  fill(s.cluster_nctarank, size.Count());
  *warp.Reg<uint32_t>(s.is_explicit_cluster) =
      size.Count() > 1 || k.required_cluster[0] != 0 ? kAllLanes : 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t thread = warp.index * kWarpSize + lane;
    warp.Reg<uint32_t>(s.tid[0])[lane] = thread % plan.block.x;
    warp.Reg<uint32_t>(s.tid[1])[lane] = thread / plan.block.x % plan.block.y;
    warp.Reg<uint32_t>(s.tid[2])[lane] = thread / plan.block.x / plan.block.y;
    const uint32_t bit = 1u << lane;
    warp.Reg<uint32_t>(s.laneid)[lane] = lane;
    warp.Reg<uint32_t>(s.lanemask_eq)[lane] = bit;
    warp.Reg<uint32_t>(s.lanemask_lt)[lane] = bit - 1;
    warp.Reg<uint32_t>(s.lanemask_le)[lane] = bit | (bit - 1);
    warp.Reg<uint32_t>(s.lanemask_ge)[lane] = ~(bit - 1);
    warp.Reg<uint32_t>(s.lanemask_gt)[lane] = ~(bit | (bit - 1));
  }
}

void Cta::Start(Dim3 index, uint64_t seed, uint32_t base) {
  index_ = index;
  const Dim3& grid = launch_.plan->grid;
  number_ = index.x + grid.x * (index.y + grid.y * index.z);
  random_ = Random(seed);
  status_ = absl::OkStatus();
  done_ = false;
  shared_.Reset(kernel().dynamic_shared_offset + launch_.plan->smem_bytes,
                warps_.size(), rank_, base + 1);
  std::fill(frames_.begin(), frames_.end(), kRegisterPattern);
  std::fill(locals_.begin(), locals_.end(), kRegisterPattern);
  serial_ = 0;
  for (Barrier& barrier : barriers_) barrier = Barrier();
  releases_.clear();
  bulk_.Reset();
  wgmma_.Reset();
  free_registers_ = 0;
  start_clock_ = base + 1;
  const uint32_t ctas = launch_.plan->cluster.Count();
  mbarriers_.Reset(rank_, ctas);
  const uint32_t threads = launch_.plan->block.Count();
  for (Warp& warp : warps_) {
    warp.state = Warp::State::kReady;
    const uint32_t left = threads - warp.index * kWarpSize;
    warp.live = left >= kWarpSize ? kAllLanes : (1u << left) - 1;
    warp.stack = {{0, kNone, warp.live}};
    // Clocks rise from CTA to CTA, so readers of earlier ones are in the past.
    static_cast<CtaClock&>(warp.clock) = ClockAt(base);
    warp.clock.rank = rank_;
    warp.clock.peers.clear();
    warp.clock.grid = nullptr;
    warp.clock.fenced = nullptr;
    warp.clock.to_acquire = nullptr;
    if (ctas > 1) warp.clock.peers.assign(ctas, warp.clock);
    // Nothing happens at start_clock_ itself: to know it is to know no access.
    warp.clock[warp.index] = base + 2;
    warp.synced_serial = 0;
    warp.committed.fill(0);
    warp.copies.clear();
    warp.yields = false;
    warp.cluster_arrived = false;
    warp.registers = kernel().register_cap;
    warp.register_changes = 0;
    warp.register_clock = 0;
    warp.dependency_clock = 0;
    warp.copy_arrivals.clear();
    warp.copies_landed.fill({kMbarrierAgents, 0});
    warp.bulk_committed.fill(0);
    warp.carry_known = 0;
    warp.poll = MbarrierPoll();
    warp.async = AsyncRegisters();
    warp.async.registers.resize(kernel().async_register_count);
    FillFrame(warp, index);
  }
}

Cta::Turn Cta::TakeTurn(uint64_t budget) {
  ready_.clear();
  bool done = true;
  for (const Warp& warp : warps_) {
    if (warp.state == Warp::State::kReady) ready_.push_back(warp.index);
    done &= warp.state == Warp::State::kDone;
  }
  if (done) {
    Finish();
    return Turn::kDone;
  }
  if (ready_.empty()) return Turn::kBlocked;
  // A suspended mbarrier wait may also give up while others run.
  if (random_.Below(64) == 0) AnswerPolls();
  budget_ = stats_.instructions + budget;
  Warp& warp = warps_[ready_[random_.Below(ready_.size())]];
  // Short and long turns, so that warps drift apart and also interleave.
  const uint32_t quantum = 1 + random_.Below(8u << random_.Below(8));
  LandSomeCopies(warp);
  bulk_.LandSome(*this);
  RunWarp(warp, quantum);
  return Turn::kRan;
}

uint32_t Cta::HighestClock() const {
  uint32_t highest = 0;
  for (const Warp& warp : warps_) {
    highest = std::max(highest, warp.clock[warp.index]);
  }
  return highest;
}

void Cta::RunWarp(Warp& warp, uint32_t quantum) {
  const Instruction* code = kernel().code.data();
  while (quantum > 0) {
    StackEntry& top = warp.stack.back();
    if (top.pc == top.reconverge) {
      warp.stack.pop_back();
      continue;
    }
    const Instruction& inst = code[top.pc];
    warp.statement = top.pc;
    uint32_t mask = top.mask;
    if (inst.guard != kNone) {
      const uint32_t guard = *warp.Reg<uint32_t>(inst.guard);
      mask &= inst.guard_negated ? ~guard : guard;
    }
    ++top.pc;
    --quantum;
    ++serial_;
    if (++stats_.instructions > budget_) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(
          Where(warp.index, std::countr_zero(top.mask), top.pc - 1),
          ": the limit of max_instructions = ",
          launch_.options.max_instructions, " ran out"));
      return;
    }
    if (mask == 0) continue;
    if (inst.touches_async && !TouchAsyncRegisters(*this, warp, inst)) return;
    inst.run(*this, warp, inst, mask);
    if (!status_.ok() || warp.state != Warp::State::kReady) return;
    if (warp.yields) {
      warp.yields = false;
      return;
    }
  }
}

std::string Cta::Where(uint32_t warp, uint32_t lane, uint32_t statement) const {
  return absl::StrFormat("kernel %s, CTA (%d,%d,%d), warp %d, lane %d at %s",
                         kernel().name, index_.x, index_.y, index_.z, warp,
                         lane, Describe(statement));
}

std::string Cta::Describe(uint32_t statement) const {
  return launch_.program->Describe(kernel().code[statement]);
}

std::string Cta::Place(uint32_t offset) const {
  const uint32_t dynamic = kernel().dynamic_shared_offset;
  return offset >= dynamic
             ? absl::StrCat("byte ", offset - dynamic,
                            " of dynamic shared memory")
             : absl::StrCat("byte ", offset, " of static shared memory");
}

void Cta::Fault(const Warp& warp, uint32_t lane, absl::string_view what) {
  FaultAt(warp.index, lane, warp.statement, what);
}

void Cta::FaultAt(uint32_t warp, uint32_t lane, uint32_t statement,
                  absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::AbortedError(
      absl::StrCat(Where(warp, lane, statement), ": ", what));
}

void Cta::FaultShared(const Warp& warp, uint32_t lane, SharedFault fault,
                      absl::string_view verb, uint32_t offset, uint32_t bytes,
                      Cta* owner) {
  Cta& holder = owner == nullptr ? *this : *owner;
  const SharedMemory::Conflict& conflict =
      owner == nullptr ? shared_.conflict() : owner->shared_.conflict();
  const auto of_cta = [](int64_t rank) {
    return absl::StrCat(" of the CTA with rank ", rank);
  };
  const uint32_t dynamic = kernel().dynamic_shared_offset;
  const std::string access = absl::StrCat(
      "shared ", verb, " of ", Plural(bytes, "byte"), " at ", Place(offset),
      owner == nullptr ? "" : of_cta(owner->rank()));
  const std::string by_other =
      absl::StrCat("warp ", conflict.warp,
                   conflict.rank >= 0 ? of_cta(conflict.rank)
                   : owner != nullptr ? of_cta(owner->rank())
                                      : "",
                   " at ", Describe(conflict.statement));
  std::string what;
  switch (fault) {
    case SharedFault::kNone:
      return;
    case SharedFault::kOutOfBounds:
      what = absl::StrCat("out of bounds: ", access, "; the CTA has ", dynamic,
                          " bytes static and ", shared_.bytes() - dynamic,
                          " dynamic");
      break;
    case SharedFault::kUninitialized:
      what = absl::StrCat("uninitialized: ", access, ", of which ",
                          Place(conflict.byte), " was never written");
      break;
    case SharedFault::kPendingCopy:
      what = absl::StrCat("copy not waited for: ", access,
                          " touches the target of the asynchronous copy by ",
                          "lane ", conflict.lane, " of ", by_other,
                          ", which that lane has not waited for");
      break;
    case SharedFault::kUnsyncedCopy:
      what = absl::StrCat("copy not synchronized: ", access,
                          " touches the target of the asynchronous copy by "
                          "lane ",
                          conflict.lane, " of ", by_other,
                          "; that lane has waited for it, but nothing has "
                          "synchronized this lane with it since");
      break;
    case SharedFault::kReadAfterWrite:
      what = absl::StrCat("race: ", access,
                          " is not synchronized with the earlier write by ",
                          by_other);
      break;
    case SharedFault::kWriteAfterWrite:
      what = absl::StrCat("race: ", access,
                          " is not synchronized with the earlier write by ",
                          by_other);
      break;
    case SharedFault::kWriteAfterRead:
      what = absl::StrCat("race: ", access,
                          " is not synchronized with the earlier read by ",
                          by_other);
      break;
    case SharedFault::kUnobservedCopy:
      what = absl::StrCat("copy not waited for: ", access,
                          " touches the target of the bulk copy by lane ",
                          conflict.lane, " of ", by_other,
                          "; this warp has not waited for the mbarrier phase "
                          "that it completes");
      break;
    case SharedFault::kMissingProxyFence:
      what = absl::StrCat(
          "missing proxy fence: ", access,
          " through the async proxy meets the ordinary write by lane ",
          conflict.lane, " of ", by_other,
          "; no fence.proxy.async lies between them, so that the async proxy "
          "may see what was there before");
      break;
    case SharedFault::kUnfencedRead:
      what = absl::StrCat(
          "missing proxy fence: ", access,
          " through the async proxy may overtake the ordinary read by ",
          by_other,
          "; no fence.proxy.async lies between them, and mbarriers alone order "
          "only what goes through one proxy");
      break;
    case SharedFault::kSourceInFlight:
      what = absl::StrCat("overwritten source: ", access, " while ",
                          holder.bulk_.DescribeReader(holder, conflict.byte),
                          " still reads it");
      break;
    case SharedFault::kOperandInFlight:
      what = absl::StrCat(
          "overwritten operand: ", access, " while the wgmma of warpgroup ",
          conflict.warp / 4, " at ", Describe(conflict.statement),
          " may still read it; this warp has not synchronized with a "
          "wgmma.wait_group for it");
      break;
    case SharedFault::kMbarrierObject:
      what = absl::StrCat("mbarrier object: ", access,
                          " touches the live mbarrier that was initialized by ",
                          by_other);
      break;
    case SharedFault::kConflictingStore:
      what = absl::StrCat("conflicting stores: ", access,
                          " and another lane of the same instruction write "
                          "different values");
      break;
  }
  Fault(warp, lane, what);
}

bool Cta::RequireConverged(const Warp& warp, uint32_t mask,
                           absl::string_view what) {
  if (mask == warp.live) return true;
  Fault(warp, std::countr_zero(mask),
        absl::StrFormat("divergence: %s by lanes 0x%08x while lanes 0x%08x of "
                        "the warp are elsewhere",
                        what, mask, warp.live & ~mask));
  return false;
}

void Cta::Branch(Warp& warp, const Instruction& inst, uint32_t taken,
                 uint32_t target) {
  StackEntry& top = warp.stack.back();
  // The executor has moved on to the next statement already.
  const uint32_t next = top.pc;
  const Instruction& at_target = kernel().code[target];
  if (at_target.ends_lane && at_target.guard == kNone) {
    // Leaving by a jump to the final ret is leaving now: those lanes do not
    // linger at the join.
    Exit(warp, taken);
    return;
  }
  if (taken == top.mask) {
    top.pc = target;
    return;
  }
  const StackEntry sides[2] = {{target, inst.reconverge, taken},
                               {next, inst.reconverge, top.mask & ~taken}};
  if (inst.reconverge == top.reconverge || inst.reconverge == kNone) {
    // The entry below already waits where these lanes meet, or nobody does.
    const uint32_t reconverge = top.reconverge;
    warp.stack.pop_back();
    const uint32_t first = random_.Below(2);
    for (uint32_t i : {1 - first, first}) {
      StackEntry side = sides[i];
      side.reconverge = reconverge;
      warp.stack.push_back(side);
    }
    return;
  }
  top.pc = inst.reconverge;
  const uint32_t first = random_.Below(2);
  warp.stack.push_back(sides[1 - first]);
  warp.stack.push_back(sides[first]);
}

void Cta::Exit(Warp& warp, uint32_t mask) {
  warp.live &= ~mask;
  for (StackEntry& entry : warp.stack) entry.mask &= ~mask;
  warp.stack.erase(
      std::remove_if(warp.stack.begin(), warp.stack.end(),
                     [](const StackEntry& entry) { return entry.mask == 0; }),
      warp.stack.end());
  if (warp.stack.empty()) {
    warp.state = Warp::State::kDone;
    cluster_.NoteExit();
  }
}

void Cta::ArriveAtBarrier(Warp& warp, uint32_t id, uint32_t threads,
                          BarrierKind kind, uint32_t votes, uint32_t result) {
  const uint32_t lane = std::countr_zero(warp.live);
  if (id >= barriers_.size()) {
    Fault(warp, lane, absl::StrCat("barrier ", id, ": legal are 0 to 15"));
    return;
  }
  const uint32_t all = warps_.size() * kWarpSize;
  const uint32_t expected = threads == 0 ? all : threads;
  if (expected % kWarpSize != 0 || expected > all) {
    Fault(warp, lane,
          absl::StrCat("barrier ", id, " waits for ", threads,
                       " threads: legal are multiples of 32 up to the CTA's ",
                       all));
    return;
  }
  Barrier& barrier = barriers_[id];
  if (barrier.expected == 0) {
    barrier.expected = expected;
    barrier.clock = warp.clock;
    barrier.kind = kind;
    barrier.statement = warp.statement;
  } else {
    const std::string first = absl::StrCat(
        " the first arrival at ",
        launch_.program->Describe(kernel().code[barrier.statement]));
    if (barrier.expected != expected) {
      Fault(warp, lane,
            absl::StrCat("inconsistent barrier ", id, ": ", expected,
                         " threads here, ", barrier.expected, " at", first));
      return;
    }
    const auto reduces = [](BarrierKind k) {
      return k != BarrierKind::kSync && k != BarrierKind::kArrive;
    };
    if (barrier.kind != kind && (reduces(kind) || reduces(barrier.kind))) {
      Fault(warp, lane,
            absl::StrCat("inconsistent barrier ", id,
                         ": another operation than", first));
      return;
    }
    if (barrier.arrived_warps >> warp.index & 1) {
      Fault(
          warp, lane,
          absl::StrCat("barrier ", id,
                       ": the warp arrives again before it completes;", first));
      return;
    }
  }
  // An arrival counts the whole warp, exited lanes included.
  barrier.arrived += kWarpSize;
  barrier.arrived_warps |= 1u << warp.index;
  switch (kind) {
    case BarrierKind::kAnd: {
      // Counted as lanes that do not hold.
      barrier.votes += std::popcount(warp.live & ~votes);
      break;
    }
    default:
      barrier.votes += std::popcount(votes);
  }
  Join(barrier.clock, warp.clock);
  ++warp.clock[warp.index];
  if (kind != BarrierKind::kArrive) {
    warp.state = Warp::State::kWaiting;
    warp.waits_for = Warp::WaitsFor::kBarrier;
    warp.barrier = id;
    barrier.waiting.push_back({warp.index, result});
  }
  if (barrier.arrived == barrier.expected) Complete(barrier);
}

void Cta::Complete(Barrier& barrier) {
  ++stats_.barriers;
  cluster_.NoteProgress();
  for (const auto& [index, result] : barrier.waiting) {
    Warp& warp = warps_[index];
    Join(warp.clock, barrier.clock);
    warp.synced_serial = serial_;
    warp.state = Warp::State::kReady;
    // The lanes that asked for it are those that are live: arrival needed all.
    switch (barrier.kind) {
      case BarrierKind::kPopc:
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
          warp.Reg<uint32_t>(result)[lane] = barrier.votes;
        }
        break;
      case BarrierKind::kAnd:
        *warp.Reg<uint32_t>(result) = barrier.votes == 0 ? kAllLanes : 0;
        break;
      case BarrierKind::kOr:
        *warp.Reg<uint32_t>(result) = barrier.votes != 0 ? kAllLanes : 0;
        break;
      case BarrierKind::kSync:
      case BarrierKind::kArrive:
        break;
    }
  }
  barrier = Barrier();
}

void Cta::IssueCopy(Warp& warp, const AsyncCopy& copy) {
  ++stats_.async_copies;
  const SharedAccess access = warp.Access(copy.lane, serial_);
  const SharedFault fault =
      shared_.BeginCopy(copy.shared_offset, copy.bytes, access);
  if (fault != SharedFault::kNone) {
    FaultShared(warp, copy.lane, fault, "asynchronous write",
                copy.shared_offset, copy.bytes);
    return;
  }
  warp.copies.push_back(copy);
  warp.copies.back().serial = serial_;
  const CopyLanding landing = launch_.options.landing;
  if (landing == CopyLanding::kEarliest ||
      (landing == CopyLanding::kRandom && random_.Below(3) == 0)) {
    Move(warp.copies.back());
  }
}

void Cta::Move(AsyncCopy& copy) {
  if (copy.landed) return;
  copy.landed = true;
  if (copy.source_bytes > 0) {
    std::memcpy(shared_.data(copy.shared_offset), copy.source,
                copy.source_bytes);
  }
  std::memset(shared_.data(copy.shared_offset + copy.source_bytes), 0,
              copy.bytes - copy.source_bytes);
}

void Cta::LandSomeCopies(Warp& warp) {
  if (launch_.options.landing != CopyLanding::kRandom) return;
  if (warp.copies.empty() && warp.copy_arrivals.empty()) return;
  if (random_.Below(8) != 0) return;
  if (!warp.copy_arrivals.empty() && random_.Below(4) == 0) {
    const CopyArrival arrival = warp.copy_arrivals.front();
    warp.copy_arrivals.erase(warp.copy_arrivals.begin());
    ArriveForCopies(warp, arrival);
  }
  for (AsyncCopy& copy : warp.copies) {
    if (random_.Below(4) == 0) Move(copy);
  }
}

void Cta::WaitForCopies(Warp& warp, uint32_t mask, uint32_t keep) {
  // Arrivals that track the copies come first: they may, and then the copies
  // belong to whoever waits for the mbarrier.
  ArriveForAllCopies(warp, mask);
  auto kept = warp.copies.begin();
  for (AsyncCopy& copy : warp.copies) {
    if ((mask >> copy.lane & 1) != 0 &&
        copy.group + keep < warp.committed[copy.lane]) {
      Move(copy);
      shared_.Land(copy.shared_offset, copy.bytes,
                   warp.Access(copy.lane, serial_));
    } else {
      *kept++ = copy;
    }
  }
  warp.copies.erase(kept, warp.copies.end());
}

void Cta::Release(Warp& warp, uint32_t offset) {
  const auto [it, added] = releases_.try_emplace(offset, warp.clock);
  if (!added) Join(it->second, warp.clock);
  ++warp.clock[warp.index];
}

void Cta::Acquire(Warp& warp, uint32_t offset) {
  const auto it = releases_.find(offset);
  if (it != releases_.end()) Join(warp.clock, it->second);
}

}  // namespace hone::emulator
