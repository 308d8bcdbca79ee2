#include "service/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace hone {
namespace {

// Fields of /proc/self/stat as proc(5) numbers them, from 1.
constexpr size_t kUserTime = 14;
constexpr size_t kSystemTime = 15;
constexpr size_t kThreads = 20;
constexpr size_t kStartTime = 22;
constexpr size_t kVirtualBytes = 23;
constexpr size_t kResidentPages = 24;

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Seconds since 1970 when the machine started; 0 when unknown.
double BootTime() {
  const std::string stat = ReadAll("/proc/stat");
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double seconds = 0;
    if (words.first == "btime" && absl::SimpleAtod(words.second, &seconds))
      return seconds;
  }
  return 0;
}

int64_t CountOpenDescriptors() {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end;
       !error && it != end; it.increment(error)) {
    ++count;
  }
  // The one of this walk is not of the process.
  return error ? -1 : count - 1;
}

}  // namespace

void CollectProcess(MetricFamilies& families) {
  const std::string stat = ReadAll("/proc/self/stat");
  // The second field, the program's name, may hold anything but ends with the
  // last parenthesis; the third follows it.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  const auto field = [&](size_t number) {
    double value = 0;
    if (number - 3 < fields.size() &&
        absl::SimpleAtod(fields[number - 3], &value))
      return value;
    return 0.0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  AddGauge(families, "process_start_time_seconds",
           "When the process started, since 1970.",
           BootTime() + field(kStartTime) / ticks);
  AddCounter(families, "process_cpu_seconds_total",
             "User and system CPU time, without children.",
             (field(kUserTime) + field(kSystemTime)) / ticks);
  AddGauge(families, "process_resident_memory_bytes", "Resident memory.",
           field(kResidentPages) * page);
  AddGauge(families, "process_virtual_memory_bytes", "Virtual memory.",
           field(kVirtualBytes));
  AddGauge(families, "process_threads", "Threads.", field(kThreads));
  if (const int64_t open = CountOpenDescriptors(); open >= 0) {
    AddGauge(families, "process_open_fds", "Open file descriptors.",
             static_cast<double>(open));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    AddGauge(families, "process_max_fds", "Most file descriptors allowed.",
             static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace hone
