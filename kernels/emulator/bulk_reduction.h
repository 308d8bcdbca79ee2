// The element-wise combinations of cp.reduce.async.bulk.
#ifndef HONE_KERNELS_EMULATOR_BULK_REDUCTION_H_
#define HONE_KERNELS_EMULATOR_BULK_REDUCTION_H_

#include "kernels/emulator/atomic_update.h"
#include "kernels/emulator/bulk_copy.h"
#include "kernels/emulator/decoder.h"

namespace hone::emulator {

// nullptr for a combination that the instruction does not have. f16 and bf16
// addition neither flushes subnormals (.noftz) nor rounds twice.
Reduction FindReduction(AtomicOp op, Type type, bool to_shared);

// "add", "min", ...; consumes it. False if there is none.
bool TakeReductionOp(InstructionDecoder& d, AtomicOp* op);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_BULK_REDUCTION_H_
