// What a CTA accounts for beside its warps' progress: registers that setmaxnreg
// moves, the launch before this one, and what must hold when it ends.
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/cta.h"

namespace hone::emulator {
namespace {

constexpr uint32_t kWarpsPerGroup = 4;

}  // namespace

void Cta::SetMaxRegisters(Warp& warp, bool increase, uint32_t count) {
  const uint32_t lane = std::countr_zero(warp.live);
  const auto fault = [&](auto... parts) {
    Fault(warp, lane, absl::StrCat("setmaxnreg: ", parts...));
  };
  if (kernel().register_cap == 0) {
    fault(
        "the kernel has neither .maxnreg nor .maxntid with .minnctapersm, "
        "so that ptxas ignores it");
    return;
  }
  if (increase ? count < warp.registers : count > warp.registers) {
    fault(increase ? ".inc" : ".dec", " to ", count,
          " registers, but the warp ", "has ", warp.registers);
    return;
  }
  const uint32_t first = warp.index / kWarpsPerGroup * kWarpsPerGroup;
  if (first + kWarpsPerGroup > warps_.size()) {
    fault("the warpgroup of this warp has fewer than 4 warps");
    return;
  }
  for (uint32_t w = first; w < first + kWarpsPerGroup; ++w) {
    const Warp& other = warps_[w];
    if (w == warp.index) continue;
    if (other.register_changes == warp.register_changes + 1) {
      // The other warp is at this change already, or waits in it.
      if (other.register_request != count) {
        fault("warp ", w, " of the warpgroup asks for ", other.register_request,
              " registers and this one for ", count);
        return;
      }
    } else if (other.register_changes != warp.register_changes ||
               other.register_clock > warp.clock[w]) {
      fault("warp ", w, " of the warpgroup has not synchronized with this one ",
            "since the setmaxnreg before");
      return;
    }
  }
  ++warp.register_changes;
  warp.register_clock = warp.clock[warp.index];
  warp.register_request = count;
  if (!increase) {
    free_registers_ += (warp.registers - count) * kWarpSize;
    warp.registers = count;
  } else {
    warp.state = Warp::State::kWaiting;
    warp.waits_for = Warp::WaitsFor::kRegisters;
  }
  GrantRegisters();
}

void Cta::GrantRegisters() {
  for (Warp& warp : warps_) {
    if (warp.state != Warp::State::kWaiting ||
        warp.waits_for != Warp::WaitsFor::kRegisters) {
      continue;
    }
    const uint32_t more = (warp.register_request - warp.registers) * kWarpSize;
    if (more > free_registers_) continue;
    free_registers_ -= more;
    warp.registers = warp.register_request;
    warp.state = Warp::State::kReady;
  }
}

void Cta::WaitForDependency(Warp& warp) {
  if (warp.dependency_clock == 0) {
    warp.dependency_clock = warp.clock[warp.index];
  }
}

bool Cta::CheckDependency(const Warp& warp, uint32_t lane, uint64_t address) {
  if (!launch_.has_in_flight) return true;
  const std::string* name = launch_.global->InFlight(address);
  if (name == nullptr) return true;
  // A wait of another warp counts once this one has synchronized with it.
  for (const Warp& other : warps_) {
    if (other.dependency_clock != 0 &&
        other.dependency_clock <= warp.clock[other.index]) {
      return true;
    }
  }
  Fault(warp, lane,
        absl::StrCat("missing griddepcontrol.wait: access to buffer ", *name,
                     ", which the launch before this one may still use"));
  return false;
}

void Cta::Finish() {
  done_ = true;
  CheckExit();
  const auto describe = [&](uint32_t statement) {
    return launch_.program->Describe(kernel().code[statement]);
  };
  for (const Warp& warp : warps_) {
    const Warp& first = warps_[warp.index / kWarpsPerGroup * kWarpsPerGroup];
    if (warp.register_changes != first.register_changes) {
      Fault(warp, 0,
            absl::StrFormat("setmaxnreg: warp %d executed it %d times and warp "
                            "%d of the same warpgroup %d times",
                            warp.index, warp.register_changes, first.index,
                            first.register_changes));
      return;
    }
  }
  // Shared memory goes with the CTA: other CTAs must be done with it, and
  // this one must know.
  for (const auto& [key, last] : shared_.remote().last()) {
    bool known = false;
    for (const Warp& warp : warps_) {
      known |= warp.clock.Of(last.rank)[last.warp] >= last.clock;
    }
    if (known) continue;
    Fault(
        warps_.back(), 0,
        absl::StrCat("race: the CTA exits, but its shared memory may still ",
                     "be in use by warp ", last.warp, " of the CTA with rank ",
                     last.rank, " at ", describe(last.statement),
                     "; no barrier.cluster or the like orders the two"));
    return;
  }
}

}  // namespace hone::emulator
