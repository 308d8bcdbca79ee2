// The kernels of a client: compiled, loaded and launched.
#ifndef HONE_SERVICE_CLIENT_KERNEL_SET_H_
#define HONE_SERVICE_CLIENT_KERNEL_SET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/jit/cubin_cache.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/launch/module.h"
#include "tuner/trial.h"

namespace hone {

// What Compile() did.
struct CompileSummary {
  // Distinct kernels of the table, and how many of them were cached.
  int64_t kernels = 0;
  int64_t from_cache = 0;
};

// One kernel. Compiled and loaded once, at its first use.
class Kernel {
 public:
  const TuningConfig& config() const { return config_; }

 private:
  friend class KernelSet;
  Kernel(const Problem& problem, const TableEntry& entry)
      : problem_(problem), config_(entry.config), compile_(entry.compile) {}

  const Problem problem_;
  const TuningConfig config_;
  // How honed compiled it; empty when it did not.
  const CompileInfo compile_;

  absl::Mutex mu_;
  // Kept from compiling until loading.
  std::string cubin_ ABSL_GUARDED_BY(mu_);
  bool from_cache_ ABSL_GUARDED_BY(mu_) = false;
  Module module_ ABSL_GUARDED_BY(mu_);
  // Set once loaded.
  std::atomic<FunctionHandle> function_{nullptr};
};

// A dispatch table over kernels. Immutable.
struct KernelTable {
  struct Range {
    int64_t m_lo = 1;
    // 0: without end.
    int64_t m_hi = 0;
    Kernel* kernel = nullptr;
  };
  // By rising M, covering 1..∞.
  std::vector<Range> ranges;
  // Each once.
  std::vector<Kernel*> kernels;

  Kernel* Find(int64_t m) const;
};

// Whether kernels can be loaded by the calling thread. Unavailable without a
// driver or a GPU, FailedPrecondition without a current context.
absl::Status CheckContext();

// Thread-safe. Kernels live as long as the set: a captured graph may hold them.
class KernelSet {
 public:
  // Without NVRTC (`nvrtc` says why) only cached kernels can be had.
  KernelSet(DeviceSpec device, std::shared_ptr<CubinCache> cache,
            absl::StatusOr<std::shared_ptr<const Nvrtc>> nvrtc);

  // Every config must be legal for the table's problem on the device.
  std::shared_ptr<const KernelTable> MakeTable(const DispatchTable& table);

  // Compiles what is neither loaded nor cached, several at a time. Unavailable
  // names what is missing; Internal a config that does not compile.
  absl::StatusOr<CompileSummary> Compile(const KernelTable& table);

  // The kernel in the calling thread's context, compiled and loaded if need
  // be. Also returns the errors of Compile() and CheckContext().
  absl::StatusOr<FunctionHandle> Load(Kernel& kernel);

 private:
  absl::Status CompileLocked(Kernel& kernel)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(kernel.mu_);

  const DeviceSpec device_;
  const std::shared_ptr<CubinCache> cache_;
  const absl::StatusOr<std::shared_ptr<const Nvrtc>> nvrtc_;

  absl::Mutex mu_;
  // By problem and config, canonical text.
  absl::flat_hash_map<std::string, std::unique_ptr<Kernel>> kernels_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_KERNEL_SET_H_
