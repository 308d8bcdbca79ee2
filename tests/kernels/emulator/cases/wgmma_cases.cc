// wgmma of every type, operand source, layout and swizzle, one instruction a
// kernel. The layouts are written down here anew, from the PTX ISA's figures.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/emulator/cases/async_case.h"

namespace hone::emulator {
namespace {

// One wgmma.
struct Shape {
  std::string type_a, type_b, type_d;
  int n = 0;
  int span_a = 128;  // swizzle span; 16: none, 0: A in registers
  int span_b = 128;
  bool mn_a = false, mn_b = false;  // MN-major
  int scale_a = 1, scale_b = 1;
  bool accumulate = true;
  bool real = false;  // values with fractions, whose sums are not exact
};

bool IsInteger(const Shape& c) { return c.type_d == "s32"; }
int ElementBytes(const Shape& c) {
  return c.type_a == "f16" || c.type_a == "bf16" ? 2 : 1;
}
int Registers(const Shape& c) { return c.type_d == "f16" ? c.n / 4 : c.n / 2; }

DataType TypeOf(const std::string& name) {
  if (name == "f16") return kFloat16;
  if (name == "bf16") return kBfloat16;
  if (name == "e4m3") return kFloat8e4m3;
  if (name == "e5m2") return kFloat8e5m2;
  return name == "s8" ? kInt8 : DataType::Uint(8);
}

// Any integer; small ones of a float type, which all of them hold; or real.
double Value(const DataType& type, bool real, std::mt19937& random) {
  if (type.is_integer()) return type.Decode(random() % 256);
  if (!real) return static_cast<int>(random() % 9) - 4;
  // Most of them near 0, as activations are.
  const double x = (static_cast<int>(random() % 2001) - 1000) * 1e-3;
  return type.Decode(type.Encode(4 * x * std::abs(x)));
}

// Where element (mn, k) of an operand lies, in bytes from its start, and the
// operand's descriptor without its address.
struct Layout {
  uint64_t leading = 16, stride = 0, swizzle = 0;
  int span = 16;
  bool mn_major = false;
  int bytes = 0;   // of one element
  int extent = 0;  // in mn

  Layout(int span, bool mn_major, int bytes, int extent)
      : span(span), mn_major(mn_major), bytes(bytes), extent(extent) {
    swizzle = span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
    if (!mn_major) {
      stride = span == 16 ? 256 : span * 8;  // next 8 rows
      leading = span == 16 ? 128 : 16;       // next 16 bytes of k
    } else if (span == 16) {
      stride = 128;                // next 8 of mn
      leading = extent / 8 * 128;  // next 8 of k
    } else {
      leading = 16 * span;  // next span of mn: 16 rows of k
      stride = 8 * span;    // next 8 rows of k
    }
  }
  uint64_t Descriptor() const {
    return leading / 16 << 16 | stride / 16 << 32 | swizzle << 62;
  }
  int Offset(int mn, int k) const {
    const int lines = 128 / span;  // rows of the pattern per 128-byte line
    if (!mn_major) {
      const int byte = k * bytes;
      if (span == 16) {
        return mn / 8 * 256 + byte / 16 * 128 + mn % 8 * 16 + byte % 16;
      }
      const int chunk = byte / 16 ^ mn % 8 / lines;
      return mn * span + chunk * 16 + byte % 16;
    }
    const int per_span = span / bytes;
    const int in_span = mn % per_span * bytes;
    if (span == 16) {
      return mn / 8 * 128 + k / 8 * static_cast<int>(leading) + k % 8 * 16 +
             in_span;
    }
    const int chunk = in_span / 16 ^ k % 8 / lines;
    return mn / per_span * 16 * span + k * span + chunk * 16 + in_span % 16;
  }
};

std::string List(const std::string& prefix, int first, int count,
                 const std::string& suffix = "") {
  std::vector<std::string> parts;
  for (int i = 0; i < count; ++i) {
    parts.push_back(absl::StrCat(prefix, first + i, suffix));
  }
  return absl::StrJoin(parts, ", ");
}

// The image in shared memory: A at 0, B at 32768; 65536 bytes. Behind it in
// the input come the registers of A and the accumulators, thread by thread.
std::string KernelSource(const Shape& c, int index) {
  const int d = Registers(c);
  const bool a_in_registers = c.span_a == 0;
  std::string outputs;
  for (int i = 0; i < d; ++i) {
    absl::StrAppend(&outputs, i == 0 ? "" : ", ", "\"+r\"(d[", i, "])");
  }
  const int k = 32 / ElementBytes(c);
  std::string instruction = absl::StrCat(
      "wgmma.mma_async.sync.aligned.m64n", c.n, "k", k, ".", c.type_d, ".",
      c.type_a, ".", c.type_b, " {", List("%", 0, d), "}, ");
  int next = d;
  if (a_in_registers) {
    absl::StrAppend(&instruction, "{", List("%", next, 4), "}, ");
    next += 4;
  } else {
    absl::StrAppend(&instruction, "%", next++, ", ");
  }
  absl::StrAppend(&instruction, "%", next++, ", p");
  if (!IsInteger(c)) {
    absl::StrAppend(&instruction, ", ", c.scale_a, ", ", c.scale_b);
    if (ElementBytes(c) == 2) {
      if (!a_in_registers) absl::StrAppend(&instruction, ", ", int{c.mn_a});
      absl::StrAppend(&instruction, ", ", int{c.mn_b});
    }
  }
  const std::string inputs =
      a_in_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])"
                     : "\"l\"(desc_a)";
  return absl::StrCat(
      "extern \"C\" __global__ void __launch_bounds__(128, 1) case", index,
      "(const unsigned* in, unsigned* out) {\n"
      "  extern __shared__ __align__(1024) unsigned s[];\n"
      "  const int t = threadIdx.x;\n"
      "  for (int i = t; i < 16384; i += 128) s[i] = in[i];\n"
      "  asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
      "  __syncthreads();\n"
      "  unsigned a[4], d[",
      d,
      "];\n"
      "  for (int i = 0; i < 4; ++i) a[i] = in[16384 + t * 4 + i];\n"
      "  for (int i = 0; i < ",
      d, "; ++i) d[i] = in[16896 + t * ", d,
      " + i];\n"
      "  const unsigned long long base =\n"
      "      (unsigned long long)__cvta_generic_to_shared(s) >> 4;\n"
      "  const unsigned long long desc_a = base + ",
      a_in_registers
          ? 0
          : Layout(c.span_a, c.mn_a, ElementBytes(c), 64).Descriptor(),
      "ull;\n"
      "  const unsigned long long desc_b = base + 2048 + ",
      Layout(c.span_b, c.mn_b, ElementBytes(c), c.n).Descriptor(),
      "ull;\n"
      "  for (int i = 0; i < ",
      d,
      "; ++i) asm volatile(\"\" : \"+r\"(d[i]) :: \"memory\");\n"
      "  for (int i = 0; i < 4; ++i) asm volatile(\"\" : \"+r\"(a[i]) :: "
      "\"memory\");\n"
      "  asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
      "  asm volatile(\"{\\n.reg .pred p;\\nsetp.ne.b32 p, %",
      next, ", 0;\\n", instruction, ";\\n}\\n\" : ", outputs, " : ", inputs,
      ", \"l\"(desc_b), \"r\"(", int{c.accumulate},
      "));\n"
      "  asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
      "  asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n"
      "  for (int i = 0; i < ",
      d,
      "; ++i) asm volatile(\"\" : \"+r\"(d[i]) :: \"memory\");\n"
      "  for (int i = 0; i < ",
      d, "; ++i) out[t * ", d,
      " + i] = d[i];\n"
      "}\n");
}

std::vector<Shape> Shapes() {
  std::vector<Shape> cases;
  // Every swizzle, K-major and MN-major.
  for (int span : {16, 32, 64, 128}) {
    cases.push_back({"f16", "f16", "f32", 64, span, span});
    cases.push_back({"f16", "f16", "f32", 64, span, span, true, true});
    cases.push_back({"bf16", "bf16", "f32", 32, span, span, true, false});
    cases.push_back({"s8", "u8", "s32", 32, span, span});
    cases.push_back({"e5m2", "e4m3", "f32", 48, span, span});
  }
  cases.push_back({"f16", "f16", "f32", 8, 128, 32, true, false, -1, 1});
  cases.push_back({"f16", "f16", "f16", 96, 64, 128, false, true, 1, -1});
  cases.push_back({"f16", "f16", "f16", 24, 0, 128, false, false, -1, -1});
  cases.push_back({"bf16", "bf16", "f32", 256, 0, 128, false, true});
  cases.push_back({"bf16", "bf16", "f32", 40, 128, 16, false, false, 1, 1,
                   /*accumulate=*/false});
  cases.push_back({"e4m3", "e5m2", "f32", 128, 128, 128, false, false, 1, -1});
  cases.push_back({"e5m2", "e4m3", "f16", 16, 0, 64});
  cases.push_back({"e4m3", "e4m3", "f32", 200, 32, 128, false, false, 1, 1,
                   /*accumulate=*/false});
  cases.push_back({"s8", "s8", "s32", 240, 0, 128});
  cases.push_back({"u8", "s8", "s32", 24, 64, 32});
  cases.push_back({"u8", "u8", "s32", 8, 16, 16, false, false, 1, 1,
                   /*accumulate=*/false});
  // Every pair of types, A in registers and in shared memory.
  struct Types {
    const char *a, *b, *d;
  };
  static constexpr Types kTypes[] = {
      {"f16", "f16", "f32"},   {"f16", "f16", "f16"},   {"bf16", "bf16", "f32"},
      {"e4m3", "e4m3", "f32"}, {"e4m3", "e4m3", "f16"}, {"e4m3", "e5m2", "f32"},
      {"e4m3", "e5m2", "f16"}, {"e5m2", "e4m3", "f32"}, {"e5m2", "e4m3", "f16"},
      {"e5m2", "e5m2", "f32"}, {"e5m2", "e5m2", "f16"}, {"s8", "s8", "s32"},
      {"s8", "u8", "s32"},     {"u8", "s8", "s32"},     {"u8", "u8", "s32"}};
  static constexpr int kN[] = {8, 256, 16, 128, 24, 192, 96};  // all types' own
  size_t next = 0;
  for (const Types& t : kTypes) {
    for (int span_a : {0, 128}) {
      cases.push_back({t.a, t.b, t.d, kN[next++ % std::size(kN)], span_a, 128});
    }
    if (std::string(t.d) == "s32") continue;
    for (int span_a : {0, 64}) {
      Shape shape{t.a, t.b, t.d, 8, span_a, 64};
      shape.real = true;
      cases.push_back(shape);
    }
  }
  return cases;
}

// Random operands, and the accumulators that come of them. Unless they are
// real, every sum is exact in every type.
AsyncCase MakeCase(const Shape& c, int index, const std::string& source,
                   std::mt19937& random) {
  const int bytes = ElementBytes(c), k_count = 32 / bytes;
  const int d_count = Registers(c);
  const DataType type_a = TypeOf(c.type_a), type_b = TypeOf(c.type_b);
  std::vector<double> a(64 * k_count), b(c.n * k_count), d(64 * c.n);
  for (double& x : a) x = Value(type_a, c.real, random);
  for (double& x : b) x = Value(type_b, c.real, random);
  for (double& x : d) x = static_cast<int>(random() % 33) - 16;
  std::vector<uint32_t> in(16896 + 128 * d_count, 0);
  auto* image = reinterpret_cast<uint8_t*>(in.data());
  const auto put = [&](int offset, const DataType& type, double v) {
    const uint32_t bits = type.Encode(v);
    std::memcpy(image + offset, &bits, bytes);
  };
  for (int m = 0; m < 64; ++m) {
    for (int k = 0; k < k_count; ++k) {
      const double v = a[m * k_count + k];
      if (c.span_a != 0) {
        put(Layout(c.span_a, c.mn_a, bytes, 64).Offset(m, k), type_a, v);
        continue;
      }
      // The warp's row, the register by row half and k half, then bytes.
      const int row = m % 16, word = k * bytes / 4;
      const int thread = m / 16 * 32 + row % 8 * 4 + word % 4;
      const int reg = row / 8 + 2 * (word / 4);
      put((16384 + thread * 4 + reg) * 4 + k * bytes % 4, type_a, v);
    }
  }
  for (int n = 0; n < c.n; ++n) {
    for (int k = 0; k < k_count; ++k) {
      put(32768 + Layout(c.span_b, c.mn_b, bytes, c.n).Offset(n, k), type_b,
          b[n * k_count + k]);
    }
  }
  AsyncCase result;
  std::vector<uint32_t> out(128 * d_count, 0);
  if (c.real) result.magnitude.assign(out.size(), 0);
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < c.n; ++n) {
      const int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2;
      const int upper = m / 8 % 2;
      const bool halves = c.type_d == "f16";
      const int reg =
          halves ? n / 8 * 2 + upper : n / 8 * 4 + upper * 2 + n % 2;
      const int word = thread * d_count + reg;
      double sum = 0, magnitude = 0;
      for (int k = 0; k < k_count; ++k) {
        const double product = a[m * k_count + k] * b[n * k_count + k];
        sum += product;
        magnitude += std::abs(product);
      }
      sum *= c.scale_a * c.scale_b;
      if (c.accumulate) {
        sum += d[m * c.n + n];
        magnitude += std::abs(d[m * c.n + n]);
      }
      const auto encode = [&](double v) -> uint32_t {
        if (halves) return kFloat16.Encode(v) << 16 * (n % 2);
        return c.type_d == "f32"
                   ? std::bit_cast<uint32_t>(static_cast<float>(v))
                   : static_cast<uint32_t>(static_cast<int64_t>(v));
      };
      in[16896 + word] |= encode(d[m * c.n + n]);
      out[word] |= encode(sum);
      if (c.real) {
        result.magnitude[word] = std::max(result.magnitude[word], magnitude);
      }
    }
  }
  result.name =
      absl::StrCat("wgmma_n", c.n, "_", c.type_d, "_", c.type_a, "_", c.type_b,
                   "_a", c.span_a, c.mn_a ? "t" : "", "_b", c.span_b,
                   c.mn_b ? "t" : "", c.real ? "_real" : "");
  if (c.real) {
    // As for mma.sync (mma_cases.cc): the emulator rounds once; hardware cuts
    // the aligned products off, of 8-bit operands as few as 13 bits below the
    // greatest.
    const bool halves = c.type_d == "f16";
    result.compare = halves ? Compare::kNearHalves : Compare::kNearFloat;
    result.emulator_bound = halves ? 0x1p-11 : 0x1p-23;
    result.device_bound = (k_count + 8) * (bytes == 2 ? 0x1p-23 : 0x1p-13) +
                          (halves ? 0x1p-9 : 0.0);
  }
  result.source = source;
  result.plan.kernel_name = absl::StrCat("case", index);
  result.plan.block = {128, 1, 1};
  result.plan.smem_bytes = 65536;
  result.plan.args = {BufferArg(BufferRole::kA), BufferArg(BufferRole::kC)};
  result.buffers[BufferRole::kA] = BytesOfVector(in);
  result.expected = BytesOfVector(out);
  result.buffers[BufferRole::kC].assign(result.expected.size(), 0xee);
  return result;
}

}  // namespace

void AddWgmmaCases(std::vector<AsyncCase>* out) {
  // So many kernels to a source: sources compile side by side.
  constexpr size_t kPerSource = 12;
  const std::vector<Shape> shapes = Shapes();
  std::mt19937 random(5);
  for (size_t first = 0; first < shapes.size(); first += kPerSource) {
    const size_t end = std::min(first + kPerSource, shapes.size());
    std::string source;
    for (size_t i = first; i < end; ++i) {
      source += KernelSource(shapes[i], static_cast<int>(i));
    }
    for (size_t i = first; i < end; ++i) {
      out->push_back(MakeCase(shapes[i], static_cast<int>(i), source, random));
    }
  }
}

}  // namespace hone::emulator
