// What `hone explain` says, as text and as JSON. Pure functions of values.
#ifndef HONE_SERVICE_CLI_EXPLAIN_REPORT_H_
#define HONE_SERVICE_CLI_EXPLAIN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/space/space.h"
#include "service/cli/json.h"
#include "service/convert/answer.h"
#include "tuner/explain.h"

namespace hone {

// A config's time at exactly one M, from honed's evidence.
struct EvidenceTime {
  int64_t ns = 0;
  int64_t samples = 0;
  // 95 % interval of the median; 0 when unknown.
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  // From a modelled device.
  bool modelled = false;
  // The heuristic default in the same race; 0 when unknown or when this is it.
  int64_t default_ns = 0;
};

// The evidence of `answer` for the config at M: its own, or, where `config` is
// the heuristic default, what that took in the same race. Nullopt when it was
// not measured there: other M, other problems and other devices do not count.
std::optional<EvidenceTime> TimeOf(const ConfigAnswer& answer,
                                   const TuningConfig& config,
                                   const TuningConfig& heuristic_default,
                                   int64_t m);

// Where registers and spills are from.
enum class FootprintOrigin : uint8_t { kEstimated, kCompiled };

struct ExplainReport {
  Problem problem;
  DeviceSpec device;
  int64_t m = 0;
  TuningConfig config;
  // Where the config is from: "--config", "honed: EXACT, ...", "the heuristic
  // default: ...".
  std::string source;
  // Nullopt: not measured.
  std::optional<EvidenceTime> time;
  FootprintOrigin footprint_origin = FootprintOrigin::kEstimated;
  Explanation explanation;
  // One sentence each.
  std::vector<std::string> notes;
};

std::string RenderReport(const ExplainReport& report);
// One object; times in nanoseconds, sizes in bytes.
Json ReportJson(const ExplainReport& report);

// A config that is not legal: every rule it breaks. Only the report's first
// fields are used.
std::string RenderRefusals(const ExplainReport& report,
                           const std::vector<Refusal>& refusals);
Json RefusalsJson(const ExplainReport& report,
                  const std::vector<Refusal>& refusals);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_EXPLAIN_REPORT_H_
