// The faults that a fault run plants among good candidates, and the seams where
// they come in: the source of a kernel, the compile process, the worker
// process. Nothing of the product knows of them.
//
// A faulty source is one that a compiler and a GPU really stumble over. Its
// first line also names the fault, which is all that the fake compiler and the
// fake worker (fake_compiler.cc, fake_worker.cc) look at.
#ifndef HONE_TESTS_SUPPORT_FAULTS_H_
#define HONE_TESTS_SUPPORT_FAULTS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/codegen/codegen.h"
#include "tuner/candidate_compiler.h"
#include "tuner/jit_compiler.h"
#include "tuner/worker/process_executor.h"

namespace hone {

enum class FaultKind : uint8_t {
  kHang,
  kIllegalAddress,
  kIllegalInstruction,
  kWrongAnswer,
  kNan,
  kRace,
  kCompilerCrash,
  kEndlessCompile,
  kWorkerKilled,
  kOutOfMemory,
};
inline constexpr int kFaultKinds = 10;
// "hang", "illegal_address", ...
absl::string_view ToString(FaultKind kind);
// As what a candidate with this fault must be stored.
Outcome OutcomeOf(FaultKind kind);

// `kernel` with a fault in it. Two configs never share a faulty source. Of
// kWorkerKilled the kernel itself.
std::string FaultySource(FaultKind kind, const RenderedKernel& kernel,
                         const Problem& problem, const TuningConfig& config);
// The fault named in the first line of a source; empty when there is none.
absl::string_view FaultNamedIn(absl::string_view source);

// Overwrites the instructions of a cubin with ones that do not exist. What is
// no ELF file stays as it is.
void SpoilInstructions(std::string& cubin);

// Which candidates are faulty: a shuffled deck of faults and good ones, from
// which each candidate draws once. Thread-safe.
class FaultPlan {
 public:
  using Counts = std::map<FaultKind, int>;

  // `share`: of the candidates that draw while faults are left, so many get
  // one.
  FaultPlan(Counts faults, double share, uint64_t seed);

  // Until this is called no candidate is faulty.
  void Enable(bool enabled);
  // Faults still to be given, worker kills included.
  int left() const;

  // The fault of a candidate, drawn at the first call. Only kernels of mma.sync
  // get races.
  std::optional<FaultKind> Draw(const Problem& problem,
                                const TuningConfig& config);
  // What was drawn; nullopt when it is a good one.
  std::optional<FaultKind> FaultOf(const Problem& problem,
                                   const TuningConfig& config) const;
  // The faulty configs of a problem.
  std::map<TuningConfig, FaultKind,
           bool (*)(const TuningConfig&, const TuningConfig&)>
  FaultsOf(const Problem& problem) const;
  // The candidate was never tried: its fault goes back.
  void Return(FaultKind kind);
  // Whether the worker is to be killed during the next call, and after how much
  // of 0 to 1.
  std::optional<double> DrawKill();
  // Whether that kill met a living worker; else it goes back.
  void EndKill(bool done);
  // Those that did.
  int kills() const;

 private:
  mutable absl::Mutex mutex_;
  bool enabled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<FaultKind> deck_ ABSL_GUARDED_BY(mutex_);
  int kills_left_ ABSL_GUARDED_BY(mutex_) = 0;
  int kills_ ABSL_GUARDED_BY(mutex_) = 0;
  const double share_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::pair<TuningConfig, std::optional<FaultKind>>>
      drawn_ ABSL_GUARDED_BY(mutex_);
};

// Compiles candidates with the faults of the plan. Each kind of compile has its
// own pool, so that only faulty compiles meet short deadlines and small limits.
class FaultyCompiler : public CandidateCompiler {
 public:
  struct Compilers {
    std::shared_ptr<Compiler> good;
    // Short of memory, unless the compiler is the fake one.
    std::shared_ptr<Compiler> crashing;
    // With a short deadline.
    std::shared_ptr<Compiler> hurried;
  };
  // The plan must outlive it.
  FaultyCompiler(FaultPlan* plan, const Compilers& compilers);

  int parallelism() const override { return good_.parallelism(); }
  absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                        const DeviceSpec& device,
                                        const TuningConfig& config) override;
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override;

 private:
  JitCompiler& CompilerFor(std::optional<FaultKind> fault);

  FaultPlan* const plan_;
  JitCompiler good_;
  JitCompiler crashing_;
  JitCompiler hurried_;
};

// Runs candidates through a worker that the plan kills now and then, with gates
// of a test's length: what hangs does so at its first.
class FaultyExecutor : public Executor {
 public:
  FaultyExecutor(FaultPlan* plan, std::unique_ptr<ProcessExecutor> executor,
                 absl::Duration gate_deadline,
                 absl::Duration longest_until_kill);

  const DeviceSpec& device() const override { return executor_->device(); }
  Protocol protocol() const override { return executor_->protocol(); }
  absl::Status Usable() const override { return executor_->Usable(); }
  absl::Status Begin(const Problem& problem, int64_t max_m,
                     uint64_t seed) override;
  absl::StatusOr<int> Add(const Candidate& candidate) override;
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                  absl::Duration deadline) override;
  absl::StatusOr<RoundResult> Round(const RoundRequest& request,
                                    absl::Duration deadline) override;

  ExecutorHealth health() const override { return executor_->health(); }

 private:
  class Killer;

  FaultPlan* const plan_;
  const std::unique_ptr<ProcessExecutor> executor_;
  const absl::Duration gate_deadline_;
  const absl::Duration longest_until_kill_;
  Problem problem_;
  std::vector<TuningConfig> configs_;
  // The last worker that was killed.
  pid_t killed_ = 0;
};

}  // namespace hone

#endif  // HONE_TESTS_SUPPORT_FAULTS_H_
