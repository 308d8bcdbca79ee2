// Frames between honed and its worker, and the conversions of what they carry.
#ifndef HONE_TUNER_WORKER_WIRE_H_
#define HONE_TUNER_WORKER_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "proto/hone/v1/worker.pb.h"
#include "tuner/executor.h"

namespace hone {

// Longest frame that is believed, bytes.
inline constexpr uint32_t kMaxFrameBytes = 256u << 20;

// Both work on sockets and pipes and wait until `deadline`, after which they
// return DeadlineExceeded. Unavailable when the other side has closed, DataLoss
// for a length over kMaxFrameBytes.
absl::Status SendFrame(int fd, absl::string_view payload, absl::Time deadline);
absl::StatusOr<std::string> ReceiveFrame(int fd, absl::Time deadline);

v1::WorkerDevice ToProto(const DeviceSpec& device);
DeviceSpec FromProto(const v1::WorkerDevice& device);

// The From directions return DataLoss for an unknown outcome or gate.
v1::WorkerGateResult ToProto(const GateResult& result);
absl::StatusOr<GateResult> FromProto(const v1::WorkerGateResult& result);

v1::WorkerRoundResult ToProto(const RoundResult& result);
// Samples get the given round number.
absl::StatusOr<RoundResult> FromProto(const v1::WorkerRoundResult& result,
                                      int32_t round);

}  // namespace hone

#endif  // HONE_TUNER_WORKER_WIRE_H_
