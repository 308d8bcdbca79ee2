// Every way to split a problem gives the same bits each time: 200 runs of a
// kernel at ragged shapes, two at a time on streams of their own, so that they
// find the SMs busy in other ways. The workspace is zeroed before the first run
// only: each leaves it as the next one needs it.
//
// A new kind of split is a line of Cases().
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/codegen/codegen.h"
#include "kernels/space/space.h"
#include "tests/gpu/gpu_fixture.h"
#include "tuner/measure/operands.h"

namespace hone {
namespace {

constexpr int kRuns = 200;

struct Case {
  const char* name;
  std::string layer;
  std::string config;
  std::vector<int64_t> ms;
};

// Keys of a config that all of the engine's have.
std::string Wgmma(const std::string& rest) {
  return "mma=wgmma,producer_a=tma,producer_b=tma,producer_scale=tma,"
         "warp_specialized=1," +
         rest;
}

std::vector<Case> Cases() {
  const std::string w4a16 =
      "a=float16,b=int4,b_group=128,b_scale=group,bias=1,c=float16,";
  const std::string w4a8 =
      "a=float8e4m3,a_scale=token,b=int4,b_group=128,b_scale=group,bias=1,";
  const std::string blockwise =
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32,";
  const std::string int8 = "a=int8,a_scale=token,b=int8,b_scale=channel,";
  return {
      {"mma_sync_split_workspace",
       w4a16 + "k=2100,n=1000",
       "block_m=16,block_n=64,block_k=128,warp_m=16,warp_n=64,warp_k=64,"
       "stages=3,split=split_k,split_k=5",
       {1, 13, 37}},
      {"mma_sync_warps_along_k",
       w4a16 + "k=2100,n=1000",
       "block_m=8,block_n=64,block_k=512,warp_m=8,warp_n=64,warp_k=64,stages=2",
       {5}},
      {"wgmma_split_workspace",
       w4a16 + "k=2104,n=1000",
       Wgmma("block_m=16,block_n=128,block_k=128,warp_m=16,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2,split=split_k,split_k=3"),
       {1, 13, 37}},
      {"wgmma_split_cluster",
       w4a16 + "k=2104,n=1000",
       Wgmma("block_m=64,block_n=128,block_k=128,warp_m=64,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2,split=split_k,split_k=4"),
       {45, 130}},
      {"wgmma_split_cluster_shared",
       w4a8 + "k=2064,n=1500",
       Wgmma("block_m=32,block_n=128,block_k=256,warp_m=32,warp_n=16,"
             "warp_k=256,stages=2,mmas_in_flight=2,cluster_n=2,split=split_k,"
             "split_k=2"),
       {19, 77}},
      {"wgmma_stream_k",
       w4a16 + "k=2104,n=1000",
       Wgmma("block_m=16,block_n=128,block_k=128,warp_m=16,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2,split=stream_k,split_k=101"),
       {1, 13, 37}},
      {"wgmma_stream_k_warps_along_k",
       w4a16 + "k=4136,n=1000",
       Wgmma("block_m=16,block_n=64,block_k=256,warp_m=16,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2,split=stream_k,split_k=132"),
       {5, 100}},
      {"wgmma_stream_k_cluster",
       blockwise + "k=1296,n=3000",
       Wgmma("block_m=64,block_n=128,block_k=128,warp_m=16,warp_n=128,"
             "warp_k=128,stages=3,mmas_in_flight=1,cluster_n=2,split=stream_k,"
             "split_k=66"),
       {130, 1000}},
      {"wgmma_data_parallel_cluster",
       w4a16 + "k=1544,n=3000",
       Wgmma("block_m=64,block_n=128,block_k=128,warp_m=64,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2,cluster_m=2,cluster_n=2"),
       {190, 777}},
      {"wgmma_streamed_tiles",
       w4a8 + "k=1040,n=4100",
       Wgmma("block_m=128,block_n=128,block_k=128,warp_m=128,warp_n=16,"
             "warp_k=128,stages=3,mmas_in_flight=2"),
       {1000, 2500}},
      {"wgmma_streamed_scales_of_a",
       blockwise + "k=1296,n=3000",
       Wgmma("block_m=64,block_n=128,block_k=128,warp_m=16,warp_n=128,"
             "warp_k=128,stages=3,mmas_in_flight=1,cluster_n=2"),
       {130, 2500}},
      {"wgmma_split_tokens_in_rows",
       int8 + "k=2064,n=1500",
       Wgmma("block_m=64,block_n=192,block_k=128,warp_m=16,warp_n=192,"
             "warp_k=128,stages=3,mmas_in_flight=2,split=split_k,split_k=4"),
       {60, 200}},
  };
}

// Where two outputs differ: the block of rows and columns that holds all
// places, how many they are, and the first one's codes.
std::string Difference(const std::vector<uint16_t>& c,
                       const std::vector<uint16_t>& expected, int64_t n) {
  int64_t count = 0, first = 0;
  int64_t rows[2] = {INT64_MAX, 0}, columns[2] = {INT64_MAX, 0};
  for (int64_t i = 0; i < static_cast<int64_t>(c.size()); ++i) {
    if (c[i] == expected[i]) continue;
    if (count++ == 0) first = i;
    rows[0] = std::min(rows[0], i / n);
    rows[1] = std::max(rows[1], i / n);
    columns[0] = std::min(columns[0], i % n);
    columns[1] = std::max(columns[1], i % n);
  }
  return absl::StrFormat(
      "%d values differ, in rows %d to %d and columns %d to %d; the first at "
      "[%d][%d] is %#x instead of %#x",
      count, rows[0], rows[1], columns[0], columns[1], first / n, first % n,
      c[first], expected[first]);
}

class RepeatGpuTest : public GpuTest,
                      public testing::WithParamInterface<size_t> {
 protected:
  // What one of the runs in flight writes to, and its stream.
  struct Slot {
    Stream stream;
    DeviceBuffer c;
    DeviceBuffer workspace;
  };

  absl::StatusOr<Slot> MakeSlot(const LaunchPlan& plan, uint64_t c_bytes) {
    Slot slot;
    HONE_ASSIGN_OR_RETURN(slot.stream, Stream::Create());
    HONE_ASSIGN_OR_RETURN(slot.c, DeviceBuffer::Allocate(c_bytes));
    HONE_ASSIGN_OR_RETURN(slot.workspace,
                          DeviceBuffer::Allocate(plan.workspace_bytes + 1));
    HONE_RETURN_IF_ERROR(Fill(slot.workspace.ptr(), 0xff,
                              slot.workspace.bytes(), slot.stream.handle()));
    HONE_RETURN_IF_ERROR(Fill(slot.workspace.ptr(), 0,
                              plan.workspace_zeroed_bytes,
                              slot.stream.handle()));
    return slot;
  }

  absl::Status Start(const Slot& slot, FunctionHandle function,
                     const LaunchPlan& plan, const Operands& operands,
                     DevicePtr a_scales) {
    HONE_RETURN_IF_ERROR(
        Fill(slot.c.ptr(), 0xff, slot.c.bytes(), slot.stream.handle()));
    BufferBindings buffers;
    buffers.Bind(BufferRole::kA, operands.a())
        .Bind(BufferRole::kB, operands.b())
        .Bind(BufferRole::kBScale, operands.scales())
        .Bind(BufferRole::kBias, operands.bias())
        .Bind(BufferRole::kC, slot.c.ptr())
        .Bind(BufferRole::kWorkspace, slot.workspace.ptr());
    if (a_scales != 0) buffers.Bind(BufferRole::kAScale, a_scales);
    return Launch(function, plan, buffers, slot.stream.handle());
  }

  void RunAtM(const Problem& problem, const TuningConfig& config,
              const Module& module, int64_t m) {
    const LaunchPlan plan = PlanLaunch(problem, config, m, device_.sm_count);
    const auto function = module.Function(plan.kernel_name, plan.smem_bytes);
    ASSERT_TRUE(function.ok()) << function.status();
    auto operands = Operands::Create(helpers_, problem, m, 5, stream_.handle());
    ASSERT_TRUE(operands.ok()) << operands.status();
    DevicePtr a_scales = 0;
    if (problem.layer.a_scale != InputScale::kNone) {
      const auto scales = operands->AScales(m, stream_.handle());
      ASSERT_TRUE(scales.ok()) << scales.status();
      a_scales = *scales;
    }
    ASSERT_TRUE(Synchronize(stream_.handle()).ok());
    const auto count = static_cast<size_t>(m * problem.layer.n);
    std::vector<Slot> slots;
    for (int i = 0; i < 2; ++i) {
      auto slot = MakeSlot(plan, count * 2);
      ASSERT_TRUE(slot.ok()) << slot.status();
      slots.push_back(*std::move(slot));
    }
    std::vector<uint16_t> first;
    for (int run = 0; run < kRuns; run += 2) {
      for (const Slot& slot : slots) {
        const absl::Status started =
            Start(slot, *function, plan, *operands, a_scales);
        ASSERT_TRUE(started.ok()) << started;
      }
      for (const Slot& slot : slots) {
        const absl::Status done = Synchronize(slot.stream.handle());
        ASSERT_TRUE(done.ok()) << done;
        std::vector<uint16_t> c = Download<uint16_t>(slot.c.ptr(), count);
        if (first.empty()) {
          first = std::move(c);
          ASSERT_NE(first, std::vector<uint16_t>(count, 0xffff));
          continue;
        }
        if (c == first) continue;
        FAIL() << "run " << run << ": "
               << Difference(c, first, problem.layer.n);
      }
    }
    for (const Slot& slot : slots) {
      EXPECT_EQ(
          Download<uint8_t>(slot.workspace.ptr(), plan.workspace_zeroed_bytes),
          std::vector<uint8_t>(plan.workspace_zeroed_bytes, 0));
    }
  }
};

TEST_P(RepeatGpuTest, GivesTheSameBits) {
  const Case test = Cases()[GetParam()];
  const auto layer = LayerConfig::Parse(test.layer);
  ASSERT_TRUE(layer.ok()) << layer.status();
  Problem problem;
  problem.layer = *layer;
  const auto config = TuningConfig::Parse(test.config);
  ASSERT_TRUE(config.ok()) << config.status();
  if (UsesWgmma(*config) && device_.sm_arch != 90) {
    printf("%s: not on this GPU\n", test.name);
    return;
  }
  ASSERT_TRUE(CheckProblem(problem, device_).ok())
      << CheckProblem(problem, device_);
  const auto refusal = CheckConfig(problem, device_, *config);
  ASSERT_FALSE(refusal.has_value()) << refusal->reason;
  const std::vector<BenchKernel> kernels = CompileAll(problem, {*config});
  ASSERT_TRUE(kernels[0].status.ok()) << kernels[0].status;
  const auto module = Module::Load(kernels[0].cubin);
  ASSERT_TRUE(module.ok()) << module.status();
  for (const int64_t m : test.ms) {
    SCOPED_TRACE(testing::Message() << "m = " << m);
    RunAtM(problem, *config, *module, m);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Splits, RepeatGpuTest,
                         testing::Range(size_t{0}, Cases().size()),
                         [](const auto& info) {
                           return std::string(Cases()[info.param].name);
                         });

}  // namespace
}  // namespace hone
