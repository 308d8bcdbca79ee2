#include "tests/support/faults.h"

#include <elf.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

constexpr absl::string_view kMark = "// hone_fault=";

constexpr absl::string_view kNames[kFaultKinds] = {"hang",
                                                   "illegal_address",
                                                   "illegal_instruction",
                                                   "wrong_answer",
                                                   "nan",
                                                   "race",
                                                   "compiler_crash",
                                                   "endless_compile",
                                                   "worker_killed",
                                                   "out_of_memory"};

// What the kernels' parameters are made of, for a unit without the rest.
constexpr absl::string_view kPrelude = R"(
namespace hone {
using u8 = unsigned char;
struct alignas(64) TensorMap { u8 bytes[128]; };
}
)";

// The head of the kernel, up to its opening brace.
std::string HeadOf(const std::string& source) {
  const size_t begin = source.find("extern \"C\" __global__");
  const size_t end = source.find(") {\n", begin);
  return source.substr(begin, end + 4 - begin);
}

// Every 16-bit output set to one code.
std::string StoreEverywhere(int64_t n, absl::string_view code) {
  return absl::StrCat(
      "  const long long count = (long long)m * ", n,
      ";\n  const long long step = (long long)blockDim.x * gridDim.x * "
      "gridDim.y * gridDim.z;\n"
      "  const long long block = blockIdx.x + (long long)gridDim.x * "
      "(blockIdx.y + (long long)gridDim.y * blockIdx.z);\n"
      "  for (long long i = block * blockDim.x + threadIdx.x; i < count;\n"
      "       i += step) ((unsigned short*)c)[i] = ",
      code, ";\n");
}

// A straight line of dependent operations that ptxas takes minutes over.
std::string EndlessBody() {
  std::string body =
      "  unsigned v[64];\n#pragma unroll\n"
      "  for (int i = 0; i < 64; ++i) v[i] = ((unsigned*)c)[i];\n";
  for (int block = 3; block < 15; ++block) {
    absl::StrAppend(&body,
                    "#pragma unroll\n  for (int r = 0; r < 8000; ++r)\n"
                    "    v[r % 64] = v[(r * 7 + ",
                    block,
                    ") % 64] * v[(r * 13 + 5) % 64] + (v[(r + 1) % 64] >> (r % "
                    "31));\n");
  }
  return absl::StrCat(body,
                      "#pragma unroll\n  for (int i = 0; i < 64; ++i) "
                      "((unsigned*)c)[i] = v[i];\n");
}

std::string KeyOf(const Problem& problem, const TuningConfig& config) {
  return absl::StrCat(problem.ToString(), "|", config.ToString());
}

// The end of a wgmma kernel has few registers in some of its warps: no room for
// what makes a race.
bool Suits(FaultKind kind, const TuningConfig& config) {
  return kind != FaultKind::kRace || !UsesWgmma(config);
}

bool ByText(const TuningConfig& a, const TuningConfig& b) {
  return a.ToString() < b.ToString();
}

}  // namespace

absl::string_view ToString(FaultKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

Outcome OutcomeOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kHang:
      return Outcome::kTimeout;
    case FaultKind::kIllegalAddress:
    case FaultKind::kIllegalInstruction:
      return Outcome::kFault;
    case FaultKind::kWrongAnswer:
    case FaultKind::kNan:
      return Outcome::kWrongResult;
    case FaultKind::kRace:
      return Outcome::kNotRepeatable;
    case FaultKind::kCompilerCrash:
      return Outcome::kCompilerCrash;
    case FaultKind::kEndlessCompile:
      return Outcome::kCompileTimeout;
    case FaultKind::kWorkerKilled:
      return Outcome::kInterrupted;
    case FaultKind::kOutOfMemory:
      return Outcome::kOutOfMemory;
  }
  return Outcome::kMeasured;
}

std::string FaultySource(FaultKind kind, const RenderedKernel& kernel,
                         const Problem& problem, const TuningConfig& config) {
  if (kind == FaultKind::kWorkerKilled) return kernel.source;
  const std::string mark =
      absl::StrCat(kMark, ToString(kind), "\n// ", config.ToString(), "\n");
  if (kind == FaultKind::kRace) {
    // The whole kernel. Whichever thread is the last of all to end, when every
    // output is written, then sets bits as the clock has it.
    std::string source = absl::StrCat(
        mark, "__device__ unsigned hone_fault_ended;\n", kernel.source);
    source.resize(source.rfind('}'));
    return absl::StrCat(
        source,
        "  __threadfence();\n"
        "  const unsigned all = blockDim.x * gridDim.x * gridDim.y * "
        "gridDim.z;\n"
        "  if (atomicAdd(&hone_fault_ended, 1) % all == all - 1) {\n"
        "    __threadfence();\n"
        "    unsigned long long bits;\n"
        "    asm volatile(\"mov.u64 %0, %clock64;\" : \"=l\"(bits));\n"
        "    bits *= 0x9e3779b97f4a7c15ull;\n"
        "    bits ^= bits >> 32;\n"
        "    for (int i = 0; i < 64; ++i)\n"
        "      ((volatile unsigned short*)c)[i] ^= (bits >> i) & 1;\n"
        "  }\n"
        "}\n");
  }
  std::string globals;
  std::string body;
  switch (kind) {
    case FaultKind::kHang:
      body = "  while (*(volatile unsigned*)c != 0x12345678u) {}\n";
      break;
    case FaultKind::kIllegalAddress:
      body = "  *(volatile int*)(16 + 4 * threadIdx.x) = m;\n";
      break;
    case FaultKind::kIllegalInstruction:
      // Its instructions are spoilt once it is compiled.
      body = "  *(volatile int*)c = m;\n";
      break;
    case FaultKind::kWrongAnswer:
      body = StoreEverywhere(problem.layer.n, "0x3c00");
      break;
    case FaultKind::kNan:
      body = StoreEverywhere(problem.layer.n, "0x7fff");
      break;
    case FaultKind::kOutOfMemory:
      globals = "__device__ unsigned char hone_fault_memory[1ull << 40];\n";
      body = "  hone_fault_memory[(unsigned long long)m << 30] = 1;\n";
      break;
    case FaultKind::kCompilerCrash: {
      // Short of memory, NVRTC's parser dies of it with SIGSEGV.
      constexpr size_t kDepth = 200'000;
      body = absl::StrCat("  *(volatile int*)c = ", std::string(kDepth, '('),
                          "m", std::string(kDepth, ')'), ";\n");
      break;
    }
    case FaultKind::kEndlessCompile:
      body = EndlessBody();
      break;
    case FaultKind::kRace:
    case FaultKind::kWorkerKilled:
      break;
  }
  return absl::StrCat(mark, kPrelude, globals, HeadOf(kernel.source), body,
                      "}\n");
}

absl::string_view FaultNamedIn(absl::string_view source) {
  if (!absl::ConsumePrefix(&source, kMark)) return "";
  return source.substr(0, source.find('\n'));
}

void SpoilInstructions(std::string& cubin) {
  Elf64_Ehdr head;
  if (cubin.size() < sizeof head) return;
  std::memcpy(&head, cubin.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return;
  std::vector<Elf64_Shdr> sections(head.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    const size_t at = head.e_shoff + i * sizeof(Elf64_Shdr);
    if (at + sizeof(Elf64_Shdr) > cubin.size()) return;
    std::memcpy(&sections[i], cubin.data() + at, sizeof(Elf64_Shdr));
  }
  if (head.e_shstrndx >= sections.size()) return;
  for (const Elf64_Shdr& section : sections) {
    const size_t name = sections[head.e_shstrndx].sh_offset + section.sh_name;
    if (name >= cubin.size() || section.sh_offset > cubin.size() ||
        section.sh_size > cubin.size() - section.sh_offset) {
      continue;
    }
    if (absl::string_view(cubin.c_str() + name).substr(0, 6) == ".text.") {
      // Operation 0xfff under the predicate that is always true.
      for (size_t i = 0; i < section.sh_size; ++i) {
        cubin[section.sh_offset + i] = i % 16 == 0   ? '\xff'
                                       : i % 16 == 1 ? '\x7f'
                                                     : '\0';
      }
    }
  }
}

FaultPlan::FaultPlan(Counts faults, double share, uint64_t seed)
    : share_(share), random_(seed) {
  for (const auto& [kind, count] : faults) {
    if (kind == FaultKind::kWorkerKilled) {
      kills_left_ = count;
    } else {
      deck_.insert(deck_.end(), static_cast<size_t>(count), kind);
    }
  }
  std::shuffle(deck_.begin(), deck_.end(), random_);
}

void FaultPlan::Enable(bool enabled) {
  absl::MutexLock lock(&mutex_);
  enabled_ = enabled;
}

int FaultPlan::left() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(deck_.size()) + kills_left_;
}

std::optional<FaultKind> FaultPlan::Draw(const Problem& problem,
                                         const TuningConfig& config) {
  absl::MutexLock lock(&mutex_);
  const auto [it, added] =
      drawn_.try_emplace(KeyOf(problem, config), config, std::nullopt);
  if (added && enabled_ &&
      std::uniform_real_distribution<double>()(random_) < share_) {
    const auto card =
        std::find_if(deck_.rbegin(), deck_.rend(),
                     [&](FaultKind kind) { return Suits(kind, config); });
    if (card != deck_.rend()) {
      it->second.second = *card;
      deck_.erase(std::next(card).base());
    }
  }
  return it->second.second;
}

std::optional<FaultKind> FaultPlan::FaultOf(const Problem& problem,
                                            const TuningConfig& config) const {
  absl::MutexLock lock(&mutex_);
  const auto it = drawn_.find(KeyOf(problem, config));
  return it == drawn_.end() ? std::nullopt : it->second.second;
}

std::map<TuningConfig, FaultKind,
         bool (*)(const TuningConfig&, const TuningConfig&)>
FaultPlan::FaultsOf(const Problem& problem) const {
  std::map<TuningConfig, FaultKind,
           bool (*)(const TuningConfig&, const TuningConfig&)>
      faults(ByText);
  const std::string prefix = absl::StrCat(problem.ToString(), "|");
  absl::MutexLock lock(&mutex_);
  for (auto it = drawn_.lower_bound(prefix);
       it != drawn_.end() && it->first.compare(0, prefix.size(), prefix) == 0;
       ++it) {
    const auto& [config, fault] = it->second;
    if (fault.has_value()) faults.emplace(config, *fault);
  }
  return faults;
}

void FaultPlan::Return(FaultKind kind) {
  absl::MutexLock lock(&mutex_);
  deck_.insert(deck_.begin(), kind);
}

std::optional<double> FaultPlan::DrawKill() {
  // One call in so many, so that kills are spread over the run.
  constexpr double kShare = 0.03;
  std::uniform_real_distribution<double> uniform;
  absl::MutexLock lock(&mutex_);
  if (!enabled_ || kills_left_ == 0 || uniform(random_) >= kShare) {
    return std::nullopt;
  }
  --kills_left_;
  return uniform(random_);
}

void FaultPlan::EndKill(bool done) {
  absl::MutexLock lock(&mutex_);
  ++(done ? kills_ : kills_left_);
}

int FaultPlan::kills() const {
  absl::MutexLock lock(&mutex_);
  return kills_;
}

namespace {

JitCompiler::Renderer RendererOf(FaultPlan* plan) {
  return [plan](const Problem& problem, const TuningConfig& config,
                const DeviceSpec& device) -> absl::StatusOr<RenderedKernel> {
    HONE_ASSIGN_OR_RETURN(RenderedKernel kernel,
                          RenderKernel(problem, config, device));
    if (const auto fault = plan->Draw(problem, config)) {
      kernel.source = FaultySource(*fault, kernel, problem, config);
    }
    return kernel;
  };
}

}  // namespace

FaultyCompiler::FaultyCompiler(FaultPlan* plan, const Compilers& compilers)
    : plan_(plan),
      good_(compilers.good, RendererOf(plan)),
      crashing_(compilers.crashing, RendererOf(plan)),
      hurried_(compilers.hurried, RendererOf(plan)) {}

JitCompiler& FaultyCompiler::CompilerFor(std::optional<FaultKind> fault) {
  if (fault == FaultKind::kCompilerCrash) return crashing_;
  if (fault == FaultKind::kEndlessCompile) return hurried_;
  return good_;
}

absl::StatusOr<std::string> FaultyCompiler::SourceKey(
    const Problem& problem, const DeviceSpec& device,
    const TuningConfig& config) {
  return CompilerFor(plan_->Draw(problem, config))
      .SourceKey(problem, device, config);
}

absl::StatusOr<CompiledCandidate> FaultyCompiler::Compile(
    const Problem& problem, const DeviceSpec& device,
    const TuningConfig& config) {
  const std::optional<FaultKind> fault = plan_->Draw(problem, config);
  HONE_ASSIGN_OR_RETURN(CompiledCandidate compiled,
                        CompilerFor(fault).Compile(problem, device, config));
  if (fault == FaultKind::kIllegalInstruction) {
    SpoilInstructions(compiled.candidate.cubin);
  }
  return compiled;
}

// While it lives, the worker may be killed; afterwards, it has been.
class FaultyExecutor::Killer {
 public:
  // `killed` is the last worker that was. It may still be ending, which takes a
  // GPU's a while; another kill of it would be none.
  Killer(FaultPlan* plan, pid_t worker, absl::Duration longest, pid_t* killed) {
    if (worker == 0 || worker == *killed) return;
    const std::optional<double> when = plan->DrawKill();
    if (!when.has_value()) return;
    // A descriptor of the process cannot come to mean another one.
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, worker, 0));
    thread_ = std::thread([plan, fd, pause = longest * *when, worker, killed] {
      absl::SleepFor(pause);
      // It may have ended by itself.
      pollfd ended = {fd, POLLIN, 0};
      const bool done =
          poll(&ended, 1, 0) == 0 &&
          syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0) == 0;
      if (done) *killed = worker;
      plan->EndKill(done);
      close(fd);
    });
  }
  ~Killer() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

FaultyExecutor::FaultyExecutor(FaultPlan* plan,
                               std::unique_ptr<ProcessExecutor> executor,
                               absl::Duration gate_deadline,
                               absl::Duration longest_until_kill)
    : plan_(plan),
      executor_(std::move(executor)),
      gate_deadline_(gate_deadline),
      longest_until_kill_(longest_until_kill) {}

absl::Status FaultyExecutor::Begin(const Problem& problem, int64_t max_m,
                                   uint64_t seed) {
  problem_ = problem;
  configs_.clear();
  return executor_->Begin(problem, max_m, seed);
}

absl::StatusOr<int> FaultyExecutor::Add(const Candidate& candidate) {
  configs_.push_back(candidate.config);
  return executor_->Add(candidate);
}

absl::StatusOr<GateResult> FaultyExecutor::Gate(int candidate, int64_t m,
                                                absl::Duration deadline) {
  // A worker that a faulty candidate ends anyway would make the kill doubtful.
  const bool good =
      !plan_->FaultOf(problem_, configs_[static_cast<size_t>(candidate)]);
  const Killer killer(plan_, good ? executor_->worker_pid() : 0,
                      longest_until_kill_, &killed_);
  return executor_->Gate(candidate, m, std::min(deadline, gate_deadline_));
}

absl::StatusOr<RoundResult> FaultyExecutor::Round(const RoundRequest& request,
                                                  absl::Duration deadline) {
  const Killer killer(plan_, executor_->worker_pid(), longest_until_kill_,
                      &killed_);
  return executor_->Round(request, deadline);
}

}  // namespace hone
