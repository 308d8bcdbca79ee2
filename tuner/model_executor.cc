#include "tuner/model_executor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/emulator/emulator.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"

namespace hone {
namespace {

// Rows and columns past whole tiles, so that every edge is met: of K in bits of
// A, whose rows stay a multiple of 16 bytes long.
constexpr int64_t kRaggedM = 3;
constexpr int64_t kRaggedN = 40;
constexpr int64_t kRaggedKBits = 384;
// A sibling's reduction is kept below this where the split allows it.
constexpr int64_t kSiblingK = 8192;
constexpr double kJitter = 0.002;
// The emulator counts instructions, not time; it runs far more than this.
constexpr double kInstructionsPerSecond = 1e6;
constexpr uint64_t kEmulationSeed = 20240611;

uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t MixText(uint64_t x, absl::string_view text) {
  for (const char c : text) x = Mix(x ^ static_cast<unsigned char>(c));
  return x;
}

// Operands of one emulated launch, owned here while the emulator uses them.
struct Operands {
  std::vector<uint16_t> a;
  std::vector<std::byte> a_bytes;
  std::vector<float> a_scales;
  QuantizedWeights weights;
  PackedWeights packed;
  std::vector<uint16_t> bias;
  std::vector<uint16_t> c;
  std::vector<std::byte> workspace;
};

absl::StatusOr<Operands> MakeOperands(const Problem& problem, int64_t m,
                                      uint64_t workspace_bytes) {
  const LayerConfig& layer = problem.layer;
  Operands operands;
  std::mt19937_64 random(kEmulationSeed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> weights(static_cast<size_t>(layer.n * layer.k));
  for (float& weight : weights) weight = 0.05F * normal(random);
  HONE_ASSIGN_OR_RETURN(operands.weights, Quantize(layer, weights));
  HONE_ASSIGN_OR_RETURN(operands.packed, Pack(layer, operands.weights));
  operands.a.resize(static_cast<size_t>(m * layer.k));
  // Integers spread over their range.
  const double spread = layer.a.is_integer() ? layer.a.MaxFinite() / 3 : 1;
  for (uint16_t& code : operands.a) {
    code = static_cast<uint16_t>(layer.a.Encode(spread * normal(random)));
  }
  operands.a_bytes = PackActivations(layer, operands.a);
  operands.a_scales.resize(static_cast<size_t>(InputScaleCount(problem, m)));
  for (float& scale : operands.a_scales) {
    scale = std::exp(0.5F * normal(random)) / static_cast<float>(spread);
  }
  if (layer.bias) {
    operands.bias.resize(static_cast<size_t>(layer.n));
    for (uint16_t& code : operands.bias) {
      code = static_cast<uint16_t>(layer.c.Encode(normal(random)));
    }
  }
  // All ones is a NaN in both 16-bit types.
  operands.c.assign(static_cast<size_t>(m * layer.n), 0xffff);
  operands.workspace.assign(workspace_bytes, std::byte{0});
  return operands;
}

template <typename T>
emulator::HostBuffer Bind(std::vector<T>& values, bool writable) {
  emulator::HostBuffer buffer;
  buffer.data = reinterpret_cast<std::byte*>(values.data());
  buffer.bytes = values.size() * sizeof(T);
  buffer.writable = writable;
  buffer.initialized = !writable;
  return buffer;
}

// One launch; the outcome when the kernel misbehaved.
absl::StatusOr<std::optional<GateResult>> Launch(
    const emulator::Module& module, const LaunchPlan& plan, Operands& operands,
    const emulator::Options& options) {
  const emulator::Bindings bindings = {
      {BufferRole::kA, Bind(operands.a_bytes, false)},
      {BufferRole::kAScale, Bind(operands.a_scales, false)},
      {BufferRole::kB, Bind(operands.packed.b, false)},
      {BufferRole::kBScale, Bind(operands.packed.scales, false)},
      {BufferRole::kBias, Bind(operands.bias, false)},
      {BufferRole::kC, Bind(operands.c, true)},
      {BufferRole::kWorkspace, Bind(operands.workspace, true)},
  };
  const absl::Status status =
      emulator::Execute(module, plan, bindings, options).status();
  if (status.ok()) return std::nullopt;
  GateResult result;
  result.gate = GateKind::kEmulated;
  result.detail = std::string(status.message());
  if (absl::IsAborted(status)) {
    result.outcome = Outcome::kFault;
  } else if (absl::IsResourceExhausted(status)) {
    result.outcome = Outcome::kTimeout;
  } else {
    return absl::InternalError(
        absl::StrCat("emulating a candidate: ", status.message()));
  }
  return result;
}

}  // namespace

ModelExecutor::ModelExecutor(DeviceSpec device, CandidateCompiler* compiler)
    : device_(std::move(device)), compiler_(compiler) {}

Protocol ModelExecutor::protocol() const {
  Protocol protocol;
  protocol.timer = "model";
  return protocol;
}

absl::Status ModelExecutor::Begin(const Problem& problem, int64_t max_m,
                                  uint64_t seed) {
  HONE_RETURN_IF_ERROR(CheckProblem(problem, device_));
  problem_ = problem;
  max_m_ = max_m;
  seed_ = seed;
  candidates_.clear();
  return absl::OkStatus();
}

absl::StatusOr<int> ModelExecutor::Add(const Candidate& candidate) {
  candidates_.push_back(candidate);
  return static_cast<int>(candidates_.size()) - 1;
}

absl::StatusOr<Problem> ModelExecutor::SiblingProblem(
    const Problem& problem, const TuningConfig& config,
    const DeviceSpec& device) {
  Problem sibling = problem;
  sibling.layer.n = config.block_n + kRaggedN;
  // Enough steps for each part of the split to go once around its ring.
  int64_t steps = config.stages + 1;
  while (steps > 2 && steps * config.split_k * config.block_k > kSiblingK) {
    --steps;
  }
  // How CTAs of a cluster share a copy depends on whether K is whole segments
  // of 128 bytes.
  const bool cluster = config.cluster_m * config.cluster_n > 1;
  const int64_t ragged = cluster
                             ? config.block_k - 1024 / problem.layer.a.bits()
                             : kRaggedKBits / problem.layer.a.bits();
  const auto columns = [&] {
    return steps * config.split_k * config.block_k - ragged;
  };
  sibling.layer.k = columns();
  if (problem.compute.batch_invariant) {
    // Few channels, whose K is split into as many parts as it is long enough
    // for.
    while (InvariantOrder(sibling, device).split_k < config.split_k) {
      ++steps;
      sibling.layer.k = columns();
    }
  }
  HONE_RETURN_IF_ERROR(CheckProblem(sibling, device));
  if (const auto refusal = CheckConfig(sibling, device, config)) {
    return absl::InternalError(absl::StrCat(
        "no sibling problem for ", config.ToString(), ": ", refusal->reason));
  }
  return sibling;
}

absl::StatusOr<GateResult> ModelExecutor::Gate(int candidate, int64_t m,
                                               absl::Duration deadline) {
  if (candidate < 0 || candidate >= std::ssize(candidates_) || m < 1 ||
      m > max_m_) {
    return absl::InvalidArgumentError(
        absl::StrCat("no candidate ", candidate, " at M = ", m));
  }
  const TuningConfig& config =
      candidates_[static_cast<size_t>(candidate)].config;
  // One whole tile of tokens and a ragged one, as far as the ladder goes.
  const int64_t emulated_m = std::min(max_m_, config.block_m + kRaggedM);
  HONE_ASSIGN_OR_RETURN(const Problem sibling,
                        SiblingProblem(problem_, config, device_));
  HONE_ASSIGN_OR_RETURN(const std::string key,
                        compiler_->SourceKey(sibling, device_, config));
  const auto known = emulated_.find({key, emulated_m});
  if (known != emulated_.end()) return known->second;
  HONE_ASSIGN_OR_RETURN(GateResult result,
                        Emulate(sibling, config, emulated_m, deadline));
  emulated_[{key, emulated_m}] = result;
  return result;
}

absl::StatusOr<GateResult> ModelExecutor::Emulate(const Problem& sibling,
                                                  const TuningConfig& config,
                                                  int64_t m,
                                                  absl::Duration deadline) {
  HONE_ASSIGN_OR_RETURN(const CompiledCandidate compiled,
                        compiler_->Compile(sibling, device_, config));
  const std::string about =
      absl::StrCat("emulated on a sibling of N = ", sibling.layer.n,
                   ", K = ", sibling.layer.k, ", M = ", m);
  GateResult result;
  if (compiled.outcome != Outcome::kMeasured) {
    result.outcome = compiled.outcome;
    result.detail = absl::StrCat(about, ": ", compiled.detail);
    return result;
  }
  HONE_ASSIGN_OR_RETURN(const emulator::Module module,
                        emulator::Module::Parse(compiled.candidate.ptx));
  const LaunchPlan plan = PlanLaunch(sibling, config, m);
  HONE_ASSIGN_OR_RETURN(Operands operands,
                        MakeOperands(sibling, m, plan.workspace_bytes));

  result.gate = GateKind::kEmulated;
  emulator::Options options;
  options.seed = kEmulationSeed;
  options.max_instructions = static_cast<uint64_t>(
      kInstructionsPerSecond * absl::ToDoubleSeconds(deadline));
  HONE_ASSIGN_OR_RETURN(std::optional<GateResult> failure,
                        Launch(module, plan, operands, options));
  if (failure) {
    failure->detail = absl::StrCat(about, ": ", failure->detail);
    return *failure;
  }
  const Comparison comparison =
      Compare(sibling, m, operands.c,
              Oracle(sibling, m, operands.a, operands.a_scales,
                     operands.weights, operands.bias),
              config.mma);
  result.error = {comparison.relative_norm, comparison.worst_ratio};
  if (!comparison.passed) {
    result.outcome = Outcome::kWrongResult;
    result.detail =
        absl::StrCat(about, ": off by ", comparison.worst_ratio,
                     " times the tolerance at m ", comparison.worst_m, ", n ",
                     comparison.worst_n);
    return result;
  }
  // Again with CTAs, warps and copies in another order, and on the counters
  // that the first launch left.
  const std::vector<uint16_t> first = operands.c;
  options.seed = kEmulationSeed + 1;
  options.landing = emulator::CopyLanding::kLatest;
  HONE_ASSIGN_OR_RETURN(failure, Launch(module, plan, operands, options));
  if (failure) {
    failure->detail = absl::StrCat(about, ", second run: ", failure->detail);
    return *failure;
  }
  if (operands.c != first) {
    result.outcome = Outcome::kNotRepeatable;
    result.detail = absl::StrCat(about, ": a second run differs");
    return result;
  }
  result.detail = about;
  return result;
}

absl::StatusOr<RoundResult> ModelExecutor::Round(const RoundRequest& request,
                                                 absl::Duration deadline) {
  RoundResult result;
  for (const int index : request.order) {
    if (index < 0 || index >= std::ssize(candidates_)) {
      return absl::InvalidArgumentError(absl::StrCat("no candidate ", index));
    }
    const Candidate& candidate = candidates_[static_cast<size_t>(index)];
    const Prediction prediction =
        Predict(problem_, device_, candidate.config, request.m,
                FootprintOf(candidate.compile));
    uint64_t draw = MixText(seed_, candidate.compile.kernel_id);
    draw = Mix(draw ^ static_cast<uint64_t>(request.m));
    draw = Mix(draw ^ static_cast<uint64_t>(request.round));
    // Uniform over [-1, 1).
    const double unit = static_cast<double>(draw >> 11) * 0x1p-52 - 1;
    RoundResult::Entry entry;
    entry.sample.round = request.round;
    entry.sample.duration_ns = std::max<int64_t>(
        1, std::llround(prediction.total_ns * (1 + kJitter * unit)));
    result.entries.push_back(entry);
  }
  return result;
}

}  // namespace hone
