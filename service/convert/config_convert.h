// Configs and device specs as messages of hone.v1, and back.
//
// ToProto() fills the fields for display too. FromProto() reports everything
// wrong into `errors`, with the field's path under `path` and the legal
// values; what it returns then is of no use. Whether the values fit together
// is for the configs' own Validate().
#ifndef HONE_SERVICE_CONVERT_CONFIG_CONVERT_H_
#define HONE_SERVICE_CONVERT_CONFIG_CONVERT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hone/v1/config.pb.h"
#include "hone/v1/device.pb.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/convert/errors.h"

namespace hone {

v1::DataType ToProto(const DataType& type);
v1::LayerConfig ToProto(const LayerConfig& layer);
v1::ComputeConfig ToProto(const ComputeConfig& compute);
v1::Problem ToProto(const Problem& problem);
v1::TuningConfig ToProto(const TuningConfig& config);
v1::DeviceSpec ToProto(const DeviceSpec& device);

DataType FromProto(const v1::DataType& type, absl::string_view path,
                   FieldErrors& errors);
// Fields left out take LayerConfig's and ComputeConfig's defaults.
LayerConfig FromProto(const v1::LayerConfig& layer, absl::string_view path,
                      FieldErrors& errors);
ComputeConfig FromProto(const v1::ComputeConfig& compute,
                        absl::string_view path, FieldErrors& errors);
TuningConfig FromProto(const v1::TuningConfig& config, absl::string_view path,
                       FieldErrors& errors);
DeviceSpec FromProto(const v1::DeviceSpec& device, absl::string_view path,
                     FieldErrors& errors);

// The problem of a request, converted and validated. InvalidArgument with
// field violations under "problem".
absl::StatusOr<Problem> ProblemFromProto(const v1::Problem& problem);
// The same without validating, for messages that hold a problem.
Problem FromProto(const v1::Problem& problem, absl::string_view path,
                  FieldErrors& errors);

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_CONFIG_CONVERT_H_
