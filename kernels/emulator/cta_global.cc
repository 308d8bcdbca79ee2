// How a CTA's warps meet those of other CTAs in global memory.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/global_races.h"

namespace hone::emulator {
namespace {

class WarpKnows : public GlobalRaces::Knower {
 public:
  WarpKnows(Cluster& cluster, const Cta& cta, const Warp& warp)
      : cluster_(cluster), cta_(cta), warp_(warp) {}
  uint32_t Known(uint32_t cta, uint32_t warp) const override {
    if (cta == cta_.number()) return warp_.clock[warp];
    uint32_t known = 0;
    const int rank = cluster_.RankOf(cta);
    if (rank >= 0) known = warp_.clock.Of(rank)[warp];
    if (warp_.clock.grid != nullptr) {
      const auto it = warp_.clock.grid->find(cta);
      if (it != warp_.clock.grid->end()) {
        known = std::max(known, it->second[warp]);
      }
    }
    return known;
  }

 private:
  Cluster& cluster_;
  const Cta& cta_;
  const Warp& warp_;
};

}  // namespace

bool Cta::CheckGlobal(const Warp& warp, uint32_t lane, uint64_t address,
                      uint32_t bytes, bool write, bool strong) {
  return CheckGlobalAt(warp, lane, warp.statement, warp.clock[warp.index],
                       address, bytes, write, strong);
}

bool Cta::CheckGlobalAt(const Warp& warp, uint32_t lane, uint32_t statement,
                        uint32_t clock, uint64_t address, uint32_t bytes,
                        bool write, bool strong) {
  if (!CheckDependency(warp, lane, address)) return false;
  GlobalRaces* races = launch_.races;
  if (races == nullptr || !launch_.global->IsWritable(address)) return true;
  const GlobalRaces::Access access = {number_, warp.index, statement, clock,
                                      strong};
  const WarpKnows knower(cluster_, *this, warp);
  const bool ordered = write ? races->Write(address, bytes, access, knower)
                             : races->Read(address, bytes, access, knower);
  if (ordered) return true;
  const GlobalRaces::Conflict& conflict = races->conflict();
  FaultAt(
      warp.index, lane, statement,
      absl::StrCat(
          "race: global ", write ? "write" : "read", " of ", bytes,
          bytes == 1 ? " byte" : " bytes", " at ",
          launch_.global->Place(address), " is not synchronized with the ",
          "earlier ", conflict.is_write ? "write" : "read", " by warp ",
          conflict.other.warp, " of CTA number ", conflict.other.cta, " at ",
          launch_.program->Describe(kernel().code[conflict.other.statement])));
  return false;
}

std::shared_ptr<const GridKnowledge> Cta::Knowledge(const Warp& warp) const {
  auto all = std::make_shared<GridKnowledge>();
  if (warp.clock.grid != nullptr) *all = *warp.clock.grid;
  for (uint32_t rank = 0; rank < cluster_.size(); ++rank) {
    const CtaClock& clock = warp.clock.Of(rank);
    WarpClocks& known = (*all)[cluster_.NumberOf(rank)];
    for (uint32_t w = 0; w < kMaxWarps; ++w) {
      known[w] = std::max(known[w], clock[w]);
    }
  }
  return all;
}

void Cta::FenceGrid(Warp& warp) {
  if (launch_.races == nullptr) return;
  Join(warp.clock.grid, std::exchange(warp.clock.to_acquire, nullptr));
  warp.clock.fenced = Knowledge(warp);
  ++warp.clock[warp.index];
}

void Cta::ReleaseGlobal(Warp& warp, uint64_t address, bool release) {
  if (launch_.races == nullptr) return;
  if (!release) {
    launch_.races->Publish(address, warp.clock.fenced);
    return;
  }
  launch_.races->Publish(address, Knowledge(warp));
  ++warp.clock[warp.index];
}

void Cta::AcquireGlobal(Warp& warp, uint64_t address, bool acquire) {
  if (launch_.races == nullptr) return;
  Join(acquire ? warp.clock.grid : warp.clock.to_acquire,
       launch_.races->Published(address));
}

}  // namespace hone::emulator
