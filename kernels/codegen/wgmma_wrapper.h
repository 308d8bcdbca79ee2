// The one wgmma form that a kernel uses, as the source of its wrapper.
#ifndef HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
#define HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_

#include <cstdint>
#include <string>

#include "kernels/config/problem.h"

namespace hone {

// `struct Mma` with Run<kAccumulate>(d, w, x): d (+)= w · x for 64 channels and
// 32 bytes of K by `tokens` of the layer's activations, in float32 or int32. w
// is a fragment in registers, or a descriptor where the layer's codes are
// operands as they are; x a descriptor; both of K-major shared memory. `tokens`
// is one of the sizes that WgmmaTokens() of kernels/space allows. For a
// kernel's Config.
std::string RenderWgmmaWrapper(const LayerConfig& layer, int64_t tokens);

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
