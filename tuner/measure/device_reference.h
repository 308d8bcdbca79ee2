// The high-precision reference of one problem, computed on the device in
// double over the packed operands, once, for the rows that gates check.
//
// Up to 512 tokens every row is checked. Above, a gate checks the first 512
// rows, one random row of every 16 (so at least one of every tile of every
// kernel) and the last 64. Rows are computed when first needed, 64 at a time.
#ifndef HONE_TUNER_MEASURE_DEVICE_REFERENCE_H_
#define HONE_TUNER_MEASURE_DEVICE_REFERENCE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/problem.h"
#include "kernels/launch/module.h"
#include "tuner/measure/helper_kernels.h"
#include "tuner/measure/operands.h"

namespace hone {

// The rows that a gate at `m` tokens checks, ascending.
std::vector<int64_t> CheckedRows(int64_t m, uint64_t seed);

// The references given must outlive it.
class DeviceReference {
 public:
  DeviceReference(const HelperKernels& helpers, const Problem& problem,
                  const Operands& operands, int64_t max_m, uint64_t seed);

  // The checked rows of `m` ≤ max_m on the device; computes what is missing
  // and returns when it is done.
  struct Rows {
    std::vector<int64_t> rows;
    // RowReference[rows.size()].
    DeviceBuffer table;
  };
  absl::StatusOr<const Rows*> RowsFor(int64_t m, StreamHandle stream);
  // Every buffer so far. More may follow; none goes away.
  std::vector<const DeviceBuffer*> Buffers() const;

 private:
  struct Chunk {
    DeviceBuffer reference;
    DeviceBuffer magnitude;
  };
  struct Place {
    size_t chunk = 0;
    int64_t index = 0;
  };

  // Computes up to 64 rows as a new chunk.
  absl::Status Compute(const std::vector<int64_t>& rows, StreamHandle stream);

  const HelperKernels& helpers_;
  const Problem problem_;
  const Operands& operands_;
  const uint64_t seed_;
  // What gates at max_m check, in chunks of 64: computed together, so that
  // small M do not make chunks of few rows.
  const std::vector<int64_t> usual_rows_;
  std::vector<Chunk> chunks_;
  std::map<int64_t, Place> places_;
  std::map<int64_t, Rows> by_m_;
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_DEVICE_REFERENCE_H_
