// Tensor maps as kernels see them: 128 opaque bytes that a tensor copy names.
// The emulator's bytes are its own; only it reads them.
#ifndef HONE_KERNELS_EMULATOR_TENSOR_MAP_H_
#define HONE_KERNELS_EMULATOR_TENSOR_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/codegen/launch_plan.h"
#include "kernels/codegen/tensor_map.h"
#include "kernels/emulator/bulk_copy.h"
#include "kernels/emulator/global_memory.h"

namespace hone::emulator {

// Writes kTensorMapBytes for a valid map whose first element is at `address`.
void EncodeTensorMap(const TensorMap& map, uint64_t address, std::byte* to);

// The reverse; false for bytes that are no tensor map.
bool DecodeTensorMap(const std::byte* from, TensorMap* map, uint64_t* address);

// The pieces of the box at `coordinates`, laid out from shared offset `shared`
// on. False, with the reason, if the part of it inside the tensor leaves the
// buffers. `write`: to global memory.
bool BoxPieces(const TensorMap& map, uint64_t address,
               const int32_t* coordinates, uint32_t shared, bool write,
               GlobalMemory& global, std::vector<BulkPiece>* pieces,
               std::string* error);

// Whether hardware can copy a box at `coordinates`; false with the reason.
bool CheckPlace(const TensorMap& map, const int32_t* coordinates, bool write,
                std::string* error);

// The value that fills elements outside the tensor.
uint64_t FillPattern(const TensorMap& map);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_TENSOR_MAP_H_
