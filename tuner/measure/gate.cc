#include "tuner/measure/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// Every 16-bit float code of it is a NaN.
constexpr uint8_t kNanByte = 0xff;

// CTAs per compared row: few rows need more of them to fill the device.
int PartsPerRow(size_t rows) { return rows >= 256 ? 1 : 8; }

GateResult Failed(Outcome outcome, std::string detail) {
  GateResult result;
  result.outcome = outcome;
  result.detail = std::move(detail);
  return result;
}

// A launch or fault error as the candidate's outcome; other errors (no
// memory, no device) are Hone's own.
absl::StatusOr<GateResult> AsOutcome(const absl::Status& status) {
  if (absl::IsAborted(status)) {
    return Failed(Outcome::kFault, std::string(status.message()));
  }
  if (absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status)) {
    return Failed(RefusalOf(status), std::string(status.message()));
  }
  return status;
}

}  // namespace

Outcome RefusalOf(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? Outcome::kOutOfMemory
                                           : Outcome::kLaunchError;
}

absl::StatusOr<GuardedBuffer> GuardedBuffer::Allocate(uint64_t bytes) {
  GuardedBuffer guarded;
  guarded.bytes_ = bytes;
  HONE_ASSIGN_OR_RETURN(guarded.buffer_,
                        DeviceBuffer::Allocate(bytes + 2 * kGuardBytes));
  return guarded;
}

absl::Status GuardedBuffer::Arm(uint64_t used_bytes,
                                StreamHandle stream) const {
  HONE_RETURN_IF_ERROR(Fill(buffer_.ptr(), kPattern, kGuardBytes, stream));
  return Fill(ptr() + used_bytes, kPattern, kGuardBytes, stream);
}

absl::Status GuardedBuffer::Check(const HelperKernels& helpers,
                                  uint64_t used_bytes, DevicePtr result,
                                  StreamHandle stream) const {
  for (const DevicePtr zone : {buffer_.ptr(), ptr() + used_bytes}) {
    HONE_RETURN_IF_ERROR(
        LaunchHelper(helpers.check_bytes, StridingGrid(kGuardBytes), 256,
                     stream, zone, kGuardBytes, int32_t{kPattern}, result));
  }
  return absl::OkStatus();
}

ComparisonSummary Summarize(absl::Span<const RowComparison> found, int parts,
                            absl::Span<const int64_t> rows) {
  ComparisonSummary summary;
  // Instead of infinity, which texts and databases hold badly.
  constexpr double kLargest = 1e30;
  double difference2 = 0;
  double reference2 = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference2 += found[i].difference2;
    reference2 += found[i].reference2;
    if (found[i].ratio > summary.error.worst_ratio) {
      summary.error.worst_ratio = std::min<double>(found[i].ratio, kLargest);
      summary.worst_m = rows[i / static_cast<size_t>(parts)];
      summary.worst_n = found[i].column;
    }
  }
  summary.error.relative_norm = reference2 > 0
                                    ? std::sqrt(difference2 / reference2)
                                : difference2 > 0 ? kLargest
                                                  : 0;
  return summary;
}

std::string WhyWrong(const ComparisonSummary& summary, int64_t elements,
                     const Tolerance& tolerance) {
  if (summary.error.worst_ratio > 1) {
    return absl::StrFormat(
        "C[%d][%d] misses the reference by %.3g times the tolerance; relative "
        "error %.3g",
        summary.worst_m, summary.worst_n, summary.error.worst_ratio,
        summary.error.relative_norm);
  }
  if (elements >= kNormElements &&
      summary.error.relative_norm > tolerance.relative_norm) {
    return absl::StrFormat(
        "the relative error of %d outputs together is %.3g; roundings explain "
        "at most %.3g",
        elements, summary.error.relative_norm, tolerance.relative_norm);
  }
  return "";
}

Gate::Gate(const HelperKernels& helpers, const Problem& problem,
           Operands& operands, DeviceReference& reference, StreamHandle stream)
    : helpers_(&helpers),
      problem_(problem),
      operands_(&operands),
      reference_(&reference),
      stream_(stream) {}

absl::StatusOr<Gate> Gate::Create(const HelperKernels& helpers,
                                  const Problem& problem, Operands& operands,
                                  DeviceReference& reference, int64_t max_m,
                                  StreamHandle stream) {
  Gate gate(helpers, problem, operands, reference, stream);
  const uint64_t bytes = static_cast<uint64_t>(max_m) * problem.layer.n * 2;
  HONE_ASSIGN_OR_RETURN(gate.first_, GuardedBuffer::Allocate(bytes));
  HONE_ASSIGN_OR_RETURN(gate.second_, GuardedBuffer::Allocate(bytes));
  HONE_ASSIGN_OR_RETURN(gate.workspace_, GuardedBuffer::Allocate(1 << 20));
  HONE_ASSIGN_OR_RETURN(gate.checks_,
                        DeviceBuffer::Allocate(3 * sizeof(CheckResult)));
  return gate;
}

absl::StatusOr<BufferBindings> Gate::Bindings(const LaunchPlan& plan,
                                              int64_t m) {
  if (plan.workspace_bytes > workspace_.bytes()) {
    // Earlier launches may still use the old one.
    HONE_RETURN_IF_ERROR(Synchronize(stream_));
    workspace_ = GuardedBuffer();
    HONE_ASSIGN_OR_RETURN(workspace_,
                          GuardedBuffer::Allocate(plan.workspace_bytes));
  }
  HONE_ASSIGN_OR_RETURN(const DevicePtr a_scales,
                        operands_->AScales(m, stream_));
  BufferBindings buffers;
  buffers.Bind(BufferRole::kA, operands_->a())
      .Bind(BufferRole::kAScale, a_scales)
      .Bind(BufferRole::kB, operands_->b())
      .Bind(BufferRole::kBScale, operands_->scales())
      .Bind(BufferRole::kBias, operands_->bias())
      .Bind(BufferRole::kC, first_.ptr())
      .Bind(BufferRole::kWorkspace, workspace_.ptr());
  return buffers;
}

absl::Status Gate::Poison(const LaunchPlan& plan, uint64_t output_bytes) {
  for (const GuardedBuffer* output : {&first_, &second_}) {
    HONE_RETURN_IF_ERROR(Fill(output->ptr(), kNanByte, output_bytes, stream_));
    HONE_RETURN_IF_ERROR(output->Arm(output_bytes, stream_));
  }
  HONE_RETURN_IF_ERROR(
      Fill(workspace_.ptr(), kNanByte, plan.workspace_bytes, stream_));
  HONE_RETURN_IF_ERROR(
      Fill(workspace_.ptr(), 0, plan.workspace_zeroed_bytes, stream_));
  HONE_RETURN_IF_ERROR(workspace_.Arm(plan.workspace_bytes, stream_));
  // Each a default CheckResult: first_unequal all ones, the rest zero.
  HONE_RETURN_IF_ERROR(Fill(checks_.ptr(), 0, checks_.bytes(), stream_));
  for (uint64_t i = 0; i < 3; ++i) {
    HONE_RETURN_IF_ERROR(Fill(checks_.ptr() + i * sizeof(CheckResult), 0xff,
                              sizeof(uint64_t), stream_));
  }
  return absl::OkStatus();
}

absl::Status Gate::QueueHashes(const std::vector<const DeviceBuffer*>& inputs,
                               size_t part) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const uint64_t words = inputs[i]->bytes() / sizeof(uint64_t);
    if (words == 0) continue;
    const DevicePtr sum =
        hashes_.ptr() + (part * inputs.size() + i) * sizeof(uint64_t);
    HONE_RETURN_IF_ERROR(LaunchHelper(helpers_->hash_words, StridingGrid(words),
                                      256, stream_, inputs[i]->ptr(), words,
                                      sum));
  }
  return absl::OkStatus();
}

absl::StatusOr<GateResult> Gate::Check(FunctionHandle function,
                                       const LaunchPlan& plan,
                                       MmaInstruction mma, int64_t m) {
  const Tolerance tolerance = DeriveTolerance(problem_, mma);
  HONE_ASSIGN_OR_RETURN(const DeviceReference::Rows* rows,
                        reference_->RowsFor(m, stream_));
  absl::StatusOr<BufferBindings> buffers = Bindings(plan, m);
  if (!buffers.ok()) return AsOutcome(buffers.status());
  const LayerConfig& layer = problem_.layer;
  const int type = GeneratorType(layer.c);
  const uint64_t elements = static_cast<uint64_t>(m) * layer.n;
  const uint64_t output_bytes = elements * 2;
  HONE_RETURN_IF_ERROR(Poison(plan, output_bytes));
  std::vector<const DeviceBuffer*> inputs = operands_->Buffers();
  for (const DeviceBuffer* buffer : reference_->Buffers()) {
    inputs.push_back(buffer);
  }
  std::vector<uint64_t> hashes(2 * inputs.size());
  const uint64_t hash_bytes = hashes.size() * sizeof(uint64_t);
  if (hashes_.bytes() < hash_bytes) {
    HONE_ASSIGN_OR_RETURN(hashes_, DeviceBuffer::Allocate(2 * hash_bytes));
  }
  HONE_RETURN_IF_ERROR(Fill(hashes_.ptr(), 0, hash_bytes, stream_));
  HONE_RETURN_IF_ERROR(QueueHashes(inputs, 0));

  for (const GuardedBuffer* output : {&first_, &second_}) {
    buffers->Bind(BufferRole::kC, output->ptr());
    if (absl::Status launched = Launch(function, plan, *buffers, stream_);
        !launched.ok()) {
      return AsOutcome(launched);
    }
  }
  // Faults of the candidate show here, before the helpers run.
  if (absl::Status ran = Synchronize(stream_); !ran.ok()) return AsOutcome(ran);

  const DevicePtr repeat_check = checks_.ptr();
  const DevicePtr guard_check = repeat_check + sizeof(CheckResult);
  const DevicePtr zero_check = guard_check + sizeof(CheckResult);
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers_->check_repeat, StridingGrid(elements), 256, stream_,
      first_.ptr(), second_.ptr(), elements, int32_t{type}, repeat_check));
  for (const GuardedBuffer* output : {&first_, &second_}) {
    HONE_RETURN_IF_ERROR(
        output->Check(*helpers_, output_bytes, guard_check, stream_));
  }
  HONE_RETURN_IF_ERROR(
      workspace_.Check(*helpers_, plan.workspace_bytes, guard_check, stream_));
  if (plan.workspace_zeroed_bytes > 0) {
    HONE_RETURN_IF_ERROR(LaunchHelper(
        helpers_->check_bytes, StridingGrid(plan.workspace_zeroed_bytes), 256,
        stream_, workspace_.ptr(), plan.workspace_zeroed_bytes, int32_t{0},
        zero_check));
  }
  HONE_RETURN_IF_ERROR(QueueHashes(inputs, 1));
  const int parts = PartsPerRow(rows->rows.size());
  const uint64_t compare_bytes =
      rows->rows.size() * static_cast<uint64_t>(parts) * sizeof(RowComparison);
  if (comparisons_.bytes() < compare_bytes) {
    HONE_ASSIGN_OR_RETURN(comparisons_, DeviceBuffer::Allocate(compare_bytes));
  }
  const Dim3 grid = {static_cast<uint32_t>(rows->rows.size()),
                     static_cast<uint32_t>(parts), 1};
  HONE_RETURN_IF_ERROR(
      LaunchHelper(helpers_->compare, grid, 512, stream_, first_.ptr(),
                   static_cast<int32_t>(layer.n), int32_t{type},
                   rows->table.ptr(), tolerance.output_relative,
                   tolerance.product_relative, comparisons_.ptr()));
  std::vector<RowComparison> found(rows->rows.size() *
                                   static_cast<size_t>(parts));
  std::array<CheckResult, 3> checks;
  HONE_RETURN_IF_ERROR(
      CopyToHost(found.data(), comparisons_.ptr(), compare_bytes, stream_));
  HONE_RETURN_IF_ERROR(
      CopyToHost(checks.data(), checks_.ptr(), checks_.bytes(), stream_));
  HONE_RETURN_IF_ERROR(
      CopyToHost(hashes.data(), hashes_.ptr(), hash_bytes, stream_));
  const auto& [repeat, guards, zeroed] = checks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto [known, added] =
        known_hashes_.try_emplace(inputs[i]->ptr(), hashes[i]);
    if (known->second != hashes[i]) {
      return absl::DataLossError(
          "a kernel that ran earlier has overwritten operands or references");
    }
  }

  const ComparisonSummary summary = Summarize(found, parts, rows->rows);
  const std::string wrong = WhyWrong(
      summary, static_cast<int64_t>(rows->rows.size()) * layer.n, tolerance);
  GateResult result;
  result.gate = GateKind::kDevice;
  result.error = summary.error;
  if (!std::equal(hashes.begin(), hashes.begin() + inputs.size(),
                  hashes.begin() + inputs.size())) {
    result.outcome = Outcome::kGuardOverwritten;
    result.detail = "operands or references were overwritten";
  } else if (guards.unequal > 0) {
    result.outcome = Outcome::kGuardOverwritten;
    result.detail = absl::StrCat(guards.unequal,
                                 " bytes around outputs and workspace were "
                                 "overwritten");
  } else if (zeroed.unequal > 0) {
    result.outcome = Outcome::kGuardOverwritten;
    result.detail =
        absl::StrCat("byte ", zeroed.first_unequal,
                     " of the workspace's counters was not left zero");
  } else if (repeat.nans > 0) {
    result.outcome = Outcome::kWrongResult;
    result.detail = absl::StrCat(repeat.nans, " of ", elements,
                                 " outputs are NaN or were not written");
  } else if (!wrong.empty()) {
    result.outcome = Outcome::kWrongResult;
    result.detail = wrong;
  } else if (repeat.unequal > 0) {
    result.outcome = Outcome::kNotRepeatable;
    result.detail = absl::StrFormat(
        "two runs differ in %d of %d outputs, first in C[%d][%d]",
        repeat.unequal, elements,
        repeat.first_unequal / static_cast<uint64_t>(layer.n),
        repeat.first_unequal % static_cast<uint64_t>(layer.n));
  }
  return result;
}

}  // namespace hone
