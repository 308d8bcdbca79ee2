#include "kernels/emulator/async_registers.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/cta.h"

namespace hone::emulator {
namespace {

// Frames are made of registers that start at multiples of this.
constexpr uint32_t kSlot = 64;

AsyncRegister* Find(const Kernel& kernel, Warp& warp, uint32_t offset) {
  const uint32_t number = kernel.async_registers[offset / kSlot];
  return number == 0 ? nullptr : &warp.async.registers[number - 1];
}

bool Fault(Cta& cta, Warp& warp, const AsyncRegister& reg,
           absl::string_view how) {
  cta.Fault(warp, std::countr_zero(warp.live),
            absl::StrCat("register in flight: the instruction ", how, " ",
                         reg.accumulator ? "an accumulator" : "an A operand",
                         " of the wgmma at ", cta.Describe(reg.statement),
                         "; no wgmma.wait_group has waited for it"));
  return false;
}

}  // namespace

void FindAsyncRegisters(Kernel* kernel, const std::vector<bool>& moves) {
  auto& numbers = kernel->async_registers;
  numbers.assign(kernel->frame_bytes / kSlot + 1, 0);
  uint32_t count = 0;
  const auto add = [&](uint32_t offset) {
    uint32_t& number = numbers[offset / kSlot];
    if (number != 0) return false;
    number = ++count;
    return true;
  };
  for (const Instruction& inst : kernel->code) {
    if (inst.wgmma == kNone) continue;
    const WgmmaInstruction& mma = kernel->wgmma[inst.wgmma];
    const uint32_t registers = mma.accumulators + mma.a_registers;
    for (uint32_t i = 0; i < registers; ++i) add(inst.r[i]);
  }
  if (count == 0) return;
  // Whatever a move connects with one of them is one of them.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < moves.size(); ++i) {
      if (!moves[i]) continue;
      const uint32_t* r = kernel->code[i].r;
      if (numbers[r[0] / kSlot] != 0) changed |= add(r[1]);
      if (numbers[r[1] / kSlot] != 0) changed |= add(r[0]);
    }
  }
  kernel->async_register_count = count;
  const auto end = kernel->operands.data() + kernel->operands.size();
  for (size_t i = 0; i < kernel->code.size(); ++i) {
    Instruction& inst = kernel->code[i];
    if (inst.wgmma != kNone) continue;
    const uint32_t* last =
        i + 1 < kernel->code.size() ? kernel->code[i + 1].r : end;
    inst.operand_count = static_cast<uint16_t>(last - inst.r);
    for (const uint32_t* r = inst.r; r != last; ++r) {
      inst.touches_async |= numbers[*r / kSlot] != 0;
    }
    inst.renames = inst.touches_async && i < moves.size() && moves[i];
  }
}

bool TouchAsyncRegisters(Cta& cta, Warp& warp, const Instruction& inst) {
  const Kernel& kernel = cta.kernel();
  const uint32_t completed = warp.async.completed;
  if (inst.renames) {
    AsyncRegister& to = *Find(kernel, warp, inst.r[0]);
    const AsyncRegister& from = *Find(kernel, warp, inst.r[1]);
    if (to.group > completed && !to.renamed && &to != &from) {
      return Fault(cta, warp, to, "overwrites");
    }
    // The value must be there to be moved.
    if (from.group > completed) cta.wgmma().ComputeAll(cta, warp.index / 4);
    to = from;
    to.renamed = true;
    return true;
  }
  for (uint32_t i = 0; i < inst.operand_count; ++i) {
    AsyncRegister* reg = Find(kernel, warp, inst.r[i]);
    if (reg == nullptr) continue;
    if (reg->group > completed) return Fault(cta, warp, *reg, "touches");
    *reg = AsyncRegister();
    reg->touched = cta.serial();
    reg->touched_statement = warp.statement;
  }
  return true;
}

}  // namespace hone::emulator
