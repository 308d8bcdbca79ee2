// What the space says of configs and what ptxas and the hardware's limits say,
// over random problems of all formats on SM75, 80, 89, 90 and 120:
//
// - a legal config compiles, without a warning about MMAs or registers and with
//   few spills; as many CTAs as it claims fit an SM; setmaxnreg finds the
//   registers that it asks for; the copy engine can read its tensor maps;
//   shared memory is what the space counts (the kernels assert that it is what
//   they use, and have no other);
// - a config that breaks one of the rules about these, and no other rule, is
//   rightly refused: it does not compile, or goes beyond the limit in question.
//
// Those rules are in Proofs(). The others (Unproven()) are not about ptxas:
// they say what the kernels are written for, or what the space leaves out.
// Registers are estimated before a compile, so that some are refused that would
// do.
//
// HONE_TEST_COMPILES is how many configs are compiled, 12 unless given; which
// ones changes with HONE_TEST_SEED.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/codegen/tensor_map.h"
#include "kernels/config/weight_layout.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/space/occupancy.h"
#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

struct Draw {
  Problem problem;
  DeviceSpec device;
  TuningConfig config;
};

std::string Describe(const Draw& draw) {
  return absl::StrCat("SM", draw.device.sm_arch, " ", draw.problem.ToString(),
                      " / ", draw.config.ToString());
}

DeviceSpec DeviceOf(int64_t arch) {
  DeviceSpec device = *ModelledDevice(arch == 90   ? "h200"
                                      : arch == 80 ? "a100"
                                      : arch == 75 ? "t4"
                                                   : "rtx4090");
  device.sm_arch = arch;
  return device;
}

// Dynamic shared memory that a CTA may opt in to, and that of an SM (CUDA C++
// Programming Guide, technical specifications per compute capability).
int64_t SmemOfCta(int64_t arch) {
  const int64_t kib = arch == 75   ? 64
                      : arch == 80 ? 163
                      : arch == 90 ? 227
                                   : 99;
  return kib << 10;
}
int64_t SmemOfSm(int64_t arch) {
  return arch == 75 ? int64_t{64} << 10 : SmemOfCta(arch) + 1024;
}
int64_t ThreadsOfSm(int64_t arch) {
  return arch == 75 ? 1024 : arch == 80 || arch == 90 ? 2048 : 1536;
}
constexpr int64_t kRegistersOfSm = 65536;

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : random_(seed) {}

  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  template <typename T>
  T OneOf(const std::vector<T>& values) {
    return values[static_cast<size_t>(
        Below(static_cast<int64_t>(values.size())))];
  }

  // A problem that the architecture has kernels for.
  Draw AnyProblem(int64_t arch) {
    Draw draw;
    draw.device = DeviceOf(arch);
    do {
      draw.problem = Problem();
      LayerConfig& layer = draw.problem.layer;
      layer = OneOf(Formats(OneOf(ActivationTypes())));
      layer.n = OneOf<int64_t>({1 + Below(3000), 64 * (1 + Below(256))});
      layer.k = OneOf<int64_t>({2 * (1 + Below(2000)), 16 * (1 + Below(500)),
                                128 * (1 + Below(128))});
      layer.bias = Below(2) == 0;
      if (layer.a == kFloat16 && Below(4) == 0) {
        draw.problem.compute.accumulator = kFloat16;
      }
      if (Below(2) == 0) {
        draw.problem.compute.a_scale_layout = InputScaleLayout::kColumnMajor;
      }
      draw.problem.compute.batch_invariant = Below(8) == 0;
    } while (!CheckProblem(draw.problem, draw.device).ok());
    return draw;
  }

  // A well-formed config of an engine for the problem, legal or not, beyond
  // those that the space lists.
  TuningConfig AnyConfig(const Draw& draw, bool wgmma) {
    TuningConfig c;
    c.stages = 2 + Below(7);
    c.ctas_per_sm = 1 + Below(4);
    c.split_k = OneOf<int64_t>({1, 1, 2, 3, 4, 8});
    c.raster = OneOf<RasterOrder>({RasterOrder::kAlongM, RasterOrder::kAlongN});
    const int64_t warps_k = OneOf<int64_t>({1, 1, 1, 2, 4, 8});
    c.warp_k = 64 << Below(4);
    if (wgmma) {
      c.mma = MmaInstruction::kWgmma;
      c.warp_specialized = true;
      c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
      c.cluster_m = OneOf<int64_t>({1, 1, 1, 2, 4});
      c.cluster_n = OneOf<int64_t>({1, 1, 1, 2, 4});
      c.mmas_in_flight = 1 + Below(4);
      if (WeightLayoutOf(draw.problem.layer).direct() && Below(2) == 0) {
        c.warp_m = OneOf<int64_t>({16, 32});
        c.block_m = 4 * c.warp_m * (1 + Below(3));
        c.block_n = c.warp_n = 64 * (1 + Below(4));
      } else {
        c.block_m = c.warp_m = 8 * (1 + Below(33));
        c.warp_n = OneOf<int64_t>({16, 32});
        c.block_n = 64 * (1 + Below(6));
      }
    } else {
      const bool ldg = draw.device.sm_arch < 80 || Below(6) == 0;
      c.producer_a = c.producer_b = c.producer_scale =
          ldg ? Producer::kLdg : Producer::kCpAsync;
      if (ldg) c.stages = 2;
      c.warp_m = 8 * (1 + Below(16));
      c.block_m = c.warp_m * OneOf<int64_t>({1, 1, 2, 4});
      c.warp_n = 16 * (1 + Below(4));
      c.block_n = 64 * (1 + Below(4));
    }
    c.block_k = c.warp_k * warps_k;
    const ReductionOrder order = InvariantOrder(draw.problem, draw.device);
    if (draw.problem.compute.batch_invariant && c.mma == order.mma) {
      c.block_k = order.block_k;
      c.warp_k = order.warp_k;
      c.split_k = order.split_k;
    }
    c.split = c.split_k > 1 ? Split::kSplitK : Split::kDataParallel;
    if (wgmma && Below(5) == 0) {
      c.split = Split::kStreamK;
      c.split_k =
          StreamWorkers(draw.device, c.cluster_m * c.cluster_n, c.ctas_per_sm);
    }
    return c;
  }

 private:
  const std::vector<LayerConfig>& Formats(DataType a) {
    std::vector<LayerConfig>& formats = formats_[a.ToString()];
    if (formats.empty()) formats = FormatsOf(a, 1, 1);
    return formats;
  }

  std::mt19937_64 random_;
  std::map<std::string, std::vector<LayerConfig>> formats_;
};

const Nvrtc& SharedNvrtc() {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  return **nvrtc;
}

CompileResult Compile(const Draw& draw) {
  const RenderedKernel kernel =
      RenderUnchecked(draw.problem, draw.config, draw.device);
  CompileRequest request;
  request.source = kernel.source;
  request.arch = kernel.arch;
  auto result = SharedNvrtc().Compile(request);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : CompileResult();
}

// Codes of ptxas's advisories: C7508 is setmaxnreg ignored; C7510 to C7516,
// MMAs serialized.
std::set<std::string> Advisories(absl::string_view log) {
  std::set<std::string> codes;
  for (size_t at = log.find("(C"); at != log.npos;
       at = log.find("(C", at + 1)) {
    codes.insert(std::string(log.substr(at + 1, log.find(')', at) - at - 1)));
  }
  return codes;
}

int64_t RoundUp(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

// CTAs that fit an SM, by the compiled registers and what a launch asks for.
int64_t CtasThatFit(const Draw& draw, const CompileResult& compiled) {
  const int64_t arch = draw.device.sm_arch;
  const int64_t threads = draw.config.threads();
  const int64_t registers =
      RoundUp(std::max<int64_t>(compiled.resources.registers, 16), 8) * threads;
  const int64_t smem = PlanLaunch(draw.problem, draw.config, 1).smem_bytes +
                       compiled.resources.static_smem_bytes +
                       (arch >= 80 ? 1024 : 0);
  return std::min({kRegistersOfSm / registers, SmemOfSm(arch) / smem,
                   ThreadsOfSm(arch) / threads});
}

// Whether the copy engine can read every tensor map of the kernel.
absl::Status CheckTensorMaps(const Draw& draw) {
  for (const int64_t m : {1, 100, 5000}) {
    for (const TensorMap& map :
         PlanLaunch(draw.problem, draw.config, m).tensor_maps) {
      const absl::Status status = ValidateTensorMap(map);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// Bytes that a thread may spill: registers are estimated. Past the first bound
// only few configs may, since ptxas is free in how far it moves loads ahead.
constexpr int64_t kFewSpills = 256;
constexpr int64_t kMostSpills = 2048;

// A random kernel that `wanted` asks for, or nullopt when it is too rare.
std::optional<Draw> DrawWanted(Drawer& drawer,
                               const std::function<void(Draw&)>& draw_any,
                               const std::function<bool(const Draw&)>& wanted) {
  constexpr int kTries = 300000;
  for (int i = 0; i < kTries; ++i) {
    Draw draw;
    draw_any(draw);
    for (int j = 0; j < 200; ++j, ++i) {
      draw.config =
          drawer.AnyConfig(draw, draw.config.mma == MmaInstruction::kWgmma);
      if (wanted(draw)) return draw;
    }
  }
  return std::nullopt;
}

// A problem on one of `archs`; its config only names the engine.
void AnyKernel(Drawer& drawer, const std::vector<int64_t>& archs, bool wgmma,
               Draw& draw) {
  draw = drawer.AnyProblem(drawer.OneOf(archs));
  if (wgmma) draw.config.mma = MmaInstruction::kWgmma;
}

int64_t Compiles() { return FromEnvironment("HONE_TEST_COMPILES", 12); }
uint64_t Seed() {
  return static_cast<uint64_t>(FromEnvironment("HONE_TEST_SEED", 20261202));
}

TEST(SpaceCompileTest, LegalConfigsCompileAndFit) {
  Drawer drawer(Seed());
  RecordProperty("seed", static_cast<int>(Seed()));
  const int64_t count = Compiles() * 2 / 3;
  int64_t spilling = 0, serialized = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool wgmma = i % 2 == 0;
    const std::optional<Draw> draw = DrawWanted(
        drawer,
        [&](Draw& d) {
          if (wgmma) {
            AnyKernel(drawer, {90}, true, d);
          } else {
            AnyKernel(drawer, {75, 80, 89, 90, 120}, false, d);
          }
        },
        [](const Draw& d) {
          return !CheckConfig(d.problem, d.device, d.config);
        });
    ASSERT_TRUE(draw.has_value());
    SCOPED_TRACE(Describe(*draw));
    const CompileResult compiled = Compile(*draw);
    EXPECT_TRUE(compiled.ok()) << compiled.log;
    if (!compiled.ok()) continue;
    EXPECT_LE(PlanLaunch(draw->problem, draw->config, 1).smem_bytes,
              SmemOfCta(draw->device.sm_arch));
    EXPECT_EQ(compiled.resources.static_smem_bytes, 0);
    EXPECT_GE(CtasThatFit(*draw, compiled), draw->config.ctas_per_sm)
        << compiled.resources.registers << " registers";
    EXPECT_TRUE(CheckTensorMaps(*draw).ok()) << CheckTensorMaps(*draw);
    std::set<std::string> advisories = Advisories(compiled.log);
    // For want of registers, in a few of a hundred, often at one register count
    // and not below it: slow, as tuning finds out.
    serialized += static_cast<int64_t>(advisories.erase("C7512"));
    EXPECT_EQ(advisories, std::set<std::string>()) << compiled.log;
    const int64_t spills = compiled.resources.spill_store_bytes;
    EXPECT_LE(spills, kMostSpills);
    if (spills > kFewSpills) {
      ++spilling;
      printf("%s: spills %ld bytes\n", Describe(*draw).c_str(),
             static_cast<long>(spills));
    }
    const WarpgroupRegisters r = RegistersOf(draw->problem, draw->config);
    if (UsesWgmma(draw->config) && r.reassigned) {
      // setmaxnreg takes from what the launch allocates, and waits for ever for
      // more.
      EXPECT_LE(r.producer * 128 + r.math * draw->config.math_threads(),
                compiled.resources.registers * draw->config.threads());
    }
  }
  printf("%ld legal configs; %ld spill more than %ld bytes, %ld MMAs in turn\n",
         static_cast<long>(count), static_cast<long>(spilling),
         static_cast<long>(kFewSpills), static_cast<long>(serialized));
  EXPECT_LE(spilling, 1 + count / 40);
  EXPECT_LE(serialized, 1 + count / 20);
}

// A rule, how to draw what it refuses, and whether a refused config was rightly
// refused: why not, or empty.
struct Proof {
  absl::string_view rule;
  std::vector<int64_t> archs;
  bool wgmma;
  std::function<std::string(const Draw&, const CompileResult&)> wrong;
};

std::string MustNotCompile(const Draw&, const CompileResult& compiled) {
  return compiled.ok() ? "it compiles" : "";
}

std::string MustNotFit(const Draw& draw, const CompileResult& compiled) {
  if (!compiled.ok()) return "it does not compile: " + compiled.log;
  return CtasThatFit(draw, compiled) >= draw.config.ctas_per_sm ? "it fits"
                                                                : "";
}

// What ptxas does when registers are short.
std::string MustBeShort(const Draw&, const CompileResult& compiled) {
  const bool warned = !Advisories(compiled.log).empty();
  return compiled.ok() && !warned && compiled.resources.spill_store_bytes == 0
             ? "it compiles without spills"
             : "";
}

std::string MustHaveNoTensorMap(const Draw& draw, const CompileResult&) {
  return CheckTensorMaps(draw).ok() ? "tensor maps are valid" : "";
}

const std::vector<Proof>& Proofs() {
  static const auto* proofs = new std::vector<Proof>{
      {"device_has_wgmma", {80, 89, 120}, true, MustNotCompile},
      // cp.async on SM75.
      {"producers", {75}, false, MustNotCompile},
      // N of wgmma.
      {"warpgroup_tokens", {90}, true, MustNotCompile},
      {"mma_fits_launch_registers", {90}, true, MustBeShort},
      {"tensor_map_k", {90}, true, MustHaveNoTensorMap},
      {"smem_fits",
       {75, 80, 89, 90, 120},
       false,
       [](const Draw& draw, const CompileResult& compiled) -> std::string {
         // The kernel asserts that it uses as much.
         if (!compiled.ok()) return "it does not compile: " + compiled.log;
         const int64_t smem =
             PlanLaunch(draw.problem, draw.config, 1).smem_bytes;
         return smem > SmemOfCta(draw.device.sm_arch) ? "" : "it fits";
       }},
      {"smem_fits", {90}, true, MustNotFit},
      {"ctas_fit_sm", {75, 80, 89, 90, 120}, false, MustNotFit},
      {"ctas_fit_sm", {90}, true, MustNotFit},
      {"registers_fit", {75, 80, 89, 90, 120}, false, MustBeShort},
      {"registers_fit", {90}, true, MustBeShort},
  };
  return *proofs;
}

// Limits that ptxas does not see: threads of a block and CTAs of a cluster,
// which a launch has, and the scale of an MMA (group_of_a_step), which a kernel
// would get wrong. Broken alone too rarely to be drawn: tensor_box, which has a
// test of its own below.
// What the kernels are written for: mma_instruction, no_warp_specialization,
// warp_specialization, no_cluster, warp_n_fragments, warp_m_fragments,
// wgmma_operands, wgmma_accumulates_float32, warpgroup_channels, split_kind,
// block_n_units, warp_k_units, row_segments, group_tiles_block_k, stages,
// ldg_stages.
// What would be the same as another config, or add nothing: mmas_in_flight,
// warpgroups, split_has_steps. What the problem asks for: reduction_order.
const std::set<std::string>& Unproven() {
  static const auto* rules = new std::set<std::string>{
      "well_formed",
      "cluster",
      "tensor_box",
      "group_of_a_step",
      "mma_instruction",
      "no_warp_specialization",
      "warp_specialization",
      "no_cluster",
      "warp_n_fragments",
      "warp_m_fragments",
      "wgmma_operands",
      "wgmma_accumulates_float32",
      "warpgroup_channels",
      "split_kind",
      "block_n_units",
      "warp_k_units",
      "row_segments",
      "group_tiles_block_k",
      "stages",
      "ldg_stages",
      "mmas_in_flight",
      "warpgroups",
      "split_has_steps",
      "reduction_order",
  };
  return *rules;
}

// Whether a config breaks this rule, and none that the rule does not imply.
bool BreaksOnly(const Draw& draw, absl::string_view rule) {
  const auto first = CheckConfig(draw.problem, draw.device, draw.config);
  if (!first.has_value() || first->rule != rule) return false;
  const std::vector<Refusal> all =
      AllRefusals(draw.problem, draw.device, draw.config);
  return all.size() == 1 || (all.size() == 2 && rule == "smem_fits" &&
                             all.back().rule == "ctas_fit_sm");
}

TEST(SpaceCompileTest, WhatIsRefusedDoesNotCompileOrFit) {
  Drawer drawer(Seed() + 1);
  RecordProperty("seed", static_cast<int>(Seed()));
  const std::vector<Proof>& proofs = Proofs();
  const int64_t count = Compiles() / 3;
  // Refusals by an estimate, and how many of them were unnecessary.
  int64_t estimated = 0, unnecessary = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Proof& proof =
        proofs[(Seed() + static_cast<uint64_t>(i)) % proofs.size()];
    SCOPED_TRACE(proof.rule);
    const std::optional<Draw> draw = DrawWanted(
        drawer,
        [&](Draw& d) { AnyKernel(drawer, proof.archs, proof.wgmma, d); },
        [&](const Draw& d) {
          if (proof.rule != "producers") return BreaksOnly(d, proof.rule);
          Draw newer = d;
          newer.config.producer_a = newer.config.producer_b =
              newer.config.producer_scale = Producer::kCpAsync;
          return BreaksOnly(newer, proof.rule);
        });
    ASSERT_TRUE(draw.has_value()) << "nothing found that breaks it alone";
    Draw refused = *draw;
    if (proof.rule == "producers") {
      refused.config.producer_a = refused.config.producer_b =
          refused.config.producer_scale = Producer::kCpAsync;
    }
    SCOPED_TRACE(Describe(refused));
    const CompileResult compiled = Compile(refused);
    const std::string wrong = proof.wrong(refused, compiled);
    if (proof.rule == "registers_fit") {
      ++estimated;
      if (wrong.empty()) continue;
      ++unnecessary;
      printf(
          "%s: %ld registers estimated, %d used\n", Describe(refused).c_str(),
          static_cast<long>(EstimateRegisters(refused.problem, refused.config)),
          compiled.resources.registers);
    } else {
      EXPECT_EQ(wrong, "");
    }
  }
  printf(
      "%ld refused configs; %ld by their estimated registers, %ld of those "
      "unnecessarily\n",
      static_cast<long>(count), static_cast<long>(estimated),
      static_cast<long>(unnecessary));
  EXPECT_LE(unnecessary, 1 + estimated / 7);
}

TEST(SpaceCompileTest, TheCopyEngineRefusesTallBoxes) {
  Draw draw;
  draw.device = DeviceOf(90);
  draw.problem = *Problem::Parse(
      "a=float8e4m3,a_scale=token,b=float8e4m3,b_scale_type=float32,k=8192,"
      "n=8192;");
  TuningConfig& c = draw.config;
  c.mma = MmaInstruction::kWgmma;
  c.warp_specialized = true;
  c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
  c.block_m = 384;
  c.warp_m = 32;
  c.block_n = c.warp_n = 64;
  c.block_k = c.warp_k = 128;
  c.stages = 2;
  c.mmas_in_flight = 1;
  EXPECT_TRUE(BreaksOnly(draw, "tensor_box"));
  EXPECT_FALSE(CheckTensorMaps(draw).ok());
  c.cluster_n = 2;
  EXPECT_FALSE(CheckConfig(draw.problem, draw.device, c).has_value());
  EXPECT_TRUE(CheckTensorMaps(draw).ok()) << CheckTensorMaps(draw);
}

// A new rule must be added to one of the two lists.
TEST(SpaceCompileTest, EveryRuleIsListed) {
  Drawer drawer(Seed() + 2);
  std::set<std::string> proven;
  for (const Proof& proof : Proofs()) proven.insert(std::string(proof.rule));
  for (int i = 0; i < 400; ++i) {
    Draw draw;
    AnyKernel(drawer, {75, 80, 89, 90, 120}, i % 2 == 0, draw);
    for (int j = 0; j < 10; ++j) {
      draw.config =
          drawer.AnyConfig(draw, draw.config.mma == MmaInstruction::kWgmma);
      for (const Refusal& refusal :
           AllRefusals(draw.problem, draw.device, draw.config)) {
        EXPECT_TRUE(proven.count(refusal.rule) + Unproven().count(refusal.rule))
            << refusal.rule << ": " << refusal.reason;
      }
    }
  }
}

}  // namespace
}  // namespace hone
