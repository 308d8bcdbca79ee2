// Every format that Hone claims, through the gate on the device: a ragged
// shape, random legal configs and the defaults, M from 1 to 257.
//
// The formats are dealt to parts, one test each, so that GoogleTest's filter
// and sharding pick some: GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=0 runs a
// quarter,
// --gtest_filter=*/3 one part, and each part has a format in sixteen of every
// family. HONE_TEST_SECONDS=N starts no format after N seconds; the last line
// says what was covered. HONE_TEST_ALL_M=1 gates every kernel at every M.
#include <algorithm>
#include <atomic>
#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "kernels/space/space.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/kernels/format_list.h"
#include "tuner/measure/gpu_measurer.h"

namespace hone {
namespace {

constexpr size_t kParts = 16;
constexpr int64_t kMaxM = 257;
constexpr size_t kKernels = 4;  // of a format, at most

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

// A format with its kernels.
struct Format {
  Problem problem;
  absl::Status status;
  std::vector<TuningConfig> configs;
  std::vector<BenchKernel> kernels;
};

// The shape and the configs follow from the format's number alone.
Format Prepare(size_t number, const LayerConfig& layer,
               const KernelCompiler& compiler, const DeviceSpec& device) {
  std::mt19937_64 random(11 + number);
  Format format;
  Problem& problem = format.problem;
  problem.layer = layer;
  problem.layer.n = 1 + static_cast<int64_t>(random() % 700);
  problem.layer.k = 1 + static_cast<int64_t>(random() % 1500);
  // Rows of A are whole bytes.
  if (layer.a.bits() == 4) problem.layer.k += problem.layer.k % 2;
  problem.layer.bias = random() % 2 == 0;
  if (layer.a == kFloat16 && random() % 4 == 0) {
    problem.compute.accumulator = kFloat16;
  }
  format.status = CheckProblem(problem, device);
  if (!format.status.ok()) return format;
  const std::vector<TuningConfig> all = Enumerate(problem, device, kMaxM);
  if (all.empty()) {
    format.status = absl::InternalError("space has no config for it");
    return format;
  }
  // The defaults of small and of large M are often the same.
  const auto add = [&](const TuningConfig& config) {
    for (const TuningConfig& had : format.configs) {
      if (had == config) return;
    }
    format.configs.push_back(config);
  };
  for (size_t i = 0; i < kKernels / 2; ++i) {
    add(all[random() % all.size()]);
    add(HeuristicDefault(problem, device, i == 0 ? 1 : kMaxM));
  }
  for (const TuningConfig& config : format.configs) {
    format.kernels.push_back(compiler.Compile(problem, config, device));
  }
  return format;
}

// Prepares formats on all cores, ahead of who takes them in order.
class Pipeline {
 public:
  Pipeline(std::vector<size_t> numbers, const std::vector<LayerConfig>& layers,
           const KernelCompiler& compiler, const DeviceSpec& device)
      : numbers_(std::move(numbers)), done_(numbers_.size()) {
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency());
         ++t) {
      threads_.emplace_back([this, &layers, &compiler, &device] {
        for (size_t i = next_++; i < numbers_.size() && !stop_; i = next_++) {
          auto format = std::make_unique<Format>(
              Prepare(numbers_[i], layers[numbers_[i]], compiler, device));
          const std::lock_guard<std::mutex> lock(mutex_);
          done_[i] = std::move(format);
          ready_.notify_all();
        }
      });
    }
  }
  ~Pipeline() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  Format Take(size_t i) {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.wait(lock, [&] { return done_[i] != nullptr; });
    return std::move(*done_[i]);
  }

 private:
  const std::vector<size_t> numbers_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<std::unique_ptr<Format>> done_;
  std::vector<std::thread> threads_;
};

// Of this process.
struct Coverage {
  size_t formats = 0, kernels = 0, gates = 0;
  size_t foreign = 0;  // formats that the device cannot compute in
  std::bitset<kMaxM + 1> ms;
  double compile_ms = 0;  // on all cores together
};

class FormatsGpuTest : public GpuTest,
                       public testing::WithParamInterface<size_t> {
 protected:
  static void SetUpTestSuite() {
    GpuTest::SetUpTestSuite();
    layers_ = AllFormats(1, 1);
    started_ = Clock::now();
    const char* seconds = std::getenv("HONE_TEST_SECONDS");
    limit_s_ = 0;
    if (seconds != nullptr && !absl::SimpleAtod(seconds, &limit_s_)) {
      setup_ = absl::InvalidArgumentError("HONE_TEST_SECONDS is no number");
    }
    all_m_ = std::getenv("HONE_TEST_ALL_M") != nullptr;
  }
  static void TearDownTestSuite() {
    printf(
        "covered %zu of %zu formats (%zu more not on this GPU), %zu kernels, "
        "%zu gates, %zu of %d values "
        "of M, in %.1f s; compiling took %.1f s over all cores\n",
        covered_.formats, layers_.size(), covered_.foreign, covered_.kernels,
        covered_.gates, covered_.ms.count(), static_cast<int>(kMaxM),
        SecondsSince(started_), covered_.compile_ms / 1000);
  }

  static bool TimeIsUp() {
    return limit_s_ > 0 && SecondsSince(started_) > limit_s_;
  }

  // The ends, and four that rotate: over 257 kernels each place sees every M.
  static std::vector<int64_t> MsOf(size_t kernel) {
    std::vector<int64_t> ms;
    if (all_m_) {
      for (int64_t m = 1; m <= kMaxM; ++m) ms.push_back(m);
      return ms;
    }
    ms = {1, kMaxM};
    for (size_t i = 0; i < 4; ++i) {
      ms.push_back(1 + static_cast<int64_t>((kernel * 37 + i * 64) % kMaxM));
    }
    return ms;
  }

  static inline std::vector<LayerConfig> layers_;
  static inline Coverage covered_;
  static inline Clock::time_point started_;
  static inline double limit_s_ = 0;
  static inline bool all_m_ = false;
};

TEST_P(FormatsGpuTest, IsRight) {
  if (TimeIsUp()) GTEST_SKIP() << "HONE_TEST_SECONDS are over";
  GpuMeasurer::Options options;
  options.timing = false;
  options.libraries = LibrarySearchFromEnvironment(std::getenv);
  const auto measurer =
      GpuMeasurer::Create(options, [](const std::string&, const std::string&) {
        return absl::StatusOr<std::string>(helper_cubin_);
      });
  ASSERT_TRUE(measurer.ok()) << measurer.status();
  std::vector<size_t> numbers;
  for (size_t i = GetParam(); i < layers_.size(); i += kParts) {
    numbers.push_back(i);
  }
  Pipeline pipeline(numbers, layers_, *compiler_, device_);
  for (size_t i = 0; i < numbers.size() && !TimeIsUp(); ++i) {
    const Format format = pipeline.Take(i);
    const Problem& problem = format.problem;
    SCOPED_TRACE(problem.ToString());
    if (!HasActivation(problem.layer.a, device_)) {
      EXPECT_TRUE(absl::IsUnimplemented(format.status)) << format.status;
      ++covered_.foreign;
      continue;
    }
    ASSERT_TRUE(format.status.ok()) << format.status;
    const absl::Status begun = (*measurer)->Begin(problem, kMaxM, 5);
    ASSERT_TRUE(begun.ok()) << begun;
    for (size_t k = 0; k < format.kernels.size(); ++k) {
      const BenchKernel& kernel = format.kernels[k];
      SCOPED_TRACE(format.configs[k].ToString());
      ASSERT_TRUE(kernel.status.ok()) << kernel.status;
      covered_.compile_ms += static_cast<double>(kernel.compile_ms);
      const auto index = (*measurer)->Add(format.configs[k], kernel.cubin);
      ASSERT_TRUE(index.ok());
      for (const int64_t m : MsOf(numbers[i] * kKernels + k)) {
        const auto result = (*measurer)->Gate(*index, m);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(ToString(result->outcome), "measured")
            << "M = " << m << ": " << result->detail;
        // A lost context fails everything after it for no reason of its own.
        ASSERT_NE(result->outcome, Outcome::kFault);
        covered_.ms.set(static_cast<size_t>(m));
        ++covered_.gates;
      }
      ++covered_.kernels;
    }
    ++covered_.formats;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, FormatsGpuTest,
                         testing::Range(size_t{0}, kParts));

}  // namespace
}  // namespace hone
