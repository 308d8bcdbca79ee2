#include "kernels/codegen/tensor_map.h"

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

constexpr uint64_t kMaxStride = uint64_t{1} << 40;
constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint32_t kMaxBox = 256;
constexpr uint32_t kMaxElementStride = 8;
constexpr uint32_t kMaxRank = 5;

}  // namespace

uint32_t BytesOf(TensorMap::Element element) {
  switch (element) {
    case TensorMap::Element::kU8:
      return 1;
    case TensorMap::Element::kU16:
    case TensorMap::Element::kF16:
    case TensorMap::Element::kBF16:
      return 2;
    case TensorMap::Element::kU32:
    case TensorMap::Element::kS32:
    case TensorMap::Element::kF32:
      return 4;
    case TensorMap::Element::kU64:
    case TensorMap::Element::kS64:
    case TensorMap::Element::kF64:
      return 8;
  }
  return 0;
}

bool IsFloat(TensorMap::Element element) {
  return element >= TensorMap::Element::kF16;
}

uint32_t SwizzleSpan(TensorMap::Swizzle swizzle) {
  return 16u << static_cast<uint32_t>(swizzle);
}

absl::Status ValidateTensorMap(const TensorMap& map) {
  const auto error = [](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("tensor map: ", parts...));
  };
  const uint32_t rank = map.dims.size();
  if (rank == 0 || rank > kMaxRank) {
    return error("dims has ", rank, " entries; legal are 1 to ", kMaxRank);
  }
  if (map.strides.size() != rank - 1) {
    return error("strides has ", map.strides.size(), " entries; dims with ",
                 rank, " needs ", rank - 1);
  }
  if (map.box.size() != rank) {
    return error("box has ", map.box.size(), " entries; dims has ", rank);
  }
  if (map.element_strides.size() != rank) {
    return error("element_strides has ", map.element_strides.size(),
                 " entries; dims has ", rank);
  }
  if (map.offset % 16 != 0) {
    return error("offset is ", map.offset, "; legal are multiples of 16");
  }
  for (uint32_t i = 0; i < rank; ++i) {
    if (map.dims[i] == 0 || map.dims[i] > kMaxDim) {
      return error("dims[", i, "] is ", map.dims[i], "; legal are 1 to ",
                   kMaxDim);
    }
    if (map.box[i] == 0 || map.box[i] > kMaxBox) {
      return error("box[", i, "] is ", map.box[i], "; legal are 1 to ",
                   kMaxBox);
    }
    if (map.element_strides[i] == 0 ||
        map.element_strides[i] > kMaxElementStride) {
      return error("element_strides[", i, "] is ", map.element_strides[i],
                   "; legal are 1 to ", kMaxElementStride);
    }
  }
  for (uint32_t i = 0; i + 1 < rank; ++i) {
    if (map.strides[i] % 16 != 0 || map.strides[i] >= kMaxStride) {
      return error("strides[", i, "] is ", map.strides[i],
                   "; legal are multiples of 16 below ", kMaxStride);
    }
  }
  const uint32_t inner = map.box[0] * BytesOf(map.element);
  if (inner % 16 != 0) {
    return error("box[0] makes ", inner,
                 " bytes; legal are multiples of 16 bytes");
  }
  if (map.swizzle != TensorMap::Swizzle::kNone &&
      inner != SwizzleSpan(map.swizzle)) {
    return error("box[0] makes ", inner, " bytes; with a swizzle of ",
                 SwizzleSpan(map.swizzle), " bytes it must be as many");
  }
  if (map.fill == TensorMap::Fill::kNan && !IsFloat(map.element)) {
    return error(
        "fill is kNan; elements that are not floating-point have "
        "only kZeros");
  }
  return absl::OkStatus();
}

uint32_t CopiedElements(const TensorMap& map, uint32_t dimension) {
  if (dimension == 0) return map.box[0];
  const uint32_t stride = map.element_strides[dimension];
  return (map.box[dimension] + stride - 1) / stride;
}

uint64_t CopiedBytes(const TensorMap& map) {
  uint64_t bytes = BytesOf(map.element);
  for (uint32_t i = 0; i < map.dims.size(); ++i) {
    bytes *= CopiedElements(map, i);
  }
  return bytes;
}

}  // namespace hone
