// One cluster in execution: its CTAs side by side, their barrier and their
// accesses to each other's shared memory. A launch without clusters has
// clusters of one CTA.
#ifndef HONE_KERNELS_EMULATOR_CLUSTER_H_
#define HONE_KERNELS_EMULATOR_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

inline constexpr uint32_t kMaxClusterCtas = 16;

// Runs clusters one at a time. One host thread's.
class Cluster {
 public:
  explicit Cluster(const Launch& launch);

  // `index` counts clusters. OK, Aborted with the fault, or ResourceExhausted
  // after `budget` warp instructions.
  absl::Status Run(Dim3 index, uint64_t seed, uint64_t budget);

  // Of all that has run.
  Stats stats() const;

  // For the handlers -------------------------------------------------------
  uint32_t size() const { return ctas_.size(); }
  // The number in the grid of the CTA with this rank, and the other way round:
  // -1 for CTAs of other clusters.
  uint32_t NumberOf(uint32_t rank) const { return ctas_[rank]->number(); }
  int RankOf(uint32_t number) const;
  // barrier.cluster. The whole warp arrives; `release` publishes what it did.
  void Arrive(Cta& cta, Warp& warp, bool release);
  void Wait(Cta& cta, Warp& warp);
  // A warp has exited: it counts as arrived from now on.
  void NoteExit() {
    NoteProgress();
    CompleteIfAllArrived();
  }
  // Something happened that others may wait for.
  void NoteProgress() { fruitless_ = 0; }

  // Access by a lane to the shared memory of the CTA with another rank; the
  // address is without its rank. False after a fault.
  bool Read(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
            uint32_t rank, uint32_t address, uint32_t bytes, std::byte* value);
  bool Write(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
             uint32_t rank, uint32_t address, uint32_t bytes,
             const std::byte* value);
  Cta& cta(uint32_t rank) { return *ctas_[rank]; }
  // The CTA with that rank, which a lane of `cta` is about to access, or
  // nullptr after a fault: it must exist, run, and be known to have started.
  Cta* Running(Cta& cta, Warp& warp, uint32_t lane, uint32_t rank,
               absl::string_view verb);

 private:
  void CompleteIfAllArrived();
  // When no warp is ready: lands an asynchronous operation or lets mbarrier
  // waits answer "not yet". False if neither can help any more.
  bool Unblock();
  void FaultDeadlock();
  // The CTA, Running(), or nullptr after a fault; `offset` gets where its
  // memory is accessed.
  Cta* Target(Cta& cta, Warp& warp, uint32_t lane, uint32_t rank,
              uint32_t address, uint32_t bytes, absl::string_view verb,
              uint32_t* offset);

  const Launch& launch_;
  std::vector<std::unique_ptr<Cta>> ctas_;
  Random random_{0};
  uint32_t highest_clock_ = 1;
  uint32_t fruitless_ = 0;  // rounds of such answers since NoteProgress()
  // The barrier: completed phases, what the arrivals of the present one and
  // of the last completed one have published.
  uint64_t phase_ = 0;
  VectorClock arriving_;
  VectorClock completed_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_CLUSTER_H_
