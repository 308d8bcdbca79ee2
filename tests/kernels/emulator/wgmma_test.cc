// wgmma of every type, operand source, layout and swizzle against products
// computed from layouts that are written down here independently.
#include <algorithm>
#include <bit>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

struct Case {
  std::string type_a, type_b, type_d;
  int n = 0;
  int span_a = 128;  // swizzle span; 16: none, 0: A in registers
  int span_b = 128;
  bool mn_a = false, mn_b = false;  // MN-major
  int scale_a = 1, scale_b = 1;
  bool accumulate = true;
};

bool IsInteger(const Case& c) { return c.type_d == "s32"; }
int ElementBytes(const Case& c) {
  return c.type_a == "f16" || c.type_a == "bf16" ? 2 : 1;
}
int Registers(const Case& c) { return c.type_d == "f16" ? c.n / 4 : c.n / 2; }

// Small values that every type holds exactly.
int Value(const std::string& type, std::mt19937& random) {
  const int v = static_cast<int>(random() % 9);
  return type == "u8" ? v : v - 4;
}

uint32_t Encode(const std::string& type, int v) {
  if (type == "f16") return Encode16<Half>(v);
  if (type == "bf16") return Encode16<BFloat>(v);
  if (type == "s8" || type == "u8") return static_cast<uint8_t>(v);
  // Powers of two and three halves of them, from the formats' definitions.
  const int magnitude = std::abs(v);
  const uint32_t sign = v < 0 ? 0x80 : 0;
  static constexpr uint32_t kE4M3[] = {0x00, 0x38, 0x40, 0x44, 0x48};
  static constexpr uint32_t kE5M2[] = {0x00, 0x3c, 0x40, 0x42, 0x44};
  return sign | (type == "e4m3" ? kE4M3 : kE5M2)[magnitude];
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
std::string KernelSource(const Case& c, int index) {
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

std::vector<Case> Cases() {
  std::vector<Case> cases;
  // Every swizzle, K-major and MN-major.
  for (int span : {16, 32, 64, 128}) {
    cases.push_back({"f16", "f16", "f32", 64, span, span});
    cases.push_back({"f16", "f16", "f32", 64, span, span, true, true});
    cases.push_back({"s8", "u8", "s32", 32, span, span});
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
  return cases;
}

TEST(WgmmaTest, MultipliesEveryTypeAndLayout) {
  const std::vector<Case> cases = Cases();
  std::string source;
  for (size_t i = 0; i < cases.size(); ++i) {
    source += KernelSource(cases[i], static_cast<int>(i));
  }
  const Module module = CompileSource("wgmma.cu", source);
  std::mt19937 random(5);
  for (size_t index = 0; index < cases.size(); ++index) {
    const Case& c = cases[index];
    SCOPED_TRACE(testing::Message()
                 << "case " << index << ": " << c.type_a << " x " << c.type_b
                 << " -> " << c.type_d << ", n = " << c.n << ", spans "
                 << c.span_a << " and " << c.span_b << ", MN-major " << c.mn_a
                 << " and " << c.mn_b);
    const int bytes = ElementBytes(c), k_count = 32 / bytes;
    const int d_count = Registers(c);
    std::vector<int> a(64 * k_count), b(c.n * k_count), d(64 * c.n);
    for (int& x : a) x = Value(c.type_a, random);
    for (int& x : b) x = Value(c.type_b, random);
    for (int& x : d) x = static_cast<int>(random() % 33) - 16;
    std::vector<uint32_t> in(16896 + 128 * d_count, 0);
    auto* image = reinterpret_cast<uint8_t*>(in.data());
    const auto put = [&](int offset, const std::string& type, int v) {
      const uint32_t bits = Encode(type, v);
      std::memcpy(image + offset, &bits, bytes);
    };
    for (int m = 0; m < 64; ++m) {
      for (int k = 0; k < k_count; ++k) {
        const int v = a[m * k_count + k];
        if (c.span_a != 0) {
          put(Layout(c.span_a, c.mn_a, bytes, 64).Offset(m, k), c.type_a, v);
          continue;
        }
        // The warp's row, the register by row half and k half, then bytes.
        const int row = m % 16, word = k * bytes / 4;
        const int thread = m / 16 * 32 + row % 8 * 4 + word % 4;
        const int reg = row / 8 + 2 * (word / 4);
        put((16384 + thread * 4 + reg) * 4 + k * bytes % 4, c.type_a, v);
      }
    }
    for (int n = 0; n < c.n; ++n) {
      for (int k = 0; k < k_count; ++k) {
        put(32768 + Layout(c.span_b, c.mn_b, bytes, c.n).Offset(n, k), c.type_b,
            b[n * k_count + k]);
      }
    }
    const auto each_d = [&](auto f) {  // f(m, n, word, half)
      for (int m = 0; m < 64; ++m) {
        for (int n = 0; n < c.n; ++n) {
          const int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2;
          const int upper = m / 8 % 2;
          const int reg = c.type_d == "f16" ? n / 8 * 2 + upper
                                            : n / 8 * 4 + upper * 2 + n % 2;
          f(m, n, thread * d_count + reg, n % 2);
        }
      }
    };
    each_d([&](int m, int n, int word, int half) {
      const int v = d[m * c.n + n];
      uint32_t& to = in[16896 + word];
      if (c.type_d == "f32") {
        to = std::bit_cast<uint32_t>(static_cast<float>(v));
      } else if (c.type_d == "s32") {
        to = static_cast<uint32_t>(v);
      } else {
        to |= uint32_t{Encode16<Half>(v)} << 16 * half;
      }
    });
    for (const CopyLanding landing :
         {CopyLanding::kEarliest, CopyLanding::kLatest}) {
      std::vector<uint32_t> out(128 * d_count);
      Options options;
      options.landing = landing;
      const auto stats = RunPlan(
          module,
          PlanFor(absl::StrCat("case", index), {1, 1, 1}, {128, 1, 1}, 65536),
          in, out, options);
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_EQ(stats->wgmma, 1);
      int wrong = 0;
      each_d([&](int m, int n, int word, int half) {
        int sum = 0;
        for (int k = 0; k < k_count; ++k) {
          sum += a[m * k_count + k] * b[n * k_count + k];
        }
        sum *= c.scale_a * c.scale_b;
        if (c.accumulate) sum += d[m * c.n + n];
        const uint32_t bits = out[word];
        const double got =
            c.type_d == "f32" ? std::bit_cast<float>(bits)
            : c.type_d == "s32"
                ? static_cast<int32_t>(bits)
                : Decode16<Half>(static_cast<uint16_t>(bits >> 16 * half));
        if (got != sum && ++wrong < 4) {
          ADD_FAILURE() << "D[" << m << "][" << n << "] is " << got << ", not "
                        << sum;
        }
      });
      ASSERT_EQ(wrong, 0);
    }
  }
}

// --- misuse --------------------------------------------------------------

constexpr char kFaults[] = "wgmma_faults.cu";

const Module& Faults() {
  static const Module* module = new Module(CompileTestdata(kFaults));
  return *module;
}

// A and B of m64n8k16, small numbers; without a swizzle rows are in order.
std::vector<uint32_t> FaultInput() {
  std::vector<uint32_t> in(576);
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t low = Encode16<Half>(static_cast<int>(i % 5) - 2);
    const uint32_t high = Encode16<Half>(static_cast<int>(i % 3) - 1);
    in[i] = high << 16 | low;
  }
  return in;
}

absl::Status RunFault(const std::string& kernel, uint32_t threads,
                      CopyLanding landing, uint64_t seed,
                      std::vector<float>* out) {
  std::vector<uint32_t> in = FaultInput();
  out->assign(512, -1);
  Options options;
  options.landing = landing;
  options.seed = seed;
  options.max_instructions = 1'000'000;
  return RunPlan(Faults(), PlanFor(kernel, {1, 1, 1}, {threads, 1, 1}, 576 * 4),
                 in, *out, options)
      .status();
}

TEST(WgmmaTest, MovesRenameAccumulators) {
  std::vector<float> right, renamed;
  ASSERT_TRUE(RunFault("right", 128, CopyLanding::kLatest, 1, &right).ok());
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest}) {
    const absl::Status status = RunFault("renamed", 128, landing, 1, &renamed);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(renamed, right);
  }
}

struct FaultCase {
  std::string kernel;
  std::vector<std::string> one_of;  // one of these is in the message
  std::string line;
  std::string conflict;
  uint32_t threads = 128;
};
void PrintTo(const FaultCase& test, std::ostream* out) { *out << test.kernel; }

class WgmmaFaultTest : public testing::TestWithParam<FaultCase> {};

TEST_P(WgmmaFaultTest, IsCaughtUnderEverySchedule) {
  const FaultCase& test = GetParam();
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      std::vector<float> out;
      const absl::Status status =
          RunFault(test.kernel, test.threads, landing, seed, &out);
      ASSERT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      const std::string message(status.message());
      EXPECT_TRUE(std::any_of(
          test.one_of.begin(), test.one_of.end(),
          [&](const auto& word) { return absl::StrContains(message, word); }))
          << message;
      for (const std::string& marker : {test.line, test.conflict}) {
        if (marker.empty()) continue;
        EXPECT_TRUE(absl::StrContains(message, LineOf(kFaults, marker)))
            << marker << ": " << message;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WgmmaFaultTest,
    testing::Values(
        FaultCase{"overwritten_accumulator",
                  {"register in flight: the instruction touches an accumulator",
                   "register in flight: the instruction overwrites an "
                   "accumulator"},
                  "overwritten_accumulator",
                  "overwritten_mma"},
        FaultCase{"touched_operand",
                  {"register in flight: the instruction touches an A operand"},
                  "touched_operand",
                  "touched_mma"},
        FaultCase{"operand_after_fence",
                  {"missing wgmma.fence: an A operand was touched after"},
                  "operand_after_fence"},
        FaultCase{"other_shape",
                  {"missing wgmma.fence: an accumulator was last used by a "
                   "wgmma of another shape"},
                  "other_shape"},
        FaultCase{"stored_operand",
                  {"overwritten operand: shared write of 4 bytes at byte 2048"},
                  "stored_operand",
                  "stored_operand_mma"},
        // Whoever comes first, the other's access is not ordered after it.
        FaultCase{"stored_by_another",
                  {"overwritten operand: shared write", "race: shared wgmma"},
                  "stored_by_another",
                  "stored_by_another_mma",
                  160},
        FaultCase{"not_waited", {"wgmma not waited for"}},
        FaultCase{"out_of_bounds",
                  {"out of bounds: shared wgmma read of B of 16 bytes"},
                  "out_of_bounds"},
        FaultCase{"one_warp_missing",
                  {"waits for the other warps of warpgroup 0 (warps 0x7"},
                  "one_warp_missing"},
        FaultCase{
            "other_instruction",
            {"divergence: warp", "waits for the other warps of warpgroup"}},
        FaultCase{"right",
                  {"wgmma needs a warpgroup of four warps; the CTA has only 3"},
                  "",
                  "",
                  96}),
    [](const auto& info) { return info.param.kernel; });

}  // namespace
}  // namespace hone::emulator
