#include "kernels/emulator/wgmma.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/float_format.h"
#include "kernels/emulator/matrix_descriptor.h"
#include "kernels/emulator/narrow_float.h"

namespace hone::emulator {
namespace {

constexpr uint32_t kM = 64;
// Every shape has 32 bytes of K.
constexpr uint32_t kRowsOfK = 2;

uint32_t ElementBytes(const WgmmaInstruction& mma) { return 32 / mma.k; }

// Calls f(address, mn, k) for every 16-byte row of an operand, with the
// element that it starts with. Stops when f returns false.
template <typename F>
bool ForRows(const WgmmaInstruction& mma, bool is_a, uint64_t descriptor, F f) {
  const MatrixDescriptor matrix(descriptor);
  const uint32_t mn = is_a ? kM : mma.n;
  if (is_a ? mma.transpose_a : mma.transpose_b) {
    for (uint32_t k = 0; k < mma.k; ++k) {
      for (uint32_t i = 0; i < mn / 8; ++i) {
        if (!f(matrix.MnMajor(i, k), 8 * i, k)) return false;
      }
    }
    return true;
  }
  for (uint32_t i = 0; i < mn; ++i) {
    for (uint32_t half = 0; half < kRowsOfK; ++half) {
      if (!f(matrix.KMajor(i, half), i, half * 16 / ElementBytes(mma))) {
        return false;
      }
    }
  }
  return true;
}

// Element `e` of bytes in memory or in registers.
double Element(WgmmaInstruction::Input type, const std::byte* bytes,
               uint32_t e) {
  const auto byte = [&] { return static_cast<uint8_t>(bytes[e]); };
  const auto half = [&] {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * e, 2);
    return bits;
  };
  switch (type) {
    case WgmmaInstruction::Input::kF16:
      return Decode16<Half>(half());
    case WgmmaInstruction::Input::kBF16:
      return Decode16<BFloat>(half());
    case WgmmaInstruction::Input::kE4M3:
      return DecodeNarrow<E4M3>(byte());
    case WgmmaInstruction::Input::kE5M2:
      return DecodeNarrow<E5M2>(byte());
    case WgmmaInstruction::Input::kS8:
      return static_cast<int8_t>(byte());
    case WgmmaInstruction::Input::kU8:
      return byte();
  }
  return 0;
}

std::string DescribeMma(const Cta& cta, uint32_t statement) {
  return absl::StrCat("the wgmma at ", cta.Describe(statement));
}

}  // namespace

void WgmmaUnit::Reset() {
  for (Warpgroup& group : groups_) group = Warpgroup();
}

void WgmmaUnit::Arrive(Cta& cta, Warp& warp, uint64_t a, uint64_t b,
                       bool accumulate) {
  const uint32_t g = warp.index / 4;
  Warpgroup& group = groups_[g];
  const uint32_t lane = 0;
  if (4 * g + 4 > cta.warps().size()) {
    cta.Fault(warp, lane,
              absl::StrCat("wgmma needs a warpgroup of four warps; the CTA has "
                           "only ",
                           cta.warps().size() - 4 * g, " from warp ", 4 * g));
    return;
  }
  const uint32_t tick = warp.async.committed + 1;
  if (group.arrived == 0) {
    group.gathering = {warp.statement, a, b, accumulate, tick};
  } else {
    const Mma& first = group.gathering;
    const char* difference =
        first.statement != warp.statement ? "executes another wgmma than"
        : first.a != a                    ? "has another A descriptor than"
        : first.b != b                    ? "has another B descriptor than"
        : first.accumulate != accumulate  ? "has another scale-d than"
        : first.group != tick ? "has committed another number of groups than"
                              : nullptr;
    if (difference != nullptr) {
      cta.Fault(
          warp, lane,
          absl::StrCat("divergence: warp ", warp.index, " ", difference,
                       " the warps of its warpgroup that came before, which "
                       "are at ",
                       DescribeMma(cta, first.statement)));
      return;
    }
  }
  group.arrived |= 1u << warp.index % 4;
  if (group.arrived != 15) {
    warp.state = Warp::State::kWaiting;
    warp.waits_for = Warp::WaitsFor::kWarpgroup;
    return;
  }
  group.arrived = 0;
  for (uint32_t w = 4 * g; w < 4 * g + 4; ++w) {
    if (w != warp.index) cta.warps()[w].state = Warp::State::kReady;
  }
  Issue(cta, g);
}

void WgmmaUnit::Issue(Cta& cta, uint32_t g) {
  Warpgroup& group = groups_[g];
  const Mma mma = group.gathering;
  const Instruction& inst = cta.kernel().code[mma.statement];
  const WgmmaInstruction& shape = cta.kernel().wgmma[inst.wgmma];
  // Any of the warps may be the one that reads: it counts what all know.
  VectorClock known = cta.warps()[4 * g].clock;
  for (uint32_t w = 4 * g + 1; w < 4 * g + 4; ++w) {
    Meet(known, cta.warps()[w].clock);
  }
  if (shape.a_registers == 0 && !CheckOperand(cta, g, mma, true, known)) return;
  if (!CheckOperand(cta, g, mma, false, known)) return;
  ++cta.stats().wgmma;
  group.queue.push_back(mma);
  const CopyLanding landing = cta.launch().options.landing;
  if (landing == CopyLanding::kEarliest ||
      (landing == CopyLanding::kRandom && cta.random().Below(2) == 0)) {
    ComputeAll(cta, g);
  }
}

bool WgmmaUnit::CheckOperand(Cta& cta, uint32_t g, const Mma& mma, bool is_a,
                             const VectorClock& known) {
  const Instruction& inst = cta.kernel().code[mma.statement];
  const WgmmaInstruction& shape = cta.kernel().wgmma[inst.wgmma];
  const Warp& warp = cta.warps()[4 * g];
  SharedAccess access;
  access.warp = SharedMemory::kNobody;
  access.statement = mma.statement;
  access.clock = &known;
  const absl::string_view verb = is_a ? "wgmma read of A" : "wgmma read of B";
  return ForRows(shape, is_a, is_a ? mma.a : mma.b,
                 [&](uint32_t address, uint32_t, uint32_t) {
                   const uint32_t offset = address - kSharedBase;
                   SharedFault fault = SharedFault::kOutOfBounds;
                   if (cta.shared().InBounds(offset, 16)) {
                     fault = cta.shared().CheckAsyncRead(offset, 16, access);
                   }
                   if (fault != SharedFault::kNone) {
                     cta.FaultShared(warp, 0, fault, verb, offset, 16);
                     return false;
                   }
                   cta.shared().NoteOperand(g, offset, mma.group,
                                            mma.statement);
                   return true;
                 });
}

void WgmmaUnit::ComputeAll(Cta& cta, uint32_t g) {
  Warpgroup& group = groups_[g];
  while (!group.queue.empty()) {
    Compute(cta, g, group.queue.front());
    group.queue.pop_front();
  }
}

void WgmmaUnit::Wait(Cta& cta, Warp& warp, uint32_t keep) {
  const uint32_t committed = warp.async.committed;
  const uint32_t completed = committed > keep ? committed - keep : 0;
  if (completed <= warp.async.completed) return;
  warp.async.completed = completed;
  Warpgroup& group = groups_[warp.index / 4];
  while (!group.queue.empty() && group.queue.front().group <= completed) {
    Compute(cta, warp.index / 4, group.queue.front());
    group.queue.pop_front();
  }
  uint32_t& known = warp.clock[kWarpgroupAgents + warp.index / 4];
  known = std::max(known, completed);
}

// Sums the exact products in double and rounds once, as mma.sync does here.
void WgmmaUnit::Compute(Cta& cta, uint32_t g, const Mma& mma) {
  const Instruction& inst = cta.kernel().code[mma.statement];
  const WgmmaInstruction& shape = cta.kernel().wgmma[inst.wgmma];
  const uint32_t k_count = shape.k, n_count = shape.n;
  std::vector<double> a(kM * k_count), b(k_count * n_count);
  const uint32_t per_row = 16 / ElementBytes(shape);
  if (shape.a_registers == 0) {
    ForRows(shape, true, mma.a, [&](uint32_t address, uint32_t m, uint32_t k) {
      const std::byte* row = cta.shared().data(address - kSharedBase);
      for (uint32_t e = 0; e < per_row; ++e) {
        const uint32_t at =
            shape.transpose_a ? (m + e) * k_count + k : m * k_count + k + e;
        a[at] = Element(shape.a, row, e);
      }
      return true;
    });
  } else {
    // Each warp holds 16 rows, as mma.sync's A.
    const uint32_t per_word = per_row / 4;
    for (uint32_t w = 0; w < 4; ++w) {
      Warp& warp = cta.warps()[4 * g + w];
      for (uint32_t r = 0; r < shape.a_registers; ++r) {
        const uint32_t* words =
            warp.Reg<uint32_t>(inst.r[shape.accumulators + r]);
        for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
          const uint32_t m = 16 * w + lane / 4 + 8 * (r % 2);
          const uint32_t k = per_word * (lane % 4 + 4 * (r / 2));
          for (uint32_t e = 0; e < per_word; ++e) {
            a[m * k_count + k + e] = Element(
                shape.a, reinterpret_cast<const std::byte*>(&words[lane]), e);
          }
        }
      }
    }
  }
  ForRows(shape, false, mma.b, [&](uint32_t address, uint32_t n, uint32_t k) {
    const std::byte* row = cta.shared().data(address - kSharedBase);
    for (uint32_t e = 0; e < per_row; ++e) {
      const uint32_t at =
          shape.transpose_b ? k * n_count + n + e : (k + e) * n_count + n;
      b[at] = Element(shape.b, row, e);
    }
    return true;
  });
  if (shape.negate_a != shape.negate_b) {
    for (double& x : a) x = -x;
  }
  std::vector<double> sum(n_count);
  for (uint32_t m = 0; m < kM; ++m) {
    std::fill(sum.begin(), sum.end(), 0.0);
    for (uint32_t k = 0; k < k_count; ++k) {
      const double x = a[m * k_count + k];
      const double* row = &b[k * n_count];
      double* out = sum.data();
      for (uint32_t n = 0; n < n_count; ++n) out[n] += x * row[n];
    }
    Warp& warp = cta.warps()[4 * g + m / 16];
    const uint32_t group_of_lanes = m % 8, upper = m / 8 % 2;
    for (uint32_t n = 0; n < n_count; n += 2) {
      const uint32_t lane = 4 * group_of_lanes + n % 8 / 2;
      if (shape.output == WgmmaInstruction::Output::kF16) {
        uint32_t& d = warp.Reg<uint32_t>(inst.r[n / 8 * 2 + upper])[lane];
        uint32_t word = 0;
        for (uint32_t i = 0; i < 2; ++i) {
          const double c =
              mma.accumulate
                  ? Decode16<Half>(static_cast<uint16_t>(d >> 16 * i))
                  : 0.0f;
          word |= uint32_t{Encode16<Half>(AddToOdd(sum[n + i], c))} << 16 * i;
        }
        d = word;
        continue;
      }
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t slot = inst.r[n / 8 * 4 + 2 * upper + i];
        if (shape.output == WgmmaInstruction::Output::kF32) {
          float& d = warp.Reg<float>(slot)[lane];
          const double c = mma.accumulate ? d : 0.0f;
          d = static_cast<float>(AddToOdd(sum[n + i], c));
        } else {
          int32_t& d = warp.Reg<int32_t>(slot)[lane];
          int64_t s = static_cast<int64_t>(sum[n + i]);
          if (mma.accumulate) s += d;
          if (shape.saturate) s = std::clamp<int64_t>(s, INT32_MIN, INT32_MAX);
          d = static_cast<int32_t>(s);
        }
      }
    }
  }
}

}  // namespace hone::emulator
