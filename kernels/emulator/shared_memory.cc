#include "kernels/emulator/shared_memory.h"

#include <algorithm>
#include <cstring>

namespace hone::emulator {

namespace {

RemoteShadow::Access Seen(const SharedAccess& access) {
  return {access.clock->rank, access.warp, access.statement, access.strong,
          access.clock};
}

}  // namespace

void SharedMemory::Reset(uint32_t bytes, uint32_t warps, uint32_t rank,
                         uint32_t start) {
  rank_ = rank;
  start_ = start;
  remote_.Reset();
  if (bytes != bytes_ || warps != warps_) {
    bytes_ = bytes;
    warps_ = warps;
    readers_.assign(size_t{bytes} * warps, Reader());
  }
  // Not zeros: whatever slips through the shadow should look wrong.
  data_.assign(bytes, std::byte{0xa5});
  shadow_.assign(bytes, Shadow());
  if (has_operands_) {
    for (auto& rows : operands_) rows.clear();
    has_operands_ = false;
  }
  for (auto& fences : fences_) fences.clear();
}

SharedFault SharedMemory::WriterFault(uint32_t byte, SharedFault fault) {
  const Shadow& shadow = shadow_[byte];
  conflict_ = {byte,
               shadow.write_warp,
               shadow.lane,
               shadow.write_statement,
               shadow.async != 0,
               shadow.rank == rank_ ? -1 : static_cast<int>(shadow.rank)};
  return fault;
}

SharedFault SharedMemory::RemoteFault(SharedFault fault) {
  const RemoteShadow::Conflict& c = remote_.conflict();
  conflict_ = {c.byte, c.warp, 0, c.statement, false, static_cast<int>(c.rank)};
  return fault;
}

SharedFault SharedMemory::CheckRemote(uint32_t offset, uint32_t bytes,
                                      bool write,
                                      const RemoteShadow::Access& access) {
  if (!remote_.used()) return SharedFault::kNone;
  if (!remote_.OrderedAfterWrites(offset, bytes, access)) {
    return RemoteFault(write ? SharedFault::kWriteAfterWrite
                             : SharedFault::kReadAfterWrite);
  }
  if (write && !remote_.OrderedAfterReads(offset, bytes, access)) {
    return RemoteFault(SharedFault::kWriteAfterRead);
  }
  return SharedFault::kNone;
}

SharedFault SharedMemory::ReadRemote(uint32_t offset, uint32_t bytes,
                                     const RemoteShadow::Access& access) {
  const CtaClock& known = access.clock->Of(rank_);
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending || s.mbarrier) return CheckBusy(b, s);
    if (!s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
    if (s.write_clock > known[s.agent] && !(s.strong && access.strong)) {
      return WriterFault(b, s.async ? SharedFault::kUnobservedCopy
                                    : SharedFault::kReadAfterWrite);
    }
  }
  const SharedFault fault = CheckRemote(offset, bytes, /*write=*/false, access);
  if (fault == SharedFault::kNone) {
    remote_.NoteRead(offset, bytes, bytes_, access);
  }
  return fault;
}

SharedFault SharedMemory::WriteRemote(uint32_t offset, uint32_t bytes,
                                      const std::byte* value,
                                      const RemoteShadow::Access& access) {
  const CtaClock& known = access.clock->Of(rank_);
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending || s.mbarrier) return CheckBusy(b, s);
    if (s.source) {
      conflict_.byte = b;
      return SharedFault::kSourceInFlight;
    }
    if (s.write_clock > known[s.agent] && !(s.strong && access.strong)) {
      return WriterFault(b, s.async ? SharedFault::kUnobservedCopy
                                    : SharedFault::kWriteAfterWrite);
    }
    for (uint32_t w = 0; w < warps_; ++w) {
      const Reader& reader = readers_[size_t{w} * bytes_ + b];
      if (reader.clock > known[w] && !(reader.strong && access.strong)) {
        conflict_ = {b, w, 0, reader.statement};
        return SharedFault::kWriteAfterRead;
      }
    }
  }
  SharedFault fault = CheckRemote(offset, bytes, /*write=*/true, access);
  if (fault == SharedFault::kNone && has_operands_) {
    fault = CheckOperands(offset, bytes, known);
  }
  if (fault != SharedFault::kNone) return fault;
  remote_.NoteWrite(offset, bytes, bytes_, access);
  for (uint32_t i = 0; i < bytes; ++i) {
    Shadow& s = shadow_[offset + i];
    s.initialized = true;
    // Whether a proxy fence follows is the remote shadow's business.
    s.async = true;
    data_[offset + i] = value[i];
  }
  return SharedFault::kNone;
}

void SharedMemory::NoteRemoteUse(const SharedAccess& access) {
  remote_.NoteUse(Seen(access));
}

// For bytes that are pending or part of an mbarrier.
SharedFault SharedMemory::CheckBusy(uint32_t byte, const Shadow& shadow) {
  return WriterFault(byte, shadow.mbarrier ? SharedFault::kMbarrierObject
                           : shadow.async  ? SharedFault::kUnobservedCopy
                                           : SharedFault::kPendingCopy);
}

SharedFault SharedMemory::Read(uint32_t offset, uint32_t bytes,
                               const SharedAccess& access) {
  const VectorClock& clock = *access.clock;
  const uint32_t own_clock = clock[access.warp];
  Reader* readers = &readers_[size_t{access.warp} * bytes_];
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending || s.mbarrier) return CheckBusy(b, s);
    if (!s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
    if (s.agent != access.warp) {
      if (s.write_clock > clock[s.agent] && !(s.strong && access.strong)) {
        return WriterFault(b, s.async ? SharedFault::kUnobservedCopy
                                      : SharedFault::kReadAfterWrite);
      }
    } else if (s.copy && s.lane != access.lane &&
               s.write_serial > access.synced_serial) {
      return WriterFault(b, SharedFault::kUnsyncedCopy);
    }
    readers[b].clock = own_clock;
    readers[b].async = false;
    readers[b].statement = access.statement;
    readers[b].strong = access.strong;
  }
  return CheckRemote(offset, bytes, /*write=*/false, Seen(access));
}

SharedFault SharedMemory::CheckWrite(uint32_t offset, uint32_t bytes,
                                     const SharedAccess& access, bool reduces) {
  const CtaClock& clock = access.clock->Of(rank_);
  const uint32_t self = SelfOf(access);
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    // Reductions do not wait for each other.
    if (reduces && s.reduces) continue;
    if (s.pending || s.mbarrier) return CheckBusy(b, s);
    if (s.source) {
      conflict_.byte = b;
      return SharedFault::kSourceInFlight;
    }
    if (s.agent != self) {
      if (s.write_clock > clock[s.agent] && !(s.strong && access.strong)) {
        return WriterFault(b, s.async ? SharedFault::kUnobservedCopy
                                      : SharedFault::kWriteAfterWrite);
      }
    } else if (s.copy && s.lane != access.lane &&
               s.write_serial > access.synced_serial) {
      return WriterFault(b, SharedFault::kUnsyncedCopy);
    }
  }
  for (uint32_t w = 0; w < warps_; ++w) {
    if (w == self) continue;
    const uint32_t known = clock[w];
    const Reader* readers = &readers_[size_t{w} * bytes_];
    for (uint32_t b = offset; b < offset + bytes; ++b) {
      if (readers[b].clock > known && !(readers[b].strong && access.strong)) {
        conflict_ = {b, w, 0, readers[b].statement};
        return SharedFault::kWriteAfterRead;
      }
    }
  }
  if (has_operands_) {
    const SharedFault fault = CheckOperands(offset, bytes, clock);
    if (fault != SharedFault::kNone) return fault;
  }
  return CheckRemote(offset, bytes, /*write=*/true, Seen(access));
}

SharedFault SharedMemory::CheckOperands(uint32_t offset, uint32_t bytes,
                                        const CtaClock& known_clock) {
  for (uint32_t g = 0; g < kMaxWarpgroups; ++g) {
    if (operands_[g].empty()) continue;
    const uint32_t known = known_clock[kWarpgroupAgents + g];
    for (uint32_t row = offset / 16; row <= (offset + bytes - 1) / 16; ++row) {
      const OperandRow& operand = operands_[g][row];
      if (operand.tick > known) {
        conflict_ = {std::max(offset, row * 16), 4 * g, 0, operand.statement,
                     true};
        return SharedFault::kOperandInFlight;
      }
    }
  }
  return SharedFault::kNone;
}

void SharedMemory::NoteWriter(Shadow& s, const SharedAccess& access) {
  s.write_statement = access.statement;
  s.write_warp = access.warp;
  s.rank = access.clock->rank;
  s.lane = access.lane;
  s.copy = false;
  s.async = false;
  s.reduces = false;
  s.strong = false;
}

SharedFault SharedMemory::Write(uint32_t offset, uint32_t bytes,
                                const std::byte* value,
                                const SharedAccess& access) {
  const SharedFault fault = CheckWrite(offset, bytes, access);
  if (fault != SharedFault::kNone) return fault;
  for (uint32_t i = 0; i < bytes; ++i) {
    Shadow& s = shadow_[offset + i];
    if (s.write_serial == access.serial && s.initialized && !access.strong &&
        data_[offset + i] != value[i]) {
      return WriterFault(offset + i, SharedFault::kConflictingStore);
    }
    NoteWriter(s, access);
    s.write_clock = (*access.clock)[access.warp];
    s.write_serial = access.serial;
    s.agent = access.warp;
    s.initialized = true;
    s.strong = access.strong;
    data_[offset + i] = value[i];
  }
  return SharedFault::kNone;
}

SharedFault SharedMemory::BeginCopy(uint32_t offset, uint32_t bytes,
                                    const SharedAccess& access) {
  const SharedFault fault = CheckWrite(offset, bytes, access);
  if (fault != SharedFault::kNone) return fault;
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    Shadow& s = shadow_[b];
    NoteWriter(s, access);
    s.agent = access.warp;
    s.copy = true;
    s.pending = true;
  }
  return SharedFault::kNone;
}

void SharedMemory::Land(uint32_t offset, uint32_t bytes,
                        const SharedAccess& access) {
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    Shadow& s = shadow_[b];
    s.write_clock = (*access.clock)[access.warp];
    s.write_serial = access.serial;
    s.pending = false;
    s.initialized = true;
  }
}

void SharedMemory::NoteProxyFence(uint32_t warp, uint32_t mask,
                                  uint32_t clock) {
  fences_[warp].push_back({clock, mask});
}

bool SharedMemory::IsFenced(uint32_t agent, uint32_t lane, uint32_t write_clock,
                            const CtaClock& clock) const {
  if (write_clock <= clock[kFenced + agent]) return true;
  if (agent >= kMaxWarps) return false;
  // A fence of the writing lane itself, which the reader must know of.
  const auto& fences = fences_[agent];
  const auto first = std::lower_bound(
      fences.begin(), fences.end(), write_clock,
      [](const ProxyFence& f, uint32_t clock) { return f.clock < clock; });
  for (auto it = first; it != fences.end() && it->clock <= clock[agent]; ++it) {
    if ((it->mask >> lane & 1) != 0) return true;
  }
  return false;
}

SharedFault SharedMemory::CheckReadsFenced(uint32_t offset, uint32_t bytes,
                                           const CtaClock& known) {
  for (uint32_t w = 0; w < warps_; ++w) {
    // Reads up to here are fenced, or of earlier CTAs.
    const uint32_t past = std::max(known[kFenced + w], start_);
    const Reader* readers = &readers_[size_t{w} * bytes_];
    for (uint32_t b = offset; b < offset + bytes; ++b) {
      if (readers[b].clock <= past || readers[b].async) continue;
      const auto& fences = fences_[w];
      const auto fence = std::lower_bound(
          fences.begin(), fences.end(), readers[b].clock,
          [](const ProxyFence& f, uint32_t clock) { return f.clock < clock; });
      if (fence != fences.end() && fence->clock <= known[w]) continue;
      conflict_ = {b, w, 0, readers[b].statement};
      return SharedFault::kUnfencedRead;
    }
  }
  return SharedFault::kNone;
}

SharedFault SharedMemory::BeginAsyncWrite(uint32_t offset, uint32_t bytes,
                                          bool reduces, bool generic,
                                          const SharedAccess& access) {
  const SharedFault fault = CheckWrite(offset, bytes, access, reduces);
  if (fault != SharedFault::kNone) return fault;
  if (!generic && !remote_.Fenced(offset, bytes, *access.clock)) {
    return RemoteFault(SharedFault::kMissingProxyFence);
  }
  remote_.ForgetWrites(offset, bytes);
  const CtaClock& known = access.clock->Of(rank_);
  if (!generic) {
    const SharedFault unfenced = CheckReadsFenced(offset, bytes, known);
    if (unfenced != SharedFault::kNone) return unfenced;
  }
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    Shadow& s = shadow_[b];
    if (!generic && s.initialized && !s.async &&
        !IsFenced(s.agent, s.lane, s.write_clock, known)) {
      return WriterFault(b, SharedFault::kMissingProxyFence);
    }
    if (reduces && !s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
  }
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    Shadow& s = shadow_[b];
    NoteWriter(s, access);
    s.write_serial = access.serial;
    s.async = true;
    s.pending = true;
    s.reduces = reduces;
  }
  return SharedFault::kNone;
}

void SharedMemory::LandAsync(uint32_t offset, uint32_t bytes, uint32_t agent,
                             uint32_t tick, bool generic) {
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    Shadow& s = shadow_[b];
    if (generic) s.async = false;
    s.agent = agent;
    s.write_clock = tick;
    s.pending = false;
    s.initialized = true;
  }
}

void SharedMemory::StayPending(uint32_t offset, uint32_t bytes) {
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    shadow_[b].pending = true;
    shadow_[b].reduces = true;
  }
}

SharedFault SharedMemory::CheckAsyncRead(uint32_t offset, uint32_t bytes,
                                         const SharedAccess& access) {
  const CtaClock& clock = access.clock->Of(rank_);
  const uint32_t self = SelfOf(access);
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending || s.mbarrier) return CheckBusy(b, s);
    if (!s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
    if (s.agent != self && s.write_clock > clock[s.agent]) {
      return WriterFault(b, s.async ? SharedFault::kUnobservedCopy
                                    : SharedFault::kReadAfterWrite);
    }
    if (s.copy && s.write_warp == self && s.lane != access.lane &&
        s.write_serial > access.synced_serial) {
      return WriterFault(b, SharedFault::kUnsyncedCopy);
    }
    if (!s.async && !IsFenced(s.agent, s.lane, s.write_clock, clock)) {
      return WriterFault(b, SharedFault::kMissingProxyFence);
    }
  }
  if (!remote_.Fenced(offset, bytes, *access.clock)) {
    return RemoteFault(SharedFault::kMissingProxyFence);
  }
  return CheckRemote(offset, bytes, /*write=*/false, Seen(access));
}

void SharedMemory::MarkSource(uint32_t offset, uint32_t bytes, bool in_flight) {
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    shadow_[b].source = in_flight;
  }
}

void SharedMemory::NoteRead(uint32_t offset, uint32_t bytes,
                            const SharedAccess& access) {
  Reader* readers = &readers_[size_t{access.warp} * bytes_];
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    readers[b].clock = (*access.clock)[access.warp];
    readers[b].statement = access.statement;
    readers[b].strong = false;
    readers[b].async = true;
  }
}

void SharedMemory::NoteOperand(uint32_t warpgroup, uint32_t offset,
                               uint32_t tick, uint32_t statement) {
  auto& rows = operands_[warpgroup];
  if (rows.empty()) {
    rows.resize((bytes_ + 15) / 16);
    has_operands_ = true;
  }
  rows[offset / 16] = {tick, statement};
}

void SharedMemory::SetMbarrier(uint32_t offset, bool live,
                               const SharedAccess& access) {
  for (uint32_t b = offset; b < offset + 8; ++b) {
    Shadow& s = shadow_[b];
    s = Shadow();
    s.write_clock = (*access.clock)[access.warp];
    s.write_statement = access.statement;
    s.write_serial = access.serial;
    s.write_warp = access.warp;
    s.rank = access.clock->rank;
    s.agent = access.warp;
    s.lane = access.lane;
    s.mbarrier = live;
  }
}

}  // namespace hone::emulator
