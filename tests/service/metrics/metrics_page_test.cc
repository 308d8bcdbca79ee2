#include "service/metrics/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuMonitor, AsksAtMostOnceASecond) {
  int reads = 0;
  absl::Time now = absl::FromUnixSeconds(1000);
  GpuMonitor monitor(
      [&]() -> std::optional<GpuReading> {
        return GpuReading{.power_mw = ++reads};
      },
      [&] { return now; });
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(monitor.Read()->power_mw, 1);
  now += absl::Milliseconds(999);
  EXPECT_EQ(monitor.Read()->power_mw, 1);
  now += absl::Milliseconds(1);
  EXPECT_EQ(monitor.Read()->power_mw, 2);
  // A clock that is set back.
  now -= absl::Hours(1);
  EXPECT_EQ(monitor.Read()->power_mw, 3);
  EXPECT_EQ(reads, 3);
}

TEST(GpuMonitor, AReadingThatSaysNothingIsNone) {
  GpuMonitor monitor([] { return GpuReading(); });
  EXPECT_FALSE(monitor.Read().has_value());
}

TEST(GpuMonitor, DoesNotWaitForAReadingThatHangs) {
  absl::Notification hangs, released;
  absl::Time now = absl::UnixEpoch();
  int reads = 0;
  GpuMonitor monitor(
      [&]() -> std::optional<GpuReading> {
        if (++reads == 2) {
          hangs.Notify();
          released.WaitForNotification();
        }
        return GpuReading{.power_mw = reads};
      },
      [&] { return now; });
  EXPECT_EQ(monitor.Read()->power_mw, 1);
  now += absl::Seconds(2);
  std::thread other([&] { EXPECT_EQ(monitor.Read()->power_mw, 2); });
  hangs.WaitForNotification();
  EXPECT_EQ(monitor.Read()->power_mw, 1);
  now += absl::Seconds(9);
  EXPECT_EQ(monitor.Read()->power_mw, 1);
  now += absl::Seconds(1);
  EXPECT_FALSE(monitor.Read().has_value());
  released.Notify();
  other.join();
  EXPECT_EQ(monitor.Read()->power_mw, 3);
}

TEST(GpuMonitor, ADeviceThatNvmlDoesNotKnowHasNoReading) {
  EXPECT_FALSE(NvmlReader("GPU-there-is-none")().has_value());
}

class MetricsPageTest : public ::testing::Test {
 protected:
  MetricsPageTest() {
    sources_.events = &events_;
    sources_.queue = [this] { return queue_; };
    sources_.tables = [this] { return tables_; };
    sources_.uncounted_misses = [this] { return uncounted_misses_; };
    sources_.health = [this] { return health_; };
    sources_.can_tune = [this] { return can_tune_; };
    sources_.device = TestGpu();
    sources_.database = folder_ / "hone.db";
    sources_.version = "1.2.3";
  }
  std::string Render() const { return MetricsPage(sources_).Render(); }

  TempFolder folder_;
  EventMetrics events_{{}};
  QueueReading queue_;
  TablesReading tables_;
  int64_t uncounted_misses_ = 0;
  ExecutorHealth health_;
  absl::Status can_tune_;
  MetricsPage::Sources sources_;
};

TEST_F(MetricsPageTest, SaysWhatRuns) {
  EXPECT_THAT(Render(),
              HasSubstr("hone_tune_running{kind=\"tune\",phase=\"race\"} 0\n"));
  queue_.queued = 3;
  queue_.limit = 64;
  queue_.running.emplace();
  queue_.running->progress.phase = SessionPhase::kRace;
  queue_.running->progress.done = 30;
  queue_.running->progress.total = 120;
  queue_.running->progress.elapsed = absl::Milliseconds(1500);
  queue_.running->progress.eta = absl::Seconds(9);
  const std::string text = Render();
  for (const char* line :
       {"hone_tune_queue_length 3\n", "hone_tune_queue_limit 64\n",
        "hone_tune_running{kind=\"tune\",phase=\"race\"} 1\n",
        "hone_tune_running{kind=\"tune\",phase=\"prepare\"} 0\n",
        "hone_tune_running{kind=\"audit\",phase=\"race\"} 0\n",
        "hone_tune_progress_ratio 0.25\n", "hone_tune_elapsed_seconds 1.5\n",
        "hone_tune_remaining_seconds 9\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(MetricsPageTest, SaysHowTheDeviceIs) {
  health_ = {.workers_started = 5, .workers_lost = 4, .sentinel_failures = 3};
  std::string text = Render();
  for (const char* line :
       {"hone_build_info{version=\"1.2.3\"} 1\n",
        "hone_device_info{name=\"test GPU\",uuid=\"GPU-test\",kind="
        "\"measured\"} 1\n",
        "hone_device_can_tune 1\n", "hone_device_quarantined 0\n",
        "hone_worker_starts_total 5\n", "hone_worker_losses_total 4\n",
        "hone_sentinel_failures_total 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  // Without a monitor nothing is said of the GPU.
  EXPECT_THAT(text, Not(HasSubstr("hone_gpu_")));
  health_.quarantine = "a reason that is not for labels";
  can_tune_ = absl::UnavailableError(health_.quarantine);
  text = Render();
  EXPECT_THAT(text, HasSubstr("hone_device_can_tune 0\n"));
  EXPECT_THAT(text, HasSubstr("hone_device_quarantined 1\n"));
  EXPECT_THAT(text, Not(HasSubstr("a reason")));
}

TEST_F(MetricsPageTest, SaysWhatNvmlTellsAndLeavesOutTheRest) {
  std::optional<GpuReading> reading = GpuReading{
      .sm_clock_mhz = 1980, .power_mw = 412'500, .temperature_celsius = 61};
  reading->clocks = ClockEvents{.slowdown = true, .software_thermal = true};
  absl::Time now = absl::UnixEpoch();
  GpuMonitor monitor([&] { return reading; }, [&] { return now; });
  sources_.gpu = &monitor;
  std::string text = Render();
  for (const char* line :
       {"hone_gpu_nvml_up 1\n", "hone_gpu_sm_clock_hertz 1980000000\n",
        "hone_gpu_power_watts 412.5\n", "hone_gpu_temperature_celsius 61\n",
        "hone_gpu_clocks_limited{reason=\"software_thermal\"} 1\n",
        "hone_gpu_clocks_limited{reason=\"power_cap\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("hone_gpu_memory_used_bytes")));
  reading.reset();
  now += absl::Seconds(2);
  text = Render();
  EXPECT_THAT(text, HasSubstr("hone_gpu_nvml_up 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("hone_gpu_sm_clock_hertz")));
}

TEST_F(MetricsPageTest, CountsTablesAndTheDatabase) {
  tables_ = {.revision = 9,
             .fresh_verified = 4,
             .fresh_unverified = 3,
             .stale_verified = 2,
             .stale_unverified = 1};
  uncounted_misses_ = 7;
  std::ofstream(sources_.database) << "12345";
  std::ofstream(sources_.database + "-wal") << "678";
  const std::string text = Render();
  for (const char* line :
       {"hone_database_revision 9\n", "hone_database_size_bytes 8\n",
        "hone_traffic_uncounted_total 7\n",
        "hone_tables{freshness=\"fresh\",verified=\"true\"} 4\n",
        "hone_tables{freshness=\"fresh\",verified=\"false\"} 3\n",
        "hone_tables{freshness=\"stale\",verified=\"true\"} 2\n",
        "hone_tables{freshness=\"stale\",verified=\"false\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// The value of a metric without labels.
double ValueOf(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name + " ");
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? -1
                                 : std::stod(text.substr(at + name.size() + 2));
}

TEST_F(MetricsPageTest, TellsOfTheProcess) {
  const std::string before = Render();
  const double start = ValueOf(before, "process_start_time_seconds");
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  EXPECT_LT(start, now + 2);
  EXPECT_GT(start, now - 600);
  EXPECT_GT(ValueOf(before, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(ValueOf(before, "process_virtual_memory_bytes"),
            ValueOf(before, "process_resident_memory_bytes"));
  EXPECT_GT(ValueOf(before, "process_max_fds"),
            ValueOf(before, "process_open_fds"));
  std::ifstream one_more("/proc/self/stat");
  EXPECT_EQ(ValueOf(Render(), "process_open_fds"),
            ValueOf(before, "process_open_fds") + 1);
}

}  // namespace
}  // namespace hone
