#include "kernels/launch/tensor_map_encode.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/cuda_driver.h"

namespace hone {
namespace {

static_assert(sizeof(CUtensorMap) == sizeof(EncodedTensorMap));

CUtensorMapDataType DataTypeOf(TensorMap::Element element) {
  switch (element) {
    case TensorMap::Element::kU8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case TensorMap::Element::kU16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case TensorMap::Element::kU32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case TensorMap::Element::kS32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case TensorMap::Element::kU64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case TensorMap::Element::kS64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case TensorMap::Element::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case TensorMap::Element::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TensorMap::Element::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case TensorMap::Element::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

CUtensorMapSwizzle SwizzleOf(TensorMap::Swizzle swizzle) {
  switch (swizzle) {
    case TensorMap::Swizzle::kNone:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case TensorMap::Swizzle::k32B:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case TensorMap::Swizzle::k64B:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case TensorMap::Swizzle::k128B:
      return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

CUtensorMapL2promotion PromotionOf(TensorMap::L2Promotion promotion) {
  switch (promotion) {
    case TensorMap::L2Promotion::kNone:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case TensorMap::L2Promotion::k64B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case TensorMap::L2Promotion::k128B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case TensorMap::L2Promotion::k256B:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
  return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

}  // namespace

absl::Status EncodeTensorMap(const TensorMap& map, uint64_t buffer,
                             EncodedTensorMap* out) {
  HONE_RETURN_IF_ERROR(ValidateTensorMap(map));
  const uint64_t address = buffer + map.offset;
  if (address % 16 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor map: its tensor starts at address ", address,
                     "; legal are multiples of 16"));
  }
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  // The driver refuses a null pointer to no strides.
  static constexpr cuuint64_t kNoStrides[1] = {};
  const cuuint64_t* strides =
      map.strides.empty() ? kNoStrides : map.strides.data();
  // The driver wants 64-byte alignment of what it writes.
  alignas(64) CUtensorMap encoded;
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuTensorMapEncodeTiled(
                      &encoded, DataTypeOf(map.element),
                      static_cast<cuuint32_t>(map.dims.size()),
                      reinterpret_cast<void*>(address), map.dims.data(),
                      strides, map.box.data(), map.element_strides.data(),
                      CU_TENSOR_MAP_INTERLEAVE_NONE, SwizzleOf(map.swizzle),
                      PromotionOf(map.l2_promotion),
                      map.fill == TensorMap::Fill::kNan
                          ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                          : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                  "cuTensorMapEncodeTiled"));
  std::memcpy(out->bytes, &encoded, sizeof(encoded));
  return absl::OkStatus();
}

}  // namespace hone
