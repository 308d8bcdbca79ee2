#include "kernels/emulator/global_races.h"

#include <utility>

namespace hone::emulator {

GlobalRaces::Cell& GlobalRaces::At(uint64_t address) {
  std::unique_ptr<Page>& page = pages_[address / kPageBytes];
  if (page == nullptr) page = std::make_unique<Page>();
  return (*page)[address % kPageBytes];
}

bool GlobalRaces::Ordered(uint64_t address, const Access& other,
                          bool other_writes, const Access& access,
                          const Knower& knower) {
  if (other.clock == 0 || (other.strong && access.strong)) return true;
  if (other.cta == access.cta && other.warp == access.warp) return true;
  if (knower.Known(other.cta, other.warp) >= other.clock) return true;
  conflict_ = {address, other_writes, other};
  return false;
}

bool GlobalRaces::Read(uint64_t address, uint32_t bytes, const Access& access,
                       const Knower& knower) {
  for (uint64_t at = address; at < address + bytes; ++at) {
    Cell& cell = At(at);
    if (!Ordered(at, cell.writer, /*other_writes=*/true, access, knower)) {
      return false;
    }
    cell.reader = access;
  }
  return true;
}

bool GlobalRaces::Write(uint64_t address, uint32_t bytes, const Access& access,
                        const Knower& knower) {
  for (uint64_t at = address; at < address + bytes; ++at) {
    Cell& cell = At(at);
    if (!Ordered(at, cell.writer, /*other_writes=*/true, access, knower) ||
        !Ordered(at, cell.reader, /*other_writes=*/false, access, knower)) {
      return false;
    }
    cell.writer = access;
  }
  return true;
}

void GlobalRaces::Publish(
    uint64_t address, const std::shared_ptr<const GridKnowledge>& knowledge) {
  if (knowledge == nullptr) return;
  Join(published_[address], knowledge);
}

std::shared_ptr<const GridKnowledge> GlobalRaces::Published(
    uint64_t address) const {
  const auto it = published_.find(address);
  return it == published_.end() ? nullptr : it->second;
}

}  // namespace hone::emulator
