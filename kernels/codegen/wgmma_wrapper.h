// The one wgmma form that a kernel uses, as the source of its wrapper.
#ifndef HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
#define HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_

#include <cstdint>
#include <string>

#include "kernels/config/problem.h"

namespace hone {

// `struct Mma` with Run<kAccumulate>(d, rows, columns): d (+)= rows · columns
// for 64 rows and 32 bytes of K by `columns`, in float32 or int32. Rows are
// channels and columns tokens, or (token_rows) the reverse. Rows are a fragment
// in registers, or a descriptor where the layer's codes are operands as they
// are; columns a descriptor; both of K-major shared memory. `columns` is one of
// the sizes that WgmmaColumns() of kernels/space allows. For a kernel's Config.
std::string RenderWgmmaWrapper(const LayerConfig& layer, int64_t columns,
                               bool token_rows);

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_WGMMA_WRAPPER_H_
