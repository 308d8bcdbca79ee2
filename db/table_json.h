// Devices and dispatch tables as lines of a bundle (db/bundle.h), and the
// checks that they pass before they are published, exported or imported.
#ifndef HONE_DB_TABLE_JSON_H_
#define HONE_DB_TABLE_JSON_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/json.h"
#include "kernels/config/device_spec.h"
#include "tuner/trial.h"

namespace hone {

// Longer lines are neither written nor read.
inline constexpr size_t kMaxLineBytes = size_t{4} << 20;

// InvalidArgument names the field: numbers must be finite, integers at least
// 0, texts UTF-8.
absl::Status CheckDevice(const DeviceSpec& device);

// The device's checks; valid problem, protocol, configs and ties in canonical
// text; a rising ladder; hashes that are empty or 64 lower-case hex digits,
// since clients name files by them. FailedPrecondition: the ranges are not
// those of DispatchTable::Validate().
absl::Status CheckTable(const DispatchTable& table);

// What bundles call the device: the SHA-256 of its text.
std::string DeviceKey(const DeviceSpec& device);
// {"device":{…},"key":"…"}
std::string DeviceLine(const DeviceSpec& device);
// The table, its device by key. Both must have passed the checks.
std::string TableLine(const DispatchTable& table);

// The opposites. InvalidArgument names the field. The values are well-formed
// but not checked.
absl::StatusOr<DeviceSpec> ReadDeviceLine(absl::string_view line);
absl::StatusOr<DispatchTable> ReadTableLine(
    absl::string_view line,
    const std::map<std::string, DeviceSpec>& devices_by_key);

}  // namespace hone

#endif  // HONE_DB_TABLE_JSON_H_
