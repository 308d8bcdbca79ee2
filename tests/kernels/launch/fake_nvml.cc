// Stands in for libnvidia-ml.so.1: one GPU, "GPU-fake", whose clocks are held
// down for the reasons in HONE_FAKE_NVML_REASONS, as NVML's bits.
#include <cstdlib>
#include <cstring>

namespace {

int device = 0;
constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kInvalidArgument = 2;

int Tell(void* asked, unsigned int value, unsigned int* out) {
  if (asked != &device) return kInvalidArgument;
  *out = value;
  return kSuccess;
}

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void**) { return kNotFound; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** out) {
  if (std::strcmp(uuid, "GPU-fake") != 0) return kNotFound;
  *out = &device;
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void* asked, int type, unsigned int* mhz) {
  return type == 1 ? Tell(asked, 1755, mhz) : kInvalidArgument;
}
int nvmlDeviceGetPowerUsage(void* asked, unsigned int* milliwatts) {
  return Tell(asked, 412345, milliwatts);
}
int nvmlDeviceGetPowerManagementLimit(void* asked, unsigned int* milliwatts) {
  return Tell(asked, 700000, milliwatts);
}
int nvmlDeviceGetTemperature(void* asked, int sensor, unsigned int* celsius) {
  return sensor == 0 ? Tell(asked, 61, celsius) : kInvalidArgument;
}
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* reasons) {
  const char* text = std::getenv("HONE_FAKE_NVML_REASONS");
  *reasons = text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
  return kSuccess;
}

}  // extern "C"
