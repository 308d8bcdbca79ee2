#include "service/client/kernel_set.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/device_query.h"

namespace hone {

Kernel* KernelTable::Find(int64_t m) const {
  for (const Range& range : ranges) {
    if (range.m_hi == 0 || m <= range.m_hi) return range.kernel;
  }
  return nullptr;
}

absl::Status CheckContext() {
  HONE_RETURN_IF_ERROR(DeviceCount().status());
  if (HasCurrentContext()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this thread has no current CUDA context; make the one of the client's "
      "device current first");
}

KernelSet::KernelSet(DeviceSpec device, std::shared_ptr<CubinCache> cache,
                     absl::StatusOr<std::shared_ptr<const Nvrtc>> nvrtc)
    : device_(std::move(device)),
      cache_(std::move(cache)),
      nvrtc_(std::move(nvrtc)) {}

std::shared_ptr<const KernelTable> KernelSet::MakeTable(
    const DispatchTable& table) {
  auto out = std::make_shared<KernelTable>();
  const std::string problem = table.problem.ToString();
  absl::MutexLock lock(&mu_);
  for (const TableEntry& entry : table.entries) {
    std::unique_ptr<Kernel>& kernel =
        kernels_[absl::StrCat(problem, ";", entry.config.ToString())];
    if (kernel == nullptr) kernel.reset(new Kernel(table.problem, entry));
    out->ranges.push_back({entry.m_lo, entry.m_hi, kernel.get()});
    if (std::find(out->kernels.begin(), out->kernels.end(), kernel.get()) ==
        out->kernels.end()) {
      out->kernels.push_back(kernel.get());
    }
  }
  return out;
}

absl::Status KernelSet::CompileLocked(Kernel& kernel) {
  if (!kernel.cubin_.empty() || kernel.function_.load() != nullptr)
    return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const RenderedKernel unit,
                        RenderKernel(kernel.problem_, kernel.config_, device_));
  CompileRequest request;
  request.source = unit.source;
  request.arch = unit.arch;
  if (nvrtc_.ok()) {
    const Nvrtc& nvrtc = **nvrtc_;
    HONE_ASSIGN_OR_RETURN(
        CubinCache::Fetched fetched,
        cache_->GetOrCompile(SourceKey(request, nvrtc.version()),
                             [&] { return nvrtc.Compile(request); }));
    if (!fetched.result.ok()) {
      return absl::InternalError(
          absl::StrCat("kernel ", kernel.config_.ToString(),
                       " does not compile: ", fetched.result.log));
    }
    kernel.cubin_ = std::move(fetched.result.cubin);
    kernel.from_cache_ = fetched.hit;
    return absl::OkStatus();
  }
  // The cache names cubins by their source and NVRTC's version: without NVRTC
  // only the one that honed compiled with can be looked for.
  if (!kernel.compile_.nvrtc_version.empty()) {
    std::optional<CompileResult> cached =
        cache_->Lookup(SourceKey(request, kernel.compile_.nvrtc_version));
    if (cached.has_value()) {
      kernel.cubin_ = std::move(cached->cubin);
      kernel.from_cache_ = true;
      return absl::OkStatus();
    }
  }
  return absl::Status(
      nvrtc_.status().code(),
      absl::StrCat("kernel ", kernel.config_.ToString(), " is not in ",
                   cache_->folder(), ", and ", nvrtc_.status().message()));
}

absl::StatusOr<CompileSummary> KernelSet::Compile(const KernelTable& table) {
  const size_t count = table.kernels.size();
  std::vector<absl::Status> statuses(count);
  std::atomic<size_t> next{0};
  std::atomic<int64_t> from_cache{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      Kernel& kernel = *table.kernels[i];
      absl::MutexLock lock(&kernel.mu_);
      statuses[i] = CompileLocked(kernel);
      if (statuses[i].ok() && kernel.from_cache_) ++from_cache;
    }
  };
  const size_t threads = std::min<size_t>(
      count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const absl::Status& status : statuses) HONE_RETURN_IF_ERROR(status);
  return CompileSummary{static_cast<int64_t>(count), from_cache.load()};
}

absl::StatusOr<FunctionHandle> KernelSet::Load(Kernel& kernel) {
  if (FunctionHandle function = kernel.function_.load()) return function;
  absl::MutexLock lock(&kernel.mu_);
  if (FunctionHandle function = kernel.function_.load()) return function;
  HONE_RETURN_IF_ERROR(CheckContext());
  HONE_RETURN_IF_ERROR(CompileLocked(kernel));
  // Every M has the same name and shared memory.
  const LaunchPlan plan = PlanLaunch(kernel.problem_, kernel.config_, 1);
  HONE_ASSIGN_OR_RETURN(Module module, Module::Load(kernel.cubin_));
  HONE_ASSIGN_OR_RETURN(const FunctionHandle function,
                        module.Function(plan.kernel_name, plan.smem_bytes));
  kernel.module_ = std::move(module);
  kernel.cubin_ = std::string();
  kernel.function_.store(function);
  return function;
}

}  // namespace hone
