#include "kernels/emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/config/status_macros.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/global_races.h"
#include "kernels/emulator/tensor_map.h"

namespace hone::emulator {
namespace {

struct RoleInfo {
  BufferRole role;
  const char* name;
};
constexpr RoleInfo kRoles[] = {
    {BufferRole::kA, "A"},
    {BufferRole::kB, "B"},
    {BufferRole::kBScale, "BScale"},
    {BufferRole::kBias, "Bias"},
    {BufferRole::kC, "C"},
    {BufferRole::kWorkspace, "Workspace"},
    {BufferRole::kWeights, "Weights"},
    {BufferRole::kInput, "Input"},
    {BufferRole::kAScale, "AScale"},
};

absl::Status CheckPlan(const Kernel& kernel, const LaunchPlan& plan) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch of kernel ", plan.kernel_name, ": ", parts...));
  };
  const uint64_t threads = plan.block.Count();
  if (threads == 0 || threads > 1024) {
    return error("block has ", threads, " threads; legal are 1 to 1024");
  }
  if (kernel.max_threads != 0 && threads > kernel.max_threads) {
    return error("block has ", threads, " threads; the kernel's .maxntid is ",
                 kernel.max_threads);
  }
  if (kernel.required_threads[0] != 0) {
    const uint32_t* required = kernel.required_threads;
    if (plan.block != Dim3{required[0], required[1], required[2]}) {
      return error("block differs from the kernel's .reqntid");
    }
  }
  if (plan.grid.Count() == 0) return error("grid is empty");
  const uint64_t ctas = plan.cluster.Count();
  if (ctas == 0 || ctas > kMaxClusterCtas) {
    return error("cluster has ", ctas, " CTAs; legal are 1 to ",
                 kMaxClusterCtas);
  }
  if (kernel.max_cluster != 0 && ctas > kernel.max_cluster) {
    return error("cluster has ", ctas,
                 " CTAs; the kernel's .maxclusterrank is ", kernel.max_cluster);
  }
  if (plan.grid.x % plan.cluster.x != 0 || plan.grid.y % plan.cluster.y != 0 ||
      plan.grid.z % plan.cluster.z != 0) {
    return error("grid is no multiple of the cluster");
  }
  if (kernel.required_cluster[0] != 0) {
    const uint32_t* required = kernel.required_cluster;
    if (plan.cluster != Dim3{required[0], required[1], required[2]}) {
      return error("cluster differs from the kernel's .reqnctapercluster");
    }
  }
  if (plan.args.size() != kernel.parameters.size()) {
    return error(plan.args.size(), " arguments; the kernel takes ",
                 kernel.parameters.size());
  }
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const LaunchArg& arg = plan.args[i];
    const bool is_map = arg.kind == LaunchArg::Kind::kTensorMap;
    const uint32_t bytes = is_map ? kTensorMapBytes
                           : arg.kind == LaunchArg::Kind::kBuffer ? 8
                                                                  : 4;
    if (is_map) {
      if (static_cast<uint32_t>(arg.value) >= plan.tensor_maps.size()) {
        return error("argument ", i, " is tensor map ", arg.value, " of ",
                     plan.tensor_maps.size());
      }
      const absl::Status status =
          ValidateTensorMap(plan.tensor_maps[arg.value]);
      if (!status.ok()) return error("argument ", i, ": ", status.message());
    }
    if (bytes != kernel.parameters[i].bytes) {
      return error("argument ", i, " has ", bytes, " bytes; parameter ",
                   kernel.parameters[i].name, " has ",
                   kernel.parameters[i].bytes);
    }
  }
  return absl::OkStatus();
}

// Binds the buffers and writes the parameters.
absl::Status Bind(const LaunchPlan& plan, const Bindings& bindings,
                  const Program& program, std::vector<std::byte>* variables,
                  GlobalMemory* global, Launch* launch) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("launch of kernel ", plan.kernel_name, ": ", parts...));
  };
  // The module's own variables come first, in range 0 of the buffers.
  *variables = program.global_memory;
  global->Add("of the module's .global variables", variables->data(),
              variables->size(), /*writable=*/true, variables->size(),
              kLocalBase);
  absl::flat_hash_map<BufferRole, uint64_t> addresses;
  for (const RoleInfo& info : kRoles) {
    const bool used = std::any_of(
        plan.args.begin(), plan.args.end(), [&](const LaunchArg& arg) {
          return arg.kind == LaunchArg::Kind::kBuffer
                     ? arg.role == info.role
                     : arg.kind == LaunchArg::Kind::kTensorMap &&
                           plan.tensor_maps[arg.value].buffer == info.role;
        });
    if (!used) continue;
    const auto it = bindings.find(info.role);
    const bool workspace = info.role == BufferRole::kWorkspace;
    if (it == bindings.end()) {
      return error("buffer ", info.name, " is not bound");
    }
    const HostBuffer& buffer = it->second;
    uint64_t bytes = buffer.bytes;
    uint64_t initialized = buffer.initialized ? bytes : 0;
    if (workspace) {
      if (bytes < plan.workspace_bytes) {
        return error("buffer ", info.name, " has ", bytes,
                     " bytes; the plan needs ", plan.workspace_bytes);
      }
      // What the plan does not declare the kernel must not touch.
      bytes = plan.workspace_bytes;
      initialized =
          std::min(bytes, std::max(initialized, plan.workspace_zeroed_bytes));
      for (uint64_t i = 0; i < plan.workspace_zeroed_bytes && i < bytes; ++i) {
        if (buffer.data[i] != std::byte{0}) {
          return error("byte ", i, " of buffer ", info.name,
                       " is not zero; the first ", plan.workspace_zeroed_bytes,
                       " must be");
        }
      }
    }
    // Buffers are promised 16-byte alignment and no more; the workspace 256.
    addresses[info.role] =
        global->Add(info.name, buffer.data, bytes, buffer.writable, initialized,
                    workspace ? 4096 : 4096 + 16, buffer.in_flight);
    launch->has_in_flight |= buffer.in_flight;
  }
  const Kernel& kernel = *launch->kernel;
  launch->parameters.assign(kernel.parameter_bytes, std::byte{0});
  for (size_t i = 0; i < plan.args.size(); ++i) {
    std::byte* to = &launch->parameters[kernel.parameters[i].offset];
    if (plan.args[i].kind == LaunchArg::Kind::kBuffer) {
      const uint64_t address = addresses[plan.args[i].role];
      std::memcpy(to, &address, sizeof(address));
    } else if (plan.args[i].kind == LaunchArg::Kind::kTensorMap) {
      const TensorMap& map = plan.tensor_maps[plan.args[i].value];
      EncodeTensorMap(map, addresses[map.buffer] + map.offset, to);
    } else {
      std::memcpy(to, &plan.args[i].value, sizeof(plan.args[i].value));
    }
  }
  return absl::OkStatus();
}

// The clusters of a grid in an order drawn from the seed, or, where the plan
// relies on it, in that in which devices start them.
std::vector<uint64_t> ClusterOrder(const LaunchPlan& plan, uint64_t count,
                                   uint64_t seed) {
  std::vector<uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  if (plan.waits_for_lower_ctas) return order;
  Random random(seed);
  for (uint64_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[random.Below(static_cast<uint32_t>(i))]);
  }
  return order;
}

}  // namespace

Stats& Stats::operator+=(const Stats& from) {
  instructions += from.instructions;
  mma += from.mma;
  barriers += from.barriers;
  global_bytes_read += from.global_bytes_read;
  global_bytes_written += from.global_bytes_written;
  shared_bytes_read += from.shared_bytes_read;
  shared_bytes_written += from.shared_bytes_written;
  async_copies += from.async_copies;
  bulk_copies += from.bulk_copies;
  wgmma += from.wgmma;
  return *this;
}

absl::StatusOr<Module> Module::Parse(absl::string_view ptx) {
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                        DecodeProgram(ptx));
  return Module(std::move(program));
}

absl::StatusOr<Stats> Execute(const Module& module, const LaunchPlan& plan,
                              const Bindings& bindings,
                              const Options& options) {
  const Program& program = module.program();
  Launch launch;
  launch.program = &program;
  launch.plan = &plan;
  launch.options = options;
  launch.kernel = program.FindKernel(plan.kernel_name);
  if (launch.kernel == nullptr) {
    std::string names;
    for (const Kernel& kernel : program.kernels) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", kernel.name);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the module has no kernel ", plan.kernel_name, "; it has: ", names));
  }
  HONE_RETURN_IF_ERROR(CheckPlan(*launch.kernel, plan));
  GlobalMemory global;
  launch.global = &global;
  std::vector<std::byte> variables;
  HONE_RETURN_IF_ERROR(
      Bind(plan, bindings, program, &variables, &global, &launch));

  const Dim3 clusters{plan.grid.x / plan.cluster.x,
                      plan.grid.y / plan.cluster.y,
                      plan.grid.z / plan.cluster.z};
  const uint64_t threads =
      std::clamp<uint64_t>(options.threads, 1, clusters.Count());
  GlobalRaces races;
  if (threads == 1) launch.races = &races;
  const std::vector<uint64_t> order =
      ClusterOrder(plan, clusters.Count(), options.seed);
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> executed{0};
  std::atomic<bool> stop{false};
  absl::Mutex mutex;
  Stats total;
  absl::Status status;
  const auto work = [&] {
    Cluster cluster(launch);
    absl::Status result;
    while (!stop) {
      const uint64_t at = next++;
      if (at >= order.size()) break;
      const uint64_t linear = order[at];
      const Dim3 index{static_cast<uint32_t>(linear % clusters.x),
                       static_cast<uint32_t>(linear / clusters.x % clusters.y),
                       static_cast<uint32_t>(linear / clusters.x / clusters.y)};
      const uint64_t before = cluster.stats().instructions;
      const uint64_t used = executed;
      const uint64_t left =
          options.max_instructions > used ? options.max_instructions - used : 0;
      // Every cluster draws from a stream of its own, so that it behaves alike
      // whatever ran before it.
      result =
          cluster.Run(index, Random(options.seed ^ (linear + 1)).Next(), left);
      executed += cluster.stats().instructions - before;
      if (!result.ok()) break;
    }
    absl::MutexLock lock(&mutex);
    total += cluster.stats();
    if (!result.ok() && status.ok()) {
      status = result;
      stop = true;
    }
  };
  std::vector<std::thread> helpers;
  for (uint64_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (!status.ok()) return status;

  // The kernel promised to leave its counters zero.
  if (plan.workspace_zeroed_bytes > 0) {
    const auto it = bindings.find(BufferRole::kWorkspace);
    for (uint64_t i = 0;
         it != bindings.end() && i < plan.workspace_zeroed_bytes; ++i) {
      if (it->second.data[i] != std::byte{0}) {
        return absl::AbortedError(absl::StrCat(
            "kernel ", plan.kernel_name, ": byte ", i,
            " of buffer Workspace is not zero after the launch; the first ",
            plan.workspace_zeroed_bytes, " must be again"));
      }
    }
  }
  return total;
}

}  // namespace hone::emulator
