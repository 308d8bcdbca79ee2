#include "kernels/jit/frame.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// Waits for `events`; what the descriptor then says itself (closed, error) is
// left to the read or write.
absl::Status WaitFor(int fd, short events, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("no answer before the deadline");
    }
    // In slices, so that an infinite deadline fits in an int; rounded up, so
    // that the wait does not end just before the deadline.
    const absl::Duration slice =
        std::min(left + absl::Milliseconds(1), absl::Minutes(1));
    const auto ms = static_cast<int>(absl::ToInt64Milliseconds(slice));
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, ms);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", strerror(errno)));
    }
  }
}

bool IsRetry(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

// Never blocks on sockets, and never raises SIGPIPE there.
ssize_t WriteSome(int fd, const char* data, size_t size) {
  const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 && errno == ENOTSOCK ? write(fd, data, size) : sent;
}

ssize_t ReadSome(int fd, char* data, size_t size) {
  const ssize_t got = recv(fd, data, size, MSG_DONTWAIT);
  return got < 0 && errno == ENOTSOCK ? read(fd, data, size) : got;
}

absl::Status WriteAll(int fd, absl::string_view data, absl::Time deadline) {
  while (!data.empty()) {
    HONE_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    const ssize_t sent = WriteSome(fd, data.data(), data.size());
    if (sent < 0) {
      if (IsRetry(errno)) continue;
      return absl::UnavailableError(
          absl::StrCat("the other side is gone: ", strerror(errno)));
    }
    data.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, char* data, size_t size, absl::Time deadline) {
  while (size > 0) {
    HONE_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    const ssize_t got = ReadSome(fd, data, size);
    if (got == 0) return absl::UnavailableError("the other side has closed");
    if (got < 0) {
      if (IsRetry(errno)) continue;
      return absl::UnavailableError(
          absl::StrCat("the other side is gone: ", strerror(errno)));
    }
    data += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SendFrame(int fd, absl::string_view payload, absl::Time deadline) {
  if (payload.size() > kMaxFrameBytes) {
    return absl::InvalidArgumentError("the frame is too long");
  }
  const auto size = static_cast<uint32_t>(payload.size());
  std::string frame;
  frame.reserve(payload.size() + 4);
  for (int i = 0; i < 4; ++i) {
    frame.push_back(static_cast<char>(size >> (8 * i)));
  }
  frame.append(payload.data(), payload.size());
  return WriteAll(fd, frame, deadline);
}

absl::StatusOr<std::string> ReceiveFrame(int fd, absl::Time deadline) {
  std::array<char, 4> head{};
  HONE_RETURN_IF_ERROR(ReadAll(fd, head.data(), head.size(), deadline));
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i) {
    size |= static_cast<uint32_t>(static_cast<unsigned char>(head[i]))
            << (8 * i);
  }
  if (size > kMaxFrameBytes) {
    return absl::DataLossError(
        absl::StrCat("a frame of ", size, " bytes is no frame"));
  }
  std::string payload(size, '\0');
  HONE_RETURN_IF_ERROR(ReadAll(fd, payload.data(), size, deadline));
  return payload;
}

}  // namespace hone
