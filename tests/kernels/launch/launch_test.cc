// What must hold without a GPU: everything says what is missing, and nothing
// crashes. With one, the tests under label gpu say the rest.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/launch/device_query.h"
#include "kernels/launch/module.h"
#include "kernels/launch/nvml_library.h"

namespace hone {
namespace {

TEST(LaunchTest, WithoutADriverErrorsSayWhatIsMissing) {
  const absl::StatusOr<int> count = DeviceCount();
  if (count.ok()) {
    EXPECT_FALSE(QueryDevice(*count).ok());
    return;
  }
  EXPECT_EQ(count.status().code(), absl::StatusCode::kUnavailable);
  for (const absl::Status& status :
       {count.status(), QueryDevice(0).status(), Context::Retain(0).status(),
        Module::Load("cubin").status(), DeviceBuffer::Allocate(16).status(),
        Stream::Create().status(), Synchronize(nullptr)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("CUDA"));
  }
  EXPECT_FALSE(HasCurrentContext());
  EXPECT_TRUE(ForeignProcesses(0).empty());
}

TEST(LaunchTest, TensorMapsAreCheckedBeforeTheDriverIsAsked) {
  LaunchPlan plan;
  plan.kernel_name = "gemm";
  LaunchArg arg;
  arg.kind = LaunchArg::Kind::kTensorMap;
  plan.args = {arg};
  BufferBindings buffers;
  const auto message = [&] {
    const absl::Status status = Launch(nullptr, plan, buffers, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(), testing::HasSubstr("gemm: no tensor map 0"));
  TensorMap map;
  map.buffer = BufferRole::kB;
  map.dims = {64, 8};
  map.strides = {128};
  map.box = {64, 8};
  map.element_strides = {1, 1};
  map.swizzle = TensorMap::Swizzle::k64B;
  plan.tensor_maps = {map};
  EXPECT_THAT(message(), testing::HasSubstr("no buffer for B"));
  buffers.Bind(BufferRole::kB, 4096);
  EXPECT_THAT(message(), testing::HasSubstr(
                             "box[0] makes 128 bytes; with a swizzle of 64"));
  plan.tensor_maps[0].swizzle = TensorMap::Swizzle::k128B;
  buffers.Bind(BufferRole::kB, 4104);
  EXPECT_THAT(message(), testing::HasSubstr("starts at address 4104"));
}

TEST(LaunchTest, NothingIsOwnedByDefault) {
  // Their destructors must not need a driver.
  const Module module;
  const Stream stream;
  const DeviceBuffer buffer;
  EXPECT_EQ(buffer.ptr(), 0u);
  const auto empty = DeviceBuffer::Allocate(0);
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->ptr(), 0u);
}

TEST(LaunchTest, AnUnknownBusIdHasNoNvmlDevice) {
  EXPECT_EQ(NvmlDevice::Open("ffff:ff:1f.7"), nullptr);
}

TEST(LaunchTest, BindingsAreByRole) {
  BufferBindings buffers;
  buffers.Bind(BufferRole::kC, 0x100).Bind(BufferRole::kA, 0x200);
  EXPECT_EQ(buffers.Get(BufferRole::kC), 0x100u);
  EXPECT_EQ(buffers.Get(BufferRole::kA), 0x200u);
  EXPECT_EQ(buffers.Get(BufferRole::kWorkspace), 0u);
}

}  // namespace
}  // namespace hone
