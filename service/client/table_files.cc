#include "service/client/table_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/files.h"
#include "hone/v1/tuning_service.pb.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"
#include "service/convert/table_convert.h"
#include "service/paths/paths.h"

namespace hone {
namespace {

constexpr absl::string_view kFormat = "hone-table 1 ";
constexpr size_t kHashDigits = 64;
constexpr size_t kHeaderBytes = kFormat.size() + kHashDigits + 1;
// A table of the longest ladder stays far below.
constexpr int64_t kMaxBytes = int64_t{16} << 20;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  struct stat info;
  absl::Status status;
  std::string bytes;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_size > kMaxBytes) {
    status = absl::DataLossError(absl::StrCat(path, " is no table file"));
  } else {
    bytes.resize(info.st_size);
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = read(fd, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += n;
    }
    bytes.resize(done);
  }
  close(fd);
  if (!status.ok()) return status;
  return bytes;
}

absl::Status WriteAll(int fd, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, path);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TableFiles> TableFiles::Open(std::string folder) {
  HONE_RETURN_IF_ERROR(MakePrivateFolder(folder));
  return TableFiles(std::move(folder));
}

std::string TableFiles::PathOf(const Problem& problem, const DeviceSpec& device,
                               int64_t revision) const {
  return absl::StrCat(folder_, "/", problem.Hash(), "-", device.ClassHash(),
                      revision == 0 ? "" : absl::StrCat("-r", revision));
}

absl::StatusOr<TableAnswer> TableFiles::Load(const Problem& problem,
                                             const DeviceSpec& device,
                                             int64_t revision) const {
  const std::string path = PathOf(problem, device, revision);
  HONE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  const absl::string_view text = bytes;
  const absl::Status damaged =
      absl::DataLossError(absl::StrCat("damaged table file ", path));
  if (text.size() < kHeaderBytes || text.substr(0, kFormat.size()) != kFormat ||
      text[kHeaderBytes - 1] != '\n') {
    return damaged;
  }
  const absl::string_view content = text.substr(kHeaderBytes);
  if (text.substr(kFormat.size(), kHashDigits) != Sha256Hex(content))
    return damaged;
  v1::GetTableResponse message;
  if (!message.ParseFromArray(content.data(),
                              static_cast<int>(content.size()))) {
    return damaged;
  }
  absl::StatusOr<TableAnswer> answer = AnswerFromProto(message);
  if (!answer.ok()) {
    return absl::DataLossError(
        absl::StrCat("table file ", path, ": ", answer.status().message()));
  }
  return answer;
}

absl::Status TableFiles::Save(const Problem& problem, const DeviceSpec& device,
                              int64_t revision,
                              const TableAnswer& answer) const {
  const std::string path = PathOf(problem, device, revision);
  const std::string content = ToProto(answer).SerializeAsString();
  std::string temporary = absl::StrCat(path, ".XXXXXX");
  // Mode 0600.
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, temporary);
  absl::Status status =
      WriteAll(fd, absl::StrCat(kFormat, Sha256Hex(content), "\n"), temporary);
  if (status.ok()) status = WriteAll(fd, content, temporary);
  close(fd);
  if (status.ok()) status = SyncAndRename(temporary, path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace hone
