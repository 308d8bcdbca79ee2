// The measurer's own kernels (device/helpers.cu), loaded in a context.
#ifndef HONE_TUNER_MEASURE_HELPER_KERNELS_H_
#define HONE_TUNER_MEASURE_HELPER_KERNELS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/launch/module.h"

namespace hone {

// The one translation unit, complete: it needs no include path.
std::string HelperSource();

class HelperKernels {
 public:
  // `cubin` is HelperSource() compiled for the device of the current context.
  static absl::StatusOr<HelperKernels> Load(absl::string_view cubin);

  FunctionHandle fill_activations = nullptr;
  FunctionHandle fill_input_scales = nullptr;
  FunctionHandle fill_bias = nullptr;
  FunctionHandle fill_weights = nullptr;
  FunctionHandle fill_scales = nullptr;
  FunctionHandle flush = nullptr;
  FunctionHandle reference = nullptr;
  FunctionHandle compare = nullptr;
  FunctionHandle check_repeat = nullptr;
  FunctionHandle check_bytes = nullptr;
  FunctionHandle hash_words = nullptr;
  FunctionHandle sentinel = nullptr;

 private:
  Module module_;
};

// Launches a helper with parameters of exactly the types that it declares.
template <typename... Params>
absl::Status LaunchHelper(FunctionHandle function, Dim3 grid, uint32_t block,
                          StreamHandle stream, Params... values) {
  void* params[] = {&values...};
  RawLaunch launch;
  launch.grid = grid;
  launch.block.x = block;
  return LaunchRaw(function, launch, params, stream);
}

// A grid of 256-thread CTAs for kernels that stride over `count` elements.
inline Dim3 StridingGrid(uint64_t count) {
  const uint64_t ctas = (count + 255) / 256;
  return {static_cast<uint32_t>(ctas < 1      ? 1
                                : ctas > 4096 ? 4096
                                              : ctas),
          1, 1};
}

// Layouts of device/helpers.cu.
struct ClockReading {
  uint64_t cycles = 0;
  uint64_t ns = 0;
};
struct RowReference {
  uint64_t row = 0;
  DevicePtr reference = 0;
  DevicePtr magnitude = 0;
};
struct RowComparison {
  double difference2 = 0;
  double reference2 = 0;
  float ratio = 0;
  uint32_t column = 0;
};
struct CheckResult {
  uint64_t first_unequal = ~uint64_t{0};
  uint64_t unequal = 0;
  uint64_t nans = 0;
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_HELPER_KERNELS_H_
