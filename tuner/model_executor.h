// ModelExecutor: the executor of `model:<name>` devices.
//
// Nothing here is measured. Times come from the analytic model, fed with the
// cubin's registers and shared memory, with a seeded jitter of ±0.2 % on top
// so that the statistics of a race have something to work on; the same seed
// gives the same times. device() is DeviceKind::kModelled and protocol().timer
// is "model": its trials never answer for real hardware.
//
// Correctness is proved by emulation (GateKind::kEmulated). A kernel is
// specialised on N and K, and emulating a whole layer would take hours, so the
// gate renders the same TuningConfig for a small sibling problem (the same
// types, scales and bias; N and K of a few ragged tiles), compiles it with the
// same compiler and runs its PTX in kernels/emulator against the CPU oracle:
// twice, in different orders of CTAs, warps and copies, which must agree to
// the bit. One launch has a whole and a ragged tile of tokens and stands for
// every M, so each config is emulated once. GateResult::detail names the
// sibling.
#ifndef HONE_TUNER_MODEL_EXECUTOR_H_
#define HONE_TUNER_MODEL_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"
#include "tuner/trial.h"

namespace hone {

class ModelExecutor : public Executor {
 public:
  // `device` must be modelled (ModelledDevice()). `compiler` compiles the
  // siblings and must outlive the executor.
  ModelExecutor(DeviceSpec device, CandidateCompiler* compiler);

  const DeviceSpec& device() const override { return device_; }
  Protocol protocol() const override;
  absl::Status Begin(const Problem& problem, int64_t max_m,
                     uint64_t seed) override;
  absl::StatusOr<int> Add(const Candidate& candidate) override;
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                  absl::Duration deadline) override;
  absl::StatusOr<RoundResult> Round(const RoundRequest& request,
                                    absl::Duration deadline) override;

  // The small problem that stands in for `problem` in the gate of `config`.
  // Internal when no legal one is found.
  static absl::StatusOr<Problem> SiblingProblem(const Problem& problem,
                                                const TuningConfig& config,
                                                const DeviceSpec& device);

 private:
  absl::StatusOr<GateResult> Emulate(const Problem& sibling,
                                     const TuningConfig& config, int64_t m,
                                     absl::Duration deadline);

  DeviceSpec device_;
  CandidateCompiler* compiler_;
  Problem problem_;
  int64_t max_m_ = 0;
  uint64_t seed_ = 0;
  std::vector<Candidate> candidates_;
  // By source key of the sibling and M of the emulated launch; kept across
  // Begin(), since the sibling does not depend on the layer's size.
  std::map<std::pair<std::string, int64_t>, GateResult> emulated_;
};

}  // namespace hone

#endif  // HONE_TUNER_MODEL_EXECUTOR_H_
