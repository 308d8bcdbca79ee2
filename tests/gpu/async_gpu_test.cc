// The asynchronous instructions of Hopper on the device: each case of the
// emulator's tests gives there what it gives in the emulator.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/gpu_fixture.h"
#include "tests/kernels/emulator/cases/async_case.h"

namespace hone {
namespace {

class AsyncGpuTest : public GpuTest {};

TEST_F(AsyncGpuTest, TheDeviceAgreesWithTheEmulatorsCases) {
  // The cases use wgmma, which no other architecture has.
  if (device_.sm_arch != 90) return;
  std::map<std::string, Module> modules;  // by source
  for (const emulator::AsyncCase& c : emulator::AllAsyncCases()) {
    SCOPED_TRACE(c.name);
    if (modules.count(c.source) == 0) {
      const auto cubin =
          compiler_->CompileSource(c.source, device_.NvrtcArch());
      ASSERT_TRUE(cubin.ok()) << cubin.status();
      auto module = Module::Load(*cubin);
      ASSERT_TRUE(module.ok()) << module.status();
      modules.emplace(c.source, *std::move(module));
    }
    const auto function =
        modules.at(c.source).Function(c.plan.kernel_name, c.plan.smem_bytes);
    ASSERT_TRUE(function.ok()) << function.status();
    BufferBindings bindings;
    std::vector<DeviceBuffer> buffers;
    DevicePtr output = 0;
    for (const auto& [role, bytes] : c.buffers) {
      auto buffer = DeviceBuffer::Allocate(bytes.size());
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const absl::Status copied = CopyToDevice(buffer->ptr(), bytes.data(),
                                               bytes.size(), stream_.handle());
      ASSERT_TRUE(copied.ok()) << copied;
      bindings.Bind(role, buffer->ptr());
      if (role == BufferRole::kC) output = buffer->ptr();
      buffers.push_back(*std::move(buffer));
    }
    const absl::Status launched =
        Launch(*function, c.plan, bindings, stream_.handle());
    ASSERT_TRUE(launched.ok()) << launched;
    const auto got = Download<uint8_t>(output, c.expected.size());
    size_t wrong = 0;
    size_t first = got.size();
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == c.expected[i]) continue;
      ++wrong;
      first = std::min(first, i);
    }
    // Not fatal: what every case does is worth knowing.
    EXPECT_EQ(wrong, 0u) << "first at byte " << first;
  }
}

}  // namespace
}  // namespace hone
