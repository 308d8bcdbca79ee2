// Device query and launches.
#include "tests/gpu/gpu_fixture.h"

namespace hone {
namespace {

class LaunchGpuTest : public GpuTest {};

TEST_F(LaunchGpuTest, TheDeviceTellsEveryHardField) {
  EXPECT_EQ(device_.kind, DeviceKind::kMeasured);
  EXPECT_GE(device_.sm_arch, 75);
  EXPECT_GT(device_.pci_device_id, 0);
  EXPECT_LE(device_.pci_device_id, 0xffff);
  EXPECT_NE(device_.pci_device_id, 0x10de) << "that is the vendor";
  EXPECT_GT(device_.sm_count, 0);
  EXPECT_GT(device_.l2_bytes, 1 << 20);
  EXPECT_GE(device_.smem_optin_bytes, 64 << 10);
  EXPECT_GE(device_.cuda_driver_version, 12000);
  EXPECT_GT(device_.max_clock_khz, 500000);
  EXPECT_GT(device_.memory_gbps, 100);
  EXPECT_GT(device_.peak_tflops, 10);
  EXPECT_EQ(device_.uuid.size(), 40u) << device_.uuid;
  if (device_.sm_arch == 90) {
    EXPECT_EQ(device_.smem_optin_bytes, 232448);
  }
}

TEST_F(LaunchGpuTest, AnotherOrdinalIsNotFound) {
  EXPECT_EQ(QueryDevice(1000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Context::Retain(1000).ok());
}

TEST_F(LaunchGpuTest, PlansRunWithTheirBuffersSmemAndCluster) {
  const Module module = Compile(R"(
    extern "C" __global__ void probe(const int* a, int* c, int value) {
      extern __shared__ int shared[];
      const int last = 20000;
      shared[threadIdx.x == 0 ? last : threadIdx.x] = value;
      __syncthreads();
      int ctas = 1;
#if __CUDA_ARCH__ >= 900
      asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(ctas));
#endif
      if (threadIdx.x == 0) c[blockIdx.x] = a[blockIdx.x] + shared[last] + ctas;
    })");
  LaunchPlan plan;
  plan.kernel_name = "probe";
  plan.grid.x = 4;
  plan.block.x = 64;
  const bool clusters = device_.sm_arch >= 90 && device_.sm_arch < 120;
  if (clusters) plan.cluster.x = 2;
  plan.smem_bytes = 20001 * 4;
  LaunchArg a;
  a.role = BufferRole::kA;
  LaunchArg c;
  c.role = BufferRole::kC;
  LaunchArg value;
  value.kind = LaunchArg::Kind::kInt32;
  value.value = 1000;
  plan.args = {a, c, value};
  const auto in = DeviceBuffer::Allocate(16);
  const auto out = DeviceBuffer::Allocate(16);
  ASSERT_TRUE(in.ok() && out.ok());
  const int numbers[4] = {1, 2, 3, 4};
  ASSERT_TRUE(CopyToDevice(in->ptr(), numbers, 16, stream_.handle()).ok());
  const auto function = module.Function(plan.kernel_name, plan.smem_bytes);
  ASSERT_TRUE(function.ok()) << function.status();
  BufferBindings buffers;
  buffers.Bind(BufferRole::kA, in->ptr());
  // Without C the launch is refused, and nothing runs.
  EXPECT_EQ(Launch(*function, plan, buffers, stream_.handle()).code(),
            absl::StatusCode::kInvalidArgument);
  buffers.Bind(BufferRole::kC, out->ptr());
  const absl::Status launched =
      Launch(*function, plan, buffers, stream_.handle());
  ASSERT_TRUE(launched.ok()) << launched;
  const int ctas = clusters ? 2 : 1;
  EXPECT_THAT(
      Download<int>(out->ptr(), 4),
      testing::ElementsAre(1001 + ctas, 1002 + ctas, 1003 + ctas, 1004 + ctas));
  // More shared memory than there is.
  EXPECT_FALSE(module.Function("probe", device_.smem_optin_bytes + 1024).ok());
  EXPECT_EQ(module.Function("absent").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(LaunchGpuTest, ARefusedImageIsInvalidArgument) {
  EXPECT_EQ(Module::Load("").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Module::Load(std::string(4096, 'x')).ok());
}

TEST_F(LaunchGpuTest, TooMuchMemoryIsResourceExhausted) {
  EXPECT_EQ(DeviceBuffer::Allocate(uint64_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace hone
