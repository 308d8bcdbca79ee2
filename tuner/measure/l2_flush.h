// Cold and clean L2 before every timed call, by reading 4 × the L2; and the SM
// clock at that moment.
//
// Reading, never writing: written lines would be dirty, and be written back on
// the timed kernel's time.
#ifndef HONE_TUNER_MEASURE_L2_FLUSH_H_
#define HONE_TUNER_MEASURE_L2_FLUSH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/launch/module.h"
#include "tuner/measure/helper_kernels.h"

namespace hone {

// `helpers` must outlive it.
class L2Flush {
 public:
  static absl::StatusOr<L2Flush> Create(const HelperKernels& helpers,
                                        const DeviceSpec& device,
                                        int64_t l2_multiple,
                                        StreamHandle stream);

  // Makes room for `count` readings. Waits for earlier flushes.
  absl::Status Reserve(size_t count);

  // Queues a flush that leaves its clock reading at `index` < the count
  // reserved.
  absl::Status Queue(size_t index) const;

  // The SM clock in kHz of readings 0 .. count-1; waits for the stream.
  absl::StatusOr<std::vector<int64_t>> ClocksKhz(size_t count) const;

  // Bytes that one flush reads.
  uint64_t bytes() const { return words_.bytes(); }

 private:
  L2Flush(const HelperKernels& helpers, StreamHandle stream)
      : helpers_(&helpers), stream_(stream) {}

  const HelperKernels* helpers_;
  StreamHandle stream_;
  uint32_t ctas_ = 0;
  DeviceBuffer words_;
  DeviceBuffer sink_;
  DeviceBuffer readings_;
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_L2_FLUSH_H_
