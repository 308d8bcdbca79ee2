// Every dequantization path on every code, through the real device code on the
// emulator, against the types' code tables; and what each path costs.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/codegen/embedded.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

// One path: a type of B with a kind of zero point, exact or leaving a power of
// two to the epilogue.
struct Path {
  LayerConfig layer;
  bool exact;
  std::string kernel;
};

constexpr int64_t kRows = 64;
// Two units, so that 256 lanes' blocks bring every code to every register.
constexpr int64_t kColumns = 128;

std::vector<Path> Paths(DataType a) {
  std::vector<Path> paths;
  for (const DataType b : WeightTypes(a)) {
    for (const ZeroPoint zero :
         {ZeroPoint::kNone, ZeroPoint::kInteger, ZeroPoint::kFloat}) {
      const LayerConfig layer = MakeLayer(
          kRows, kColumns, a, b, {ScaleGranularity::kNone, kFloat16}, zero);
      // Operands as they are stored have no path.
      if (!CheckWeightFormat(layer).ok() || WeightLayoutOf(layer).direct()) {
        continue;
      }
      for (const bool exact : {false, true}) {
        // Narrow types leave the power of two, integers in wide ones none.
        if (exact != (a.bits() == 16) && (a.bits() < 16 || b.is_integer())) {
          continue;
        }
        paths.push_back({layer, exact, absl::StrCat("dequant", paths.size())});
      }
    }
  }
  return paths;
}

// Each thread dequantizes the registers of one block's unit, as many as A has
// bits.
std::string Source(DataType a, const std::vector<Path>& paths) {
  std::string source = FlattenedDeviceSource(
      {"numeric/integer.cuh", "numeric/minifloat.cuh",
       "numeric/sign_magnitude.cuh", "numeric/scale.cuh", "numeric/narrow.cuh",
       "numeric/narrow_integer.cuh", "numeric/e2m1_integer.cuh"});
  absl::StrAppend(&source, "using AType = ", TypesOf(paths[0].layer).a, ";\n",
                  R"(
template <int kWordCount>
struct Raw {
  static constexpr int kBits = kWordCount;
  template <typename Type, bool kExact>
  static constexpr int kExponent = 0;
  template <typename Type, bool kExact, int kReg>
  static __device__ hone::u32 Register(const hone::u32 (&words)[kBits],
                                       hone::u32) {
    return words[kReg % kBits];
  }
};
template <typename Weight, typename Zero, bool kExact>
__device__ __forceinline__ void Dequant(const hone::u32* b, hone::u32 codes,
                                        hone::u32* c) {
  const int thread = hone::ptx::ThreadIdX();
  const int block = thread / 32;
  hone::u32 words[Weight::kBits];
#pragma unroll
  for (int w = 0; w < Weight::kBits; ++w) {
    words[w] = b[block * 32 * Weight::kBits +
                 hone::layout::WordIndex(Weight::kBits, thread % 32, w)];
  }
  hone::ZeroPair zero{0, 0};
  if constexpr (Zero::kBits != 0) {
    zero = Zero::template Pair<AType>(codes);
  }
  constexpr int kRegisters = AType::kBits;
  hone::u32 a[4][4];
  hone::DequantFragment<Weight, AType, kExact, 0>(words, zero, a[0]);
  if constexpr (kRegisters > 4) {
    hone::DequantFragment<Weight, AType, kExact, 1>(words, zero, a[1]);
  }
  if constexpr (kRegisters > 8) {
    hone::DequantFragment<Weight, AType, kExact, 2>(words, zero, a[2]);
    hone::DequantFragment<Weight, AType, kExact, 3>(words, zero, a[3]);
  }
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) {
    c[thread * kRegisters + i] = a[i / 4][i % 4];
  }
  if (thread == 0) {
    c[256 * kRegisters] = Weight::template kExponent<AType, kExact>;
  }
}
)");
  // The same loads and stores alone.
  for (int bits = 1; bits <= 8; ++bits) {
    absl::StrAppend(&source, "extern \"C\" __global__ void raw", bits,
                    "(const hone::u32* b, hone::u32* c, int codes) {\n"
                    "  Dequant<Raw<",
                    bits, ">, hone::NoZero, false>(b, 0, c);\n}\n");
  }
  for (const Path& path : paths) {
    const KernelTypes types = TypesOf(path.layer);
    absl::StrAppend(
        &source, "extern \"C\" __global__ void ", path.kernel,
        "(const hone::u32* b, hone::u32* c, int codes) {\n  Dequant<",
        types.weight, ", ", types.zero, ", ", path.exact,
        ">(b, codes, c);\n}\n");
  }
  return source;
}

// All paths of a type of A, compiled once.
const CompileResult& Compiled(DataType a) {
  static auto* results = new std::map<std::string, CompileResult>;
  const auto [at, added] = results->try_emplace(a.ToString());
  if (!added) return at->second;
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  EXPECT_TRUE(nvrtc.ok()) << nvrtc.status();
  CompileRequest request;
  request.source = Source(a, Paths(a));
  // Only the assembler refuses MMAs that the architecture lacks, and there
  // are none here.
  request.arch = "sm_80";
  const auto compiled = (*nvrtc)->Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->ok()) << compiled->log;
  at->second = *compiled;
  return at->second;
}

// The thread, its register and the part of it that B[n][k] comes to, by the PTX
// ISA's fragments: a register holds 32 bits of a row.
struct Place {
  int64_t thread, reg, part;
};
Place PlaceOf(DataType a, int64_t n, int64_t k) {
  const int64_t parts = 32 / a.bits();
  const int64_t word = k % 64 / parts;
  return {(k / 64 * 4 + n / 16) * 32 + n % 8 * 4 + word % 4,
          word / 8 * 4 + word % 8 / 4 * 2 + n % 16 / 8, k % parts};
}

// The code of B[n][k]: over all blocks of a lane, each register and part sees
// every code.
uint8_t CodeAt(const LayerConfig& layer, int64_t n, int64_t k) {
  const Place at = PlaceOf(layer.a, n, k);
  const auto code = static_cast<uint8_t>(
      (at.thread + 37 * (at.reg * 8 + at.part)) % (1 << layer.b.bits()));
  // The weights of a layer are finite.
  return IsFiniteWeight(layer, layer.b.Decode(code)) ? code : 0;
}

class DequantTest : public testing::TestWithParam<DataType> {};

TEST_P(DequantTest, EveryCodeOfEveryTypeInEveryRegister) {
  const DataType a = GetParam();
  const std::vector<Path> paths = Paths(a);
  const CompileResult& compiled = Compiled(a);
  const auto module = emulator::Module::Parse(compiled.ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  for (const Path& path : paths) {
    const LayerConfig& layer = path.layer;
    SCOPED_TRACE(absl::StrCat(layer.ToString(), path.exact ? " exact" : ""));
    QuantizedWeights weights;
    for (int64_t n = 0; n < kRows; ++n) {
      for (int64_t k = 0; k < kColumns; ++k) {
        weights.codes.push_back(CodeAt(layer, n, k));
      }
    }
    // Zero points of rows g and of rows g + 8.
    double zeros[2] = {0, 0};
    uint32_t zero_codes = 0;
    if (layer.zero_point != ZeroPoint::kNone) {
      const int bits = WeightLayoutOf(layer).zero_bits;
      const bool integer = layer.zero_point == ZeroPoint::kInteger;
      const uint32_t most = static_cast<uint32_t>(layer.b.MaxFinite());
      const uint32_t codes[2] = {
          integer ? most : layer.a.Encode(most * 0.4),
          integer ? most / 3 : layer.a.Encode(most * 0.7 + 0.01)};
      for (int i = 0; i < 2; ++i) {
        zero_codes |= codes[i] << (i * bits);
        zeros[i] = integer ? codes[i] : layer.a.Decode(codes[i]);
      }
      weights.zeros.assign(kRows, 0);
    }
    auto packed = Pack(layer, weights);
    ASSERT_TRUE(packed.ok()) << packed.status();
    std::vector<uint32_t> out(256 * a.bits() + 1);
    LaunchPlan plan;
    plan.kernel_name = path.kernel;
    plan.block.x = 256;
    plan.args = {{LaunchArg::Kind::kBuffer, BufferRole::kB, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kC, 0},
                 {LaunchArg::Kind::kInt32, BufferRole::kA,
                  static_cast<int32_t>(zero_codes)}};
    emulator::Bindings bindings;
    bindings[BufferRole::kB] = {packed->b.data(), packed->b.size(), false,
                                true};
    bindings[BufferRole::kC] = {reinterpret_cast<std::byte*>(out.data()),
                                out.size() * 4, true, false};
    const auto stats = emulator::Execute(*module, plan, bindings, {});
    ASSERT_TRUE(stats.ok()) << stats.status();
    const double factor = std::ldexp(1.0, static_cast<int>(out.back()));
    if (path.exact) {
      ASSERT_EQ(factor, 1);
    }
    for (int64_t n = 0; n < kRows; ++n) {
      for (int64_t k = 0; k < kColumns; ++k) {
        const Place at = PlaceOf(a, n, k);
        const uint32_t code =
            out[at.thread * a.bits() + at.reg] >> (at.part * a.bits()) &
            ((1u << a.bits()) - 1);
        // The MMA reads unsigned weights as such.
        const bool is_unsigned = layer.b.kind() == DataType::Kind::kUint &&
                                 layer.zero_point == ZeroPoint::kNone;
        const double got =
            (a.is_integer() && is_unsigned ? DataType::Uint(a.bits()) : a)
                .Decode(code) *
            factor;
        const double exact =
            layer.b.Decode(weights.codes[n * kColumns + k]) - zeros[n % 16 / 8];
        ASSERT_EQ(got, layer.zero_point == ZeroPoint::kFloat
                           ? a.Decode(a.Encode(exact))
                           : exact)
            << "code " << int{weights.codes[n * kColumns + k]} << " register "
            << at.reg << " part " << at.part;
      }
    }
  }
}

// Instructions of a kernel that compute, by PTX; loads, stores, moves and
// 64-bit address arithmetic aside.
int Arithmetic(absl::string_view ptx, absl::string_view kernel) {
  int count = 0;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(ptx, '\n')) {
    if (line.find(".entry") != line.npos) {
      inside = absl::StrContains(line, absl::StrCat(kernel, "("));
    }
    if (!inside) continue;
    line = absl::StripAsciiWhitespace(line);
    for (const absl::string_view op :
         {"lop3.b32", "and.b32", "or.b32", "xor.b32", "not.b32", "shl.b32",
          "shr.u32", "shr.b32", "shf.", "prmt.b32", "add.rn.f16x2",
          "mul.rn.f16x2", "fma.rn.f16x2", "fma.rn.bf16x2"}) {
      if (absl::StartsWith(line, op)) ++count;
    }
  }
  return count;
}

// The counts for 16 registers that a file of kernels/device/numeric states in
// its comment, in lines such as "//   int8 → float16   32" or, for all widths
// from the least, "//   int → float16   33 34 40 ...".
std::map<std::string, int> Stated(absl::string_view file, DataType a) {
  std::map<std::string, int> stated;
  const std::regex line(R"(//\s+(\S+) → (\S+)( exact)?((?:\s+\d+)+)\s*)");
  for (const absl::string_view text :
       absl::StrSplit(EmbeddedDeviceSource(file), '\n')) {
    std::smatch match;
    const std::string copy(text);
    if (!std::regex_match(copy, match, line) || match[2] != a.ToString())
      continue;
    std::istringstream numbers(match[4]);
    int bits = 0;
    for (int count = 0; numbers >> count;) {
      std::string name = match[1];
      ++bits;
      if (name == "int" || name == "uint") absl::StrAppend(&name, bits);
      if (name == "e0") name = absl::StrCat("float", bits + 1, "e0m", bits);
      stated[name + match[3].str()] = count;
    }
  }
  return stated;
}

TEST_P(DequantTest, CostsWhatItsFileStates) {
  const DataType a = GetParam();
  const std::vector<Path> paths = Paths(a);
  const CompileResult& compiled = Compiled(a);
  std::map<std::string, int> cost;
  for (const Path& path : paths) {
    const LayerConfig& layer = path.layer;
    if (layer.zero_point != ZeroPoint::kNone) continue;
    if (std::getenv("HONE_TEST_PRINT_COSTS") != nullptr) {
      std::printf(
          "%s -> %s %d\n", layer.b.ToString().c_str(), a.ToString().c_str(),
          Arithmetic(compiled.ptx, path.kernel) -
              Arithmetic(compiled.ptx, absl::StrCat("raw", layer.b.bits())));
    }
    cost[layer.b.ToString() +
         (path.exact && layer.b.is_float() ? " exact" : "")] =
        Arithmetic(compiled.ptx, path.kernel) -
        Arithmetic(compiled.ptx, absl::StrCat("raw", layer.b.bits()));
  }
  int stated_paths = 0;
  for (const char* file :
       {"numeric/integer.cuh", "numeric/minifloat.cuh",
        "numeric/sign_magnitude.cuh", "numeric/narrow_integer.cuh",
        "numeric/e2m1_integer.cuh"}) {
    for (const auto& [name, count] : Stated(file, a)) {
      ++stated_paths;
      EXPECT_EQ(count, cost[name]) << file << ": " << name;
    }
  }
  EXPECT_GT(stated_paths, 0);
  // Sign and magnitude replace symmetric integers where they are cheaper.
  const DataType scale = a.bits() == 16 ? a : kFloat16;
  for (int bits = 2; bits <= 8; ++bits) {
    for (const bool exact : {false, true}) {
      if (exact && a.bits() < 16) continue;
      // One group has its scale in the epilogue, groups of 64 on the weights.
      const LayerConfig layer =
          MakeLayer(64, 128, a, DataType::Int(bits),
                    exact ? Scaling{ScaleGranularity::kGroup, scale, 64}
                          : Scaling{ScaleGranularity::kChannel, scale});
      const std::string other = DataType::Float(0, bits - 1).ToString();
      if (!cost.contains(other) || !cost.contains(layer.b.ToString())) continue;
      EXPECT_EQ(
          SignMagnitudeIsFaster(layer),
          cost[other + (exact ? " exact" : "")] < cost[layer.b.ToString()])
          << layer.ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, DequantTest,
                         testing::ValuesIn(ActivationTypes()),
                         [](const auto& info) {
                           return info.param.ToString();
                         });

}  // namespace
}  // namespace hone
