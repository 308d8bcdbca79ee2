#include "tuner/worker/wire.h"

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
    // In slices, so that an infinite deadline fits in an int.
    const auto ms = std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1,
                                      int64_t{60} * 1000);
    pollfd entry = {fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(ms));
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

absl::StatusOr<Outcome> ReadOutcome(const std::string& text) {
  absl::StatusOr<Outcome> outcome = ParseOutcome(text);
  if (outcome.ok()) return outcome;
  return absl::DataLossError(outcome.status().message());
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

v1::WorkerDevice ToProto(const DeviceSpec& d) {
  v1::WorkerDevice p;
  p.set_sm_arch(d.sm_arch);
  p.set_pci_device_id(d.pci_device_id);
  p.set_sm_count(d.sm_count);
  p.set_l2_bytes(d.l2_bytes);
  p.set_smem_optin_bytes(d.smem_optin_bytes);
  p.set_mig_profile(d.mig_profile);
  p.set_cuda_driver_version(d.cuda_driver_version);
  p.set_driver(d.driver);
  p.set_pci_subsystem_id(d.pci_subsystem_id);
  p.set_power_limit_mw(d.power_limit_mw);
  p.set_ecc(d.ecc);
  p.set_vbios(d.vbios);
  p.set_name(d.name);
  p.set_uuid(d.uuid);
  p.set_smem_per_sm_bytes(d.smem_per_sm_bytes);
  p.set_registers_per_sm(d.registers_per_sm);
  p.set_max_threads_per_sm(d.max_threads_per_sm);
  p.set_max_clock_khz(d.max_clock_khz);
  p.set_memory_bytes(d.memory_bytes);
  p.set_memory_gbps(d.memory_gbps);
  p.set_mma_sync_tflops(d.mma_sync_tflops);
  p.set_peak_tflops(d.peak_tflops);
  p.set_launch_ns(d.launch_ns);
  return p;
}

DeviceSpec FromProto(const v1::WorkerDevice& p) {
  DeviceSpec d;
  d.kind = DeviceKind::kMeasured;
  d.sm_arch = p.sm_arch();
  d.pci_device_id = p.pci_device_id();
  d.sm_count = p.sm_count();
  d.l2_bytes = p.l2_bytes();
  d.smem_optin_bytes = p.smem_optin_bytes();
  d.mig_profile = p.mig_profile();
  d.cuda_driver_version = p.cuda_driver_version();
  d.driver = p.driver();
  d.pci_subsystem_id = p.pci_subsystem_id();
  d.power_limit_mw = p.power_limit_mw();
  d.ecc = p.ecc();
  d.vbios = p.vbios();
  d.name = p.name();
  d.uuid = p.uuid();
  d.smem_per_sm_bytes = p.smem_per_sm_bytes();
  d.registers_per_sm = p.registers_per_sm();
  d.max_threads_per_sm = p.max_threads_per_sm();
  d.max_clock_khz = p.max_clock_khz();
  d.memory_bytes = p.memory_bytes();
  d.memory_gbps = p.memory_gbps();
  d.mma_sync_tflops = p.mma_sync_tflops();
  d.peak_tflops = p.peak_tflops();
  d.launch_ns = p.launch_ns();
  return d;
}

v1::WorkerGateResult ToProto(const GateResult& result) {
  v1::WorkerGateResult p;
  p.set_outcome(std::string(ToString(result.outcome)));
  p.set_detail(result.detail);
  p.set_gate(std::string(ToString(result.gate)));
  p.set_relative_norm(result.error.relative_norm);
  p.set_worst_ratio(result.error.worst_ratio);
  return p;
}

absl::StatusOr<GateResult> FromProto(const v1::WorkerGateResult& p) {
  GateResult result;
  HONE_ASSIGN_OR_RETURN(result.outcome, ReadOutcome(p.outcome()));
  const absl::StatusOr<GateKind> gate = ParseGateKind(p.gate());
  if (!gate.ok()) return absl::DataLossError(gate.status().message());
  result.gate = *gate;
  result.detail = p.detail();
  result.error.relative_norm = p.relative_norm();
  result.error.worst_ratio = p.worst_ratio();
  return result;
}

v1::WorkerRoundResult ToProto(const RoundResult& result) {
  v1::WorkerRoundResult p;
  for (const RoundResult::Entry& entry : result.entries) {
    v1::WorkerRoundResult::Entry* out = p.add_entries();
    out->set_outcome(std::string(ToString(entry.outcome)));
    out->set_detail(entry.detail);
    out->set_duration_ns(entry.sample.duration_ns);
    out->set_sm_clock_khz(entry.sample.sm_clock_khz);
  }
  p.set_slowed_down(result.slowed_down);
  return p;
}

absl::StatusOr<RoundResult> FromProto(const v1::WorkerRoundResult& p,
                                      int32_t round) {
  RoundResult result;
  for (const v1::WorkerRoundResult::Entry& in : p.entries()) {
    RoundResult::Entry entry;
    HONE_ASSIGN_OR_RETURN(entry.outcome, ReadOutcome(in.outcome()));
    entry.detail = in.detail();
    entry.sample.duration_ns = in.duration_ns();
    entry.sample.sm_clock_khz = in.sm_clock_khz();
    entry.sample.round = round;
    result.entries.push_back(std::move(entry));
  }
  result.slowed_down = p.slowed_down();
  return result;
}

}  // namespace hone
