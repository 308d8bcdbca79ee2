// Tensor copies of boxes of one to five dimensions: testdata/async_copies.cu.
#include <array>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/tensor_map.h"
#include "tests/kernels/emulator/cases/async_case.h"

namespace hone::emulator {
namespace {

struct Box {
  TensorMap map;
  std::vector<int32_t> at;  // its coordinates
};

// Calls f(position in the box, address in the tensor or -1 if outside), in
// elements and bytes, for every element that a copy moves.
template <typename F>
void ForBox(const Box& box, F f) {
  const TensorMap& map = box.map;
  const int rank = static_cast<int>(map.dims.size());
  const int64_t element = BytesOf(map.element);
  std::array<int, 5> count = {1, 1, 1, 1, 1};
  std::array<int, 5> step = {1, 1, 1, 1, 1};
  for (int i = 0; i < rank; ++i) {
    if (i > 0) step[i] = static_cast<int>(map.element_strides[i]);
    count[i] = (static_cast<int>(map.box[i]) + step[i] - 1) / step[i];
  }
  int64_t position = 0;
  for (int e = 0; e < count[4]; ++e) {
    for (int d = 0; d < count[3]; ++d) {
      for (int c = 0; c < count[2]; ++c) {
        for (int b = 0; b < count[1]; ++b) {
          for (int a = 0; a < count[0]; ++a) {
            const int index[5] = {a, b, c, d, e};
            int64_t address = static_cast<int64_t>(map.offset);
            bool inside = true;
            for (int i = 0; i < rank; ++i) {
              const int64_t x = box.at[i] + index[i] * step[i];
              inside &= x >= 0 && x < static_cast<int64_t>(map.dims[i]);
              address +=
                  x *
                  (i == 0 ? element : static_cast<int64_t>(map.strides[i - 1]));
            }
            f(position++, inside ? address : -1);
          }
        }
      }
    }
  }
}

// Where byte `at` of the box lies: 16-byte chunks of a span trade places by
// the number of the 128-byte line, as often as the span has chunks.
int64_t Swizzled(TensorMap::Swizzle swizzle, int64_t at) {
  const int64_t line = at / 128 % 8;
  const int64_t chunk = at / 16 % 8;
  switch (swizzle) {
    case TensorMap::Swizzle::kNone:
      return at;
    case TensorMap::Swizzle::k32B:
      return at + 16 * ((chunk ^ line % 2) - chunk);
    case TensorMap::Swizzle::k64B:
      return at + 16 * ((chunk ^ line % 4) - chunk);
    case TensorMap::Swizzle::k128B:
      return at + 16 * ((chunk ^ line) - chunk);
  }
  return at;
}

Box MakeBox(TensorMap::Element element, std::vector<uint64_t> dims,
            std::vector<uint32_t> box, std::vector<int32_t> at,
            TensorMap::Swizzle swizzle = TensorMap::Swizzle::kNone) {
  Box out;
  out.map.element = element;
  out.map.dims = dims;
  out.map.box = box;
  out.map.swizzle = swizzle;
  out.map.element_strides.assign(dims.size(), 1);
  out.map.offset = 32;
  out.at = at;
  uint64_t stride = dims[0] * BytesOf(element);
  for (size_t i = 1; i < dims.size(); ++i) {
    stride = (stride + 15) / 16 * 16;
    out.map.strides.push_back(stride);
    stride *= dims[i];
  }
  return out;
}

std::vector<Box> Boxes() {
  using E = TensorMap::Element;
  using S = TensorMap::Swizzle;
  std::vector<Box> out = {
      MakeBox(E::kU8, {300}, {64}, {250}),
      MakeBox(E::kF32, {40, 30}, {8, 16}, {36, 20}),
      MakeBox(E::kF16, {100, 40}, {64, 32}, {64, 30}, S::k128B),
      MakeBox(E::kBF16, {100, 40}, {32, 16}, {-5, -3}, S::k64B),
      MakeBox(E::kU16, {64, 40}, {16, 40}, {16, 0}, S::k32B),
      MakeBox(E::kU32, {12, 9, 7}, {8, 5, 4}, {4, 6, -2}),
      MakeBox(E::kF16, {64, 6, 5, 4}, {32, 3, 2, 3}, {8, 4, 1, 2}, S::k64B),
      MakeBox(E::kF64, {4, 3, 3, 3, 3}, {2, 2, 2, 2, 2}, {1, 1, 2, 0, 2}),
      MakeBox(E::kU16, {32, 20, 6}, {8, 9, 4}, {8, 13, 1}),
  };
  for (size_t i : {1, 2, 3}) out[i].map.fill = TensorMap::Fill::kNan;
  // Every third row and every second plane.
  out[8].map.element_strides = {1, 3, 2};
  return out;
}

std::vector<uint8_t> RandomBytes(uint64_t count, std::mt19937& random) {
  std::vector<uint8_t> out(count);
  for (uint8_t& x : out) x = static_cast<uint8_t>(random());
  return out;
}

uint64_t TensorBytes(const TensorMap& map) {
  const size_t last = map.dims.size() - 1;
  return map.offset + map.dims[last] * (last == 0 ? BytesOf(map.element)
                                                  : map.strides[last - 1]);
}

AsyncCase Case(const std::string& kernel, const Box& box, BufferRole other,
               std::vector<int32_t> ints) {
  AsyncCase c;
  c.source = AsyncSource("async_copies.cu");
  c.plan.kernel_name = absl::StrCat(kernel, box.map.dims.size());
  c.plan.block = {64, 1, 1};
  c.plan.smem_bytes = 65536;
  c.plan.tensor_maps = {box.map};
  c.plan.args = {MapArg(0), BufferArg(other)};
  for (int32_t v : ints) c.plan.args.push_back(IntArg(v));
  for (size_t i = 0; i < 5; ++i) {
    c.plan.args.push_back(IntArg(i < box.at.size() ? box.at[i] : 0));
  }
  return c;
}

AsyncCase LoadCase(const Box& box, std::mt19937& random) {
  const TensorMap& map = box.map;
  const int32_t bytes = static_cast<int32_t>(CopiedBytes(map));
  const uint32_t element = BytesOf(map.element);
  AsyncCase c = Case("load", box, BufferRole::kC, {bytes});
  const auto& tensor = c.buffers[BufferRole::kA] =
      RandomBytes(TensorBytes(map), random);
  c.expected.assign(bytes, 0);
  ForBox(box, [&](int64_t position, int64_t address) {
    uint8_t* to = &c.expected[Swizzled(map.swizzle, position * element)];
    if (address >= 0) {
      std::memcpy(to, &tensor[address], element);
    } else if (map.fill == TensorMap::Fill::kNan) {
      std::memset(to, 0xff, element);
      to[element - 1] = 0x7f;
    }
  });
  c.buffers[BufferRole::kC].assign(bytes, 0xee);
  return c;
}

AsyncCase StoreCase(Box box, bool add, std::mt19937& random) {
  box.map.fill = TensorMap::Fill::kZeros;
  box.map.buffer = BufferRole::kC;
  const TensorMap& map = box.map;
  const int32_t bytes = static_cast<int32_t>(CopiedBytes(map));
  const uint32_t element = BytesOf(map.element);
  AsyncCase c = Case("store", box, BufferRole::kA, {bytes, add});
  const auto& in = c.buffers[BufferRole::kA] = RandomBytes(bytes, random);
  c.expected = c.buffers[BufferRole::kC] =
      RandomBytes(TensorBytes(map), random);
  ForBox(box, [&](int64_t position, int64_t address) {
    if (address < 0) return;
    const uint8_t* from = &in[Swizzled(map.swizzle, position * element)];
    uint8_t* to = &c.expected[address];
    if (add) {
      uint32_t a = 0, b = 0;
      std::memcpy(&a, to, 4);
      std::memcpy(&b, from, 4);
      a += b;
      std::memcpy(to, &a, 4);
    } else {
      std::memcpy(to, from, element);
    }
  });
  return c;
}

}  // namespace

void AddTensorCopyCases(std::vector<AsyncCase>* out) {
  std::mt19937 random(11);
  int index = 0;
  for (const Box& box : Boxes()) {
    out->push_back(LoadCase(box, random));
    out->back().name = absl::StrCat("tensor_load_", index);
    out->push_back(StoreCase(box, false, random));
    out->back().name = absl::StrCat("tensor_store_", index);
    if (box.map.element == TensorMap::Element::kU32) {
      out->push_back(StoreCase(box, true, random));
      out->back().name = absl::StrCat("tensor_add_", index);
    }
    ++index;
  }
}

}  // namespace hone::emulator
