// One small kernel per instruction, with random inputs and the result that the
// PTX ISA's words give, worked out here without the emulator. The emulator's
// tests run them on the CPU; hone-emulator-vectors runs them on a GPU too and
// compares the two.
#ifndef HONE_TESTS_KERNELS_EMULATOR_CASES_INSTRUCTION_CASE_H_
#define HONE_TESTS_KERNELS_EMULATOR_CASES_INSTRUCTION_CASE_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/emulator/emulator.h"

namespace hone::emulator {

// How two results compare, word by word.
enum class Compare : uint8_t {
  kBits,
  kFloat,       // f32: equal bits, NaNs alike
  kHalves,      // two f16, likewise
  kBFloats,     // two bf16, likewise
  kNearFloat,   // f32 within a bound
  kNearHalves,  // two f16 within a bound
};

// The outputs of a unit: 32 lanes, or all lanes of a cluster. Lane by lane.
struct CaseResult {
  std::vector<uint32_t> words;
  // Of the kNear kinds: what an error is relative to, per word. A float mma's
  // is |c| + sum |a b|; elsewhere it is the magnitude of the result.
  std::vector<double> magnitude;
};

using Generator = std::function<void(std::mt19937_64& random, int round,
                                     std::vector<uint32_t>& words)>;
using Reference =
    std::function<void(const std::vector<uint32_t>& words, CaseResult& result)>;

struct InstructionCase {
  std::string name;
  // Runs from this compute capability on, or, if `only` is not empty, on those.
  int min_arch = 75;
  std::vector<int> only;
  // PTX on registers w0... (inputs), d0... (outputs), t0... (32 bits), h0...
  // (16 bits), b0... (8 bits), x0... (64 bits), predicates p and q, `lane`,
  // `base` (4 KiB of shared memory) and `out` (global address of d0).
  std::string text;
  int inputs = 1;  // words per lane
  int outputs = 1;
  uint32_t cluster = 1;
  Compare compare = Compare::kBits;
  // Of the kNear kinds: the bounds on error / magnitude against the reference,
  // for the emulator and for hardware.
  double emulator_bound = 0;
  double device_bound = 0;
  // Even rounds must be equal whatever the bound: their sums are exact.
  bool exact_even_rounds = false;
  Generator generate;
  Reference reference;

  bool RunsOn(int arch) const;
  // The lowest architecture it runs on, as NVRTC spells it: "sm_75", "sm_90a".
  std::string LowestArch() const;
};

// By family; names are unique.
void AddMmaCases(std::vector<InstructionCase>* out);
void AddMatrixMoveCases(std::vector<InstructionCase>* out);
void AddConvertCases(std::vector<InstructionCase>* out);
void AddIntegerCases(std::vector<InstructionCase>* out);
void AddFloatCases(std::vector<InstructionCase>* out);
void AddWarpCases(std::vector<InstructionCase>* out);
std::vector<InstructionCase> AllInstructionCases();

// CUDA C++ for NVRTC: kernel name(const unsigned* a, unsigned* c).
std::string CaseSource(const InstructionCase& c, const std::string& name);
LaunchPlan CasePlan(const InstructionCase& c, const std::string& name,
                    int rounds);
std::vector<uint32_t> CaseInputs(const InstructionCase& c, uint64_t seed,
                                 int rounds);
CaseResult CaseExpectation(const InstructionCase& c,
                           const std::vector<uint32_t>& inputs);
// The outputs of the module's kernel of that name on the emulator.
absl::StatusOr<std::vector<uint32_t>> EmulateCase(const InstructionCase& c,
                                                  const Module& module,
                                                  const std::string& name,
                                                  std::vector<uint32_t> inputs,
                                                  int rounds, uint64_t seed);

struct Difference {
  bool same = true;      // or within the bound
  double max_error = 0;  // relative to the magnitude; 0 of exact kinds
  std::string first;     // in words, if not the same
};
// `want` may carry magnitudes; `bound` is used by the kNear kinds.
Difference CompareResults(const InstructionCase& c,
                          const std::vector<uint32_t>& got,
                          const CaseResult& want, double bound);

// Builders -----------------------------------------------------------------

// A reference that treats every lane alike.
Reference PerLane(int inputs, int outputs,
                  std::function<void(const uint32_t* w, uint32_t* d)> f);
// Random words: edge values of every type, random bits and floats around 1.
void MixedWords(std::mt19937_64& random, int round,
                std::vector<uint32_t>& words);
// Random bits.
void RandomWords(std::mt19937_64& random, int round,
                 std::vector<uint32_t>& words);
// A case of one lane at a time, one output word, random inputs.
InstructionCase LaneCase(const std::string& name, const std::string& text,
                         int inputs, Compare compare,
                         std::function<uint32_t(const uint32_t* w)> f,
                         int min_arch = 75);

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_CASES_INSTRUCTION_CASE_H_
