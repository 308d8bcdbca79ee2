#include "service/cli/layer_times.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/cli/format.h"

namespace hone {

std::vector<LayerTime> LayerTimesOf(const TableAnswer& answer,
                                    const std::vector<int64_t>& ms) {
  // Other answers' evidence is of another problem or device.
  const bool own = answer.provenance.match == MatchKind::kExact;
  std::vector<LayerTime> rows;
  for (const int64_t m : ms) {
    const TableEntry& entry = *answer.table.Find(m);
    LayerTime row;
    row.m = m;
    row.config = entry.config;
    row.floors = FloorsOf(answer.table.problem, answer.table.device, m);
    for (const Evidence& e : entry.evidence) {
      if (own && e.m == m && e.median_ns > 0) row.evidence = &e;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string RateUnit(const Problem& problem) {
  return problem.layer.a.is_integer() ? "TOP/s" : "TFLOP/s";
}

absl::StatusOr<Roofline> RooflineOf(const TableAnswer& answer,
                                    const std::vector<LayerTime>& rows) {
  Roofline roofline;
  roofline.title = DescribeProblem(answer.table.problem);
  roofline.subtitle = absl::StrCat(DescribeDevice(answer.table.device), ", ",
                                   Marks(answer.provenance));
  roofline.unit = RateUnit(answer.table.problem);
  roofline.modelled = answer.provenance.modelled;
  for (const LayerTime& row : rows) {
    roofline.memory_gbps = row.floors.memory_gbps;
    roofline.tflops = row.floors.tflops;
    if (row.evidence == nullptr) continue;
    roofline.points.push_back(
        {row.m, row.floors.intensity(), row.achieved().tflops});
  }
  if (roofline.points.empty()) {
    return absl::FailedPreconditionError(
        "none of these M was measured, so there is no roofline to draw; 'hone "
        "tune' measures them");
  }
  return roofline;
}

}  // namespace hone
