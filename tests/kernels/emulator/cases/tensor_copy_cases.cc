// Tensor copies of boxes of one to five dimensions: testdata/async_copies.cu.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/tensor_map.h"
#include "kernels/emulator/float_format.h"
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
      MakeBox(E::kU8, {304}, {64}, {256}),
      MakeBox(E::kF32, {40, 30}, {8, 16}, {36, 20}),
      MakeBox(E::kF16, {104, 40}, {64, 32}, {64, 30}, S::k128B),
      MakeBox(E::kBF16, {104, 40}, {32, 16}, {-8, -3}, S::k64B),
      MakeBox(E::kU16, {64, 40}, {16, 40}, {16, 0}, S::k32B),
      MakeBox(E::kU32, {12, 9, 7}, {8, 5, 4}, {4, 6, -2}),
      MakeBox(E::kF16, {64, 6, 5, 4}, {32, 3, 2, 3}, {8, 4, 1, 2}, S::k64B),
      MakeBox(E::kF64, {4, 3, 3, 3, 3}, {2, 2, 2, 2, 2}, {2, 1, 2, -1, 2}),
      MakeBox(E::kU16, {32, 20, 6}, {8, 9, 4}, {8, 13, 1}),
      // Every swizzle, wholly inside and ragged on each side.
      MakeBox(E::kF16, {64, 64}, {64, 64}, {0, 0}, S::k128B),
      MakeBox(E::kU8, {160, 50}, {128, 24}, {-16, -7}, S::k128B),
      MakeBox(E::kF32, {40, 50}, {16, 24}, {32, 40}, S::k64B),
      MakeBox(E::kU32, {24, 30}, {8, 40}, {20, -5}, S::k32B),
      MakeBox(E::kU64, {20, 11}, {20, 8}, {-2, 7}),
      MakeBox(E::kU32, {32, 5, 4}, {32, 3, 2}, {0, 3, 3}, S::k128B),
      // Loads end within 16 bytes, stores may not.
      MakeBox(E::kF16, {100, 40}, {64, 32}, {64, 30}, S::k128B),
  };
  for (size_t i : {1, 2, 3, 7, 11, 15}) out[i].map.fill = TensorMap::Fill::kNan;
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
      // 0x7ff7 in every 16 bits: what an H200 fills with.
      for (uint32_t i = 0; i < element; ++i) to[i] = i % 2 == 0 ? 0xf7 : 0x7f;
    }
  });
  c.buffers[BufferRole::kC].assign(bytes, 0xee);
  return c;
}

// Combines element `from` into `to`.
using Combine = std::function<void(uint8_t* to, const uint8_t* from)>;

template <typename T>
Combine CombineAs(std::function<T(T, T)> f) {
  return [f = std::move(f)](uint8_t* to, const uint8_t* from) {
    T a, b;
    std::memcpy(&a, to, sizeof(T));
    std::memcpy(&b, from, sizeof(T));
    a = f(a, b);
    std::memcpy(to, &a, sizeof(T));
  };
}

// Stores into C. Without `combine` elements replace what is there.
AsyncCase StoreCase(Box box, const std::string& kernel,
                    std::vector<int32_t> ints, std::vector<uint8_t> in,
                    std::vector<uint8_t> before, const Combine& combine) {
  box.map.fill = TensorMap::Fill::kZeros;
  box.map.buffer = BufferRole::kC;
  const TensorMap& map = box.map;
  const uint32_t element = BytesOf(map.element);
  AsyncCase c = Case(kernel, box, BufferRole::kA, std::move(ints));
  c.expected = c.buffers[BufferRole::kC] = std::move(before);
  ForBox(box, [&](int64_t position, int64_t address) {
    if (address < 0) return;
    const uint8_t* from = &in[Swizzled(map.swizzle, position * element)];
    uint8_t* to = &c.expected[address];
    if (combine) {
      combine(to, from);
    } else {
      std::memcpy(to, from, element);
    }
  });
  c.buffers[BufferRole::kA] = std::move(in);
  return c;
}

AsyncCase StoreCase(Box box, bool add, std::mt19937& random) {
  // Stores may only leave the tensor at its end.
  for (int32_t& x : box.at) x = std::max(x, 0);
  const int32_t bytes = static_cast<int32_t>(CopiedBytes(box.map));
  return StoreCase(
      box, "store", {bytes, add}, RandomBytes(bytes, random),
      RandomBytes(TensorBytes(box.map), random),
      add ? CombineAs<uint32_t>(std::plus<uint32_t>()) : Combine());
}

// The reductions of tensors by element: cp.reduce.async.bulk.tensor takes the
// type from the tensor map.
template <typename T>
void AddReductions(
    TensorMap::Element element, const std::string& type,
    std::vector<std::pair<std::string, std::function<T(T, T)>>> operations,
    std::function<T(std::mt19937&)> draw, std::mt19937& random,
    std::vector<AsyncCase>* out) {
  for (const auto& [name, f] : operations) {
    const uint64_t columns = 96 / sizeof(T);
    const uint32_t box_columns = 64 / sizeof(T);
    const Box box =
        MakeBox(element, {columns, 20}, {box_columns, 12},
                {static_cast<int32_t>(columns - box_columns / 2), 13},
                TensorMap::Swizzle::k64B);
    const auto values = [&](uint64_t bytes) {
      std::vector<T> v(bytes / sizeof(T));
      for (T& x : v) x = draw(random);
      return BytesOfVector(v);
    };
    const int32_t bytes = static_cast<int32_t>(CopiedBytes(box.map));
    out->push_back(StoreCase(box, absl::StrCat("reduce2_", name), {bytes},
                             values(bytes), values(TensorBytes(box.map)),
                             CombineAs<T>(f)));
    AsyncCase& c = out->back();
    c.plan.kernel_name = absl::StrCat("reduce2_", name);
    c.plan.args.resize(5);
    c.name = absl::StrCat("tensor_", name, "_", type);
  }
}

template <typename Format>
void AddHalfReductions(TensorMap::Element element, const std::string& type,
                       std::mt19937& random, std::vector<AsyncCase>* out) {
  const auto as_halves = [](std::function<double(double, double)> f) {
    return [f](uint16_t a, uint16_t b) {
      return Encode16<Format>(f(Decode16<Format>(a), Decode16<Format>(b)));
    };
  };
  AddReductions<uint16_t>(
      element, type,
      {{"add", as_halves(std::plus<double>())},
       {"min", as_halves([](double a, double b) { return std::min(a, b); })},
       {"max", as_halves([](double a, double b) { return std::max(a, b); })}},
      [](std::mt19937& r) {
        return Encode16<Format>(static_cast<int>(r() % 101) - 50);
      },
      random, out);
}

void AddReductionCases(std::mt19937& random, std::vector<AsyncCase>* out) {
  using E = TensorMap::Element;
  const auto bits = [](std::mt19937& r) { return static_cast<uint32_t>(r()); };
  AddReductions<uint32_t>(
      E::kU32, "u32",
      {{"add", std::plus<uint32_t>()},
       {"min", [](uint32_t a, uint32_t b) { return std::min(a, b); }},
       {"max", [](uint32_t a, uint32_t b) { return std::max(a, b); }},
       {"inc", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
       {"dec",
        [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }},
       {"and", std::bit_and<uint32_t>()},
       {"or", std::bit_or<uint32_t>()},
       {"xor", std::bit_xor<uint32_t>()}},
      bits, random, out);
  AddReductions<int32_t>(
      E::kS32, "s32",
      {{"min", [](int32_t a, int32_t b) { return std::min(a, b); }},
       {"max", [](int32_t a, int32_t b) { return std::max(a, b); }}},
      [](std::mt19937& r) { return static_cast<int32_t>(r()); }, random, out);
  AddReductions<uint64_t>(
      E::kU64, "u64",
      {{"add", std::plus<uint64_t>()},
       {"min", [](uint64_t a, uint64_t b) { return std::min(a, b); }},
       {"xor", std::bit_xor<uint64_t>()}},
      [](std::mt19937& r) { return uint64_t{r()} << 32 | r(); }, random, out);
  AddReductions<float>(
      E::kF32, "f32", {{"add", std::plus<float>()}},
      [](std::mt19937& r) {
        return static_cast<float>(static_cast<int>(r() % 2001) - 1000);
      },
      random, out);
  AddHalfReductions<Half>(E::kF16, "f16", random, out);
  AddHalfReductions<BFloat>(E::kBF16, "bf16", random, out);
}

// What hardware does not do.
void AddRefusals(std::mt19937& random, std::vector<AsyncCase>* out) {
  using E = TensorMap::Element;
  const auto add = [&](AsyncCase c, const std::string& name,
                       const std::string& refusal) {
    c.name = "tensor_" + name;
    c.refusal = refusal;
    out->push_back(std::move(c));
  };
  // The load and the prefetch alone.
  const auto only = [&](const char* kernel, int32_t x) {
    AsyncCase c =
        LoadCase(MakeBox(E::kF16, {104, 40}, {64, 8}, {x, 2}), random);
    c.plan.kernel_name = kernel;
    c.plan.args.resize(5);
    return c;
  };
  AsyncCase aligned = only("fetch2", 8);
  aligned.name = "tensor_fetch_aligned";
  out->push_back(aligned);
  for (const int32_t x : {4, 7, -4}) {
    add(only("fetch2", x), absl::StrCat("fetch_at_", x),
        "misaligned: tensor copy at innermost coordinate");
    add(only("prefetch2", x), absl::StrCat("prefetch_at_", x),
        "misaligned: tensor copy at innermost coordinate");
  }
  const auto store = [&](std::vector<uint64_t> dims, std::vector<int32_t> at) {
    Box box = MakeBox(E::kU32, {std::move(dims)}, {8, 8}, std::move(at));
    const int32_t bytes = static_cast<int32_t>(CopiedBytes(box.map));
    AsyncCase c =
        StoreCase(box, "reduce2_add", {bytes}, RandomBytes(bytes, random),
                  RandomBytes(TensorBytes(box.map), random),
                  CombineAs<uint32_t>(std::plus<uint32_t>()));
    c.plan.kernel_name = "reduce2_add";
    c.plan.args.resize(5);
    return c;
  };
  const auto plain = [](AsyncCase c) {
    c.plan.kernel_name = "put2";
    return c;
  };
  constexpr char kNegative[] = "stores and reductions must start at 0 or more";
  add(store({24, 20}, {8, -3}), "add_above", kNegative);
  add(store({24, 20}, {-4, 3}), "add_left", kNegative);
  add(plain(store({24, 20}, {8, -3})), "store_above", kNegative);
  add(plain(store({24, 20}, {-4, 3})), "store_left", kNegative);
  add(store({24, 20}, {6, 3}), "add_misaligned",
      "misaligned: tensor copy at innermost coordinate");
  add(plain(store({24, 20}, {6, 3})), "store_misaligned",
      "misaligned: tensor copy at innermost coordinate");
  constexpr char kRow[] = "the innermost dimension must be a multiple of 16";
  add(store({22, 20}, {16, 3}), "add_partial", kRow);
  add(plain(store({22, 20}, {16, 3})), "store_partial", kRow);
}

// Two CTAs of a cluster load the upper and the lower half of a box into both.
AsyncCase MulticastCase(TensorMap::Swizzle swizzle, std::mt19937& random) {
  const Box half =
      MakeBox(TensorMap::Element::kF16, {40, 29}, {16, 16}, {32, 0}, swizzle);
  const int32_t bytes = static_cast<int32_t>(CopiedBytes(half.map));
  AsyncCase c;
  c.source = AsyncSource("async_copies.cu");
  c.plan.kernel_name = "multicast2";
  c.plan.block = {64, 1, 1};
  c.plan.grid = c.plan.cluster = {2, 1, 1};
  c.plan.smem_bytes = 2048;
  c.plan.tensor_maps = {half.map};
  c.plan.args = {MapArg(0),          BufferArg(BufferRole::kC), IntArg(bytes),
                 IntArg(half.at[0]), IntArg(half.at[1]),        IntArg(16)};
  const auto& tensor = c.buffers[BufferRole::kA] =
      RandomBytes(TensorBytes(half.map), random);
  std::vector<uint8_t> loaded(2 * bytes, 0);
  for (int rank = 0; rank < 2; ++rank) {
    Box box = half;
    box.at[1] += 16 * rank;
    ForBox(box, [&](int64_t position, int64_t address) {
      if (address < 0) return;
      std::memcpy(&loaded[rank * bytes + Swizzled(swizzle, position * 2)],
                  &tensor[address], 2);
    });
  }
  c.expected = loaded;
  c.expected.insert(c.expected.end(), loaded.begin(), loaded.end());
  c.buffers[BufferRole::kC].assign(c.expected.size(), 0xee);
  return c;
}

}  // namespace

void AddTensorCopyCases(std::vector<AsyncCase>* out) {
  std::mt19937 random(11);
  int index = 0;
  for (const Box& box : Boxes()) {
    out->push_back(LoadCase(box, random));
    out->back().name = absl::StrCat("tensor_load_", index);
    if (box.map.dims[0] * BytesOf(box.map.element) % 16 != 0) continue;
    out->push_back(StoreCase(box, false, random));
    out->back().name = absl::StrCat("tensor_store_", index);
    if (box.map.element == TensorMap::Element::kU32) {
      out->push_back(StoreCase(box, true, random));
      out->back().name = absl::StrCat("tensor_add_", index);
    }
    ++index;
  }
  AddReductionCases(random, out);
  AddRefusals(random, out);
  for (const TensorMap::Swizzle swizzle :
       {TensorMap::Swizzle::kNone, TensorMap::Swizzle::k32B}) {
    out->push_back(MulticastCase(swizzle, random));
    out->back().name =
        absl::StrCat("tensor_multicast_", static_cast<int>(swizzle));
  }
}

}  // namespace hone::emulator
