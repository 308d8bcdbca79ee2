#include "kernels/space/space.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/config/status_macros.h"
#include "kernels/config/weight_layout.h"
#include "kernels/space/reduction_order.h"

namespace hone {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

absl::Status NoKernel(absl::string_view field, absl::string_view value,
                      absl::string_view has) {
  return absl::UnimplementedError(absl::StrCat(
      "no kernel for ", field, " = ", value, "; there are kernels for ", has));
}

// Registers that a thread of this config may use before ptxas must spill.
int64_t RegisterLimit(const DeviceSpec& device, const TuningConfig& config) {
  const int64_t per_cta = device.registers_per_sm / config.ctas_per_sm;
  // Allocated per warp in units of 256.
  const int64_t per_thread = per_cta / config.threads() / 8 * 8;
  return std::min<int64_t>(255, per_thread);
}

// Whether the CTAs of a cluster that share activations each bring some of a
// k-step's segments of 128 bytes, of all rows; otherwise some of the rows.
bool SharesSegments(const Problem& problem, const TuningConfig& config) {
  const int64_t segment = 1024 / problem.layer.a.bits();
  return problem.layer.k % segment == 0 &&
         config.block_k / segment % config.cluster_n == 0;
}

struct Arguments {
  const Problem& problem;
  const DeviceSpec& device;
  const TuningConfig& config;
};

struct Rule {
  absl::string_view name;
  // A sentence on why the rule is broken, or empty.
  std::function<std::string(const Arguments&)> broken;
};

std::string MustBe(absl::string_view field, int64_t value,
                   absl::string_view legal) {
  return absl::StrCat("tuning.", field, " is ", value, "; it must be ", legal);
}

// The rules come in lists, which are reported one after the other: those of
// both engines that the others rely on, the engine's own, and the rest of those
// of both.
const std::vector<Rule>& FirstRules() {
  static const auto* rules = new std::vector<Rule>{
      {"well_formed",
       [](const Arguments& a) {
         const absl::Status status = a.config.Validate();
         return status.ok() ? "" : std::string(status.message());
       }},
      {"mma_instruction",
       [](const Arguments& a) {
         return a.config.mma != MmaInstruction::kTcgen05
                    ? std::string()
                    : absl::StrCat("tuning.mma is ", ToString(a.config.mma),
                                   "; there are kernels for mma_sync and "
                                   "wgmma");
       }},
      {"reduction_order",
       [](const Arguments& a) {
         return a.problem.compute.batch_invariant
                    ? BreaksInvariance(a.problem, a.device, a.config)
                    : std::string();
       }},
  };
  return *rules;
}

const std::vector<Rule>& MmaSyncRules() {
  static const auto* rules = new std::vector<Rule>{
      {"producers",
       [](const Arguments& a) -> std::string {
         const bool old = a.device.sm_arch < 80;
         for (const Producer p : {a.config.producer_a, a.config.producer_b,
                                  a.config.producer_scale}) {
           if (p == Producer::kTma || (old && p != Producer::kLdg)) {
             return absl::StrCat("tuning.producer_* is ", ToString(p),
                                 "; the mma_sync engine loads with ",
                                 old ? "ldg on SM75" : "cp_async or ldg");
           }
           if (p != a.config.producer_a) {
             return "tuning.producer_a, producer_b and producer_scale must be "
                    "the same for mma_sync";
           }
         }
         return "";
       }},
      {"no_warp_specialization",
       [](const Arguments& a) -> std::string {
         return a.config.warp_specialized
                    ? "tuning.warp_specialized is 1; it needs producer tma"
                    : "";
       }},
      {"mmas_in_flight",
       [](const Arguments& a) -> std::string {
         return a.config.mmas_in_flight == 1
                    ? ""
                    : MustBe("mmas_in_flight", a.config.mmas_in_flight,
                             "1 for mma_sync");
       }},
      {"no_cluster",
       [](const Arguments& a) -> std::string {
         return a.config.cluster_m * a.config.cluster_n == 1
                    ? ""
                    : "tuning.cluster_m and cluster_n must be 1 for mma_sync";
       }},
      {"warp_n_fragments",
       [](const Arguments& a) -> std::string {
         return a.config.warp_n % 16 == 0 && a.config.warp_n <= 64
                    ? ""
                    : MustBe("warp_n", a.config.warp_n,
                             "a multiple of 16, at most 64");
       }},
      {"warp_m_fragments",
       [](const Arguments& a) -> std::string {
         return a.config.warp_m % 8 == 0 && a.config.warp_m <= 128
                    ? ""
                    : MustBe("warp_m", a.config.warp_m,
                             "a multiple of 8, at most 128");
       }},
  };
  return *rules;
}

const std::vector<Rule>& WgmmaRules() {
  static const auto* rules = new std::vector<Rule>{
      {"device_has_wgmma",
       [](const Arguments& a) -> std::string {
         return a.device.sm_arch == 90
                    ? ""
                    : absl::StrCat("tuning.mma is wgmma; device.sm_arch is ",
                                   a.device.sm_arch, ", and only 90 has it");
       }},
      {"wgmma_operands",
       [](const Arguments& a) -> std::string {
         return a.problem.layer.a.bits() >= 8
                    ? ""
                    : absl::StrCat("tuning.mma is wgmma; layer.a is ",
                                   a.problem.layer.a.ToString(),
                                   ", and there are kernels for 16 and 8 bits");
       }},
      {"wgmma_accumulates_float32",
       [](const Arguments& a) -> std::string {
         return a.problem.compute.accumulator == kFloat32
                    ? ""
                    : "tuning.mma is wgmma; there are kernels for "
                      "compute.accumulator float32";
       }},
      {"tensor_map_k",
       [](const Arguments& a) -> std::string {
         const int64_t columns = 128 / a.problem.layer.a.bits();
         return a.problem.layer.k % columns == 0
                    ? ""
                    : absl::StrCat("tuning.mma is wgmma; layer.k is ",
                                   a.problem.layer.k,
                                   ", and rows that the copy engine reads are "
                                   "multiples of 16 bytes: layer.k must be a "
                                   "multiple of ",
                                   columns);
       }},
      {"group_of_a_step",
       [](const Arguments& a) -> std::string {
         const int64_t columns = layout::StepColumns(a.problem.layer.a.bits());
         for (const int64_t g : {WeightLayoutOf(a.problem.layer).group,
                                 a.problem.layer.a_group}) {
           if (g != 0 && g < columns) {
             return absl::StrCat("tuning.mma is wgmma; a scale group has ", g,
                                 " columns, and with layer.a ",
                                 a.problem.layer.a.ToString(),
                                 " an MMA adds up ", columns);
           }
         }
         return "";
       }},
      {"producers",
       [](const Arguments& a) -> std::string {
         for (const Producer p : {a.config.producer_a, a.config.producer_b,
                                  a.config.producer_scale}) {
           if (p != Producer::kTma) {
             return absl::StrCat("tuning.producer_* is ", ToString(p),
                                 "; the wgmma engine loads with tma");
           }
         }
         return "";
       }},
      {"warp_specialization",
       [](const Arguments& a) -> std::string {
         return a.config.warp_specialized
                    ? ""
                    : "tuning.warp_specialized is 0; it must be 1 for wgmma";
       }},
      {"warpgroup_tokens",
       [](const Arguments& a) -> std::string {
         if (TokenRows(a.config)) {
           if (a.config.warp_m != 16 && a.config.warp_m != 32) {
             return MustBe("warp_m", a.config.warp_m,
                           "16 or 32 for wgmma where warp_n is block_n");
           }
           return a.config.warps_m() % 4 == 0
                      ? ""
                      : MustBe("block_m", a.config.block_m,
                               absl::StrCat("a multiple of the warpgroup's ",
                                            a.config.warp_m * 4, " tokens"));
         }
         if (!WgmmaColumns(a.problem.layer.a, a.config.block_m)) {
           return MustBe("block_m", a.config.block_m,
                         a.problem.layer.a.is_integer()
                             ? "8, 24 or a multiple of 16, at most 256, for "
                               "wgmma of integers"
                             : "a multiple of 8, at most 256, for wgmma");
         }
         return a.config.warp_m == a.config.block_m
                    ? ""
                    : MustBe("warp_m", a.config.warp_m,
                             absl::StrCat("block_m, ", a.config.block_m,
                                          ", for wgmma"));
       }},
      {"warpgroup_channels",
       [](const Arguments& a) -> std::string {
         const WeightLayout w = WeightLayoutOf(a.problem.layer);
         if (TokenRows(a.config)) {
           if (!w.direct()) {
             return MustBe("warp_n", a.config.warp_n,
                           "16 or 32 for wgmma of packed weights");
           }
           if (w.group != 0 && !w.block) {
             return MustBe("warp_n", a.config.warp_n,
                           "16 or 32 for wgmma where each channel of B has "
                           "scales of its groups");
           }
           return a.config.block_n % 64 == 0 && a.config.block_n <= 256
                      ? ""
                      : MustBe("block_n", a.config.block_n,
                               "a multiple of 64, at most 256, for wgmma where "
                               "warp_n is block_n");
         }
         if (a.config.warp_n != 16 && a.config.warp_n != 32) {
           return MustBe("warp_n", a.config.warp_n,
                         w.direct() ? "16 or 32, or block_n, for wgmma"
                                    : "16 or 32 for wgmma of packed weights");
         }
         return a.config.warps_n() % 4 == 0
                    ? ""
                    : MustBe("block_n", a.config.block_n,
                             absl::StrCat("a multiple of the warpgroup's ",
                                          a.config.warp_n * 4, " channels"));
       }},
      {"warpgroups",
       [](const Arguments& a) -> std::string {
         const int64_t warpgroups = a.config.math_threads() / 128;
         return warpgroups <= 4
                    ? ""
                    : absl::StrCat("tuning.block_* and warp_* make ",
                                   warpgroups,
                                   " warpgroups; there may be at most 4");
       }},
      {"mmas_in_flight",
       [](const Arguments& a) -> std::string {
         const int64_t groups = MmaGroups(a.problem, a.config);
         return a.config.mmas_in_flight <= groups
                    ? ""
                    : MustBe("mmas_in_flight", a.config.mmas_in_flight,
                             absl::StrCat("at most the ", groups,
                                          " groups of MMAs that can fly"));
       }},
      {"mma_fits_launch_registers",
       [](const Arguments& a) -> std::string {
         // ptxas compiles each instruction for the registers at launch,
         // whatever setmaxnreg adds (C7602): accumulators and about 30 more.
         const int64_t launch = RegistersOf(a.problem, a.config).launch;
         const int64_t columns = WgmmaColumnsOf(a.config);
         const int64_t need = columns / 2 + 32;
         return need <= launch
                    ? ""
                    : MustBe(TokenRows(a.config) ? "block_n" : "block_m",
                             columns,
                             absl::StrCat("so small that a wgmma's ", need,
                                          " registers fit the ", launch,
                                          " that a thread starts with"));
       }},
      {"tensor_box",
       [](const Arguments& a) -> std::string {
         // A box of a tensor map has at most 256 elements a side (CUDA driver
         // API, cuTensorMapEncodeTiled).
         const int64_t sharers =
             SharesSegments(a.problem, a.config) ? 1 : a.config.cluster_n;
         return a.config.block_m <= 256 * sharers
                    ? ""
                    : MustBe("block_m", a.config.block_m,
                             "at most 256, or 256 of each CTA that shares a "
                             "k-step's rows");
       }},
      {"cluster",
       [](const Arguments& a) -> std::string {
         const int64_t m = a.config.cluster_m, n = a.config.cluster_n;
         if (m * n > 8 || (m & (m - 1)) != 0 || (n & (n - 1)) != 0) {
           return absl::StrCat("tuning.cluster_m and cluster_n are ", m,
                               " and ", n,
                               "; they must be powers of two and make at most "
                               "8 CTAs");
         }
         const int64_t segment = 1024 / a.problem.layer.a.bits();
         const int64_t segments = a.config.block_k / segment;
         if (!SharesSegments(a.problem, a.config) &&
             a.config.block_m % (8 * n) != 0) {
           return MustBe(
               "cluster_n", n,
               absl::StrCat("a divisor of the ", segments, " times ", segment,
                            " columns of a k-step, or of "
                            "the ",
                            a.config.block_m / 8,
                            " times 8 tokens of the tile"));
         }
         if (m == 1) return "";
         const int64_t rows = a.config.block_n / 64;
         return rows % m == 0
                    ? ""
                    : MustBe("cluster_m", m,
                             absl::StrCat("a divisor of the ", rows,
                                          " times 64 channels of the tile"));
       }},
  };
  return *rules;
}

const std::vector<Rule>& LastRules() {
  static const auto* rules = new std::vector<Rule>{
      {"split_kind",
       [](const Arguments& a) -> std::string {
         return a.config.split == Split::kStreamK && !UsesWgmma(a.config)
                    ? "tuning.split is stream_k; mma_sync has data_parallel "
                      "and split_k"
                    : "";
       }},
      {"block_n_units",
       [](const Arguments& a) -> std::string {
         return a.config.block_n % 64 == 0
                    ? ""
                    : MustBe("block_n", a.config.block_n, "a multiple of 64");
       }},
      {"warp_k_units",
       [](const Arguments& a) -> std::string {
         return a.config.warp_k % 64 == 0
                    ? ""
                    : MustBe("warp_k", a.config.warp_k, "a multiple of 64");
       }},
      {"stages",
       [](const Arguments& a) -> std::string {
         return a.config.stages >= 2
                    ? ""
                    : MustBe("stages", a.config.stages, "at least 2");
       }},
      {"ldg_stages",
       [](const Arguments& a) -> std::string {
         return a.config.producer_b != Producer::kLdg || a.config.stages == 2
                    ? ""
                    : MustBe("stages", a.config.stages,
                             "2 where producers are ldg");
       }},
      {"row_segments",
       [](const Arguments& a) -> std::string {
         const int64_t segment = 1024 / a.problem.layer.a.bits();
         const int64_t columns = LoadColumns(a.config);
         if (columns % segment == 0) return "";
         return MustBe(columns == a.config.block_k ? "block_k" : "warp_k",
                       columns,
                       absl::StrCat("a multiple of ", segment,
                                    ", 128 bytes of activations"));
       }},
      {"group_tiles_block_k",
       [](const Arguments& a) -> std::string {
         const int64_t columns = LoadColumns(a.config);
         for (const int64_t g : {WeightLayoutOf(a.problem.layer).group,
                                 a.problem.layer.a_group}) {
           const std::string legal =
               absl::StrCat("a multiple or a divisor of the scale group, ", g);
           // A warp along K scales groups of its own.
           const int64_t warp_k = a.config.warp_k;
           if (g != 0 && warp_k % g != 0 && g % warp_k != 0) {
             return MustBe("warp_k", warp_k, legal);
           }
           if (g != 0 && columns % g != 0 && g % columns != 0) {
             return MustBe("block_k", columns, legal);
           }
         }
         return "";
       }},
      {"split_has_steps",
       [](const Arguments& a) -> std::string {
         int64_t steps = CeilDiv(a.problem.layer.k, a.config.block_k);
         if (a.config.workers() > 0) {
           // Of all tiles, at the fewest tokens.
           steps *= CeilDiv(a.problem.layer.n,
                            a.config.block_n * a.config.cluster_n);
           return a.config.split_k <= steps
                      ? ""
                      : MustBe("split_k", a.config.split_k,
                               absl::StrCat("at most the ", steps,
                                            " steps of block_k in all tiles"));
         }
         return a.config.split_k <= steps
                    ? ""
                    : MustBe("split_k", a.config.split_k,
                             absl::StrCat("at most the ", steps,
                                          " steps of block_k in layer.k"));
       }},
      {"smem_fits",
       [](const Arguments& a) -> std::string {
         const int64_t bytes = SmemBytes(a.problem, a.config);
         return bytes <= a.device.smem_optin_bytes
                    ? ""
                    : absl::StrCat("the tile and its ", a.config.stages,
                                   " stages need ", bytes,
                                   " bytes of shared memory; a block has ",
                                   a.device.smem_optin_bytes);
       }},
      {"ctas_fit_sm",
       [](const Arguments& a) -> std::string {
         // From SM80 on each CTA also takes 1 KB that the driver reserves.
         const int64_t reserved = a.device.sm_arch >= 80 ? 1024 : 0;
         const int64_t smem =
             (SmemBytes(a.problem, a.config) + reserved) * a.config.ctas_per_sm;
         if (smem > a.device.smem_per_sm_bytes) {
           return MustBe("ctas_per_sm", a.config.ctas_per_sm,
                         absl::StrCat("small enough that its CTAs' ", smem,
                                      " bytes of shared memory fit the SM's ",
                                      a.device.smem_per_sm_bytes));
         }
         const int64_t threads = a.config.threads() * a.config.ctas_per_sm;
         return threads <= a.device.max_threads_per_sm
                    ? ""
                    : MustBe("ctas_per_sm", a.config.ctas_per_sm,
                             absl::StrCat("small enough that its ", threads,
                                          " threads fit the SM's ",
                                          a.device.max_threads_per_sm));
       }},
      {"registers_fit",
       [](const Arguments& a) -> std::string {
         int64_t need = EstimateRegisters(a.problem, a.config);
         // mma.sync of SM90 has no 8-bit floats: ptxas converts the operands of
         // several MMAs at a time.
         if (!UsesWgmma(a.config) && a.device.sm_arch == 90 &&
             a.problem.layer.a.bits() == 8 && !a.problem.layer.a.is_integer()) {
           need += 32;
         }
         const int64_t limit =
             UsesWgmma(a.config)
                 ? std::max(RegistersOf(a.problem, a.config).launch,
                            RegistersOf(a.problem, a.config).math)
                 : RegisterLimit(a.device, a.config);
         return need <= limit
                    ? ""
                    : absl::StrCat("a warp tile of ", a.config.warp_n, " x ",
                                   a.config.warp_m, " needs about ", need,
                                   " registers a thread; ", limit,
                                   " are there at ", a.config.threads(),
                                   " threads and ", a.config.ctas_per_sm,
                                   " CTAs per SM");
       }},
  };
  return *rules;
}

// Every rule for the config, in the order in which they are reported. Those
// after the first list divide by what a malformed config may have at zero.
std::vector<const std::vector<Rule>*> RulesOf(const TuningConfig& config) {
  return {&FirstRules(), UsesWgmma(config) ? &WgmmaRules() : &MmaSyncRules(),
          &LastRules()};
}

}  // namespace

namespace {

std::string ActivationsOf(const DeviceSpec& device) {
  std::vector<std::string> names;
  for (const DataType a : {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2, kInt8,
                           kInt4, kFloat4e2m1}) {
    if (HasActivation(a, device)) names.push_back(a.ToString());
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

namespace {

// The activation type above, if there is one.
std::optional<DataType> NextActivation(DataType a) {
  if (a == kFloat4e2m1) return kFloat8e4m3;
  if (a == kInt4) return kInt8;
  if (a == kFloat16) return std::nullopt;
  return kFloat16;
}

}  // namespace

absl::StatusOr<Fallback> NextComputable(const Problem& problem,
                                        const DeviceSpec& device) {
  Fallback fallback{problem, ""};
  LayerConfig& layer = fallback.problem.layer;
  while (!HasActivation(layer.a, device)) {
    const std::optional<DataType> next = NextActivation(layer.a);
    if (!next) return CheckProblem(fallback.problem, device);
    layer.a = *next;
    if (next->bits() == 16) {
      layer.a_scale = InputScale::kNone;
      layer.a_group = 0;
    }
    fallback.note = absl::StrCat(
        "layer.a=", next->ToString(), ",a_scale=", ToString(layer.a_scale),
        " instead of layer.a=", problem.layer.a.ToString());
  }
  if (!fallback.note.empty()) {
    HONE_RETURN_IF_ERROR(CheckProblem(fallback.problem, device));
  }
  return fallback;
}

bool HasActivation(DataType a, const DeviceSpec& device) {
  if (a == kFloat8e4m3 || a == kFloat8e5m2) return device.sm_arch >= 89;
  if (a == kFloat4e2m1) return device.sm_arch / 10 == 12;
  return device.sm_arch >= (a == kBfloat16 ? 80 : 75);
}

absl::Status CheckProblem(const Problem& problem, const DeviceSpec& device) {
  HONE_RETURN_IF_ERROR(problem.Validate());
  const LayerConfig& layer = problem.layer;
  const ComputeConfig& compute = problem.compute;
  if (device.sm_arch < 75) {
    return NoKernel("device.sm_arch", absl::StrCat(device.sm_arch),
                    "75 and up");
  }
  if (!HasActivation(layer.a, device)) {
    std::string has = ActivationsOf(device);
    const auto fallback = NextComputable(problem, device);
    if (fallback.ok()) absl::StrAppend(&has, "; next: ", fallback->note);
    return NoKernel("layer.a",
                    absl::StrCat(layer.a.ToString(), " on SM", device.sm_arch),
                    has);
  }
  if (compute.gemm != GemmType::kDense) {
    return NoKernel("compute.gemm", ToString(compute.gemm), "dense");
  }
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  if (layer.a_scale != InputScale::kNone && layer.a.bits() == 16) {
    return NoKernel("layer.a_scale", ToString(layer.a_scale),
                    "none with 16-bit activations");
  }
  if (layer.k * layer.a.bits() % 8 != 0) {
    return NoKernel("layer.k", absl::StrCat(layer.k),
                    "even numbers of columns with 4-bit activations");
  }
  // Half an MMA step.
  const int64_t least_group = 128 / layer.a.bits();
  if (layer.a_group != 0 && layer.a_group < least_group) {
    return NoKernel("layer.a_group", absl::StrCat(layer.a_group),
                    absl::StrCat("groups of at least ", least_group,
                                 " columns with layer.a ", layer.a.ToString()));
  }
  // The largest products, 255 · 128, of so many columns fit 31 bits.
  constexpr int64_t kMostInt32 = 65536;
  if (layer.a.is_integer() && layer.k > kMostInt32 && layer.a_group == 0 &&
      WeightLayoutOf(layer).group == 0) {
    return NoKernel(
        "layer.k", absl::StrCat(layer.k),
        absl::StrCat("at most ", kMostInt32, " columns per scale with layer.a ",
                     layer.a.ToString(), ", whose sums are 32-bit integers"));
  }
  if (compute.accumulator == kFloat16 && layer.a != kFloat16) {
    return NoKernel("compute.accumulator", "float16",
                    absl::StrCat("float32 with layer.a ", layer.a.ToString()));
  }
  return absl::OkStatus();
}

std::optional<Refusal> CheckConfig(const Problem& problem,
                                   const DeviceSpec& device,
                                   const TuningConfig& config) {
  const Arguments arguments{problem, device, config};
  for (const std::vector<Rule>* rules : RulesOf(config)) {
    for (const Rule& rule : *rules) {
      std::string reason = rule.broken(arguments);
      if (!reason.empty()) return Refusal{std::string(rule.name), reason};
    }
  }
  return std::nullopt;
}

std::vector<Refusal> AllRefusals(const Problem& problem,
                                 const DeviceSpec& device,
                                 const TuningConfig& config) {
  const Arguments arguments{problem, device, config};
  std::vector<Refusal> refusals;
  for (const std::vector<Rule>* rules : RulesOf(config)) {
    for (const Rule& rule : *rules) {
      std::string reason = rule.broken(arguments);
      if (reason.empty()) continue;
      refusals.push_back({std::string(rule.name), reason});
      // The other rules divide by what a malformed config may have at zero.
      if (rule.name == "well_formed") return refusals;
    }
  }
  return refusals;
}

}  // namespace hone
