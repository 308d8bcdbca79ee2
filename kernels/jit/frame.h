// Length-prefixed frames between a process and its children.
#ifndef HONE_KERNELS_JIT_FRAME_H_
#define HONE_KERNELS_JIT_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

// Longest frame that is believed, bytes.
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

// Both work on sockets and pipes and wait until `deadline`, after which they
// return DeadlineExceeded. Unavailable when the other side has closed, DataLoss
// for a length over kMaxFrameBytes.
absl::Status SendFrame(int fd, absl::string_view payload, absl::Time deadline);
absl::StatusOr<std::string> ReceiveFrame(int fd, absl::Time deadline);

}  // namespace hone

#endif  // HONE_KERNELS_JIT_FRAME_H_
