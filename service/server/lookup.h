// Which stored table answers a lookup. Pure: a snapshot of the published
// tables in, an answer out.
//
// In order:
//   EXACT           the problem's own table on this device class, fresh, and M
//                   is one of its ladder points
//   BUCKET          that table at another M, or a table whose kernels' sources
//                   changed since (then `stale`)
//   NEIGHBOUR       the table of this device class whose problem differs only
//                   in N and K and lies nearest, at most a factor of 4 away
//   SIBLING_DEVICE  the problem's table on another class of the same SM
//                   architecture; measured for measured, modelled for modelled
//   HEURISTIC       the default computed from the problem
// A table answers only when each of its configs is legal for the problem on
// the device that asks, by today's rules.
#ifndef HONE_SERVICE_SERVER_LOOKUP_H_
#define HONE_SERVICE_SERVER_LOOKUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "db/store.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/convert/answer.h"
#include "tuner/regret_bound.h"

namespace hone {

// Immutable, so thread-safe.
class LookupIndex {
 public:
  // `tables` are the answering tables of one revision; `source_closure` is
  // that of this binary's kernels (SourceClosureHash()). `times`, parallel to
  // the tables, are what trials say of each one's problem on its own device
  // (Store::TimesOf()): from them come the bounds of regret.
  LookupIndex(std::vector<StoredTable> tables, int64_t revision,
              std::string source_closure, std::vector<TrialTimes> times = {});

  int64_t revision() const { return revision_; }
  const std::vector<StoredTable>& tables() const { return tables_; }
  bool IsStale(const StoredTable& stored) const;
  // The problem's own table on this device class, stale or not; null when there
  // is none whose configs are legal.
  const StoredTable* Own(const Problem& problem,
                         const DeviceSpec& device) const;

  // `m` ≥ 1. Unimplemented or InvalidArgument, with a reason, when Hone has no
  // kernel for the problem on the device.
  absl::StatusOr<ConfigAnswer> GetConfig(const Problem& problem,
                                         const DeviceSpec& device,
                                         int64_t m) const;
  absl::StatusOr<TableAnswer> GetTable(const Problem& problem,
                                       const DeviceSpec& device) const;

 private:
  // How a table was found; null for HEURISTIC.
  struct Found {
    const StoredTable* stored = nullptr;
    MatchKind match = MatchKind::kHeuristic;
    // Of a neighbour, in octaves of N and K.
    double distance = 0;
    std::vector<std::string> notes;
  };
  absl::StatusOr<Found> Find(const Problem& problem,
                             const DeviceSpec& device) const;
  const StoredTable* FindNeighbour(const Problem& problem,
                                   const DeviceSpec& device) const;
  const StoredTable* FindSibling(const Problem& problem,
                                 const DeviceSpec& device) const;
  Provenance Describe(const Found& found, const DeviceSpec& device) const;
  void FindBounds(const std::vector<TrialTimes>& times);
  // What is known of the regret at one M, or with 0 at the table's own.
  std::optional<RegretBound> BoundAt(const Found& found, int64_t m) const;
  // HeuristicTable(), which takes a millisecond, of the last few hundred asked
  // for. Its device may differ from `device` in what no config follows from.
  std::shared_ptr<const DispatchTable> Defaults(const Problem& problem,
                                                const DeviceSpec& device) const;

  const std::vector<StoredTable> tables_;
  const int64_t revision_;
  const std::string source_closure_;
  // Indexes into tables_: by problem and device class; by problem; and by the
  // problem without its N and K.
  absl::flat_hash_map<std::string, size_t> own_;
  absl::flat_hash_map<std::string, std::vector<size_t>> same_problem_;
  absl::flat_hash_map<std::string, std::vector<size_t>> same_types_;

  // Bounds of regret: of each table between its measured points; of neighbours,
  // by device class and the problem without its N and K, and then by class of
  // distance, from pairs of tables at least about as far apart; of siblings, by
  // device kind and architecture.
  std::vector<std::vector<BucketBound>> bucket_bounds_;
  absl::flat_hash_map<std::string, std::vector<std::optional<TransferBound>>>
      neighbour_bounds_;
  absl::flat_hash_map<std::string, TransferBound> sibling_bounds_;

  // Of Defaults(); apart, so that an index can be moved.
  struct DefaultTables {
    absl::Mutex mutex;
    absl::flat_hash_map<std::string, std::shared_ptr<const DispatchTable>>
        tables ABSL_GUARDED_BY(mutex);
  };
  std::unique_ptr<DefaultTables> defaults_ = std::make_unique<DefaultTables>();
};

// Whether the table has configs and all are legal for the problem on the
// device, by today's rules.
bool AllLegal(const DispatchTable& table, const Problem& problem,
              const DeviceSpec& device);

// Why there is no kernel, as an error of the request: field violations where it
// is not valid, else the reason NO_KERNEL, with what the device computes in
// instead (NextComputable of kernels/space) where there is such a thing.
absl::Status CheckHasKernel(const Problem& problem, const DeviceSpec& device);

// The table of HeuristicDefault() over the default ladder, without evidence.
DispatchTable HeuristicTable(const Problem& problem, const DeviceSpec& device);

// The answer of one table at one M; `provenance.match` is what Find() said,
// and becomes kBucket when M is not a ladder point.
ConfigAnswer AnswerAt(const TableAnswer& answer, int64_t m);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_LOOKUP_H_
