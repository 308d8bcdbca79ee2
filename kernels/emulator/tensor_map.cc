#include "kernels/emulator/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/program.h"

namespace hone::emulator {
namespace {

constexpr uint64_t kMagic = 0x70616d20726f736e;

struct Encoded {
  uint64_t magic = kMagic;
  uint64_t address = 0;
  uint64_t strides[4] = {};
  uint32_t dims[5] = {};  // minus one: up to 2^32
  uint16_t box[5] = {};   // up to 256
  uint8_t element_strides[5] = {};
  uint8_t rank = 0;
  uint8_t element = 0;
  uint8_t swizzle = 0;
  uint8_t fill = 0;
};
static_assert(sizeof(Encoded) <= kTensorMapBytes);

}  // namespace

void EncodeTensorMap(const TensorMap& map, uint64_t address, std::byte* to) {
  Encoded out;
  out.address = address;
  out.rank = map.dims.size();
  for (uint32_t i = 0; i < out.rank; ++i) {
    out.dims[i] = static_cast<uint32_t>(map.dims[i] - 1);
    out.box[i] = map.box[i];
    out.element_strides[i] = map.element_strides[i];
    if (i > 0) out.strides[i - 1] = map.strides[i - 1];
  }
  out.element = static_cast<uint8_t>(map.element);
  out.swizzle = static_cast<uint8_t>(map.swizzle);
  out.fill = static_cast<uint8_t>(map.fill);
  std::memset(to, 0, kTensorMapBytes);
  std::memcpy(to, &out, sizeof(out));
}

bool DecodeTensorMap(const std::byte* from, TensorMap* map, uint64_t* address) {
  Encoded in;
  std::memcpy(&in, from, sizeof(in));
  if (in.magic != kMagic) return false;
  *address = in.address;
  map->dims.assign(in.dims, in.dims + in.rank);
  for (uint64_t& dim : map->dims) ++dim;
  map->strides.assign(in.strides, in.strides + in.rank - 1);
  map->box.assign(in.box, in.box + in.rank);
  map->element_strides.assign(in.element_strides, in.element_strides + in.rank);
  map->element = static_cast<TensorMap::Element>(in.element);
  map->swizzle = static_cast<TensorMap::Swizzle>(in.swizzle);
  map->fill = static_cast<TensorMap::Fill>(in.fill);
  return true;
}

bool BoxPieces(const TensorMap& map, uint64_t address,
               const int32_t* coordinates, uint32_t shared, bool write,
               GlobalMemory& global, std::vector<BulkPiece>* pieces,
               std::string* error) {
  const uint32_t rank = map.dims.size();
  const int64_t element = BytesOf(map.element);
  const uint32_t row_bytes = static_cast<uint32_t>(map.box[0] * element);
  uint32_t rows = 1;
  for (uint32_t i = 1; i < rank; ++i) rows *= CopiedElements(map, i);
  // Elements of a row that the tensor has.
  const int64_t first = coordinates[0];
  const int64_t low = std::clamp<int64_t>(-first, 0, map.box[0]);
  const int64_t high = std::clamp<int64_t>(
      static_cast<int64_t>(map.dims[0]) - first, low, map.box[0]);
  const uint32_t chunk =
      map.swizzle == TensorMap::Swizzle::kNone ? row_bytes : 16;
  for (uint32_t row = 0; row < rows; ++row) {
    bool inside = high > low;
    uint64_t at = address + static_cast<uint64_t>((first + low) * element);
    uint32_t rest = row;
    for (uint32_t i = 1; i < rank; ++i) {
      const uint32_t count = CopiedElements(map, i);
      const int64_t c = int64_t{coordinates[i]} +
                        int64_t{rest % count} * map.element_strides[i];
      rest /= count;
      inside &= c >= 0 && c < static_cast<int64_t>(map.dims[i]);
      at += static_cast<uint64_t>(c) * map.strides[i - 1];
    }
    std::byte* data = nullptr;
    uint32_t begin = 0, end = 0;
    if (inside) {
      begin = static_cast<uint32_t>(low * element);
      end = static_cast<uint32_t>(high * element);
      data = write ? global.ForWrite(at, end - begin)
                   : global.ForRead(at, end - begin);
      if (data == nullptr) {
        *error = global.Explain(at, end - begin, write);
        return false;
      }
    }
    for (uint32_t c = 0; c < row_bytes; c += chunk) {
      BulkPiece piece;
      // The swizzle works on addresses, not on offsets in the box.
      piece.shared = SwizzleAddress(map.swizzle, kSharedBase + shared +
                                                     row * row_bytes + c) -
                     kSharedBase;
      piece.bytes = chunk;
      piece.begin = std::clamp(begin, c, c + chunk) - c;
      piece.end = std::clamp(end, c, c + chunk) - c;
      if (piece.end > piece.begin) {
        piece.global = data + (c + piece.begin - begin);
        piece.address = at + (c + piece.begin - begin);
      }
      pieces->push_back(piece);
    }
  }
  return true;
}

// What an H200 answers with an illegal instruction, or with writes behind a
// row; the PTX ISA is silent.
bool CheckPlace(const TensorMap& map, const int32_t* coordinates, bool write,
                std::string* error) {
  const int64_t element = BytesOf(map.element);
  if (coordinates[0] * element % 16 != 0) {
    *error = absl::StrCat("misaligned: tensor copy at innermost coordinate ",
                          coordinates[0], " of ", element,
                          "-byte elements; it must be a multiple of 16 bytes");
    return false;
  }
  if (!write) return true;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    if (coordinates[i] >= 0) continue;
    *error = absl::StrCat("tensor store at coordinate ", coordinates[i],
                          " of dimension ", i,
                          "; stores and reductions must start at 0 or more");
    return false;
  }
  const int64_t extent = static_cast<int64_t>(map.dims[0]);
  if (extent * element % 16 != 0 && coordinates[0] < extent &&
      coordinates[0] + map.box[0] > extent) {
    *error = absl::StrCat(
        "tensor store past the end of rows of ", extent * element,
        " bytes: it would fill the last 16 bytes of each, which is what "
        "hardware writes at once; the innermost dimension must be a multiple "
        "of 16 bytes");
    return false;
  }
  return true;
}

// Every 16 bits, whatever the element: so on an H200.
uint64_t FillPattern(const TensorMap& map) {
  return map.fill == TensorMap::Fill::kZeros ? 0 : 0x7ff77ff77ff77ff7;
}

}  // namespace hone::emulator
