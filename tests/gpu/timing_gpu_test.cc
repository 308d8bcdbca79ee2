// CUPTI times, the L2 flush and its clock readings.
#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_fixture.h"
#include "tuner/measure/cupti_timer.h"
#include "tuner/measure/l2_flush.h"

namespace hone {
namespace {

constexpr char kReader[] = R"(
  extern "C" __global__ void __launch_bounds__(512)
      reader(const uint4* words, U64 count, U32* sink) {
    U32 sum = 0;
    const U64 step = GridThreads();
    U64 i = GlobalThread();
    for (; i + 7 * step < count; i += 8 * step) {
      uint4 w[8];
      for (int j = 0; j < 8; ++j) w[j] = __ldcg(words + i + j * step);
      for (int j = 0; j < 8; ++j) sum += w[j].x ^ w[j].y ^ w[j].z ^ w[j].w;
    }
    for (; i < count; i += step) sum += __ldcg(words + i).x;
    if (sum == 0x9e3779b9u) *sink = sum;
  })";

class TimingGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    // Before the context, as the measurer does.
    auto timer = CuptiTimer::Create(LibrarySearchFromEnvironment(std::getenv));
    ASSERT_TRUE(timer.ok()) << timer.status();
    timer_ = *std::move(timer);
    GpuTest::SetUp();
    if (HasFatalFailure()) return;
    module_ = Compile(kReader);
    reader_ = *module_.Function("reader");
    auto flush = L2Flush::Create(helpers_, device_, 4, stream_.handle());
    ASSERT_TRUE(flush.ok()) << flush.status();
    flush_.emplace(*std::move(flush));
    auto sink = DeviceBuffer::Allocate(16);
    ASSERT_TRUE(sink.ok());
    sink_ = *std::move(sink);
  }
  void TearDown() override {
    flush_.reset();
    sink_ = DeviceBuffer();
    data_ = DeviceBuffer();
    module_ = Module();
    GpuTest::TearDown();
    timer_ = nullptr;
  }

  void Allocate(uint64_t bytes) {
    auto data = DeviceBuffer::Allocate(bytes);
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);
    ASSERT_TRUE(Fill(data_.ptr(), 0x33, bytes, stream_.handle()).ok());
  }

  uint32_t Read(uint64_t bytes) {
    const Dim3 grid = {static_cast<uint32_t>(2 * device_.sm_count), 1, 1};
    const absl::Status status =
        LaunchHelper(reader_, grid, 512, stream_.handle(), data_.ptr(),
                     bytes / 16, sink_.ptr());
    EXPECT_TRUE(status.ok()) << status;
    return timer_->LastLaunch();
  }

  std::vector<double> Collect(const std::vector<uint32_t>& launches) {
    EXPECT_TRUE(Synchronize(stream_.handle()).ok());
    const auto times = timer_->Collect(launches);
    EXPECT_TRUE(times.ok()) << times.status();
    std::vector<double> ns;
    if (!times.ok()) return ns;
    for (const KernelTime& t : *times) {
      ns.push_back(static_cast<double>(t.end_ns - t.start_ns));
    }
    return ns;
  }

  static double Median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  std::unique_ptr<CuptiTimer> timer_;
  Module module_;
  FunctionHandle reader_ = nullptr;
  std::optional<L2Flush> flush_;
  DeviceBuffer sink_;
  DeviceBuffer data_;
};

TEST_F(TimingGpuTest, ALongReadRunsAtTheMemorysRate) {
  constexpr uint64_t kBytes = uint64_t{512} << 20;
  Allocate(kBytes);
  timer_->Start();
  std::vector<uint32_t> launches;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(flush_->Queue(0).ok());
    launches.push_back(Read(kBytes));
  }
  const std::vector<double> ns = Collect(launches);
  ASSERT_EQ(ns.size(), 10u);
  const double gbps = static_cast<double>(kBytes) / Median(ns);
  RecordProperty("read_gbps", std::to_string(gbps));
  printf("512 MiB cold read: %.1f us, %.0f GB/s (the spec says %.0f)\n",
         Median(ns) / 1e3, gbps, device_.memory_gbps);
  EXPECT_GT(gbps, 0.8 * device_.memory_gbps);
  EXPECT_LT(gbps, 1.15 * device_.memory_gbps);
}

TEST_F(TimingGpuTest, FlushedDataIsCold) {
  // Half of the L2: stays in it unless flushed.
  const uint64_t bytes = static_cast<uint64_t>(device_.l2_bytes) / 4;
  Allocate(bytes);
  timer_->Start();
  std::vector<uint32_t> cold;
  std::vector<uint32_t> warm;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(flush_->Queue(0).ok());
    cold.push_back(Read(bytes));
    warm.push_back(Read(bytes));
  }
  const double cold_ns = Median(Collect(cold));
  const double warm_ns = Median(Collect(warm));
  printf("%.1f MB: cold %.2f us, warm %.2f us\n",
         static_cast<double>(bytes) / 1e6, cold_ns / 1e3, warm_ns / 1e3);
  EXPECT_GT(cold_ns, 1.15 * warm_ns);
}

TEST_F(TimingGpuTest, TheFlushReadsTheClock) {
  ASSERT_TRUE(flush_->Reserve(100).ok());
  for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(flush_->Queue(i).ok());
  const auto clocks = flush_->ClocksKhz(100);
  ASSERT_TRUE(clocks.ok()) << clocks.status();
  const auto max = static_cast<double>(device_.max_clock_khz);
  const int64_t last = clocks->back();
  printf("SM clock %.0f MHz, at most %.0f MHz\n", last / 1e3, max / 1e3);
  EXPECT_GT(last, 0.3 * max);
  EXPECT_LT(last, 1.05 * max);
  // Neighbouring readings agree: the span is long enough.
  for (size_t i = 51; i < 100; ++i) {
    EXPECT_NEAR((*clocks)[i], (*clocks)[i - 1], 0.03 * max);
  }
}

TEST_F(TimingGpuTest, ManyLaunchesLoseNoRecordAndAMissingOneIsAnError) {
  Allocate(1 << 20);
  timer_->Start();
  std::vector<uint32_t> launches;
  for (int i = 0; i < 3000; ++i) launches.push_back(Read(1 << 20));
  EXPECT_EQ(Collect(launches).size(), 3000u);
  const auto missing = timer_->Collect({launches.back() + 1000000});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TimingGpuTest, OneTimerAtATime) {
  EXPECT_EQ(CuptiTimer::Create(LibrarySearchFromEnvironment(std::getenv))
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace hone
