// hone-kernel-bench: compiles, gates and times given kernels on one GPU, in
// this process. For people who work on kernels; tuning goes through honed.
//
//   hone-kernel-bench --problem=... --m=1,16,64 --configs=default
//   hone-kernel-bench --jobs=jobs.txt --rounds=20 --out=x.json
//
// A job may end in |arithmetic, |dequantization or |mmas: then that is taken
// out of the kernel, to see what it costs. Such kernels are timed beside the
// whole ones and not gated.
//
// Every config of a problem is compiled first, on several threads; then, M by
// M, each is gated, the rounds run with the configs shuffled, and each is
// gated again. With --gate_only CUPTI is never touched, so the tool can run
// under compute-sanitizer and ncu.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/device_query.h"
#include "kernels/space/space.h"
#include "tests/bench/kernel_compiler.h"
#include "tuner/measure/gpu_measurer.h"

ABSL_FLAG(std::string, problem, "",
          "canonical text of the problem, or a file that holds it");
ABSL_FLAG(std::string, m, "1,16,64,256,1024", "numbers of tokens");
ABSL_FLAG(std::string, configs, "default",
          "file with one canonical Tuning Config per line, one such text, or "
          "\"default\"");
ABSL_FLAG(std::string, jobs, "",
          "file with lines problem|m,m,...|config or problem|m,m,...|config|"
          "strip, where strip is nothing, arithmetic, dequantization or mmas; "
          "replaces --problem, --m and --configs. Empty lines and lines that "
          "start with # are skipped");
ABSL_FLAG(int, rounds, 20, "timed rounds per M");
ABSL_FLAG(int, repeat_check, 0,
          "further gate runs per config and M, to find races");
ABSL_FLAG(bool, gate_only, false, "check only; never load CUPTI");
ABSL_FLAG(int, compile_threads, 16, "threads that compile");
ABSL_FLAG(int, device, 0, "CUDA ordinal of the GPU");
ABSL_FLAG(uint64_t, seed, 1, "of operands and order");
ABSL_FLAG(std::string, out, "", "file for the JSON report");
ABSL_FLAG(std::string, compile_only, "",
          "a modelled device, such as h200: compile for it and stop; needs no "
          "GPU");

namespace hone {
namespace {

struct Candidate {
  TuningConfig config;
  Strip strip = Strip::kNothing;

  friend bool operator==(const Candidate&, const Candidate&) = default;
  // Stripped kernels' outputs are wrong.
  bool gated() const { return strip == Strip::kNothing; }
  std::string ShortId() const {
    return absl::StrCat(config.Hash().substr(0, 8),
                        gated() ? "" : absl::StrCat("-", ToString(strip)));
  }
};

// One candidate of one problem at one M, and what became of it.
struct Run {
  int64_t m = 0;
  int candidate = 0;  // in ProblemJobs::candidates
  GateResult gate;
  GateResult gate_after;
  std::vector<Sample> samples;
};

struct ProblemJobs {
  Problem problem;
  std::vector<Candidate> candidates;
  std::vector<BenchKernel> kernels;  // parallel to candidates
  std::vector<Run> runs;             // by rising M
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The lines of a file that exists, else the text itself as the one line.
std::vector<std::string> LinesOf(const std::string& text_or_path) {
  const absl::StatusOr<std::string> content = ReadFile(text_or_path);
  std::vector<std::string> lines;
  for (absl::string_view line :
       absl::StrSplit(content.ok() ? *content : text_or_path, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && line[0] != '#') lines.emplace_back(line);
  }
  return lines;
}

absl::StatusOr<std::vector<int64_t>> ParseMs(absl::string_view text) {
  std::vector<int64_t> ms;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t m = 0;
    if (!absl::SimpleAtoi(part, &m) || m < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("m: \"", part, "\" must be a number of at least 1"));
    }
    ms.push_back(m);
  }
  return ms;
}

absl::Status AddJob(const Problem& problem, const std::vector<int64_t>& ms,
                    const std::string& config_text, Strip strip,
                    const DeviceSpec& device, std::vector<ProblemJobs>& jobs) {
  auto job = std::find_if(jobs.begin(), jobs.end(), [&](const ProblemJobs& j) {
    return j.problem == problem;
  });
  if (job == jobs.end()) {
    HONE_RETURN_IF_ERROR(CheckProblem(problem, device));
    job = jobs.insert(jobs.end(), ProblemJobs{problem, {}, {}, {}});
  }
  for (const int64_t m : ms) {
    Candidate candidate;
    candidate.strip = strip;
    if (config_text == "default") {
      candidate.config = HeuristicDefault(problem, device, m);
    } else {
      HONE_ASSIGN_OR_RETURN(candidate.config, TuningConfig::Parse(config_text));
    }
    auto known =
        std::find(job->candidates.begin(), job->candidates.end(), candidate);
    if (known == job->candidates.end()) {
      if (const auto refusal = CheckConfig(problem, device, candidate.config)) {
        return absl::InvalidArgumentError(
            absl::StrCat(config_text, ": ", refusal->reason));
      }
      known = job->candidates.insert(known, candidate);
    }
    Run run;
    run.m = m;
    run.candidate = static_cast<int>(known - job->candidates.begin());
    const bool twice =
        std::any_of(job->runs.begin(), job->runs.end(), [&](const Run& r) {
          return r.m == run.m && r.candidate == run.candidate;
        });
    if (!twice) job->runs.push_back(run);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProblemJobs>> MakeJobs(const DeviceSpec& device) {
  std::vector<ProblemJobs> jobs;
  if (const std::string path = absl::GetFlag(FLAGS_jobs); !path.empty()) {
    HONE_RETURN_IF_ERROR(ReadFile(path).status());
    for (const std::string& line : LinesOf(path)) {
      const std::vector<std::string> parts = absl::StrSplit(line, '|');
      if (parts.size() != 3 && parts.size() != 4) {
        return absl::InvalidArgumentError(absl::StrCat(
            "job \"", line, "\" is not problem|m,m,...|config|strip"));
      }
      Strip strip = Strip::kNothing;
      if (parts.size() == 4) {
        HONE_ASSIGN_OR_RETURN(strip, ParseStrip(parts[3]));
      }
      HONE_ASSIGN_OR_RETURN(const Problem problem, Problem::Parse(parts[0]));
      HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ms, ParseMs(parts[1]));
      HONE_RETURN_IF_ERROR(AddJob(problem, ms, parts[2], strip, device, jobs));
    }
  } else {
    HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ms,
                          ParseMs(absl::GetFlag(FLAGS_m)));
    for (const std::string& text : LinesOf(absl::GetFlag(FLAGS_problem))) {
      HONE_ASSIGN_OR_RETURN(const Problem problem, Problem::Parse(text));
      for (const std::string& config : LinesOf(absl::GetFlag(FLAGS_configs))) {
        HONE_RETURN_IF_ERROR(
            AddJob(problem, ms, config, Strip::kNothing, device, jobs));
      }
    }
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError("give --problem or --jobs");
  }
  for (ProblemJobs& job : jobs) {
    std::stable_sort(job.runs.begin(), job.runs.end(),
                     [](const Run& a, const Run& b) { return a.m < b.m; });
  }
  return jobs;
}

void CompileAll(const KernelCompiler& compiler, const DeviceSpec& device,
                std::vector<ProblemJobs>& jobs) {
  std::vector<std::pair<ProblemJobs*, size_t>> work;
  for (ProblemJobs& job : jobs) {
    job.kernels.resize(job.candidates.size());
    for (size_t i = 0; i < job.candidates.size(); ++i)
      work.push_back({&job, i});
  }
  std::atomic<size_t> next{0};
  const auto compile = [&] {
    for (size_t i = next++; i < work.size(); i = next++) {
      auto& [job, at] = work[i];
      job->kernels[at] =
          compiler.Compile(job->problem, job->candidates[at].config, device,
                           job->candidates[at].strip);
    }
  };
  std::vector<std::thread> threads;
  const size_t count = std::clamp<size_t>(absl::GetFlag(FLAGS_compile_threads),
                                          1, std::max<size_t>(work.size(), 1));
  for (size_t i = 0; i < count; ++i) threads.emplace_back(compile);
  for (std::thread& thread : threads) thread.join();
}

double Percentile(std::vector<Sample> samples, double part) {
  if (samples.empty()) return 0;
  const auto at = static_cast<ptrdiff_t>(
      part * static_cast<double>(samples.size() - 1) + 0.5);
  std::nth_element(samples.begin(), samples.begin() + at, samples.end(),
                   [](const Sample& a, const Sample& b) {
                     return a.duration_ns < b.duration_ns;
                   });
  return static_cast<double>(samples[static_cast<size_t>(at)].duration_ns);
}

absl::Status MeasureM(GpuMeasurer& measurer,
                      const std::vector<Candidate>& candidates,
                      const std::vector<Run*>& runs,
                      const std::vector<int>& indexes, int64_t m,
                      std::mt19937_64& random) {
  std::vector<size_t> alive;
  for (size_t i = 0; i < runs.size(); ++i) {
    Run& run = *runs[i];
    const int index = indexes[static_cast<size_t>(run.candidate)];
    if (index < 0) continue;
    if (!candidates[static_cast<size_t>(run.candidate)].gated()) {
      run.gate.outcome = Outcome::kMeasured;
      alive.push_back(i);
      continue;
    }
    for (int n = 0; n <= absl::GetFlag(FLAGS_repeat_check); ++n) {
      HONE_ASSIGN_OR_RETURN(run.gate, measurer.Gate(index, m));
      if (run.gate.outcome == Outcome::kFault) {
        return absl::AbortedError(run.gate.detail);
      }
      if (run.gate.outcome != Outcome::kMeasured) break;
    }
    if (run.gate.outcome == Outcome::kMeasured) alive.push_back(i);
  }
  if (absl::GetFlag(FLAGS_gate_only)) return absl::OkStatus();
  int slowed = 0;
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds) && !alive.empty();) {
    std::shuffle(alive.begin(), alive.end(), random);
    RoundRequest request;
    request.m = m;
    request.round = round;
    for (const size_t i : alive) {
      request.order.push_back(indexes[static_cast<size_t>(runs[i]->candidate)]);
    }
    HONE_ASSIGN_OR_RETURN(const RoundResult result, measurer.Round(request));
    if (result.slowed_down && ++slowed < 20) continue;
    for (size_t j = 0; j < alive.size(); ++j) {
      if (result.entries[j].outcome == Outcome::kMeasured) {
        runs[alive[j]]->samples.push_back(result.entries[j].sample);
      } else {
        runs[alive[j]]->gate.outcome = result.entries[j].outcome;
        runs[alive[j]]->gate.detail = result.entries[j].detail;
      }
    }
    ++round;
  }
  for (const size_t i : alive) {
    Run& run = *runs[i];
    if (!candidates[static_cast<size_t>(run.candidate)].gated()) continue;
    HONE_ASSIGN_OR_RETURN(
        run.gate_after,
        measurer.Gate(indexes[static_cast<size_t>(run.candidate)], m));
    if (run.gate_after.outcome == Outcome::kFault) {
      return absl::AbortedError(run.gate_after.detail);
    }
    if (run.gate_after.outcome != Outcome::kMeasured &&
        run.gate.outcome == Outcome::kMeasured) {
      run.gate = run.gate_after;
      run.gate.detail = absl::StrCat("after timing: ", run.gate.detail);
    }
  }
  return absl::OkStatus();
}

void PrintHeader() {
  absl::PrintF("%-8s %6s %10s %10s %8s %9s %8s  %s\n", "config", "M",
               "median us", "min us", "floor", "rel.err", "ratio", "outcome");
}

void PrintRun(const ProblemJobs& job, const Run& run,
              const DeviceSpec& device) {
  const auto at = static_cast<size_t>(run.candidate);
  absl::PrintF(
      "%-8s %6d %10.2f %10.2f %8.2f %9.2e %8.3f  %s %s\n",
      job.candidates[at].ShortId(), run.m, Percentile(run.samples, 0.5) / 1e3,
      Percentile(run.samples, 0) / 1e3,
      FloorNs(job.problem, device, run.m) / 1e3, run.gate.error.relative_norm,
      run.gate.error.worst_ratio, ToString(run.gate.outcome), run.gate.detail);
  std::fflush(stdout);
}

absl::Status MeasureProblem(GpuMeasurer& measurer, ProblemJobs& job,
                            std::mt19937_64& random) {
  absl::PrintF("\n%s\n", job.problem.ToString());
  for (size_t i = 0; i < job.candidates.size(); ++i) {
    const BenchKernel& kernel = job.kernels[i];
    absl::PrintF("%s %s\n         %s\n", job.candidates[i].ShortId(),
                 job.candidates[i].config.ToString(), kernel.Describe());
  }
  PrintHeader();
  int64_t max_m = 1;
  for (const Run& run : job.runs) max_m = std::max(max_m, run.m);
  HONE_RETURN_IF_ERROR(
      measurer.Begin(job.problem, max_m, absl::GetFlag(FLAGS_seed)));
  std::vector<int> indexes;
  for (size_t i = 0; i < job.candidates.size(); ++i) {
    int index = -1;
    if (job.kernels[i].status.ok()) {
      HONE_ASSIGN_OR_RETURN(
          index, measurer.Add(job.candidates[i].config, job.kernels[i].cubin));
    }
    indexes.push_back(index);
  }
  for (size_t begin = 0; begin < job.runs.size();) {
    const int64_t m = job.runs[begin].m;
    std::vector<Run*> runs;
    size_t end = begin;
    for (; end < job.runs.size() && job.runs[end].m == m; ++end) {
      Run& run = job.runs[end];
      const BenchKernel& kernel =
          job.kernels[static_cast<size_t>(run.candidate)];
      if (!kernel.status.ok()) {
        run.gate.outcome = Outcome::kCompileError;
        run.gate.detail = std::string(kernel.status.message());
      }
      runs.push_back(&run);
    }
    const absl::Status status =
        MeasureM(measurer, job.candidates, runs, indexes, m, random);
    for (const Run* run : runs) PrintRun(job, *run, measurer.device());
    HONE_RETURN_IF_ERROR(status);
    begin = end;
  }
  return absl::OkStatus();
}

std::string Quote(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, c));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string RunJson(const ProblemJobs& job, const Run& run,
                    const DeviceSpec& device) {
  const auto at = static_cast<size_t>(run.candidate);
  std::vector<int64_t> ns;
  std::vector<int64_t> khz;
  for (const Sample& sample : run.samples) {
    ns.push_back(sample.duration_ns);
    khz.push_back(sample.sm_clock_khz);
  }
  const BenchKernel& kernel = job.kernels[at];
  return absl::StrCat(
      "{\"problem\":", Quote(job.problem.ToString()), ",\"m\":", run.m,
      ",\"config\":", Quote(job.candidates[at].config.ToString()),
      ",\"config_id\":", Quote(job.candidates[at].ShortId()),
      ",\"strip\":", Quote(ToString(job.candidates[at].strip)),
      ",\"outcome\":", Quote(ToString(run.gate.outcome)),
      ",\"detail\":", Quote(run.gate.detail),
      ",\"relative_error\":", run.gate.error.relative_norm,
      ",\"worst_ratio\":", run.gate.error.worst_ratio,
      ",\"registers\":", kernel.resources.registers,
      ",\"spill_bytes\":", kernel.resources.spill_store_bytes,
      ",\"smem_bytes\":", SmemBytes(job.problem, job.candidates[at].config),
      ",\"compile_ms\":", kernel.compile_ms,
      ",\"median_ns\":", Percentile(run.samples, 0.5),
      ",\"min_ns\":", Percentile(run.samples, 0),
      ",\"floor_ns\":", FloorNs(job.problem, device, run.m),
      ",\"samples_ns\":[", absl::StrJoin(ns, ","), "],\"sm_clocks_khz\":[",
      absl::StrJoin(khz, ","), "]}");
}

absl::Status WriteReport(const std::string& path, const DeviceSpec& device,
                         const std::vector<ProblemJobs>& jobs,
                         const absl::Status& status) {
  std::vector<std::string> runs;
  for (const ProblemJobs& job : jobs) {
    for (const Run& run : job.runs) runs.push_back(RunJson(job, run, device));
  }
  std::ofstream file(path);
  file << "{\"date\":"
       << Quote(absl::FormatTime(absl::RFC3339_sec, absl::Now(),
                                 absl::UTCTimeZone()))
       << ",\"device\":{\"name\":" << Quote(device.name)
       << ",\"uuid\":" << Quote(device.uuid)
       << ",\"class\":" << Quote(device.ClassText())
       << ",\"soft\":" << Quote(device.SoftText())
       << ",\"max_clock_khz\":" << device.max_clock_khz
       << ",\"memory_gbps\":" << device.memory_gbps << "}"
       << ",\"source_closure\":" << Quote(SourceClosureHash())
       << ",\"status\":" << Quote(status.ToString()) << ",\"runs\":[\n"
       << absl::StrJoin(runs, ",\n") << "\n]}\n";
  file.close();
  if (!file) return absl::InternalError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

int CompileOnly(const KernelCompiler& compiler, const DeviceSpec& device) {
  absl::StatusOr<std::vector<ProblemJobs>> jobs = MakeJobs(device);
  if (!jobs.ok()) {
    std::cerr << jobs.status() << "\n";
    return 2;
  }
  CompileAll(compiler, device, *jobs);
  int failures = 0;
  for (const ProblemJobs& job : *jobs) {
    for (size_t i = 0; i < job.candidates.size(); ++i) {
      absl::PrintF("%s %s\n         %s\n", job.candidates[i].ShortId(),
                   job.candidates[i].config.ToString(),
                   job.kernels[i].Describe());
      if (!job.kernels[i].status.ok()) ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

// 0 when every run was measured, 1 when a kernel failed, 2 when Hone did.
int Main() {
  const absl::StatusOr<KernelCompiler> compiler = KernelCompiler::Create();
  if (!compiler.ok()) {
    std::cerr << compiler.status() << "\n";
    return 2;
  }
  if (const std::string model = absl::GetFlag(FLAGS_compile_only);
      !model.empty()) {
    const absl::StatusOr<DeviceSpec> device = ModelledDevice(model);
    if (!device.ok()) {
      std::cerr << device.status() << "\n";
      return 2;
    }
    return CompileOnly(*compiler, *device);
  }
  GpuMeasurer::Options options;
  options.device = absl::GetFlag(FLAGS_device);
  options.timing = !absl::GetFlag(FLAGS_gate_only);
  options.libraries = LibrarySearchFromEnvironment(std::getenv);
  // Before this process makes a context.
  for (const int64_t pid : ForeignProcesses(options.device)) {
    absl::PrintF("warning: process %d computes on this GPU too\n", pid);
  }
  absl::StatusOr<std::unique_ptr<GpuMeasurer>> measurer = GpuMeasurer::Create(
      options, [&compiler](const std::string& source, const std::string& arch) {
        return compiler->CompileSource(source, arch);
      });
  if (!measurer.ok()) {
    std::cerr << measurer.status() << "\n";
    return 2;
  }
  const DeviceSpec& device = (*measurer)->device();
  absl::PrintF("%s, %s, %s\n", device.name, device.ClassText(),
               device.SoftText());
  absl::StatusOr<std::vector<ProblemJobs>> jobs = MakeJobs(device);
  if (!jobs.ok()) {
    std::cerr << jobs.status() << "\n";
    return 2;
  }
  const absl::Time start = absl::Now();
  CompileAll(*compiler, device, *jobs);
  absl::PrintF("compiled in %.1f s\n",
               absl::ToDoubleSeconds(absl::Now() - start));
  std::mt19937_64 random(absl::GetFlag(FLAGS_seed));
  absl::Status status;
  for (ProblemJobs& job : *jobs) {
    status = MeasureProblem(**measurer, job, random);
    if (!status.ok()) break;
  }
  absl::PrintF("\nall in %.1f s\n", absl::ToDoubleSeconds(absl::Now() - start));
  if (const std::string path = absl::GetFlag(FLAGS_out); !path.empty()) {
    status.Update(WriteReport(path, device, *jobs, status));
  }
  if (!status.ok()) {
    std::cerr << status << "\n";
    return 2;
  }
  for (const ProblemJobs& job : *jobs) {
    for (const Run& run : job.runs) {
      if (run.gate.outcome != Outcome::kMeasured) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "compiles, gates and times kernels on one GPU; see the flags with "
      "--help=kernel_bench");
  absl::ParseCommandLine(argc, argv);
  return hone::Main();
}
