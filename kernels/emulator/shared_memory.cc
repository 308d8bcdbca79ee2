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

void SharedMemory::Reset(uint32_t bytes, uint32_t warps, uint32_t rank) {
  rank_ = rank;
  remote_.Reset();
  if (bytes != bytes_ || warps != warps_) {
    bytes_ = bytes;
    warps_ = warps;
    readers_.assign(size_t{bytes} * warps, Reader());
  }
  // Not zeros: whatever slips through the shadow should look wrong.
  data_.assign(bytes, std::byte{0xa5});
  shadow_.assign(bytes, Shadow());
}

SharedFault SharedMemory::WriterFault(uint32_t byte, SharedFault fault) {
  const Shadow& shadow = shadow_[byte];
  conflict_ = {byte, shadow.write_warp,
               shadow.copy_lane == 0 ? 0u : shadow.copy_lane - 1u,
               shadow.write_statement};
  return fault;
}

SharedFault SharedMemory::RemoteFault(SharedFault fault) {
  const RemoteShadow::Conflict& c = remote_.conflict();
  conflict_ = {c.byte, c.warp, 0, c.statement, static_cast<int>(c.rank)};
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
    if (s.pending) return WriterFault(b, SharedFault::kPendingCopy);
    if (!s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
    if (s.write_clock > known[s.write_warp] && !(s.strong && access.strong)) {
      return WriterFault(b, SharedFault::kReadAfterWrite);
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
    if (s.pending) return WriterFault(b, SharedFault::kPendingCopy);
    if (s.write_clock > known[s.write_warp] && !(s.strong && access.strong)) {
      return WriterFault(b, SharedFault::kWriteAfterWrite);
    }
    for (uint32_t w = 0; w < warps_; ++w) {
      const Reader& reader = readers_[size_t{w} * bytes_ + b];
      if (reader.clock > known[w] && !(reader.strong && access.strong)) {
        conflict_ = {b, w, 0, reader.statement};
        return SharedFault::kWriteAfterRead;
      }
    }
  }
  const SharedFault fault = CheckRemote(offset, bytes, /*write=*/true, access);
  if (fault != SharedFault::kNone) return fault;
  remote_.NoteWrite(offset, bytes, bytes_, access);
  for (uint32_t i = 0; i < bytes; ++i) {
    shadow_[offset + i].initialized = true;
    data_[offset + i] = value[i];
  }
  return SharedFault::kNone;
}

SharedFault SharedMemory::Read(uint32_t offset, uint32_t bytes,
                               const SharedAccess& access) {
  const VectorClock& clock = *access.clock;
  const uint32_t own_clock = clock[access.warp];
  Reader* readers = &readers_[size_t{access.warp} * bytes_];
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending) return WriterFault(b, SharedFault::kPendingCopy);
    if (!s.initialized) {
      conflict_ = {b, 0, 0, 0};
      return SharedFault::kUninitialized;
    }
    if (s.write_warp != access.warp) {
      if (s.write_clock > clock[s.write_warp] && !(s.strong && access.strong)) {
        return WriterFault(b, SharedFault::kReadAfterWrite);
      }
    } else if (s.copy_lane != 0 && s.copy_lane != access.lane + 1 &&
               s.write_serial > access.synced_serial) {
      return WriterFault(b, SharedFault::kUnsyncedCopy);
    }
    readers[b].clock = own_clock;
    readers[b].statement = access.statement;
    readers[b].strong = access.strong;
  }
  return CheckRemote(offset, bytes, /*write=*/false, Seen(access));
}

SharedFault SharedMemory::CheckWrite(uint32_t offset, uint32_t bytes,
                                     const SharedAccess& access) {
  const VectorClock& clock = *access.clock;
  for (uint32_t b = offset; b < offset + bytes; ++b) {
    const Shadow& s = shadow_[b];
    if (s.pending) return WriterFault(b, SharedFault::kPendingCopy);
    if (s.write_warp != access.warp) {
      if (s.write_clock > clock[s.write_warp] && !(s.strong && access.strong)) {
        return WriterFault(b, SharedFault::kWriteAfterWrite);
      }
    } else if (s.copy_lane != 0 && s.copy_lane != access.lane + 1 &&
               s.write_serial > access.synced_serial) {
      return WriterFault(b, SharedFault::kUnsyncedCopy);
    }
  }
  for (uint32_t w = 0; w < warps_; ++w) {
    if (w == access.warp) continue;
    const uint32_t known = clock[w];
    const Reader* readers = &readers_[size_t{w} * bytes_];
    for (uint32_t b = offset; b < offset + bytes; ++b) {
      if (readers[b].clock > known && !(readers[b].strong && access.strong)) {
        conflict_ = {b, w, 0, readers[b].statement};
        return SharedFault::kWriteAfterRead;
      }
    }
  }
  return CheckRemote(offset, bytes, /*write=*/true, Seen(access));
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
    s.write_clock = (*access.clock)[access.warp];
    s.write_statement = access.statement;
    s.write_serial = access.serial;
    s.write_warp = access.warp;
    s.copy_lane = 0;
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
    s.write_statement = access.statement;
    s.write_warp = access.warp;
    s.copy_lane = access.lane + 1;
    s.pending = true;
    s.strong = false;
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

}  // namespace hone::emulator
