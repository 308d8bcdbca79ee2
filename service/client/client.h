// The C++ client: which kernel to run, and running it.
//
//   ClientOptions options;
//   HONE_ASSIGN_OR_RETURN(auto client, Client::Create(options));
//   HONE_RETURN_IF_ERROR(client->WarmUp(problem));        // at model load
//   HONE_ASSIGN_OR_RETURN(bytes, client->WorkspaceBytes(problem, max_m));
//   ... allocate `bytes` of device memory and zero it once ...
//   HONE_RETURN_IF_ERROR(client->Gemm(call));             // per step
//
// A lookup never blocks inference. The first one of a problem waits for honed
// up to the deadline; what it has by then is the best of honed's answer, the
// table kept on disk from an earlier answer, the pinned bundle and the
// heuristic default. Later ones do not wait at all. As long as the answer is
// not the problem's own table from honed, lookups ask again in the background.
//
// Kernels are compiled here, from the sources embedded in this library, and
// cached on disk. A table only names configs, and a config is used only when
// it is legal for the problem on this device. Tables of other devices are used
// only as honed's SIBLING_DEVICE answers, and modelled ones never on a real
// device.
#ifndef HONE_SERVICE_CLIENT_CLIENT_H_
#define HONE_SERVICE_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/jit/shared_library.h"
#include "kernels/launch/module.h"
#include "service/client/kernel_set.h"
#include "service/client/problem_hash.h"
#include "service/client/remote.h"
#include "service/client/table_files.h"
#include "service/client/traffic_counter.h"
#include "service/client/traffic_reporter.h"
#include "service/convert/answer.h"
#include "service/server/lookup.h"

namespace hone {

struct ClientOptions {
  // honed's: a Unix socket's absolute path or host:port. Empty: $HONE_ADDRESS,
  // else the user's own socket.
  std::string address;
  // Longest wait of a lookup, above 0.
  absl::Duration deadline = absl::Milliseconds(50);
  // Where tables and cubins are kept. Empty: $XDG_CACHE_HOME/hone, else
  // ~/.cache/hone.
  std::string cache_dir;
  // The device that runs the kernels. Unset: CUDA device `device_ordinal`.
  std::optional<DeviceSpec> device;
  int device_ordinal = 0;
  // Tables of this revision only, so that all ranks of a job run the same
  // kernels; 0 means the newest.
  int64_t revision = 0;
  // A bundle's file, to answer when honed and the local cache do not. Empty:
  // none.
  std::string bundle;
  // How often the GEMM calls that were counted are reported to honed, which
  // tunes where time is spent; 0: never. Else at least 1 s.
  absl::Duration report_interval = absl::ZeroDuration();
  // Where NVRTC is looked for.
  LibrarySearch libraries;
};

// One GEMM: C = A · Bᵀ (+ bias). Memory is the device's and the caller's, laid
// out as kernels/codegen/launch_plan.h says, and must stay until the stream
// has run the kernel.
struct GemmCall {
  Problem problem;
  // Rows of A and C, at least 1.
  int64_t m = 0;
  DevicePtr a = 0;
  // 0 unless the layer has scales of A.
  DevicePtr a_scale = 0;
  // Packed by kernels/pack.
  DevicePtr b = 0;
  DevicePtr b_scale = 0;
  // 0 unless the layer has one.
  DevicePtr bias = 0;
  DevicePtr c = 0;
  // Zeroed once before its first use; kernels leave it fit for the next one.
  // Launches that may overlap need workspaces of their own.
  DevicePtr workspace = 0;
  uint64_t workspace_bytes = 0;
  // A CUstream (cudaStream_t); nullptr is the default stream.
  StreamHandle stream = nullptr;
};

// Thread-safe. One for each device; everything it launched must be done, and
// the context still be there, when it is destroyed.
class Client {
 public:
  // Does not connect yet. InvalidArgument names the option; Unavailable when
  // the device was not given and there is no driver or GPU. Folders that
  // cannot be used and a bundle that cannot be read are errors too.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const DeviceSpec& device() const { return device_; }

  // How to run the problem at M ≥ 1. `provenance.notes` say what was missing
  // for a better answer. Unimplemented or InvalidArgument when Hone has no
  // kernel for the problem on this device.
  absl::StatusOr<ConfigAnswer> Lookup(const Problem& problem, int64_t m);
  // The same at every M. Never null.
  absl::StatusOr<std::shared_ptr<const TableAnswer>> LookupTable(
      const Problem& problem);

  // Looks the table up and compiles its kernels into the cache; needs no GPU.
  // Blocks for about a second a kernel that is not cached. Unavailable without
  // NVRTC, unless the cache has them all.
  absl::StatusOr<CompileSummary> Compile(const Problem& problem);

  // Compile(), and loads the kernels into the calling thread's context. From
  // then on WorkspaceBytes() and Gemm() use this very table, also when honed
  // has a newer one, until WarmUp() is called again. Unavailable without a
  // driver; FailedPrecondition without a context.
  absl::Status WarmUp(const Problem& problem);

  // The workspace that Gemm() needs at any M up to max_m, bytes; 0 when it
  // needs none. The owner zeroes it once. May be shared by problems: take the
  // largest.
  absl::StatusOr<uint64_t> WorkspaceBytes(const Problem& problem,
                                          int64_t max_m);

  // Queues the GEMM on the stream, whose context must be current and the one
  // that WarmUp() loaded into. Without a WarmUp() the first call looks the
  // table up and compiles. InvalidArgument names what is wrong with the call;
  // other errors as of WarmUp(). Faults of the kernel show on the stream.
  absl::Status Gemm(const GemmCall& call);

  // The calls by M, if `report_interval` is given. Gemm() counts its own, once
  // for each time it is called: who captures it in a graph, or launches kernels
  // without it, counts what runs by
  //   CallCounter& calls = client->traffic().Of(problem);   // once
  //   calls.Count(m);                                       // per call
  TrafficCounter& traffic() { return traffic_; }
  // What became of the calls; none is dropped without being counted here.
  TrafficStats traffic_stats() const;
  // Reports all calls now, for the end of a process. Waits up to `timeout`.
  absl::Status FlushTraffic(absl::Duration timeout);

 private:
  // The table that Gemm() runs, and where it counts calls; null where it does
  // not.
  struct Ready {
    std::shared_ptr<const KernelTable> table;
    CallCounter* calls = nullptr;
  };
  // What is known of one problem.
  struct Slot {
    // Null until the first lookup has an answer.
    std::shared_ptr<const TableAnswer> answer;
    // The answer is honed's and the problem's own table: do not ask again.
    bool settled = false;
    bool asking = false;
    // When honed was last asked; and not before when it is asked again.
    absl::Time asked;
    absl::Time ask_again = absl::InfinitePast();
    // Why the last question had no usable answer.
    absl::Status error;
  };

  Client(ClientOptions options, DeviceSpec device, TableFiles files,
         LookupIndex bundle, std::unique_ptr<KernelSet> kernels);

  // Why an answer is not to be used for the problem on this device; OK when it
  // is.
  absl::Status CheckAnswer(const Problem& problem,
                           const TableAnswer& answer) const;
  // The best answer without honed.
  TableAnswer Fallback(const Problem& problem) const;
  void Ask(const Problem& problem);
  void Answered(const Problem& problem, absl::StatusOr<TableAnswer> answer);
  // LookupTable() where the answer is not honed's own table yet.
  absl::StatusOr<std::shared_ptr<const TableAnswer>> UnsettledLookup(
      const Problem& problem);
  absl::StatusOr<Ready> Prepared(const Problem& problem);
  Ready MakeReady(const Problem& problem,
                  std::shared_ptr<const KernelTable> table);

  const ClientOptions options_;
  const DeviceSpec device_;
  const TableFiles files_;
  const LookupIndex bundle_;
  const std::unique_ptr<KernelSet> kernels_;

  absl::Mutex mu_;
  absl::CondVar answered_;
  absl::flat_hash_map<Problem, Slot, ProblemHash> slots_ ABSL_GUARDED_BY(mu_);

  absl::Mutex prepared_mu_;
  absl::flat_hash_map<Problem, Ready, ProblemHash> prepared_
      ABSL_GUARDED_BY(prepared_mu_);
  TrafficCounter traffic_;

  // Late, so that it is destroyed early: its answers come in from other
  // threads.
  Remote remote_;
  // Sends by it. Null where nothing is reported.
  std::unique_ptr<TrafficReporter> reporter_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_CLIENT_H_
