// One CTA in execution: its warps, their registers and schedule, barriers,
// shared memory and the fault that ends it.
#ifndef HONE_KERNELS_EMULATOR_CTA_H_
#define HONE_KERNELS_EMULATOR_CTA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/emulator/async_registers.h"
#include "kernels/emulator/bulk_copy.h"
#include "kernels/emulator/emulator.h"
#include "kernels/emulator/global_memory.h"
#include "kernels/emulator/mbarrier.h"
#include "kernels/emulator/program.h"
#include "kernels/emulator/shared_memory.h"
#include "kernels/emulator/wgmma.h"

namespace hone::emulator {

// A small deterministic generator (SplitMix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint32_t Below(uint32_t n) { return (Next() >> 32) * n >> 32; }

 private:
  uint64_t state_;
};

// Lanes that run together until they reach `reconverge`, where the entry below
// them on the stack waits.
struct StackEntry {
  uint32_t pc = 0;
  uint32_t reconverge = kNone;
  uint32_t mask = 0;
};

struct AsyncCopy {
  uint32_t lane = 0;
  uint32_t group = 0;
  uint32_t serial = 0;
  uint32_t shared_offset = 0;
  uint32_t bytes = 0;         // written to shared memory
  uint32_t source_bytes = 0;  // read; the rest is zeros
  const std::byte* source = nullptr;
  bool landed = false;
};

class Cluster;
class GlobalRaces;

// cp.async.mbarrier.arrive: happens once the lane's copies up to then are done.
struct CopyArrival {
  uint32_t lane = 0;
  uint32_t serial = 0;
  uint32_t statement = 0;
  Mbarrier* barrier = nullptr;
};

// What a suspended test_wait or try_wait waits for.
struct MbarrierPoll {
  const Mbarrier* barrier = nullptr;
  uint32_t phase = 0;
  uint32_t lane = 0;
  bool answer = false;  // must not be suspended again
};

struct Warp {
  // kPolling: in a test_wait or try_wait that has not come true.
  enum class State : uint8_t { kReady, kWaiting, kPolling, kDone };
  // kWarpgroup: in a wgmma that other warps of the warpgroup have not come to.
  enum class WaitsFor : uint8_t {
    kBarrier,
    kClusterBarrier,
    kRegisters,
    kWarpgroup
  };

  template <typename T>
  T* Reg(uint32_t offset) {
    return reinterpret_cast<T*>(frame + offset);
  }
  SharedAccess Access(uint32_t lane, uint32_t serial) const {
    SharedAccess access;
    access.warp = index;
    access.lane = lane;
    access.statement = statement;
    access.serial = serial;
    access.synced_serial = synced_serial;
    access.clock = &clock;
    return access;
  }
  uint32_t index = 0;
  State state = State::kReady;
  std::byte* frame = nullptr;
  std::byte* local = nullptr;  // [lane][local_bytes]
  uint32_t live = 0;           // lanes that have not exited
  uint32_t statement = 0;      // the instruction in execution
  std::vector<StackEntry> stack;
  VectorClock clock = {};
  uint32_t synced_serial = 0;
  WaitsFor waits_for = WaitsFor::kBarrier;
  uint32_t barrier = 0;  // waited for
  bool yields = false;   // ends its turn after the instruction
  // barrier.cluster: arrived and not waited since, in which phase.
  bool cluster_arrived = false;
  uint64_t cluster_phase = 0;
  // setmaxnreg: registers per thread, how often they were changed, the clock
  // of the last change, and the count asked for.
  uint32_t registers = 0;
  uint32_t register_changes = 0;
  uint32_t register_clock = 0;
  uint32_t register_request = 0;
  // The clock of the first griddepcontrol.wait, 0: none yet.
  uint32_t dependency_clock = 0;
  // cp.async, per lane: groups committed so far.
  std::array<uint32_t, kWarpSize> committed = {};
  std::vector<AsyncCopy> copies;
  std::vector<CopyArrival> copy_arrivals;
  // The mbarrier agent, and its tick, that a lane's copies last landed for.
  std::array<std::pair<uint32_t, uint32_t>, kWarpSize> copies_landed = {};
  // Bulk copies, likewise.
  std::array<uint32_t, kWarpSize> bulk_committed = {};
  // The carry flag of each lane, and the lanes that have set it.
  uint32_t carry = 0;
  uint32_t carry_known = 0;
  MbarrierPoll poll;
  AsyncRegisters async;
};

enum class BarrierKind : uint8_t { kSync, kArrive, kPopc, kAnd, kOr };

// What the CTAs of one launch share.
struct Launch {
  const Program* program = nullptr;
  const Kernel* kernel = nullptr;
  const LaunchPlan* plan = nullptr;
  GlobalMemory* global = nullptr;
  std::vector<std::byte> parameters;
  Options options;
  bool has_in_flight = false;    // some buffer is HostBuffer::in_flight
  GlobalRaces* races = nullptr;  // null: several host threads
};

// Runs CTAs one at a time, as one of a cluster; reuses its memory from one to
// the next. One host thread's.
class Cta {
 public:
  Cta(const Launch& launch, Cluster& cluster, uint32_t rank);

  // For the cluster --------------------------------------------------------
  // `base` is a clock above those of all earlier CTAs of the cluster.
  void Start(Dim3 index, uint64_t seed, uint32_t base);
  enum class Turn : uint8_t { kRan, kBlocked, kDone };
  // Lets one ready warp run for a while, at most until `budget` instructions
  // are used up. Check faulted() afterwards.
  Turn TakeTurn(uint64_t budget);
  // "warp 3 waits at ...", for each warp that has not run to its end.
  void DescribeWaits(std::vector<std::string>* out) const;
  // The warp to blame for a deadlock, nullptr if all have exited. `*what` gets
  // what kind of deadlock it is; the greater `*weight`, the more it says.
  const Warp* FirstWaiting(std::string* what, int* weight) const;
  // When no warp is ready. Lands one asynchronous operation; false if none is
  // under way.
  bool LandOne();
  // Lets every suspended mbarrier wait answer "not yet"; false if there is
  // none.
  bool AnswerPolls();
  bool done() const { return done_; }
  const absl::Status& status() const { return status_; }
  uint32_t HighestClock() const;
  // The lowest clock that a warp which has synchronized with this CTA since
  // its start knows of one of its warps.
  uint32_t start_clock() const { return start_clock_; }

  // For the handlers -------------------------------------------------------
  const Launch& launch() const { return launch_; }
  const Kernel& kernel() const { return *launch_.kernel; }
  GlobalMemory& global() { return *launch_.global; }
  SharedMemory& shared() { return shared_; }
  Stats& stats() { return stats_; }
  Random& random() { return random_; }
  uint32_t serial() const { return serial_; }
  bool faulted() const { return !status_.ok(); }
  Cluster& cluster() { return cluster_; }
  uint32_t rank() const { return rank_; }
  MbarrierTable& mbarriers() { return mbarriers_; }
  BulkCopies& bulk() { return bulk_; }
  WgmmaUnit& wgmma() { return wgmma_; }
  uint32_t number() const { return number_; }  // in the grid
  std::vector<Warp>& warps() { return warps_; }

  // Stops the CTA. The first fault counts.
  void Fault(const Warp& warp, uint32_t lane, absl::string_view what);
  // The same for an instruction that is not in execution any more.
  void FaultAt(uint32_t warp, uint32_t lane, uint32_t statement,
               absl::string_view what);
  // "byte 16 of dynamic shared memory"
  std::string Place(uint32_t offset) const;
  // The source and PTX line of an instruction.
  std::string Describe(uint32_t statement) const;
  // Fault() with the words for a shared-memory fault. `owner`: whose memory it
  // is, if not this CTA's.
  void FaultShared(const Warp& warp, uint32_t lane, SharedFault fault,
                   absl::string_view verb, uint32_t offset, uint32_t bytes,
                   Cta* owner = nullptr);
  // True if every live lane of the warp is in mask; otherwise faults.
  bool RequireConverged(const Warp& warp, uint32_t mask,
                        absl::string_view what);

  // The lanes `taken` of those that run go to `target`, the others on.
  void Branch(Warp& warp, const Instruction& inst, uint32_t taken,
              uint32_t target);
  void Exit(Warp& warp, uint32_t mask);
  // threads: 0 for the whole CTA. For reductions, `votes` are the lanes whose
  // predicate holds and `result` the frame offset that gets the answer.
  void ArriveAtBarrier(Warp& warp, uint32_t id, uint32_t threads,
                       BarrierKind kind, uint32_t votes, uint32_t result);
  // Orders the lanes of a warp after their asynchronous copies.
  void SyncWarp(Warp& warp) { warp.synced_serial = serial_; }

  void IssueCopy(Warp& warp, const AsyncCopy& copy);
  // Completes, for each lane of `mask`, the copies of all but its `keep` last
  // committed groups (and of the group still open).
  void WaitForCopies(Warp& warp, uint32_t mask, uint32_t keep);

  // setmaxnreg: the warp's registers per thread become `count`, now or, for an
  // increase, once the CTA's pool has room.
  void SetMaxRegisters(Warp& warp, bool increase, uint32_t count);

  // False after a fault: the address is in a buffer that the launch before
  // this one may still use, and no griddepcontrol.wait comes before.
  bool CheckDependency(const Warp& warp, uint32_t lane, uint64_t address);
  // For every access to global memory, in bounds: false after a fault. Checks
  // for races and for a missing griddepcontrol.wait.
  bool CheckGlobal(const Warp& warp, uint32_t lane, uint64_t address,
                   uint32_t bytes, bool write, bool strong);
  // The same for an access of an earlier instruction, at a clock of the warp;
  // kInFlight if nobody else can know yet that it has happened.
  static constexpr uint32_t kInFlight = 0xffffffff;
  bool CheckGlobalAt(const Warp& warp, uint32_t lane, uint32_t statement,
                     uint32_t clock, uint64_t address, uint32_t bytes,
                     bool write, bool strong);
  // A fence of gpu scope or wider.
  void FenceGrid(Warp& warp);
  // Strong writes and reads of global memory; `release` and `acquire`: without
  // the help of a fence.
  void ReleaseGlobal(Warp& warp, uint64_t address, bool release);
  void AcquireGlobal(Warp& warp, uint64_t address, bool acquire);

  // griddepcontrol.wait.
  void WaitForDependency(Warp& warp);

  // An arrival at `barrier` once the lane's copies so far have landed.
  void ArriveAfterCopies(Warp& warp, uint32_t lane, Mbarrier* barrier);

  // Orders what the lanes know before later operations of the async proxy.
  void FenceProxy(Warp& warp, uint32_t mask);
  // The mbarrier at an offset of the target's shared memory, ready to be used
  // by a lane of this CTA; nullptr after a fault.
  Mbarrier* UseMbarrier(Cta& target, Warp& warp, uint32_t lane,
                        uint32_t offset);
  // Whether a copy by this CTA may complete on the target's mbarrier; faults
  // if the async proxy cannot see its init.
  bool CheckAsyncMbarrier(Cta& target, Warp& warp, uint32_t lane,
                          const Mbarrier& barrier);
  // Suspends the instruction in execution until `phase` has completed, or no
  // warp can run: then it must answer that it has not.
  void Poll(Warp& warp, uint32_t lane, const Mbarrier& barrier, uint32_t phase);
  // After every change of an mbarrier.
  void WakePollers(const Mbarrier& barrier);

  // Strong writes and reads of shared memory order warps.
  void Release(Warp& warp, uint32_t offset);
  void Acquire(Warp& warp, uint32_t offset);

 private:
  struct Barrier {
    uint32_t expected = 0;  // threads; 0: nobody has arrived
    uint32_t arrived = 0;
    BarrierKind kind = BarrierKind::kSync;
    uint32_t votes = 0;
    uint32_t arrived_warps = 0;  // bit mask
    uint32_t statement = 0;      // of the first arrival
    VectorClock clock = {};
    std::vector<std::pair<uint32_t, uint32_t>> waiting;  // warp, result
  };

  // All that the warp knows, of any CTA.
  std::shared_ptr<const GridKnowledge> Knowledge(const Warp& warp) const;
  void Finish();
  void GrantRegisters();
  void FillFrame(Warp& warp, Dim3 index);
  void RunWarp(Warp& warp, uint32_t quantum);
  void Complete(Barrier& barrier);
  void LandSomeCopies(Warp& warp);
  void Move(AsyncCopy& copy);
  void ArriveForCopies(Warp& warp, const CopyArrival& arrival);
  // All the arrivals of the lanes of `mask` that are still to come.
  void ArriveForAllCopies(Warp& warp, uint32_t mask);
  // What asynchronous operations leave undone when the CTA exits.
  void CheckExit();
  std::string DescribeWait(const Warp& warp) const;
  std::string DescribeBytes(const Mbarrier& barrier) const;
  std::string Where(uint32_t warp, uint32_t lane, uint32_t statement) const;

  const Launch& launch_;
  Cluster& cluster_;
  const uint32_t rank_;
  SharedMemory shared_;
  std::vector<Warp> warps_;
  std::vector<std::byte> frames_;
  std::vector<std::byte> locals_;
  std::array<Barrier, 16> barriers_;
  MbarrierTable mbarriers_;
  BulkCopies bulk_;
  WgmmaUnit wgmma_;
  absl::flat_hash_map<uint32_t, VectorClock> releases_;
  Random random_{0};
  Dim3 index_;
  Stats stats_;
  absl::Status status_;
  uint32_t serial_ = 0;
  uint64_t budget_ = 0;
  uint32_t start_clock_ = 1;
  uint32_t number_ = 0;
  uint32_t free_registers_ = 0;  // of the CTA's pool
  bool done_ = false;
  std::vector<uint32_t> ready_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_CTA_H_
