// Tables that honed answered with, kept on disk for when it is away.
//
// One file per problem, device class and pinned revision: a line with format,
// version and the SHA-256 of the rest, then a serialized
// hone.v1.GetTableResponse. A file that is damaged, of another version or of
// another problem is a miss and is replaced by the next answer.
#ifndef HONE_SERVICE_CLIENT_TABLE_FILES_H_
#define HONE_SERVICE_CLIENT_TABLE_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/convert/answer.h"

namespace hone {

// Thread-safe, also between processes: files are written beside their name,
// synced and renamed.
class TableFiles {
 public:
  // `folder` is created (mode 0700) with its parents. FailedPrecondition when
  // it is there and is a link, of another user or open to others.
  static absl::StatusOr<TableFiles> Open(std::string folder);

  // NotFound without a file; DataLoss when it is not what Save() writes.
  absl::StatusOr<TableAnswer> Load(const Problem& problem,
                                   const DeviceSpec& device,
                                   int64_t revision) const;
  // `revision` is what was asked for: 0 for the newest.
  absl::Status Save(const Problem& problem, const DeviceSpec& device,
                    int64_t revision, const TableAnswer& answer) const;

  std::string PathOf(const Problem& problem, const DeviceSpec& device,
                     int64_t revision) const;

 private:
  explicit TableFiles(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_TABLE_FILES_H_
