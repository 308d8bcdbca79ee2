// The registers of wgmma: which of a warp's are accumulators or operands of an
// MMA in flight, and which were touched since the last wgmma.fence.
//
// A plain move between such registers only renames one: PTX has as many
// registers as it likes, and code generators move accumulators around loops
// while MMAs are in flight. The copy is in flight like its source.
#ifndef HONE_KERNELS_EMULATOR_ASYNC_REGISTERS_H_
#define HONE_KERNELS_EMULATOR_ASYNC_REGISTERS_H_

#include <cstdint>
#include <vector>

#include "kernels/emulator/program.h"

namespace hone::emulator {

struct AsyncRegister {
  uint32_t group = 0;      // the wgmma group that it is in flight with, from 1
  uint32_t statement = 0;  // of that MMA
  bool accumulator = false;
  bool renamed = false;  // holds what a move took from an accumulator
  uint32_t shape = 0;  // of the MMA that accumulated into it, 0: touched since
  uint32_t touched = 0;  // serial of the last other access
  uint32_t touched_statement = 0;
};

// One warp's.
struct AsyncRegisters {
  std::vector<AsyncRegister> registers;  // by Kernel::async_registers
  uint32_t fence_serial = 0;             // of its last wgmma.fence, 0: none
  uint32_t issued = 0;                   // group of its last MMA
  uint32_t committed = 0;                // groups
  uint32_t completed = 0;                // groups waited for
};

// Marks the instructions of a kernel that touch registers of wgmma, and
// numbers these registers. `moves[i]` says whether instruction i copies one
// 32-bit register to another.
void FindAsyncRegisters(Kernel* kernel, const std::vector<bool>& moves);

// An instruction other than wgmma is about to run. False after a fault.
bool TouchAsyncRegisters(Cta& cta, Warp& warp, const Instruction& inst);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_ASYNC_REGISTERS_H_
