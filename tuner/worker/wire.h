// What the frames between honed and its worker carry, converted.
#ifndef HONE_TUNER_WORKER_WIRE_H_
#define HONE_TUNER_WORKER_WIRE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "kernels/jit/frame.h"
#include "proto/hone/v1/worker.pb.h"
#include "tuner/executor.h"

namespace hone {

v1::WorkerDevice ToWire(const DeviceSpec& device);
DeviceSpec FromWire(const v1::WorkerDevice& device);

// The From directions return DataLoss for an unknown outcome or gate.
v1::WorkerGateResult ToWire(const GateResult& result);
absl::StatusOr<GateResult> FromWire(const v1::WorkerGateResult& result);

v1::WorkerRoundResult ToWire(const RoundResult& result);
// Samples get the given round number.
absl::StatusOr<RoundResult> FromWire(const v1::WorkerRoundResult& result,
                                      int32_t round);

}  // namespace hone

#endif  // HONE_TUNER_WORKER_WIRE_H_
