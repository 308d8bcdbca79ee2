// The client against a scripted TuningService on a Unix socket, with real
// gRPC, real files and the real NVRTC.
#include "service/client/client.h"

#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "db/bundle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "kernels/codegen/embedded.h"
#include "kernels/space/space.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"
#include "service/paths/paths.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A TuningService that answers what the test sets.
class FakeServer : public v1::TuningService::Service {
 public:
  explicit FakeServer(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeServer() override {
    hang = false;
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status GetTable(grpc::ServerContext* context,
                        const v1::GetTableRequest* request,
                        v1::GetTableResponse* response) override {
    ++calls;
    while (hang && !context->IsCancelled())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    absl::MutexLock lock(&mu);
    last_request = *request;
    *response = ToProto(answer);
    return status;
  }

  grpc::Status ReportTraffic(grpc::ServerContext*,
                             const v1::ReportTrafficRequest* request,
                             v1::ReportTrafficResponse* response) override {
    absl::MutexLock lock(&mu);
    reports.push_back(*request);
    response->set_counted(true);
    return status;
  }

  std::atomic<int> calls{0};
  std::atomic<bool> hang{false};
  absl::Mutex mu;
  TableAnswer answer;
  grpc::Status status;
  v1::GetTableRequest last_request;
  std::vector<v1::ReportTrafficRequest> reports;

 private:
  std::unique_ptr<grpc::Server> server_;
};

DeviceSpec H200() {
  DeviceSpec device = *ModelledDevice("h200");
  device.kind = DeviceKind::kMeasured;
  device.pci_device_id = 0x2335;
  device.name = "H200";
  return device;
}

Problem MakeProblem(int64_t n = 256) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = 512;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

// A legal config that is no heuristic default.
TuningConfig OtherConfig(const Problem& problem, const DeviceSpec& device) {
  for (const TuningConfig& config : Enumerate(problem, device, 64)) {
    if (config.split == Split::kDataParallel &&
        !(config == HeuristicDefault(problem, device, 1)) &&
        !(config == HeuristicDefault(problem, device, 4096))) {
      return config;
    }
  }
  ADD_FAILURE() << "no other config";
  return {};
}

TableAnswer MakeAnswer(const Problem& problem, const DeviceSpec& device) {
  TableAnswer answer;
  DispatchTable& table = answer.table;
  table.problem = problem;
  table.device = device;
  table.source_closure = SourceClosureHash();
  table.ladder = {1, 16};
  TableEntry low;
  low.m_lo = 1;
  low.m_hi = 16;
  low.config = OtherConfig(problem, device);
  low.evidence = {{.m = 1, .samples = 9, .median_ns = 100},
                  {.m = 16, .samples = 9, .median_ns = 200}};
  TableEntry high;
  high.m_lo = 17;
  high.config = HeuristicDefault(problem, device, 64);
  table.entries = {low, high};
  answer.provenance.match = MatchKind::kExact;
  answer.provenance.revision = 7;
  answer.provenance.verified = true;
  answer.provenance.gate = GateKind::kDevice;
  answer.provenance.matched_problem = problem.ToString();
  answer.provenance.matched_device = device.name;
  return answer;
}

class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/hone-client-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    options_.address = "unix:" + folder_ + "/s";
    options_.cache_dir = folder_ + "/cache";
    options_.device = H200();
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void StartServer() {
    server_ = std::make_unique<FakeServer>(options_.address);
    server_->answer = MakeAnswer(problem_, H200());
  }

  std::unique_ptr<Client> MakeClient() {
    auto client = Client::Create(options_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  // A client that may wait for the fake, however slow this machine is.
  std::unique_ptr<Client> MakePatientClient() {
    options_.deadline = absl::Seconds(5);
    return MakeClient();
  }

  ConfigAnswer Get(Client& client, int64_t m) {
    auto answer = client.Lookup(problem_, m);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : ConfigAnswer();
  }

  std::string TablePath() {
    return TableFiles::Open(TableFolder(options_.cache_dir))
        ->PathOf(problem_, H200(), options_.revision);
  }

  std::string folder_;
  ClientOptions options_;
  const Problem problem_ = MakeProblem();
  std::unique_ptr<FakeServer> server_;
};

TEST_F(ClientTest, AnswersExactAndBucketFromOneQuestion) {
  StartServer();
  auto client = MakePatientClient();
  const ConfigAnswer exact = Get(*client, 16);
  EXPECT_EQ(exact.provenance.match, MatchKind::kExact);
  EXPECT_EQ(exact.provenance.revision, 7);
  EXPECT_EQ(exact.config, OtherConfig(problem_, H200()));
  ASSERT_EQ(exact.evidence.size(), 1u);
  EXPECT_EQ(exact.evidence[0].median_ns, 200);
  const ConfigAnswer bucket = Get(*client, 9);
  EXPECT_EQ(bucket.provenance.match, MatchKind::kBucket);
  EXPECT_EQ(bucket.config, exact.config);
  const ConfigAnswer beyond = Get(*client, 100000);
  EXPECT_EQ(beyond.m_lo, 17);
  EXPECT_EQ(beyond.m_hi, 0);
  EXPECT_EQ(server_->calls, 1);
  absl::MutexLock lock(&server_->mu);
  FieldErrors errors;
  EXPECT_EQ(FromProto(server_->last_request.device(), "device", errors),
            H200());
}

TEST_F(ClientTest, KeepsTheTableWhenTheServerGoesAway) {
  StartServer();
  auto client = MakePatientClient();
  Get(*client, 16);
  server_.reset();
  EXPECT_EQ(Get(*client, 1).provenance.match, MatchKind::kExact);
}

TEST_F(ClientTest, RestartsFromTheDisk) {
  StartServer();
  Get(*MakePatientClient(), 16);
  server_.reset();
  struct stat info;
  ASSERT_EQ(stat(TableFolder(options_.cache_dir).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);

  const ConfigAnswer answer = Get(*MakePatientClient(), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kExact);
  EXPECT_EQ(answer.provenance.revision, 7);
  EXPECT_EQ(answer.config, OtherConfig(problem_, H200()));
  EXPECT_THAT(answer.provenance.notes, Contains("from the local cache"));
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr(options_.address)));
}

TEST_F(ClientTest, IgnoresADamagedFileAndReplacesIt) {
  StartServer();
  Get(*MakePatientClient(), 16);
  server_.reset();
  const std::string path = TablePath();
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_GT(bytes.size(), 200u);
  for (const std::string& damaged : {bytes.substr(0, bytes.size() - 3),
                                     std::string(), std::string("x"), [&] {
                                       std::string flipped = bytes;
                                       flipped[flipped.size() / 2] ^= 1;
                                       return flipped;
                                     }()}) {
    std::ofstream(path, std::ios::binary) << damaged;
    const ConfigAnswer answer = Get(*MakePatientClient(), 16);
    EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
    EXPECT_THAT(answer.provenance.notes,
                Contains(HasSubstr("damaged table file")));
  }
  StartServer();
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match, MatchKind::kExact);
  server_.reset();
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match, MatchKind::kExact);
}

TEST_F(ClientTest, AbsentServerMeansTheHeuristicWithinTheDeadline) {
  auto client = MakeClient();
  const absl::Time start = absl::Now();
  const ConfigAnswer answer = Get(*client, 5);
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(55));
  EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
  EXPECT_FALSE(CheckConfig(problem_, H200(), answer.config).has_value());
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr(options_.address)));
}

TEST_F(ClientTest, HangingServerCostsOneDeadlineOnce) {
  StartServer();
  server_->hang = true;
  auto client = MakeClient();
  const absl::Time start = absl::Now();
  EXPECT_EQ(Get(*client, 5).provenance.match, MatchKind::kHeuristic);
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(55));
  const absl::Time second = absl::Now();
  for (int i = 0; i < 100; ++i) Get(*client, 5);
  EXPECT_LT(absl::Now() - second, absl::Milliseconds(40));
  EXPECT_LE(server_->calls, 1) << "one question in flight";

  // A late answer still serves.
  server_->hang = false;
  for (int i = 0; i < 2000; ++i) {
    if (Get(*client, 16).provenance.match == MatchKind::kExact) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(Get(*client, 16).provenance.match, MatchKind::kExact);
}

TEST_F(ClientTest, AsksAgainInTheBackgroundOnceTheServerIsThere) {
  auto client = MakeClient();
  EXPECT_EQ(Get(*client, 16).provenance.match, MatchKind::kHeuristic);
  StartServer();
  MatchKind match = MatchKind::kHeuristic;
  const absl::Time start = absl::Now();
  while (match != MatchKind::kExact && absl::Now() - start < absl::Seconds(8)) {
    absl::SleepFor(absl::Milliseconds(20));
    match = Get(*client, 16).provenance.match;
  }
  EXPECT_EQ(match, MatchKind::kExact);
}

TEST_F(ClientTest, IllegalConfigMeansTheHeuristic) {
  StartServer();
  // Right in itself, but of another architecture.
  server_->answer.table.entries[0].config.mma = MmaInstruction::kTcgen05;
  const ConfigAnswer answer = Get(*MakePatientClient(), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
  EXPECT_FALSE(CheckConfig(problem_, H200(), answer.config).has_value());
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("not legal")));
  EXPECT_FALSE(std::filesystem::exists(TablePath()));
}

TEST_F(ClientTest, ModelledAnswerIsRefusedForARealDevice) {
  StartServer();
  server_->answer.provenance.modelled = true;
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match,
            MatchKind::kHeuristic);
  server_->answer = MakeAnswer(problem_, *ModelledDevice("h200"));
  const ConfigAnswer answer = Get(*MakePatientClient(), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("MODELLED")));

  options_.device = *ModelledDevice("h200");
  server_->answer.provenance.modelled = true;
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match, MatchKind::kExact);
}

TEST_F(ClientTest, TableOfAnotherDeviceClassIsRefused) {
  StartServer();
  DeviceSpec other = H200();
  other.sm_count -= 2;
  server_->answer.table.device = other;
  const ConfigAnswer answer = Get(*MakePatientClient(), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kHeuristic);
  EXPECT_THAT(answer.provenance.notes, Contains(HasSubstr("sm_count")));
}

TEST_F(ClientTest, TableOfAnotherProblemIsRefused) {
  StartServer();
  server_->answer = MakeAnswer(MakeProblem(512), H200());
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match,
            MatchKind::kHeuristic);
}

TEST_F(ClientTest, PinnedRevisionIsAskedForAndHeldTo) {
  StartServer();
  options_.revision = 7;
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match, MatchKind::kExact);
  {
    absl::MutexLock lock(&server_->mu);
    EXPECT_EQ(server_->last_request.revision(), 7);
  }
  options_.revision = 6;
  EXPECT_EQ(Get(*MakePatientClient(), 16).provenance.match,
            MatchKind::kHeuristic);
}

TEST_F(ClientTest, PinnedBundleAnswersWithoutServerAndCache) {
  DispatchTable table = MakeAnswer(problem_, H200()).table;
  const auto text = RenderBundle({table});
  ASSERT_TRUE(text.ok()) << text.status();
  options_.bundle = folder_ + "/bundle.jsonl";
  std::ofstream(options_.bundle, std::ios::binary) << *text;
  ConfigAnswer answer = Get(*MakeClient(), 16);
  EXPECT_EQ(answer.provenance.match, MatchKind::kExact);
  EXPECT_FALSE(answer.provenance.verified);
  EXPECT_EQ(answer.config, table.entries[0].config);
  EXPECT_THAT(answer.provenance.notes, Contains("from the pinned bundle"));

  // It beats a server that was never tuned.
  StartServer();
  server_->answer.table.entries = {server_->answer.table.entries[1]};
  server_->answer.table.entries[0].m_lo = 1;
  server_->answer.provenance.match = MatchKind::kHeuristic;
  EXPECT_EQ(Get(*MakePatientClient(), 16).config, table.entries[0].config);

  std::ofstream(options_.bundle, std::ios::app) << "x";
  EXPECT_FALSE(Client::Create(options_).ok());
}

TEST_F(ClientTest, RefusesBadOptionsAndArguments) {
  auto client = MakeClient();
  EXPECT_TRUE(absl::IsInvalidArgument(client->Lookup(problem_, 0).status()));
  Problem moe = problem_;
  moe.layer.experts = 8;
  moe.compute.gemm = GemmType::kIndexed;
  moe.compute.top_k = 2;
  EXPECT_FALSE(client->Lookup(moe, 1).ok());
  GemmCall call;
  call.problem = problem_;
  EXPECT_TRUE(absl::IsInvalidArgument(client->Gemm(call)));

  options_.deadline = absl::ZeroDuration();
  EXPECT_THAT(std::string(Client::Create(options_).status().message()),
              HasSubstr("deadline"));
  options_.deadline = absl::Milliseconds(50);
  chmod(options_.cache_dir.c_str(), 0755);
  EXPECT_TRUE(absl::IsFailedPrecondition(Client::Create(options_).status()));
}

TEST_F(ClientTest, WarmLookupIsFast) {
  StartServer();
  auto client = MakePatientClient();
  Get(*client, 16);
  constexpr int kCalls = 20000;
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCalls; ++i)
    ASSERT_NE(*client->LookupTable(problem_), nullptr);
  // Far above what it takes, for sanitizers and busy machines.
  EXPECT_LT((absl::Now() - start) / kCalls, absl::Microseconds(10));
}

TEST_F(ClientTest, EightThreadsHammerLookups) {
  StartServer();
  auto client = MakePatientClient();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        // The fake knows one of the problems.
        const bool known = (t + i) % 4 != 0;
        const auto answer = client->Lookup(
            known ? problem_ : MakeProblem(256 * (2 + i % 5)), 16);
        if (!answer.ok() ||
            (answer->provenance.match == MatchKind::kExact) != known)
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ClientTest, CompilesTheTableOnceForAllClients) {
  StartServer();
  options_.libraries = LibrarySearchFromEnvironment(::getenv);
  auto first = MakePatientClient()->Compile(problem_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->kernels, 2);
  EXPECT_EQ(first->from_cache, 0);
  auto client = MakePatientClient();
  auto second = client->Compile(problem_);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->kernels, 2);
  EXPECT_EQ(second->from_cache, 2);
  // Deterministic and without a driver.
  EXPECT_TRUE(client->WorkspaceBytes(problem_, 4096).ok());
}

TEST_F(ClientTest, CubinsOfTheCacheServeWithoutNvrtc) {
  // A set without a compiler: the error that a machine without NVRTC gives.
  StartServer();
  options_.libraries = LibrarySearchFromEnvironment(::getenv);
  const auto nvrtc = Nvrtc::Create(options_.libraries);
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  DispatchTable& table = server_->answer.table;
  for (TableEntry& entry : table.entries)
    entry.compile.nvrtc_version = (*nvrtc)->version();
  ASSERT_TRUE(MakePatientClient()->Compile(problem_).ok());

  const auto create = [&](const std::string& folder) {
    auto cache = CubinCache::Open({.folder = folder});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return std::make_unique<KernelSet>(H200(), *std::move(cache),
                                       absl::UnavailableError("no NVRTC here"));
  };
  auto cached = create(CubinFolder(options_.cache_dir));
  const auto summary = cached->Compile(*cached->MakeTable(table));
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->from_cache, 2);
  auto empty = create(folder_ + "/empty");
  const absl::Status status = empty->Compile(*empty->MakeTable(table)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no NVRTC here"));
}

TEST_F(ClientTest, LaunchesNeedAContext) {
  auto client = MakeClient();
  const absl::Status status = client->WarmUp(problem_);
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsFailedPrecondition(status))
      << status;
}

TEST_F(ClientTest, ReportsItsCallsWithItsDevice) {
  StartServer();
  options_.report_interval = absl::Hours(1);
  auto client = MakeClient();
  CallCounter& calls = client->traffic().Of(problem_);
  calls.Count(16, 3);
  calls.Count(1);
  ASSERT_TRUE(client->FlushTraffic(absl::Seconds(10)).ok());
  EXPECT_EQ(client->traffic_stats().reported, 4);
  absl::MutexLock lock(&server_->mu);
  ASSERT_EQ(server_->reports.size(), 1u);
  const v1::ReportTrafficRequest& report = server_->reports[0];
  EXPECT_EQ(report.report_id().size(), 36u);
  FieldErrors errors;
  EXPECT_EQ(FromProto(report.device(), "device", errors), H200());
  ASSERT_EQ(report.problems_size(), 1);
  EXPECT_EQ(*ProblemFromProto(report.problems(0).problem()), problem_);
  ASSERT_EQ(report.problems(0).calls_size(), 2);
  EXPECT_EQ(report.problems(0).calls(0).m(), 1);
  EXPECT_EQ(report.problems(0).calls(1).m(), 16);
  EXPECT_EQ(report.problems(0).calls(1).calls(), 3);
}

TEST_F(ClientTest, KeepsItsCallsWhileHonedIsAway) {
  options_.report_interval = absl::Hours(1);
  auto client = MakeClient();
  client->traffic().Of(problem_).Count(16, 3);
  EXPECT_EQ(client->FlushTraffic(absl::Seconds(10)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(client->traffic_stats().pending, 3);
  client->traffic().Of(problem_).Count(16, 2);
  StartServer();
  // The channel connects again at most every second.
  absl::Status status;
  for (int i = 0; i < 50; ++i) {
    status = client->FlushTraffic(absl::Seconds(10));
    if (status.ok()) break;
    absl::SleepFor(absl::Milliseconds(200));
  }
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(client->traffic_stats().reported, 5);
  EXPECT_EQ(client->traffic_stats().dropped, 0);
}

TEST_F(ClientTest, ReportsNothingUnlessAsked) {
  StartServer();
  auto client = MakeClient();
  client->traffic().Of(problem_).Count(16);
  EXPECT_EQ(client->FlushTraffic(absl::Seconds(1)).code(),
            absl::StatusCode::kFailedPrecondition);
  options_.report_interval = absl::Milliseconds(10);
  const auto refused = Client::Create(options_);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("report_interval is 10ms"));
}

}  // namespace
}  // namespace hone
