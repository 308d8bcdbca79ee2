// The one wgmma form that a kernel uses, as the source of its wrapper.
#ifndef HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
#define HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_

#include <cstdint>
#include <string>

#include "kernels/config/data_type.h"

namespace hone {

// `struct Mma` with Run<kAccumulate>(d, a, x): d (+)= a · x for m64k16 by
// `tokens` (8 to 256, a multiple of 8) of a 16-bit type, in float32; a in
// registers, x a descriptor of K-major shared memory. For a kernel's Config.
std::string RenderWgmmaWrapper(DataType type, int64_t tokens);

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
