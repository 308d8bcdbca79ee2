// Launches of asynchronous instructions with the output that the PTX ISA's
// words give, worked out without the emulator. The emulator's tests run them
// on the CPU under many schedules, and hone-async-vectors on a Hopper GPU too.
#ifndef HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_CASE_H_
#define HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_CASE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/codegen/launch_plan.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {

struct AsyncCase {
  std::string name;
  std::string source;  // for sm_90a; the same text in many cases
  LaunchPlan plan;
  // What is in the buffers before; BufferRole::kC is written.
  std::map<BufferRole, std::vector<uint8_t>> buffers;
  std::vector<uint8_t> expected;  // of kC after
  // Of what the PTX ISA forbids: part of the fault that the emulator stops it
  // with. Hardware may then do anything; `expected` is what one would hope for.
  std::string refusal;
  // Of float sums that are not exact (the kNear kinds): what an error is
  // relative to, per word of kC, and the bounds for the emulator and for
  // hardware, as in InstructionCase.
  Compare compare = Compare::kBits;
  std::vector<double> magnitude;
  double emulator_bound = 0;
  double device_bound = 0;
};

void AddBulkCopyCases(std::vector<AsyncCase>* out);    // and mbarriers
void AddTensorCopyCases(std::vector<AsyncCase>* out);  // every shape, swizzle
void AddWgmmaCases(std::vector<AsyncCase>* out);       // every type, layout
void AddAsyncGemmCases(std::vector<AsyncCase>* out);   // all together
std::vector<AsyncCase> AllAsyncCases();

// Builders -----------------------------------------------------------------

// The text of testdata/<name>, after `#define`s of the macros.
std::string AsyncSource(absl::string_view name,
                        const std::vector<std::string>& macros = {});
LaunchArg BufferArg(BufferRole role);
LaunchArg IntArg(int32_t value);
LaunchArg MapArg(int32_t index);
// A row-major matrix of `rows` x `columns` elements, copied in boxes.
TensorMap MatrixMap(BufferRole buffer, TensorMap::Element element,
                    uint64_t columns, uint64_t rows, uint32_t box_columns,
                    uint32_t box_rows,
                    TensorMap::Swizzle swizzle = TensorMap::Swizzle::kNone);

// The GEMM of testdata/async_gemm.cu.
inline constexpr int kAsyncGemmM = 256, kAsyncGemmN = 128, kAsyncGemmK = 512;
LaunchPlan AsyncGemmPlan(bool cluster);

template <typename T>
std::vector<uint8_t> BytesOfVector(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_CASE_H_
