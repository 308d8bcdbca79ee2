#include "kernels/emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/config/status_macros.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/global_memory.h"
#include "kernels/emulator/program.h"

namespace hone::emulator {
namespace {

// Buffers start in the middle of their range, so that an access before the
// start is out of bounds and not in another buffer.
constexpr uint64_t kBufferStart = uint64_t{1} << 30;

absl::string_view NameOf(BufferRole role) {
  switch (role) {
    case BufferRole::kA:
      return "a";
    case BufferRole::kB:
      return "b";
    case BufferRole::kBScale:
      return "b_scale";
    case BufferRole::kBias:
      return "bias";
    case BufferRole::kC:
      return "c";
    case BufferRole::kWorkspace:
      return "workspace";
  }
  return "buffer";
}

absl::Status CheckPlan(const Kernel& kernel, const LaunchPlan& plan) {
  const uint64_t threads = plan.block.Count();
  if (plan.grid.Count() == 0 || threads == 0 ||
      threads > kMaxWarps * kWarpSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launch of ", kernel.name, ": grid has ", plan.grid.Count(),
        " CTAs of ", threads, " threads; legal are at least 1 and 1 to 1024"));
  }
  if (plan.cluster.Count() != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "launch of ", kernel.name, ": the emulator runs no clusters yet"));
  }
  if (kernel.max_threads != 0 && threads > kernel.max_threads) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch of ", kernel.name, ": ", threads,
                     " threads; its launch bound is ", kernel.max_threads));
  }
  if (plan.args.size() != kernel.parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "launch of ", kernel.name, ": ", plan.args.size(),
        " arguments; the kernel takes ", kernel.parameters.size()));
  }
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const uint32_t bytes =
        plan.args[i].kind == LaunchArg::Kind::kBuffer ? 8 : 4;
    if (kernel.parameters[i].bytes != bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "launch of ", kernel.name, ": argument ", i, " has ", bytes,
          " bytes; the kernel takes ", kernel.parameters[i].bytes));
    }
  }
  return absl::OkStatus();
}

void Accumulate(const Stats& from, Stats* to) {
  to->instructions += from.instructions;
  to->mma += from.mma;
  to->barriers += from.barriers;
  to->global_bytes_read += from.global_bytes_read;
  to->global_bytes_written += from.global_bytes_written;
  to->shared_bytes_read += from.shared_bytes_read;
  to->shared_bytes_written += from.shared_bytes_written;
  to->async_copies += from.async_copies;
}

}  // namespace

absl::StatusOr<Module> Module::Parse(absl::string_view ptx) {
  HONE_ASSIGN_OR_RETURN(auto program, DecodeProgram(ptx));
  if (!program->global_memory.empty()) {
    return absl::UnimplementedError(
        "the emulator has no room for variables in global memory");
  }
  return Module(std::move(program));
}

absl::StatusOr<Stats> Execute(const Module& module, const LaunchPlan& plan,
                              const Bindings& bindings,
                              const Options& options) {
  const Program& program = module.program();
  const Kernel* kernel = program.FindKernel(plan.kernel_name);
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no kernel \"", plan.kernel_name, "\""));
  }
  HONE_RETURN_IF_ERROR(CheckPlan(*kernel, plan));

  GlobalMemory global;
  Launch launch;
  launch.program = &program;
  launch.kernel = kernel;
  launch.plan = &plan;
  launch.global = &global;
  launch.constant_memory = &program.constant_memory;
  launch.options = options;
  launch.parameters.resize(kernel->parameter_bytes);
  absl::flat_hash_map<BufferRole, uint64_t> addresses;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const LaunchArg& arg = plan.args[i];
    std::byte* parameter = &launch.parameters[kernel->parameters[i].offset];
    if (arg.kind == LaunchArg::Kind::kInt32) {
      std::memcpy(parameter, &arg.value, sizeof(arg.value));
      continue;
    }
    const auto [it, added] = addresses.try_emplace(arg.role, 0);
    if (added) {
      const auto bound = bindings.find(arg.role);
      if (bound == bindings.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("launch of ", kernel->name, ": no buffer is bound to ",
                         NameOf(arg.role)));
      }
      const HostBuffer& buffer = bound->second;
      uint64_t initialized = buffer.initialized ? buffer.bytes : 0;
      if (arg.role == BufferRole::kWorkspace) {
        if (buffer.bytes < plan.workspace_bytes) {
          return absl::InvalidArgumentError(absl::StrCat(
              "launch of ", kernel->name, ": the workspace has ", buffer.bytes,
              " bytes; it needs ", plan.workspace_bytes));
        }
        initialized =
            std::max<uint64_t>(initialized, plan.workspace_zeroed_bytes);
      }
      it->second = global.Add(NameOf(arg.role), buffer.data, buffer.bytes,
                              buffer.writable, initialized, kBufferStart);
    }
    std::memcpy(parameter, &it->second, sizeof(it->second));
  }

  // The order of CTAs is a draw, as on a device.
  const uint64_t count = plan.grid.Count();
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  Random random(options.seed);
  for (uint64_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random.Next() % i]);
  }

  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> spent{0};
  absl::Mutex mutex;
  absl::Status first_failure;
  Stats stats;
  const auto run = [&] {
    Cta cta(launch);
    uint64_t counted = 0;
    while (!stop) {
      const uint64_t i = next++;
      if (i >= count) break;
      const uint64_t linear = order[i];
      const Dim3 index = {
          static_cast<uint32_t>(linear % plan.grid.x),
          static_cast<uint32_t>(linear / plan.grid.x % plan.grid.y),
          static_cast<uint32_t>(linear / plan.grid.x / plan.grid.y)};
      const uint64_t used = spent;
      const uint64_t budget =
          options.max_instructions > used ? options.max_instructions - used : 0;
      const absl::Status status =
          cta.Run(index, options.seed * 0x9e3779b97f4a7c15u + linear, budget);
      spent += cta.stats().instructions - counted;
      counted = cta.stats().instructions;
      if (!status.ok()) {
        stop = true;
        absl::MutexLock lock(&mutex);
        if (first_failure.ok()) first_failure = status;
      }
    }
    absl::MutexLock lock(&mutex);
    Accumulate(cta.stats(), &stats);
  };
  const uint64_t threads =
      std::clamp<uint64_t>(options.threads, 1, std::max<uint64_t>(count, 1));
  std::vector<std::thread> helpers;
  for (uint64_t i = 1; i < threads; ++i) helpers.emplace_back(run);
  run();
  for (std::thread& helper : helpers) helper.join();
  HONE_RETURN_IF_ERROR(first_failure);
  return stats;
}

}  // namespace hone::emulator
