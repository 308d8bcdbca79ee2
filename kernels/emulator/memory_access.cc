#include "kernels/emulator/memory_access.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"

namespace hone::emulator {
namespace {

// Bytes of a private or constant window, or nullptr after a fault.
const std::byte* InWindow(Cta& cta, Warp& warp, uint32_t lane,
                          absl::string_view what, const std::byte* base,
                          uint64_t size, uint64_t address, uint64_t start,
                          uint32_t bytes) {
  const uint64_t offset = address - start;
  if (offset >= size || bytes > size - offset) {
    cta.Fault(warp, lane,
              absl::StrFormat("out of bounds: access to %d bytes at byte %d of "
                              "%s memory, which has %d bytes",
                              bytes, static_cast<int64_t>(offset), what, size));
    return nullptr;
  }
  return base + offset;
}

}  // namespace

void ResolveGeneric(Space* space, uint64_t* address) {
  if (*space != Space::kGeneric) return;
  const uint64_t window = *address >> kWindowShift << kWindowShift;
  switch (window) {
    case kSharedWindow:
      *space = *address >> kRankShift == window >> kRankShift
                   ? Space::kShared
                   : Space::kSharedCluster;
      break;
    case kLocalWindow:
      *space = Space::kLocal;
      break;
    case kConstWindow:
      *space = Space::kConst;
      break;
    case kParamWindow:
      *space = Space::kParam;
      break;
    default:
      *space = Space::kGlobal;
      return;
  }
  *address -= window;
}

uint32_t TakeRank(const Cta& cta, uint64_t* address) {
  const uint32_t rank = static_cast<uint32_t>(*address) >> kRankShift;
  *address &= (uint64_t{1} << kRankShift) - 1;
  return rank == 0 ? cta.rank() : rank - 1;
}

bool CheckAlignment(Cta& cta, Warp& warp, uint32_t lane, uint64_t address,
                    uint32_t bytes, absl::string_view verb) {
  if (address % bytes == 0) return true;
  cta.Fault(warp, lane,
            absl::StrFormat("misaligned: %s of %d bytes at address 0x%x", verb,
                            bytes, address));
  return false;
}

bool SharedOffset(Cta& cta, Warp& warp, uint32_t lane, uint64_t address,
                  uint32_t bytes, absl::string_view verb, uint32_t* offset) {
  const uint64_t at = address - kSharedBase;
  if (address >> kRankShift != 0 && address >> 32 == 0) {
    cta.Fault(warp, lane,
              absl::StrCat("out of bounds: shared::cta ", verb,
                           " at an address of shared::cluster, in the CTA "
                           "with rank ",
                           TakeRank(cta, &address)));
    return false;
  }
  if (!cta.shared().InBounds(at, bytes)) {
    cta.FaultShared(warp, lane, SharedFault::kOutOfBounds, verb,
                    static_cast<uint32_t>(at), bytes);
    return false;
  }
  *offset = static_cast<uint32_t>(at);
  if (address % bytes == 0) return true;
  return CheckAlignment(cta, warp, lane, address, bytes,
                        absl::StrCat("shared ", verb));
}

bool RequireAllLanes(Cta& cta, Warp& warp, uint32_t mask,
                     absl::string_view what) {
  if (mask == kAllLanes) return true;
  cta.Fault(warp, std::countr_zero(mask),
            absl::StrFormat("inactive lanes: %s needs all 32 lanes; lanes "
                            "0x%08x have exited",
                            what, ~mask));
  return false;
}

bool ReadMemory(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
                Space space, uint64_t address, uint32_t bytes,
                std::byte* value) {
  ResolveGeneric(&space, &address);
  if (space == Space::kSharedCluster) {
    const uint32_t rank = TakeRank(cta, &address);
    if (rank != cta.rank()) {
      return cta.cluster().Read(cta, warp, inst, lane, rank,
                                static_cast<uint32_t>(address), bytes, value);
    }
    space = Space::kShared;
  }
  const std::byte* from = nullptr;
  switch (space) {
    case Space::kSharedCluster:
      break;
    case Space::kShared: {
      uint32_t offset = 0;
      if (!SharedOffset(cta, warp, lane, address, bytes, "read", &offset)) {
        return false;
      }
      SharedAccess access = warp.Access(lane, cta.serial());
      if (inst.Has(Instruction::kStrong)) {
        access.strong = true;
        cta.Acquire(warp, offset);
      }
      const SharedFault fault = cta.shared().Read(offset, bytes, access);
      if (fault != SharedFault::kNone) {
        cta.FaultShared(warp, lane, fault, "read", offset, bytes);
        return false;
      }
      cta.stats().shared_bytes_read += bytes;
      std::memcpy(value, cta.shared().data(offset), bytes);
      return true;
    }
    case Space::kLocal:
      from = InWindow(cta, warp, lane, "local",
                      warp.local + size_t{lane} * cta.kernel().local_bytes,
                      cta.kernel().local_bytes, address, kLocalBase, bytes);
      break;
    case Space::kConst:
      from = InWindow(cta, warp, lane, "constant",
                      cta.launch().program->constant_memory.data(),
                      cta.launch().program->constant_memory.size(), address,
                      kLocalBase, bytes);
      break;
    case Space::kParam:
      from =
          InWindow(cta, warp, lane, "parameter", cta.launch().parameters.data(),
                   cta.launch().parameters.size(), address, 0, bytes);
      break;
    case Space::kGlobal:
    case Space::kGeneric: {
      // Strong accesses meet atomics of CTAs on other host threads.
      std::optional<absl::MutexLock> lock;
      if (inst.Has(Instruction::kStrong)) {
        lock.emplace(&cta.global().atomic_mutex());
      }
      from = cta.global().ForRead(address, bytes);
      if (from == nullptr) {
        cta.Fault(warp, lane, cta.global().Explain(address, bytes, false));
        return false;
      }
      const bool strong = inst.Has(Instruction::kStrong);
      if (strong) {
        cta.AcquireGlobal(warp, address, inst.Has(Instruction::kAcquire));
      }
      if (!CheckAlignment(cta, warp, lane, address, bytes, "global read") ||
          !cta.CheckGlobal(warp, lane, address, bytes, /*write=*/false,
                           strong)) {
        return false;
      }
      cta.stats().global_bytes_read += bytes;
      std::memcpy(value, from, bytes);
      return true;
    }
  }
  if (from == nullptr ||
      !CheckAlignment(cta, warp, lane, address, bytes, "read")) {
    return false;
  }
  std::memcpy(value, from, bytes);
  return true;
}

bool WriteMemory(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
                 Space space, uint64_t address, uint32_t bytes,
                 const std::byte* value) {
  ResolveGeneric(&space, &address);
  if (space == Space::kSharedCluster) {
    const uint32_t rank = TakeRank(cta, &address);
    if (rank != cta.rank()) {
      return cta.cluster().Write(cta, warp, inst, lane, rank,
                                 static_cast<uint32_t>(address), bytes, value);
    }
    space = Space::kShared;
  }
  switch (space) {
    case Space::kSharedCluster:
      break;
    case Space::kShared: {
      uint32_t offset = 0;
      if (!SharedOffset(cta, warp, lane, address, bytes, "write", &offset)) {
        return false;
      }
      SharedAccess access = warp.Access(lane, cta.serial());
      access.strong = inst.Has(Instruction::kStrong);
      const SharedFault fault =
          cta.shared().Write(offset, bytes, value, access);
      if (fault != SharedFault::kNone) {
        cta.FaultShared(warp, lane, fault, "write", offset, bytes);
        return false;
      }
      if (access.strong) cta.Release(warp, offset);
      cta.stats().shared_bytes_written += bytes;
      return true;
    }
    case Space::kLocal: {
      const std::byte* to =
          InWindow(cta, warp, lane, "local",
                   warp.local + size_t{lane} * cta.kernel().local_bytes,
                   cta.kernel().local_bytes, address, kLocalBase, bytes);
      if (to == nullptr ||
          !CheckAlignment(cta, warp, lane, address, bytes, "local write")) {
        return false;
      }
      std::memcpy(const_cast<std::byte*>(to), value, bytes);
      return true;
    }
    case Space::kConst:
    case Space::kParam:
      cta.Fault(warp, lane, "write to constant or parameter memory");
      return false;
    case Space::kGlobal:
    case Space::kGeneric:
      break;
  }
  std::optional<absl::MutexLock> lock;
  if (inst.Has(Instruction::kStrong)) {
    lock.emplace(&cta.global().atomic_mutex());
  }
  std::byte* to = cta.global().ForWrite(address, bytes);
  if (to == nullptr) {
    cta.Fault(warp, lane, cta.global().Explain(address, bytes, true));
    return false;
  }
  const bool strong = inst.Has(Instruction::kStrong);
  if (!CheckAlignment(cta, warp, lane, address, bytes, "global write") ||
      !cta.CheckGlobal(warp, lane, address, bytes, /*write=*/true, strong)) {
    return false;
  }
  if (strong) {
    cta.ReleaseGlobal(warp, address, inst.Has(Instruction::kRelease));
  }
  std::memcpy(to, value, bytes);
  cta.stats().global_bytes_written += bytes;
  return true;
}

void TakeMemoryOrder(InstructionDecoder& d) {
  uint8_t flags = 0;
  for (const char* order : {"volatile", "relaxed", "mmio"}) {
    if (d.Take(order)) flags |= Instruction::kStrong;
  }
  if (d.Take("acquire")) flags |= Instruction::kStrong | Instruction::kAcquire;
  if (d.Take("release")) flags |= Instruction::kStrong | Instruction::kRelease;
  if (d.Take("acq_rel")) {
    flags |=
        Instruction::kStrong | Instruction::kAcquire | Instruction::kRelease;
  }
  d.Take("weak");
  // Between CTAs a narrower scope orders nothing.
  if (d.Take("cta") || d.Take("cluster")) {
    flags &=
        static_cast<uint8_t>(~(Instruction::kAcquire | Instruction::kRelease));
  } else if (!d.Take("gpu")) {
    d.Take("sys");
  }
  d.inst().flags |= flags;
}

bool TakeSpace(InstructionDecoder& d, Space* space) {
  if (d.Take("global")) {
    *space = Space::kGlobal;
  } else if (d.Take("shared") || d.Take("shared::cta")) {
    *space = Space::kShared;
  } else if (d.Take("shared::cluster")) {
    *space = Space::kSharedCluster;
  } else if (d.Take("local")) {
    *space = Space::kLocal;
  } else if (d.Take("const")) {
    *space = Space::kConst;
  } else if (d.Take("param") || d.Take("param::entry")) {
    *space = Space::kParam;
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
