// What people read: tables, times and marks. Pure functions.
#ifndef HONE_SERVICE_CLI_FORMAT_H_
#define HONE_SERVICE_CLI_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "hone/v1/tuning_service.pb.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/convert/answer.h"

namespace hone {

// Columns of text under headers, two spaces apart. Numbers align right.
class TextTable {
 public:
  struct Column {
    std::string header;
    bool right = false;
  };
  explicit TextTable(std::vector<Column> columns);
  // One cell per column.
  void AddRow(std::vector<std::string> cells);
  std::string Render() const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "8x64x512 w8x64x64 s4 k1": the tile of a CTA in tokens x channels x
// reduction, of a warp, the stages, and the CTAs that share an output tile
// ("sk" for stream-K). What differs from cp.async feeding mma.sync with one
// CTA per SM follows: "wgmma2" (two in flight), "a:tma b:tma", "ws" (warp
// specialized), "c2" (CTAs per SM), "cl2x1" (cluster), "rn" (raster along N).
std::string ShortConfig(const TuningConfig& config);
// The same of canonical text; text that does not parse is returned as it is.
std::string ShortConfig(absl::string_view canonical);

// "8192x8192 int4 group 128, float16 activations".
std::string DescribeProblem(const Problem& problem);
// "NVIDIA H200 (sm_90, 132 SMs)", with "MODELLED" where it is.
std::string DescribeDevice(const DeviceSpec& device);
// "EXACT, gate DEVICE, revision 3", then MODELLED, unverified, stale.
std::string Marks(const Provenance& provenance);

// Microseconds with two decimals; "-" for 0, which stands for unknown.
std::string FormatUs(int64_t ns);
// "86 %"; "-" when unknown.
std::string FormatFraction(int64_t part_ns, int64_t whole_ns);
// "+8.4 %".
std::string FormatMargin(double margin);
// "17-32", "17 up" when m_hi is 0.
std::string FormatRange(int64_t m_lo, int64_t m_hi);
// "45 s", "2 min 05 s".
std::string FormatTime(absl::Duration duration);

// Distinct kernels of a table.
int64_t CountKernels(const DispatchTable& table);

// Where a table comes from.
std::string RenderTableHead(const TableAnswer& answer);
// That, then one line per ladder point.
std::string RenderTable(const TableAnswer& answer);
// What fewer kernels would cost; empty where there is nothing to choose.
std::string RenderTradeOff(const DispatchTable& table);
std::string RenderConfig(const Problem& problem, int64_t m,
                         const ConfigAnswer& answer);

// One line: phase, steps, the race that just ended, elapsed and remaining.
std::string RenderProgress(const v1::TuneProgress& progress);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_FORMAT_H_
