// hone-emulator-vectors: runs one small kernel per instruction on a GPU and on
// the emulator, with the same random inputs, and compares.
//
//   hone-emulator-vectors --out=sm_90a.jsonl
//
// Needs the CUDA driver and NVRTC. Exits with 1 if a result differs, with 2 if
// it could not run. --out gets what the GPU returned, in the form that
// tests/kernels/emulator/vectors keeps. With --without_gpu=sm_90a the reference
// stands in for the GPU: that proves the kernels of that architecture.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/launch/device_query.h"
#include "kernels/launch/module.h"
#include "tests/kernels/emulator/cases/case_runner.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

ABSL_FLAG(std::string, out, "", "file for the vectors; empty: none");
ABSL_FLAG(int, ordinal, 0, "the GPU");
ABSL_FLAG(std::string, without_gpu, "",
          "an architecture, as NVRTC spells it: use no GPU, compare with the "
          "reference instead. Nothing is written");
ABSL_FLAG(uint64_t, seed, 7, "of all inputs");
ABSL_FLAG(int, rounds, 4, "warps per instruction");

namespace hone {
namespace {

using emulator::CaseResult;
using emulator::CaseVector;
using emulator::CompiledCase;
using emulator::Difference;
using emulator::InstructionCase;

absl::StatusOr<std::vector<uint32_t>> RunOnDevice(
    const InstructionCase& c, const Module& module, const std::string& kernel,
    const std::vector<uint32_t>& inputs, int rounds, StreamHandle stream) {
  std::vector<uint32_t> outputs(size_t{32} * c.cluster * c.outputs * rounds);
  HONE_ASSIGN_OR_RETURN(const FunctionHandle function,
                        module.Function(kernel, 0));
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer in,
                        DeviceBuffer::Allocate(inputs.size() * 4));
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer out,
                        DeviceBuffer::Allocate(outputs.size() * 4));
  HONE_RETURN_IF_ERROR(
      CopyToDevice(in.ptr(), inputs.data(), inputs.size() * 4, stream));
  HONE_RETURN_IF_ERROR(Fill(out.ptr(), 0xee, outputs.size() * 4, stream));
  BufferBindings buffers;
  buffers.Bind(BufferRole::kA, in.ptr()).Bind(BufferRole::kC, out.ptr());
  HONE_RETURN_IF_ERROR(
      Launch(function, emulator::CasePlan(c, kernel, rounds), buffers, stream));
  HONE_RETURN_IF_ERROR(
      CopyToHost(outputs.data(), out.ptr(), outputs.size() * 4, stream));
  return outputs;
}

// Runs one case on both; prints a line if they differ. Without a module the
// reference stands in for the device.
absl::StatusOr<CaseVector> RunCase(const CompiledCase& compiled,
                                   const Module* module, int rounds,
                                   uint64_t seed, StreamHandle stream) {
  const InstructionCase& c = *compiled.instruction;
  const std::vector<uint32_t> inputs = CaseInputs(c, seed, rounds);
  CaseVector vector;
  vector.name = c.name;
  vector.bound = module == nullptr ? c.emulator_bound : c.device_bound;
  CaseResult want = CaseExpectation(c, inputs);
  if (module == nullptr) {
    vector.outputs = want.words;
  } else {
    HONE_ASSIGN_OR_RETURN(
        vector.outputs,
        RunOnDevice(c, *module, compiled.kernel, inputs, rounds, stream));
  }
  HONE_ASSIGN_OR_RETURN(want.words,
                        EmulateCase(c, *compiled.unit->module, compiled.kernel,
                                    inputs, rounds, seed));
  const Difference d = CompareResults(c, vector.outputs, want, vector.bound);
  vector.max_error = d.max_error;
  vector.status = d.same ? "same" : "differs";
  if (!d.same) {
    std::cout << "DIFFERS  " << c.name << ": " << d.first << "; error "
              << d.max_error << ", allowed " << vector.bound << std::endl;
  }
  return vector;
}

// The GPU, or nothing but an architecture.
struct Device {
  int arch = 0;
  std::string nvrtc_arch;
  std::string name;
  std::optional<Context> context;
  Stream stream;
};

absl::StatusOr<Device> OpenDevice() {
  Device device;
  device.nvrtc_arch = absl::GetFlag(FLAGS_without_gpu);
  if (!device.nvrtc_arch.empty()) {
    absl::string_view digits = device.nvrtc_arch;
    if (!absl::ConsumePrefix(&digits, "sm_")) digits = "";
    absl::ConsumeSuffix(&digits, "a");
    if (!absl::SimpleAtoi(digits, &device.arch)) {
      return absl::InvalidArgumentError(
          "--without_gpu must be an architecture, such as sm_90a");
    }
    device.name = "no GPU";
    return device;
  }
  const int ordinal = absl::GetFlag(FLAGS_ordinal);
  HONE_ASSIGN_OR_RETURN(const DeviceSpec spec, QueryDevice(ordinal));
  HONE_ASSIGN_OR_RETURN(Context context, Context::Retain(ordinal));
  device.arch = spec.sm_arch;
  device.nvrtc_arch = spec.NvrtcArch();
  device.name = spec.name;
  device.context.emplace(std::move(context));
  HONE_ASSIGN_OR_RETURN(device.stream, Stream::Create());
  return device;
}

absl::Status Write(const emulator::VectorFile& file, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << emulator::WriteVectors(file);
  out.close();
  return out ? absl::OkStatus()
             : absl::UnavailableError("cannot write " + path);
}

// Whether all agreed.
absl::StatusOr<bool> Run() {
  const int rounds = absl::GetFlag(FLAGS_rounds);
  if (rounds < 1 || rounds > 10000) {
    return absl::InvalidArgumentError("--rounds must be 1 to 10000");
  }
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  HONE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Nvrtc> nvrtc,
      Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv)));
  HONE_ASSIGN_OR_RETURN(const Device device, OpenDevice());
  const std::vector<InstructionCase> cases = emulator::AllInstructionCases();
  emulator::VectorFile file;
  file.header = {device.nvrtc_arch, device.name, nvrtc->version(),
                 static_cast<int64_t>(seed), rounds};
  std::vector<const InstructionCase*> here;
  for (const InstructionCase& c : cases) {
    if (c.RunsOn(device.arch)) here.push_back(&c);
  }
  const std::vector<CompiledCase> compiled_cases = emulator::CompileCases(
      *nvrtc, here, [&](const InstructionCase&) { return device.nvrtc_arch; });
  std::map<const emulator::CompiledUnit*, Module> modules;
  int differ = 0;
  for (const CompiledCase& compiled : compiled_cases) {
    const emulator::CompiledUnit& unit = *compiled.unit;
    HONE_RETURN_IF_ERROR(unit.status);
    if (device.context.has_value() && !modules.contains(&unit)) {
      HONE_ASSIGN_OR_RETURN(Module module, Module::Load(unit.cubin));
      modules.emplace(&unit, std::move(module));
    }
    absl::StatusOr<CaseVector> vector = RunCase(
        compiled, device.context.has_value() ? &modules.at(&unit) : nullptr,
        rounds, seed, device.stream.handle());
    if (!vector.ok()) {
      return absl::Status(vector.status().code(),
                          absl::StrCat(compiled.instruction->name, ": ",
                                       vector.status().message()));
    }
    differ += vector->status == "differs";
    if (vector->bound > 0) {
      std::cout << absl::StrFormat("error %.3g of %.3g  %s\n",
                                   vector->max_error, vector->bound,
                                   vector->name);
    }
    file.cases.push_back(*std::move(vector));
  }
  for (const InstructionCase& c : cases) {
    if (c.RunsOn(device.arch)) continue;
    CaseVector vector;
    vector.name = c.name;
    vector.status = "skipped";
    file.cases.push_back(std::move(vector));
    std::cout << "skipped  " << c.name << ": not on " << device.nvrtc_arch
              << "\n";
  }
  std::cout << device.name << ": " << here.size() << " instructions, " << differ
            << " differ, " << cases.size() - here.size() << " not on "
            << device.nvrtc_arch << std::endl;
  const std::string path = absl::GetFlag(FLAGS_out);
  if (!path.empty() && device.context.has_value()) {
    HONE_RETURN_IF_ERROR(Write(file, path));
  }
  return differ == 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares the emulator with a GPU, instruction by instruction.\n"
      "hone-emulator-vectors [--out=FILE]");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<bool> same = hone::Run();
  if (!same.ok()) {
    std::cerr << same.status().message() << std::endl;
    return 2;
  }
  return *same ? 0 : 1;
}
