// hone-async-vectors: runs the asynchronous cases (mbarriers, bulk and tensor
// copies, wgmma, clusters) on a Hopper GPU and on the emulator, and compares
// both with what the PTX ISA says.
//
//   hone-async-vectors --out=sm_90a.jsonl [--only=bulk_]
//
// The GPU's share runs in a child process: a case that faults or hangs costs
// itself, and a new child goes on with the next. Needs the CUDA driver and
// NVRTC. Exits with 1 if a result differs, a case faults or hangs, with 2 if
// it could not run. With --without_gpu the emulator alone runs. --cubins keeps
// the compiled sources, 0.cubin and so on, to be disassembled.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/launch/device_query.h"
#include "kernels/launch/module.h"
#include "tests/kernels/emulator/cases/async_case.h"
#include "tests/kernels/emulator/cases/async_runner.h"
#include "tests/kernels/emulator/cases/case_runner.h"

ABSL_FLAG(std::string, out, "", "file for the vectors; empty: none");
ABSL_FLAG(std::string, only, "", "cases whose name contains this");
ABSL_FLAG(std::string, cubins, "", "folder to keep the cubins in");
ABSL_FLAG(int, ordinal, 0, "the GPU");
ABSL_FLAG(bool, without_gpu, false, "run the emulator alone");
ABSL_FLAG(int, case_timeout_s, 60, "of one case, a child's start included");
ABSL_FLAG(int, child_from, -1, "internal: run the cases from this one on");
ABSL_FLAG(std::string, child_folder, "", "internal: with the cubins");

namespace hone {
namespace {

using emulator::AsyncCase;
using emulator::CaseVector;
using emulator::CompiledUnit;
using emulator::Difference;

constexpr char kArch[] = "sm_90a";
// The child prints, per case, one line that starts with its number.
constexpr char kOk[] = "ok";

std::vector<AsyncCase> Cases() {
  std::vector<AsyncCase> cases;
  for (AsyncCase& c : emulator::AllAsyncCases()) {
    if (absl::StrContains(c.name, absl::GetFlag(FLAGS_only))) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

// Numbers the sources, in the cases' order.
std::map<std::string, int> SourceNumbers(const std::vector<AsyncCase>& cases) {
  std::map<std::string, int> numbers;
  for (const AsyncCase& c : cases) {
    numbers.emplace(c.source, static_cast<int>(numbers.size()));
  }
  return numbers;
}

std::string CubinPath(const std::string& folder, int source) {
  return absl::StrCat(folder, "/", source, ".cubin");
}
std::string OutputPath(const std::string& folder, size_t i) {
  return absl::StrCat(folder, "/", i, ".out");
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  return file ? absl::OkStatus()
              : absl::UnavailableError("cannot write " + path);
}

// The child -----------------------------------------------------------------

absl::StatusOr<std::vector<uint8_t>> RunOnDevice(const AsyncCase& c,
                                                 const Module& module,
                                                 StreamHandle stream) {
  HONE_ASSIGN_OR_RETURN(const FunctionHandle function,
                        module.Function(c.plan.kernel_name, c.plan.smem_bytes));
  BufferBindings bindings;
  std::vector<DeviceBuffer> buffers;
  DevicePtr output = 0;
  for (const auto& [role, bytes] : c.buffers) {
    HONE_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                          DeviceBuffer::Allocate(bytes.size()));
    HONE_RETURN_IF_ERROR(
        CopyToDevice(buffer.ptr(), bytes.data(), bytes.size(), stream));
    bindings.Bind(role, buffer.ptr());
    if (role == BufferRole::kC) output = buffer.ptr();
    buffers.push_back(std::move(buffer));
  }
  HONE_RETURN_IF_ERROR(Launch(function, c.plan, bindings, stream));
  std::vector<uint8_t> got(c.expected.size());
  HONE_RETURN_IF_ERROR(CopyToHost(got.data(), output, got.size(), stream));
  return got;
}

absl::Status RunChild(const std::vector<AsyncCase>& cases, size_t from,
                      const std::string& folder) {
  HONE_ASSIGN_OR_RETURN(const Context context,
                        Context::Retain(absl::GetFlag(FLAGS_ordinal)));
  HONE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create());
  const std::map<std::string, int> numbers = SourceNumbers(cases);
  std::map<std::string, Module> modules;
  for (size_t i = from; i < cases.size(); ++i) {
    const AsyncCase& c = cases[i];
    if (!modules.contains(c.source)) {
      HONE_ASSIGN_OR_RETURN(
          Module module,
          Module::Load(ReadFile(CubinPath(folder, numbers.at(c.source)))));
      modules.emplace(c.source, std::move(module));
    }
    const auto got = RunOnDevice(c, modules.at(c.source), stream.handle());
    HONE_RETURN_IF_ERROR(got.status());
    HONE_RETURN_IF_ERROR(WriteFile(OutputPath(folder, i),
                                   std::string(got->begin(), got->end())));
    std::cout << i << " " << kOk << std::endl;
  }
  return absl::OkStatus();
}

// The parent ----------------------------------------------------------------

// A child that runs the cases from `from` on.
struct Child {
  pid_t pid = -1;
  int out = -1;
  std::string buffered;

  static absl::StatusOr<Child> Start(size_t from, const std::string& folder) {
    const std::vector<std::string> words = {
        "hone-async-vectors", absl::StrCat("--child_from=", from),
        absl::StrCat("--child_folder=", folder),
        absl::StrCat("--only=", absl::GetFlag(FLAGS_only)),
        absl::StrCat("--ordinal=", absl::GetFlag(FLAGS_ordinal))};
    std::vector<char*> argv;
    for (const std::string& word : words) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    int ends[2];
    if (pipe(ends) != 0) return absl::UnavailableError("cannot make a pipe");
    Child child;
    child.pid = fork();
    if (child.pid == 0) {
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      close(ends[0]);
      close(ends[1]);
      execv("/proc/self/exe", argv.data());
      _exit(127);
    }
    close(ends[1]);
    child.out = ends[0];
    if (child.pid < 0) return absl::UnavailableError("cannot fork");
    return child;
  }

  // The next line; NotFound at the child's end, DeadlineExceeded.
  absl::StatusOr<std::string> Line(int timeout_s) {
    for (;;) {
      const size_t end = buffered.find('\n');
      if (end != std::string::npos) {
        std::string line = buffered.substr(0, end);
        buffered.erase(0, end + 1);
        return line;
      }
      pollfd waiting{out, POLLIN, 0};
      const int ready = poll(&waiting, 1, timeout_s * 1000);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return absl::DeadlineExceededError("no answer");
      char bytes[4096];
      const ssize_t count = read(out, bytes, sizeof(bytes));
      if (count <= 0) return absl::NotFoundError("ended");
      buffered.append(bytes, static_cast<size_t>(count));
    }
  }

  // Kills it if it still runs, and waits for it.
  void End() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(out);
  }
};

// Per case an empty string, or what went wrong on the GPU.
absl::StatusOr<std::vector<std::string>> RunChildren(
    size_t count, const std::string& folder) {
  std::vector<std::string> failures(count);
  size_t at = 0;
  while (at < count) {
    HONE_ASSIGN_OR_RETURN(Child child, Child::Start(at, folder));
    std::string said;
    while (at < count) {
      const auto line = child.Line(absl::GetFlag(FLAGS_case_timeout_s));
      if (line.ok() && *line == absl::StrCat(at, " ", kOk)) {
        ++at;
        continue;
      }
      if (line.ok()) {
        absl::StrAppend(&said, said.empty() ? "" : " ", *line);
        continue;
      }
      failures[at++] = absl::IsDeadlineExceeded(line.status()) ? "hangs"
                       : said.empty() ? "the process ended without a word"
                                      : said;
      break;
    }
    child.End();
  }
  return failures;
}

struct Report {
  int differ = 0;
  int failed = 0;
  emulator::VectorFile file;
};

// Compares one case; prints a line unless all agree to the bit.
absl::Status AddCase(const AsyncCase& c, const CompiledUnit& unit,
                     const std::string& failure,
                     const std::vector<uint8_t>* device, Report* report) {
  emulator::Options options;
  options.max_instructions = 10'000'000;
  const auto emulated = EmulateAsyncCase(c, *unit.module, options);
  if (!c.refusal.empty()) {
    const bool stopped =
        absl::StrContains(emulated.status().message(), c.refusal);
    report->differ += stopped ? 0 : 1;
    std::cout << (stopped ? "refused  " : "NOT REFUSED  ") << c.name
              << "; the device: "
              << (device == nullptr       ? "not asked"
                  : !failure.empty()      ? failure
                  : *device == c.expected ? "computes it"
                                          : "computes something else")
              << std::endl;
    return absl::OkStatus();
  }
  HONE_RETURN_IF_ERROR(emulated.status());
  const Difference d =
      CompareOutputs(c, *emulated, c.expected, c.emulator_bound);
  if (!d.same) {
    ++report->differ;
    std::cout << "DIFFERS  " << c.name << ": emulator and ISA: " << d.first
              << std::endl;
  }
  if (device == nullptr) return absl::OkStatus();
  CaseVector vector;
  vector.name = c.name;
  vector.bound = c.device_bound;
  if (!failure.empty()) {
    ++report->failed;
    std::cout << "FAILS  " << c.name << ": " << failure << std::endl;
    vector.status = "fails";
    report->file.cases.push_back(std::move(vector));
    return absl::OkStatus();
  }
  const Difference found =
      CompareOutputs(c, *device, *emulated, c.device_bound);
  vector.max_error = found.max_error;
  vector.status = found.same ? "same" : "differs";
  vector.outputs = KeptOutputs(c, *device);
  if (!found.same) {
    ++report->differ;
    std::cout << "DIFFERS  " << c.name
              << ": device and emulator: " << found.first << "; error "
              << found.max_error << ", allowed " << c.device_bound << std::endl;
  } else if (c.device_bound > 0) {
    std::cout << absl::StrFormat("error %.3g of %.3g  %s\n", found.max_error,
                                 c.device_bound, c.name);
  }
  report->file.cases.push_back(std::move(vector));
  return absl::OkStatus();
}

// Whether all agreed.
absl::StatusOr<bool> Run() {
  const std::vector<AsyncCase> cases = Cases();
  if (absl::GetFlag(FLAGS_child_from) >= 0) {
    HONE_RETURN_IF_ERROR(
        RunChild(cases, static_cast<size_t>(absl::GetFlag(FLAGS_child_from)),
                 absl::GetFlag(FLAGS_child_folder)));
    return true;
  }
  if (cases.empty()) {
    return absl::InvalidArgumentError("--only must be part of a case's name");
  }
  HONE_ASSIGN_OR_RETURN(
      const std::shared_ptr<const Nvrtc> nvrtc,
      Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv)));
  const bool gpu = !absl::GetFlag(FLAGS_without_gpu);
  Report report;
  report.file.header = {kArch, "no GPU", nvrtc->version(), 0, 1};
  if (gpu) {
    HONE_ASSIGN_OR_RETURN(const DeviceSpec spec,
                          QueryDevice(absl::GetFlag(FLAGS_ordinal)));
    if (spec.sm_arch != 90) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the cases are for sm_90a, the GPU is ", spec.NvrtcArch()));
    }
    report.file.header.device = spec.name;
  }
  const auto units = CompileAsyncSources(*nvrtc, cases, kArch);
  for (const auto& [source, unit] : units) HONE_RETURN_IF_ERROR(unit.status);
  std::string folder = absl::GetFlag(FLAGS_cubins);
  const bool keep = !folder.empty();
  if (!keep) {
    char name[] = "/tmp/hone-async-XXXXXX";
    if (mkdtemp(name) == nullptr) {
      return absl::UnavailableError("cannot make a temporary folder");
    }
    folder = name;
  }
  std::filesystem::create_directories(folder);
  for (const auto& [source, number] : SourceNumbers(cases)) {
    HONE_RETURN_IF_ERROR(
        WriteFile(CubinPath(folder, number), units.at(source).cubin));
  }
  std::vector<std::string> failures(cases.size());
  if (gpu) {
    HONE_ASSIGN_OR_RETURN(failures, RunChildren(cases.size(), folder));
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<uint8_t> device;
    if (gpu && failures[i].empty()) {
      const std::string bytes = ReadFile(OutputPath(folder, i));
      device.assign(bytes.begin(), bytes.end());
      std::filesystem::remove(OutputPath(folder, i));
    }
    HONE_RETURN_IF_ERROR(AddCase(cases[i], units.at(cases[i].source),
                                 failures[i], gpu ? &device : nullptr,
                                 &report));
  }
  if (!keep) std::filesystem::remove_all(folder);
  std::cout << report.file.header.device << ": " << cases.size() << " cases, "
            << report.differ << " differ, " << report.failed << " fault or hang"
            << std::endl;
  const std::string out = absl::GetFlag(FLAGS_out);
  if (gpu && !out.empty()) {
    HONE_RETURN_IF_ERROR(WriteFile(out, WriteVectors(report.file)));
  }
  return report.differ == 0 && report.failed == 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares the emulator's asynchronous instructions with a Hopper GPU.\n"
      "hone-async-vectors [--out=FILE]");
  absl::ParseCommandLine(argc, argv);
  const absl::StatusOr<bool> same = hone::Run();
  if (!same.ok()) {
    std::cerr << same.status().message() << std::endl;
    return 2;
  }
  return *same ? 0 : 1;
}
