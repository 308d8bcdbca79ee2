// A device with known true times and noise, and a compiler that compiles
// nothing: what the tests of choosing run against.
#ifndef HONE_TESTS_TUNER_SIMULATED_EXECUTOR_H_
#define HONE_TESTS_TUNER_SIMULATED_EXECUTOR_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/config/sha256.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"

namespace hone {

// Multiplies the true time of one call.
struct Noise {
  double sigma = 0.005;         // log-normal spread of a call
  double outlier_share = 0.02;  // calls that something disturbs
  double outlier_factor = 1.5;  // by up to this
  double drift = 0;             // slowing down per round
  double slow_clock_share = 0;  // rounds at the slow clock
  double slow_clock = 0.8;      // its rate
  bool report_clock = true;
  int64_t tick_ns = 32;  // times are multiples of this
};

class SimulatedExecutor : public Executor {
 public:
  using TrueTime = std::function<double(const TuningConfig&, int64_t m)>;
  using GateFn = std::function<GateResult(const TuningConfig&, int64_t m)>;

  SimulatedExecutor(DeviceSpec device, TrueTime true_time, Noise noise,
                    uint64_t seed)
      : device_(std::move(device)),
        true_time_(std::move(true_time)),
        noise_(noise),
        random_(seed) {}

  const DeviceSpec& device() const override { return device_; }
  Protocol protocol() const override { return {}; }

  absl::Status Begin(const Problem&, int64_t max_m, uint64_t) override {
    max_m_ = max_m;
    candidates_.clear();
    return absl::OkStatus();
  }
  absl::StatusOr<int> Add(const Candidate& candidate) override {
    candidates_.push_back(candidate);
    return static_cast<int>(candidates_.size()) - 1;
  }
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                  absl::Duration) override {
    ++gates;
    GateResult result;
    if (gate) {
      result = gate(candidates_.at(static_cast<size_t>(candidate)).config, m);
    }
    result.gate = GateKind::kDevice;
    if (after_call) after_call();
    return result;
  }
  absl::StatusOr<RoundResult> Round(const RoundRequest& request,
                                    absl::Duration) override {
    ++rounds;
    RoundResult result;
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const bool slow = uniform(random_) < noise_.slow_clock_share;
    for (const int index : request.order) {
      const TuningConfig& config =
          candidates_.at(static_cast<size_t>(index)).config;
      RoundResult::Entry entry;
      if (fault && fault(config, request.m) != Outcome::kMeasured) {
        entry.outcome = fault(config, request.m);
        entry.detail = "simulated";
        result.entries.push_back(entry);
        continue;
      }
      double ns = true_time_(config, request.m);
      ns *= std::exp(noise_.sigma * normal(random_));
      ns *= 1 + noise_.drift * rounds;
      if (slow) ns /= noise_.slow_clock;
      if (uniform(random_) < noise_.outlier_share) {
        ns *= 1 + (noise_.outlier_factor - 1) * uniform(random_);
      }
      entry.sample.duration_ns =
          std::max<int64_t>(
              1, std::llround(ns / static_cast<double>(noise_.tick_ns))) *
          noise_.tick_ns;
      entry.sample.round = request.round;
      if (noise_.report_clock) {
        entry.sample.sm_clock_khz =
            std::llround(1980000 * (slow ? noise_.slow_clock : 1.0));
      }
      result.entries.push_back(entry);
      ++calls[{config.ToString(), request.m}];
    }
    result.slowed_down = slowdown && slowdown(rounds);
    if (foreign && foreign(rounds)) result.foreign_processes = {77};
    if (interruption) {
      if (const std::string how = interruption(rounds); !how.empty()) {
        result.interruptions = {how};
        result.unpaired = true;
      }
    }
    if (after_call) after_call();
    return result;
  }

  // Behaviour that tests set.
  GateFn gate;
  std::function<Outcome(const TuningConfig&, int64_t m)> fault;
  std::function<bool(int round)> slowdown;
  std::function<bool(int round)> foreign;
  // How the worker ended in a round; empty when it did not.
  std::function<std::string(int round)> interruption;
  std::function<void()> after_call;
  // What happened.
  int gates = 0;
  int rounds = 0;
  std::map<std::pair<std::string, int64_t>, int> calls;

 private:
  DeviceSpec device_;
  TrueTime true_time_;
  Noise noise_;
  std::mt19937_64 random_;
  int64_t max_m_ = 0;
  std::vector<Candidate> candidates_;
};

class FakeCompiler : public CandidateCompiler {
 public:
  int parallelism() const override { return 2; }
  absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                        const DeviceSpec& device,
                                        const TuningConfig& config) override {
    return Sha256Hex(problem.ToString() + device.ClassText() +
                     config.ToString());
  }
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override {
    ++compiles;
    CompiledCandidate compiled;
    compiled.candidate.config = config;
    CompileInfo& info = compiled.candidate.compile;
    info.source_key = *SourceKey(problem, device, config);
    info.nvrtc_version = "13.0";
    if (outcome && outcome(config) != Outcome::kMeasured) {
      compiled.outcome = outcome(config);
      compiled.detail = "simulated";
      return compiled;
    }
    info.cubin_hash = Sha256Hex("cubin" + info.source_key);
    info.kernel_id = Sha256Hex("kernel" + info.source_key);
    info.registers = 96;
    info.smem_bytes = 48 << 10;
    compiled.candidate.cubin = "cubin";
    return compiled;
  }

  std::function<Outcome(const TuningConfig&)> outcome;
  std::atomic<int> compiles = 0;
};

}  // namespace hone

#endif  // HONE_TESTS_TUNER_SIMULATED_EXECUTOR_H_
