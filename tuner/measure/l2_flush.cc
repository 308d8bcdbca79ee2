#include "tuner/measure/l2_flush.h"

#include "kernels/config/status_macros.h"

namespace hone {

absl::StatusOr<L2Flush> L2Flush::Create(const HelperKernels& helpers,
                                        const DeviceSpec& device,
                                        int64_t l2_multiple,
                                        StreamHandle stream) {
  L2Flush flush(helpers, stream);
  // Two 512-thread CTAs an SM with eight 16-byte loads a thread in flight.
  flush.ctas_ = static_cast<uint32_t>(2 * device.sm_count);
  const auto bytes = static_cast<uint64_t>(l2_multiple * device.l2_bytes);
  HONE_ASSIGN_OR_RETURN(flush.words_, DeviceBuffer::Allocate(bytes / 16 * 16));
  HONE_ASSIGN_OR_RETURN(flush.sink_, DeviceBuffer::Allocate(16));
  // Any constant content; its sum is not the one the kernel looks for.
  HONE_RETURN_IF_ERROR(
      Fill(flush.words_.ptr(), 0x5a, flush.words_.bytes(), stream));
  HONE_RETURN_IF_ERROR(flush.Reserve(64));
  return flush;
}

absl::Status L2Flush::Reserve(size_t count) {
  const uint64_t bytes = count * sizeof(ClockReading);
  if (bytes <= readings_.bytes()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(Synchronize(stream_));
  HONE_ASSIGN_OR_RETURN(readings_, DeviceBuffer::Allocate(bytes));
  return absl::OkStatus();
}

absl::Status L2Flush::Queue(size_t index) const {
  return LaunchHelper(helpers_->flush, Dim3{ctas_, 1, 1}, 512, stream_,
                      words_.ptr(), words_.bytes() / 16, sink_.ptr(),
                      readings_.ptr() + index * sizeof(ClockReading));
}

absl::StatusOr<std::vector<int64_t>> L2Flush::ClocksKhz(size_t count) const {
  std::vector<ClockReading> readings(count);
  HONE_RETURN_IF_ERROR(CopyToHost(readings.data(), readings_.ptr(),
                                  count * sizeof(ClockReading), stream_));
  std::vector<int64_t> khz;
  khz.reserve(count);
  for (const ClockReading& reading : readings) {
    khz.push_back(reading.ns == 0 ? 0
                                  : static_cast<int64_t>(
                                        static_cast<double>(reading.cycles) *
                                        1e6 / static_cast<double>(reading.ns)));
  }
  return khz;
}

}  // namespace hone
