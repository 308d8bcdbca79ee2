// Clusters: mapa, getctarank and barrier.cluster.
#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// r: destination, address, rank. The address may be of any CTA of the cluster,
// and generic if T has 64 bits.
template <typename T>
void MapAddress(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  T* d = warp.Reg<T>(inst.r[0]);
  const T* a = warp.Reg<T>(inst.r[1]);
  const uint32_t* ranks = warp.Reg<uint32_t>(inst.r[2]);
  ForLanesWhile(mask, [&](uint32_t lane) {
    const uint64_t window = uint64_t{a[lane]} >> kWindowShift << kWindowShift;
    if (ranks[lane] >= cta.cluster().size() ||
        (inst.count != 0 && window != kSharedWindow)) {
      cta.Fault(warp, lane,
                absl::StrFormat("mapa of address 0x%x to rank %d of %d CTAs",
                                a[lane], ranks[lane], cta.cluster().size()));
      return false;
    }
    uint64_t address = a[lane] - window;
    TakeRank(cta, &address);
    d[lane] = static_cast<T>(window | uint64_t{ranks[lane] + 1} << kRankShift |
                             address);
    return true;
  });
}

// r: destination, address.
template <typename T>
void RankOf(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const T* a = warp.Reg<T>(inst.r[1]);
  ForLanes(mask, [&](uint32_t lane) {
    uint64_t address = a[lane];
    d[lane] = TakeRank(cta, &address);
  });
}

// mode: 1 if it releases.
void Arrive(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "barrier.cluster")) return;
  cta.cluster().Arrive(cta, warp, inst.mode != 0);
}

void Wait(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "barrier.cluster")) return;
  cta.cluster().Wait(cta, warp);
}

void DecodeMap(InstructionDecoder& d, bool rank_only) {
  Instruction& inst = d.inst();
  // With a state space the address is of that space, else generic.
  inst.count = d.Take("shared::cluster") ? 0 : 1;
  const uint32_t bytes = BytesOf(d.TakeType());
  d.ExpectDone();
  if (bytes != 4 && bytes != 8) d.Fail("the type");
  d.Destination(d.operand(0), rank_only ? 4 : bytes);
  d.Source(d.operand(1), bytes);
  if (rank_only) {
    d.Run(bytes == 4 ? RankOf<uint32_t> : RankOf<uint64_t>);
    return;
  }
  d.Source(d.operand(2), 4);
  d.Run(bytes == 4 ? MapAddress<uint32_t> : MapAddress<uint64_t>);
}

}  // namespace

bool DecodeCluster(InstructionDecoder& d) {
  if (d.name() == "mapa" || d.name() == "getctarank") {
    DecodeMap(d, d.name() == "getctarank");
    return true;
  }
  if (d.name() != "barrier" || !d.Take("cluster")) return false;
  if (d.Take("arrive")) {
    d.inst().mode = d.Take("relaxed") ? 0 : 1;
    d.Take("release");
    d.Take("aligned");
    d.ExpectDone();
    d.Run(Arrive);
  } else {
    if (!d.Take("wait")) d.Fail("the operation");
    d.Take("acquire");
    d.Take("aligned");
    d.ExpectDone();
    d.Run(Wait);
  }
  return true;
}

}  // namespace hone::emulator
