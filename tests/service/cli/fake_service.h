// A TuningService with scripted answers, served on a Unix socket.
#ifndef HONE_TESTS_SERVICE_CLI_FAKE_SERVICE_H_
#define HONE_TESTS_SERVICE_CLI_FAKE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"
#include "service/convert/grpc_status.h"
#include "service/convert/table_convert.h"

namespace hone {

// Thread-safe.
class FakeService final : public v1::TuningService::Service {
 public:
  FakeService(const std::string& socket, absl::string_view device)
      : device_(*ModelledDevice(device)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeService() override { server_->Shutdown(); }

  // What every later call fails with.
  void FailWith(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    error_ = std::move(status);
  }
  // TuneLayer stays at its first progress until it is cancelled, and calls
  // `then` there.
  void Hold(std::function<void()> then) {
    absl::MutexLock lock(&mutex_);
    hold_ = std::move(then);
  }
  void JoinJobs() { joined_ = true; }
  // Problems that TuneLayer fails for, by N.
  void FailAtN(int64_t n) { fail_n_ = n; }

  // What ListTunes and ListTrials answer.
  void SetTunes(std::vector<v1::Tune> tunes) {
    absl::MutexLock lock(&mutex_);
    tunes_ = std::move(tunes);
  }
  void SetTrials(std::vector<v1::Trial> trials) {
    absl::MutexLock lock(&mutex_);
    trials_ = std::move(trials);
  }
  // How often ListTunes was called.
  int lists() {
    absl::MutexLock lock(&mutex_);
    return lists_;
  }

  std::vector<v1::TuneLayerRequest> tuned() {
    absl::MutexLock lock(&mutex_);
    return requests_;
  }
  std::vector<v1::AuditLayerRequest> audits() {
    absl::MutexLock lock(&mutex_);
    return audits_;
  }
  std::vector<v1::RecheckTablesRequest> rechecks() {
    absl::MutexLock lock(&mutex_);
    return rechecks_;
  }
  std::vector<std::string> cancelled() {
    absl::MutexLock lock(&mutex_);
    return cancelled_;
  }
  std::string imported() {
    absl::MutexLock lock(&mutex_);
    return imported_;
  }
  std::string Bundle() const { return std::string(600'000, 'x') + "\n"; }

  grpc::Status GetConfig(grpc::ServerContext*, const v1::GetConfigRequest* in,
                         v1::GetConfigResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    const TableAnswer answer = AnswerFor(*ProblemFromProto(in->problem()));
    const TableEntry& entry = *answer.table.Find(in->m());
    *out =
        ToProto(ConfigAnswer{entry.config, entry.m_lo, entry.m_hi,
                             entry.evidence, entry.compile, answer.provenance});
    return grpc::Status::OK;
  }

  grpc::Status GetTable(grpc::ServerContext*, const v1::GetTableRequest* in,
                        v1::GetTableResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    *out = ToProto(AnswerFor(*ProblemFromProto(in->problem())));
    return grpc::Status::OK;
  }

  // Two pages.
  grpc::Status ListTables(grpc::ServerContext*, const v1::ListTablesRequest* in,
                          v1::ListTablesResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    const bool first = in->page_token().empty();
    Problem problem;
    problem.layer.n = first ? 1024 : 2048;
    problem.layer.k = 512;
    v1::TableSummary* summary = out->add_tables();
    *summary->mutable_problem() = ToProto(problem);
    *summary->mutable_device() = ToProto(device_);
    summary->set_revision(5);
    summary->set_kernels(3);
    summary->set_gate(v1::GATE_KIND_EMULATED);
    if (first) out->set_next_page_token("second");
    return grpc::Status::OK;
  }

  grpc::Status TuneLayer(
      grpc::ServerContext* context, const v1::TuneLayerRequest* in,
      grpc::ServerWriter<v1::TuneLayerResponse>* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    const Problem problem = *ProblemFromProto(in->problem());
    std::function<void()> hold;
    bool fresh = false;
    {
      absl::MutexLock lock(&mutex_);
      requests_.push_back(*in);
      hold = hold_;
      fresh = known_.count(problem.ToString()) != 0 && !in->retune();
    }
    v1::TuneLayerResponse event;
    event.mutable_accepted()->set_tune_id(in->request_id());
    event.mutable_accepted()->set_joined(joined_);
    out->Write(event);
    if (problem.layer.n == fail_n_) {
      return ToGrpcStatus(WithReason(
          absl::InternalError("the worker kept dying"), "WORKER_LOST"));
    }
    event.mutable_progress()->set_phase(v1::TUNE_PHASE_RACE);
    event.mutable_progress()->set_done(1);
    event.mutable_progress()->set_total(2);
    out->Write(event);
    if (hold) {
      hold();
      while (!context->IsCancelled()) {
        absl::MutexLock lock(&mutex_);
        const auto ended = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return !cancelled_.empty();
        };
        if (mutex_.AwaitWithTimeout(absl::Condition(&ended),
                                    absl::Milliseconds(20)))
          break;
      }
      return ToGrpcStatus(absl::CancelledError("cancelled"));
    }
    {
      absl::MutexLock lock(&mutex_);
      known_.insert(problem.ToString());
    }
    const v1::GetTableResponse answer = ToProto(AnswerFor(problem));
    v1::TuneResult* result = event.mutable_result();
    *result->mutable_table() = answer.table();
    *result->mutable_provenance() = answer.provenance();
    result->set_already_fresh(fresh);
    result->set_complete(true);
    result->set_trials_recorded(9);
    result->set_distinct_kernels(2);
    *result->mutable_trade_off() = answer.trade_off();
    result->mutable_elapsed()->set_seconds(4);
    out->Write(event);
    return grpc::Status::OK;
  }

  // A report on one M of a modelled device.
  grpc::Status AuditLayer(
      grpc::ServerContext*, const v1::AuditLayerRequest* in,
      grpc::ServerWriter<v1::AuditLayerResponse>* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    {
      absl::MutexLock lock(&mutex_);
      audits_.push_back(*in);
    }
    v1::AuditLayerResponse event;
    event.mutable_accepted()->set_tune_id(in->request_id());
    out->Write(event);
    event.mutable_progress()->set_phase(v1::TUNE_PHASE_AUDIT);
    out->Write(event);
    v1::AuditReport* report = event.mutable_result();
    *report->mutable_problem() = in->problem();
    *report->mutable_device() = ToProto(device_);
    report->set_modelled(true);
    report->mutable_protocol()->set_timer("model");
    report->set_revision(7);
    report->set_seed(in->seed());
    report->set_confidence(0.95);
    report->set_kernels(in->kernels());
    report->set_space(900);
    report->set_within("block_m=16");
    report->set_within_configs(40);
    report->set_exhaustive(true);
    report->set_complete(false);
    report->add_tunes()->set_seed(3);
    v1::AuditPoint* point = report->add_points();
    point->set_m(16);
    point->set_table_ns(10200);
    point->set_best_ns(10000);
    point->set_table_config("the table's");
    point->set_best_config("the best");
    point->mutable_regret()->set_ratio(1.02);
    point->mutable_regret()->set_low(1.01);
    point->mutable_regret()->set_high(1.03);
    point->mutable_regret()->set_rounds(25);
    point->set_regret_bound(1.04);
    point->set_flips(1);
    point->set_flip_matters(true);
    report->mutable_regret()->set_points(1);
    report->mutable_regret()->set_median(1.02);
    report->mutable_regret()->set_percentile_95(1.02);
    report->mutable_regret()->set_largest(1.02);
    report->set_flips(1);
    report->set_flip_pairs(1);
    report->set_flips_that_matter(1);
    out->Write(event);
    return grpc::Status::OK;
  }

  // A report on two tables: one is kept, one is slow at its only M.
  grpc::Status RecheckTables(
      grpc::ServerContext*, const v1::RecheckTablesRequest* in,
      grpc::ServerWriter<v1::RecheckTablesResponse>* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    {
      absl::MutexLock lock(&mutex_);
      rechecks_.push_back(*in);
    }
    v1::RecheckTablesResponse event;
    event.mutable_accepted()->set_tune_id(in->request_id());
    out->Write(event);
    event.mutable_progress()->set_phase(v1::TUNE_PHASE_RECHECK);
    event.mutable_progress()->set_total(2);
    out->Write(event);
    v1::RecheckReport* report = event.mutable_result();
    *report->mutable_device() = ToProto(device_);
    report->mutable_protocol()->set_timer("model");
    report->set_seed(in->seed());
    report->set_confidence(0.95);
    report->set_keys(2);
    report->set_failed(1);
    report->set_median_regret(0.031);
    report->set_largest_regret(0.05);
    report->set_regret_limit(0.01);
    report->set_report_only(in->report_only());
    for (const bool slow : {false, true}) {
      v1::RecheckedTable* table = report->add_tables();
      Problem problem;
      problem.layer.n = slow ? 2048 : 1024;
      problem.layer.k = 512;
      *table->mutable_problem() = ToProto(problem);
      table->add_soft_differences("driver 590.1 here, 580.65 measured");
      table->set_planned(1);
      table->set_verdict(slow ? v1::RECHECK_VERDICT_RETUNE
                              : v1::RECHECK_VERDICT_KEPT);
      if (slow) {
        table->set_median_regret(0.05);
        table->set_retune_id("the-retune");
      }
      v1::RecheckPoint* point = table->add_points();
      point->set_m(16);
      point->set_served_config("the served");
      point->set_best_config("the best");
      point->set_best_ns(10000);
      if (slow) {
        point->set_served_ns(10500);
        point->mutable_regret()->set_ratio(1.05);
        point->mutable_regret()->set_low(1.04);
        point->mutable_regret()->set_high(1.06);
        point->mutable_regret()->set_rounds(25);
      } else {
        point->set_failure("fault: illegal address");
      }
    }
    out->Write(event);
    return grpc::Status::OK;
  }

  std::vector<v1::ReportTrafficRequest> reports() {
    absl::MutexLock lock(&mutex_);
    return reports_;
  }

  grpc::Status ReportTraffic(grpc::ServerContext*,
                             const v1::ReportTrafficRequest* in,
                             v1::ReportTrafficResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    bool known = false;
    for (const v1::ReportTrafficRequest& report : reports_)
      known |= report.report_id() == in->report_id();
    reports_.push_back(*in);
    out->set_counted(!known);
    return grpc::Status::OK;
  }

  // Two pages: one layer of little time and one of much without tables, and one
  // that only missed, one with a table and one of another device.
  grpc::Status ListTraffic(grpc::ServerContext*,
                           const v1::ListTrafficRequest* in,
                           v1::ListTrafficResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    const auto add = [&](int64_t n, double share, v1::TableState state) {
      Problem problem;
      problem.layer.n = n;
      problem.layer.k = 512;
      v1::TrafficSummary* summary = out->add_problems();
      *summary->mutable_problem() = ToProto(problem);
      *summary->mutable_device() = ToProto(device_);
      summary->set_table(state);
      summary->set_time_share(share);
      for (const int64_t m : {int64_t{16}, int64_t{100}}) {
        if (share == 0) continue;
        v1::TrafficPoint* point = summary->add_points();
        point->set_m(m);
        point->set_weight(share * (m == 16 ? 1e6 : 3e6));
        point->set_call_ns(10000);
      }
      return summary;
    };
    if (in->page_token().empty()) {
      add(1024, 0.1, v1::TABLE_STATE_MISSING);
      add(2048, 0.6, v1::TABLE_STATE_MISSING)->set_times_modelled(true);
      out->set_next_page_token("second");
      return grpc::Status::OK;
    }
    add(3072, 0, v1::TABLE_STATE_STALE)->set_misses(7);
    add(4096, 0.3, v1::TABLE_STATE_FRESH);
    *add(5120, 1, v1::TABLE_STATE_MISSING)->mutable_device() =
        ToProto(*ModelledDevice("a100"));
    return grpc::Status::OK;
  }

  grpc::Status CancelTune(grpc::ServerContext*, const v1::CancelTuneRequest* in,
                          v1::CancelTuneResponse* out) override {
    absl::MutexLock lock(&mutex_);
    cancelled_.push_back(in->tune_id());
    out->set_cancelled(true);
    return grpc::Status::OK;
  }

  grpc::Status ListTunes(grpc::ServerContext*, const v1::ListTunesRequest*,
                         v1::ListTunesResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    ++lists_;
    for (const v1::Tune& tune : tunes_) *out->add_tunes() = tune;
    return grpc::Status::OK;
  }

  // Pages of at most three.
  grpc::Status ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest* in,
                          v1::ListTrialsResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    size_t at = in->page_token().empty() ? 0 : std::stoul(in->page_token());
    const size_t end = std::min(at + 3, trials_.size());
    for (; at < end; ++at) *out->add_trials() = trials_[at];
    if (end < trials_.size()) out->set_next_page_token(absl::StrCat(end));
    return grpc::Status::OK;
  }

  grpc::Status Export(grpc::ServerContext*, const v1::ExportRequest*,
                      grpc::ServerWriter<v1::ExportResponse>* out) override {
    const std::string bundle = Bundle();
    for (size_t at = 0; at < bundle.size(); at += 256 << 10) {
      v1::ExportResponse response;
      response.set_chunk(bundle.substr(at, 256 << 10));
      out->Write(response);
    }
    return Error();
  }

  grpc::Status Import(grpc::ServerContext*,
                      grpc::ServerReader<v1::ImportRequest>* in,
                      v1::ImportResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    v1::ImportRequest request;
    absl::MutexLock lock(&mutex_);
    while (in->Read(&request)) imported_ += request.chunk();
    out->set_tables_added(2);
    out->set_tables_known(1);
    out->set_revision(8);
    return grpc::Status::OK;
  }

  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    *out->add_devices() = Device();
    return grpc::Status::OK;
  }

  grpc::Status GetDevice(grpc::ServerContext*, const v1::GetDeviceRequest*,
                         v1::GetDeviceResponse* out) override {
    if (grpc::Status status = Error(); !status.ok()) return status;
    *out->mutable_device() = Device();
    return grpc::Status::OK;
  }

 private:
  grpc::Status Error() {
    absl::MutexLock lock(&mutex_);
    return ToGrpcStatus(error_);
  }

  v1::Device Device() const {
    v1::Device device;
    *device.mutable_spec() = ToProto(device_);
    device.set_can_tune(true);
    device.set_modelled(true);
    return device;
  }

  // Measured once the problem was tuned, else a heuristic.
  TableAnswer AnswerFor(const Problem& problem) {
    absl::MutexLock lock(&mutex_);
    TableAnswer answer;
    answer.table.problem = problem;
    answer.table.device = device_;
    answer.table.entries.emplace_back();
    answer.provenance.modelled = true;
    if (known_.count(problem.ToString()) == 0) return answer;
    Evidence evidence;
    evidence.m = 1;
    evidence.samples = 20;
    evidence.median_ns = 10000;
    evidence.default_median_ns = 12000;
    evidence.margin = 0.2;
    evidence.floor_ns = 8000;
    answer.table.ladder = {1};
    answer.table.entries[0].evidence.push_back(evidence);
    answer.table.entries[0].compile.kernel_id = "k";
    answer.table.trade_off = {{.kernels = 1,
                               .worst_regret = 0.25,
                               .mean_regret = 0.061,
                               .compile_ms = 400},
                              {.kernels = 2, .compile_ms = 800}};
    answer.provenance.match = MatchKind::kExact;
    answer.provenance.verified = true;
    answer.provenance.gate = GateKind::kEmulated;
    answer.provenance.revision = 4;
    answer.provenance.matched_problem = problem.ToString();
    answer.provenance.matched_device = device_.name;
    return answer;
  }

  const DeviceSpec device_;
  std::atomic<bool> joined_ = false;
  std::atomic<int64_t> fail_n_ = 0;
  absl::Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> hold_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::TuneLayerRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AuditLayerRequest> audits_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RecheckTablesRequest> rechecks_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReportTrafficRequest> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::string imported_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Tune> tunes_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Trial> trials_ ABSL_GUARDED_BY(mutex_);
  int lists_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_CLI_FAKE_SERVICE_H_
