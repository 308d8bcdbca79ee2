// Kernel times from CUPTI activity records.
//
// CUPTI is loaded with dlopen. Its callbacks carry no user data and it serves
// one subscriber per process, so at most one CuptiTimer may exist at a time;
// Create() says AlreadyExists otherwise.
#ifndef HONE_TUNER_MEASURE_CUPTI_TIMER_H_
#define HONE_TUNER_MEASURE_CUPTI_TIMER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/jit/shared_library.h"

namespace hone {

// When one kernel ran, in CUPTI's nanoseconds.
struct KernelTime {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

// One thread launches and collects; CUPTI may call back on another.
class CuptiTimer {
 public:
  // Subscribes, preallocates the activity buffers and switches the records on.
  // Best called before the context is made. Unavailable when CUPTI is missing
  // or another tool (a profiler) holds it.
  static absl::StatusOr<std::unique_ptr<CuptiTimer>> Create(
      const LibrarySearch& search);
  ~CuptiTimer();

  CuptiTimer(const CuptiTimer&) = delete;
  CuptiTimer& operator=(const CuptiTimer&) = delete;

  // Drops what was recorded before.
  void Start();

  // The correlation id of this thread's latest launch; 0 when there was none
  // since Start().
  uint32_t LastLaunch() const;

  // The times of the launches with these ids, in that order. The stream must
  // have been synchronized. DataLoss when a record is missing: there is no
  // other timer to fall back to.
  absl::StatusOr<std::vector<KernelTime>> Collect(
      absl::Span<const uint32_t> launches);

 private:
  struct State;
  explicit CuptiTimer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_CUPTI_TIMER_H_
