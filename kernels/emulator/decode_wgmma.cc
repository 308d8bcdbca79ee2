// wgmma: mma_async, fence, commit_group, wait_group.
#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

using Input = WgmmaInstruction::Input;
using Output = WgmmaInstruction::Output;

bool CheckWarp(Cta& cta, Warp& warp, uint32_t mask, absl::string_view what) {
  return cta.RequireConverged(warp, mask, what) &&
         RequireAllLanes(cta, warp, mask, what);
}

// The descriptor that all lanes must agree on; false after a fault.
bool Descriptor(Cta& cta, Warp& warp, uint32_t slot, absl::string_view what,
                uint64_t* value) {
  const uint64_t* lanes = warp.Reg<uint64_t>(slot);
  *value = lanes[0];
  for (uint32_t lane = 1; lane < kWarpSize; ++lane) {
    if (lanes[lane] == *value) continue;
    cta.Fault(
        warp, lane,
        absl::StrCat("divergence: lanes of the warp disagree on the ", what));
    return false;
  }
  if ((*value >> 46 & 7) != 0 || (*value >> 52 & 0x3ff) != 0 ||
      (*value >> 14 & 3) != 0 || (*value >> 30 & 3) != 0) {
    cta.Fault(warp, 0,
              absl::StrFormat("matrix descriptor 0x%x: bits outside its fields "
                              "are set",
                              *value));
    return false;
  }
  return true;
}

AsyncRegister& RegisterOf(const Cta& cta, Warp& warp, uint32_t offset) {
  return warp.async.registers[cta.kernel().async_registers[offset / 64] - 1];
}

// Whether the registers may be used by an MMA now; false after a fault.
bool CheckRegisters(Cta& cta, Warp& warp, const Instruction& inst,
                    const WgmmaInstruction& mma) {
  AsyncRegisters& async = warp.async;
  if (async.fence_serial == 0) {
    cta.Fault(warp, 0,
              "missing wgmma.fence: none precedes the warp's first wgmma");
    return false;
  }
  const uint32_t shape =
      mma.n << 8 | mma.k << 2 | static_cast<uint32_t>(mma.output) | 1u << 31;
  for (uint32_t i = 0; i < mma.accumulators + mma.a_registers; ++i) {
    AsyncRegister& reg = RegisterOf(cta, warp, inst.r[i]);
    const bool accumulator = i < mma.accumulators;
    const absl::string_view role = accumulator ? "accumulator" : "A operand";
    if (reg.group > async.completed && reg.accumulator && !accumulator) {
      cta.Fault(warp, 0,
                absl::StrCat("register in flight: an A operand is an "
                             "accumulator of the wgmma at ",
                             cta.Describe(reg.statement),
                             "; no wgmma.wait_group has waited for it"));
      return false;
    }
    if (reg.group > async.completed && !reg.accumulator && accumulator) {
      cta.Fault(warp, 0,
                absl::StrCat("register in flight: an accumulator is an A "
                             "operand of the wgmma at ",
                             cta.Describe(reg.statement),
                             "; no wgmma.wait_group has waited for it"));
      return false;
    }
    // MMAs of one shape follow each other on the same accumulators.
    if (accumulator && reg.shape != 0 && reg.shape != shape &&
        reg.touched >= async.fence_serial) {
      cta.Fault(warp, 0,
                absl::StrCat("missing wgmma.fence: an ", role,
                             " was last used by a wgmma of another shape, at ",
                             cta.Describe(reg.statement)));
      return false;
    }
    if (reg.shape == 0 && reg.touched >= async.fence_serial) {
      cta.Fault(warp, 0,
                absl::StrCat("missing wgmma.fence: an ", role,
                             " was touched after the last one, at ",
                             cta.Describe(reg.touched_statement)));
      return false;
    }
  }
  for (uint32_t i = 0; i < mma.accumulators + mma.a_registers; ++i) {
    AsyncRegister& reg = RegisterOf(cta, warp, inst.r[i]);
    reg.group = async.committed + 1;
    reg.statement = warp.statement;
    reg.accumulator = i < mma.accumulators;
    reg.renamed = false;
    if (reg.accumulator) {
      reg.shape = shape;
      reg.touched = cta.serial();
    }
  }
  async.issued = async.committed + 1;
  return true;
}

// r: accumulators, A registers or descriptor, B descriptor, scale-d.
void Mma(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckWarp(cta, warp, mask, "wgmma.mma_async")) return;
  const WgmmaInstruction& mma = cta.kernel().wgmma[inst.wgmma];
  uint64_t a = 0, b = 0;
  uint32_t next = mma.accumulators + mma.a_registers;
  if (mma.a_registers == 0 &&
      !Descriptor(cta, warp, inst.r[next++], "A descriptor", &a)) {
    return;
  }
  if (!Descriptor(cta, warp, inst.r[next++], "B descriptor", &b)) return;
  uint32_t scale = *warp.Reg<uint32_t>(inst.r[next]);
  if (inst.Has(Instruction::kNegate)) scale = ~scale;
  if (scale != 0 && scale != kAllLanes) {
    cta.Fault(warp, 0, "divergence: lanes of the warp disagree on scale-d");
    return;
  }
  if (!CheckRegisters(cta, warp, inst, mma)) return;
  cta.wgmma().Arrive(cta, warp, a, b, scale != 0);
}

void Fence(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  if (!CheckWarp(cta, warp, mask, "wgmma.fence")) return;
  warp.async.fence_serial = cta.serial();
}

void Commit(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  if (!CheckWarp(cta, warp, mask, "wgmma.commit_group")) return;
  ++warp.async.committed;
}

void Wait(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckWarp(cta, warp, mask, "wgmma.wait_group")) return;
  cta.wgmma().Wait(cta, warp, static_cast<uint32_t>(inst.immediate));
}

bool ParseInput(absl::string_view name, Input* out) {
  static constexpr struct {
    const char* name;
    Input input;
  } kInputs[] = {{"f16", Input::kF16},   {"bf16", Input::kBF16},
                 {"e4m3", Input::kE4M3}, {"e5m2", Input::kE5M2},
                 {"s8", Input::kS8},     {"u8", Input::kU8}};
  for (const auto& known : kInputs) {
    if (name == known.name) {
      *out = known.input;
      return true;
    }
  }
  return false;
}

// "m64n128k16"
bool ParseShape(absl::string_view shape, uint32_t* n, uint32_t* k) {
  const size_t at = shape.find('k');
  return absl::StartsWith(shape, "m64n") && at != absl::string_view::npos &&
         absl::SimpleAtoi(shape.substr(4, at - 4), n) &&
         absl::SimpleAtoi(shape.substr(at + 1), k);
}

// 1 or -1.
bool TakeScale(InstructionDecoder& d, const Operand& operand) {
  const int64_t scale = static_cast<int64_t>(d.Constant(operand));
  if (scale != 1 && scale != -1) d.Fail("a scale that is neither 1 nor -1");
  return scale == -1;
}

bool TakeTranspose(InstructionDecoder& d, const Operand& operand) {
  const uint64_t transpose = d.Constant(operand);
  if (transpose > 1) d.Fail("a transposition that is neither 0 nor 1");
  return transpose == 1;
}

void TakeRegisters(InstructionDecoder& d, const Operand& operand, size_t count,
                   bool destination) {
  const auto elements = d.Elements(operand);
  if (elements.size() != count) d.Fail("the number of registers");
  for (const Operand* element : elements) {
    if (!d.IsRegister(*element)) d.Fail("an operand that is no register");
    if (destination) {
      d.Destination(*element, 4);
    } else {
      d.Source(*element, 4);
    }
  }
}

void DecodeMma(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  WgmmaInstruction mma;
  if (!ParseShape(d.TakeQualifier(), &mma.n, &mma.k)) d.Fail("the shape");
  if (d.Take("f32")) {
    mma.output = Output::kF32;
  } else if (d.Take("f16")) {
    mma.output = Output::kF16;
  } else if (d.Take("s32")) {
    mma.output = Output::kS32;
  } else {
    d.Fail("the accumulator type");
  }
  if (!ParseInput(d.TakeQualifier(), &mma.a) ||
      !ParseInput(d.TakeQualifier(), &mma.b)) {
    d.Fail("the input types");
  }
  mma.saturate = d.Take("satfinite");
  d.ExpectDone();
  const bool integer = mma.a == Input::kS8 || mma.a == Input::kU8;
  const bool half = mma.a == Input::kF16 || mma.a == Input::kBF16;
  const bool integer_b = mma.b == Input::kS8 || mma.b == Input::kU8;
  const bool fp8_b = mma.b == Input::kE4M3 || mma.b == Input::kE5M2;
  const bool legal =
      integer ? integer_b && mma.output == Output::kS32
      : half  ? mma.a == mma.b && mma.output != Output::kS32 &&
                   (mma.a == Input::kF16 || mma.output == Output::kF32)
             : fp8_b && mma.output != Output::kS32;
  if (!legal || mma.k != (half ? 16u : 32u) || (mma.saturate && !integer)) {
    d.Fail("this combination of types and shape");
  }
  const uint32_t step = integer && mma.n > 32 ? 16 : 8;
  if (mma.n == 0 || mma.n > 256 || mma.n % step != 0) d.Fail("the shape's n");
  mma.accumulators = mma.output == Output::kF16 ? mma.n / 4 : mma.n / 2;
  if (d.operand(1).kind == Operand::Kind::kVector) mma.a_registers = 4;
  size_t next = 4;
  const size_t immediates = integer ? 0
                            : half  ? (mma.a_registers != 0 ? 3 : 4)
                                    : 2;
  if (d.operand_count() != next + immediates) d.Fail("the number of operands");
  TakeRegisters(d, d.operand(0), mma.accumulators, true);
  if (mma.a_registers != 0) {
    TakeRegisters(d, d.operand(1), 4, false);
  } else {
    d.Source(d.operand(1), 8);
  }
  d.Source(d.operand(2), 8);
  d.PredicateSource(d.operand(3));
  if (!integer) {
    mma.negate_a = TakeScale(d, d.operand(next++));
    mma.negate_b = TakeScale(d, d.operand(next++));
  }
  if (half) {
    if (mma.a_registers == 0) {
      mma.transpose_a = TakeTranspose(d, d.operand(next++));
    }
    mma.transpose_b = TakeTranspose(d, d.operand(next++));
  }
  inst.wgmma = d.kernel().wgmma.size();
  d.kernel().wgmma.push_back(mma);
  d.Run(Mma);
}

}  // namespace

bool DecodeWgmma(InstructionDecoder& d) {
  if (d.name() != "wgmma") return false;
  const absl::string_view operation = d.TakeQualifier();
  if (!d.Take("sync") || !d.Take("aligned")) d.Fail("wgmma without .sync");
  if (operation == "mma_async") {
    DecodeMma(d);
    return true;
  }
  d.ExpectDone();
  if (operation == "fence") {
    d.Run(Fence);
  } else if (operation == "commit_group") {
    d.Run(Commit);
  } else if (operation == "wait_group") {
    d.inst().immediate = static_cast<int64_t>(d.Constant(d.operand(0)));
    d.Run(Wait);
  } else {
    d.Fail("the operation");
  }
  return true;
}

}  // namespace hone::emulator
