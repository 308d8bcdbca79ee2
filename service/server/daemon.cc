#include "service/server/daemon.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "grpc/health/v1/health.pb.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"
#include "service/convert/uuid.h"
#include "service/metrics/rpc_meter.h"
#include "service/paths/paths.h"
#include "service/web/web_routes.h"

namespace hone {
namespace {

constexpr int kMaxRequestBytes = 1 << 20;
constexpr size_t kMaxMemoryBytes = size_t{512} << 20;
// Callers of TuneLayer hold a thread each; lookups need few.
constexpr int kMaxThreads = 160;

// Whether somebody listens on a Unix socket.
bool Answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool answers =
      connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return answers;
}

absl::Status PrepareSocket(const std::string& path) {
  HONE_RETURN_IF_ERROR(
      MakePrivateFolder(std::filesystem::path(path).parent_path().string()));
  if (Answers(path)) {
    return absl::UnavailableError(
        absl::StrCat("another honed listens on ", path));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

std::function<absl::Status()> Daemon::CanTune() const {
  return [missing = device_.can_tune,
          executor = device_.executor.get()]() -> absl::Status {
    HONE_RETURN_IF_ERROR(missing);
    return WithReason(executor->Usable(), "DEVICE_QUARANTINED");
  };
}

absl::Status CheckListenAddress(absl::string_view listen, bool insecure) {
  absl::string_view path = listen;
  if (absl::ConsumePrefix(&path, "unix:") || absl::StartsWith(path, "/")) {
    // sun_path holds 108 bytes with its end.
    if (!absl::StartsWith(path, "/") || path.size() > 107) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listen is \"", listen,
          "\"; a Unix socket must be an absolute path of at most 107 bytes"));
    }
    return absl::OkStatus();
  }
  const size_t colon = listen.rfind(':');
  absl::string_view host = listen.substr(0, colon);
  int port = 0;
  if (colon == listen.npos || host.empty() ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen is \"", listen,
        "\"; it must be a socket's path, host:port or [v6]:port with "
        "a port from 0 to 65535"));
  }
  if (insecure || host == "localhost" || host == "[::1]" ||
      absl::StartsWith(host, "127.")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen is \"", listen,
      "\", which other machines can reach, and honed would neither encrypt nor "
      "authenticate; give --insecure to listen there all the same"));
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options,
                                                      DeviceBackend device,
                                                      Logger* log) {
  HONE_RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  if (absl::StartsWith(options.listen, "/"))
    options.listen = absl::StrCat("unix:", options.listen);
  auto daemon = absl::WrapUnique(new Daemon(std::move(device), log));
  const DeviceBackend& backend = daemon->device_;
  std::error_code ignored;
  std::filesystem::create_directories(
      std::filesystem::path(options.database).parent_path(), ignored);
  HONE_ASSIGN_OR_RETURN(daemon->store_, Store::Open(options.database));
  const std::string closure = SourceClosureHash();
  HONE_ASSIGN_OR_RETURN(daemon->tables_,
                        TableCache::Create(daemon->store_.get(), closure));
  daemon->metrics_ = std::make_unique<EventMetrics>(MeteredMethods());
  EventMetrics* const metrics = daemon->metrics_.get();
  if (backend.can_tune.ok()) {
    daemon->compiler_ = std::make_unique<MeteredCompiler>(
        backend.compiler.get(), /*cached=*/true, metrics);
    daemon->uncached_ = std::make_unique<MeteredCompiler>(
        backend.uncached.get(), /*cached=*/false, metrics);
    daemon->runner_ = std::make_unique<TuneRunner>(
        daemon->store_.get(), daemon->tables_.get(), backend.executor.get(),
        daemon->compiler_.get(), log, metrics);
    daemon->auditor_ = std::make_unique<AuditRunner>(
        daemon->store_.get(), backend.executor.get(), daemon->compiler_.get(),
        daemon->uncached_.get(), log);
    daemon->rechecker_ = std::make_unique<RecheckRunner>(
        daemon->store_.get(), daemon->tables_.get(), backend.executor.get(),
        daemon->compiler_.get(), log,
        [daemon = daemon.get()](const TuneRequest& request) {
          // A detached job needs no caller.
          return daemon->jobs_->Submit(request).status();
        });
  }
  daemon->jobs_ = std::make_unique<TuneJobs>(
      [runner = daemon->runner_.get(), auditor = daemon->auditor_.get(),
       rechecker = daemon->rechecker_.get(), can_tune = backend.can_tune](
          const TuneRequest& request,
          const std::function<void(const SessionProgress&)>& progress,
          const std::function<bool()>& is_cancelled)
          -> absl::StatusOr<TuneOutcome> {
        if (runner == nullptr) return can_tune;
        if (request.recheck)
          return rechecker->Run(request, progress, is_cancelled);
        return request.audit ? auditor->Run(request, progress, is_cancelled)
                             : runner->Run(request, progress, is_cancelled);
      },
      TuneJobs::Options{.max_queued = static_cast<size_t>(options.max_queued),
                        .on_end = [metrics](const TuneSnapshot& job) {
                          CountJob(job, *metrics);
                        }});
  daemon->traffic_ = std::make_unique<TrafficKeeper>(daemon->store_.get(),
                                                     daemon->tables_.get(), log,
                                                     TrafficKeeper::Options());
  daemon->service_ = std::make_unique<TuningServiceImpl>(
      TuningServiceImpl::Parts{.store = daemon->store_.get(),
                               .tables = daemon->tables_.get(),
                               .jobs = daemon->jobs_.get(),
                               .traffic = daemon->traffic_.get(),
                               .log = log,
                               .metrics = metrics,
                               .device = backend.device,
                               .can_tune = daemon->CanTune(),
                               .source_closure = closure,
                               .version = HONE_VERSION,
                               .import_key_pem = options.import_key_pem});
  daemon->studies_ = std::make_unique<StudyServiceImpl>(StudyServiceImpl::Parts{
      .store = daemon->store_.get(),
      .log = log,
      .on_measuring = [jobs = daemon->jobs_.get()] { jobs->MakeWay(); }});
  daemon->MakeMetricsPage(options.database);

  HONE_RETURN_IF_ERROR(daemon->ServeHttp(
      options,
      WebRoutes({.store = daemon->store_.get(),
                 .device = backend.device,
                 .can_tune = daemon->CanTune(),
                 .health =
                     [executor = backend.executor.get()] {
                       return executor == nullptr ? ExecutorHealth()
                                                  : executor->health();
                     },
                 .jobs = [jobs = daemon->jobs_.get()] { return jobs->List(); },
                 .source_closure = closure,
                 .version = HONE_VERSION})));

  absl::string_view path = options.listen;
  const bool is_unix = absl::ConsumePrefix(&path, "unix:");
  if (is_unix) HONE_RETURN_IF_ERROR(PrepareSocket(std::string(path)));
  grpc::EnableDefaultHealthCheckService(true);
  // Reflection describes grpc.health.v1 only when its descriptor is linked in.
  grpc::health::v1::HealthCheckRequest::descriptor();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(daemon->service_.get());
  builder.RegisterService(daemon->studies_.get());
  builder.experimental().SetInterceptorCreators(RpcMeters(metrics));
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("honed")
                               .Resize(kMaxMemoryBytes)
                               .SetMaxThreads(kMaxThreads));
  // Two honed on one port would share its callers.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  daemon->server_ = builder.BuildAndStart();
  if (!daemon->server_) {
    return absl::UnavailableError(
        absl::StrCat("honed cannot listen on ", options.listen));
  }
  if (is_unix) chmod(std::string(path).c_str(), 0600);
  daemon->address_ =
      is_unix
          ? options.listen
          : absl::StrCat(options.listen.substr(0, options.listen.rfind(':')),
                         ":", port);
  for (const char* service : {v1::TuningService::service_full_name(),
                              v1::StudyService::service_full_name()}) {
    daemon->server_->GetHealthCheckService()->SetServingStatus(service, true);
  }
  if (options.idle_tune && backend.can_tune.ok()) {
    daemon->idle_ = std::make_unique<IdleTuner>(
        daemon->jobs_.get(), daemon->traffic_.get(), *backend.device,
        daemon->CanTune(), log,
        IdleTuner::Options{.after = options.idle_after});
  }
  log->Info(
      "serving",
      {{"address", LogText(daemon->address_)},
       {"http", LogText(daemon->http_address())},
       {"database", LogText(options.database)},
       {"device", LogText(backend.device ? backend.device->name : "none")},
       {"can_tune", Json{backend.can_tune.ok()}},
       {"idle_tune", Json{daemon->idle_ != nullptr}},
       {"unavailable", LogText(backend.can_tune.message())},
       {"version", LogText(HONE_VERSION)}});
  if (options.recheck && daemon->CanTune()().ok()) daemon->RecheckAfterChange();
  return daemon;
}

absl::Status Daemon::ServeHttp(const DaemonOptions& options,
                               std::vector<HttpRoute> routes) {
  if (options.http.empty()) return absl::OkStatus();
  routes.push_back({"/metrics", [this](const HttpRequest&) {
                      return HttpResponse{
                          .content_type = MetricsPage::kContentType,
                          .body = metrics_page_->Render()};
                    }});
  // Its three handlers at once leave one of the store's four readers to tunes.
  absl::StatusOr<std::unique_ptr<HttpServer>> http =
      HttpServer::Start(options.http, options.insecure, std::move(routes));
  if (absl::IsUnavailable(http.status()) && options.http_may_be_taken) {
    log_->Warn("no_http", {{"detail", LogText(http.status().message())}});
    return absl::OkStatus();
  }
  HONE_RETURN_IF_ERROR(http.status());
  http_ = *std::move(http);
  return absl::OkStatus();
}

void Daemon::RecheckAfterChange() {
  const std::vector<std::string> differences =
      UncheckedDifferences(*tables_->Newest(), *device_.device);
  if (differences.empty()) return;
  TuneRequest request;
  request.request_id = NewUuid();
  request.budget = kRecheckBudget;
  request.detached = true;
  request.recheck.emplace().changed_only = true;
  const absl::Status queued = jobs_->Submit(request).status();
  log_->Info("recheck_queued",
             {{"tune_id", LogText(request.request_id)},
              {"differences", LogText(absl::StrJoin(differences, "; "))},
              {"status", LogText(absl::StatusCodeToString(queued.code()))}});
}

Daemon::~Daemon() { Drain(); }

void Daemon::Drain(absl::Duration grace) {
  if (!server_) return;
  log_->Info("draining");
  server_->GetHealthCheckService()->SetServingStatus(false);
  idle_ = nullptr;
  jobs_->Drain();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
  server_->Wait();
  server_ = nullptr;
  http_ = nullptr;
  log_->Info("stopped");
}

}  // namespace hone
