// hone-client-check: fetches a problem's table from honed as any client does,
// runs its kernels through the client and checks them against the CPU oracle.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
#include "service/client/client.h"
#include "service/flags/flags.h"

namespace hone {
namespace {

struct Settings {
  std::string problem;
  std::string ms = "1,16,128";
  std::string json;
  int64_t check_columns = 256;
  int64_t seed = 1;
  ClientOptions client;
};

struct Row {
  int64_t m = 0;
  std::string match;
  std::string config;
  double worst_ratio = 0;
  double relative_norm = 0;
  bool repeatable = false;
  bool passed = false;
};

struct Outcome {
  Problem problem;
  DeviceSpec device;
  int64_t revision = 0;
  int64_t columns = 0;
  int64_t warm_up_ms = 0;
  std::vector<Row> rows;
};

// The operands of the problem on the host, with random values.
struct HostOperands {
  std::vector<uint16_t> a;
  std::vector<float> a_scales;
  QuantizedWeights weights;
  std::vector<uint16_t> bias;
};

// Calls work(begin, end) for slices of [0, count) on all cores.
template <typename Work>
void InParallel(int64_t count, const Work& work) {
  const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> pool;
  for (int64_t t = 0; t < threads; ++t) {
    pool.emplace_back(
        [&, t] { work(count * t / threads, count * (t + 1) / threads); });
  }
  for (std::thread& thread : pool) thread.join();
}

// The layer restricted to `count` of its columns.
Problem WithColumns(Problem problem, int64_t count) {
  problem.layer.n = count;
  return problem;
}

// Quantizes random weights; row by row, since a large layer in float32 would
// take gigabytes.
absl::StatusOr<HostOperands> MakeOperands(const Problem& problem, int64_t max_m,
                                          int64_t seed) {
  const LayerConfig& layer = problem.layer;
  const Problem one_row = WithColumns(problem, 1);
  const int64_t groups = ScaleGroups(layer);
  HostOperands operands;
  operands.a.resize(max_m * layer.k);
  operands.weights.codes.resize(layer.n * layer.k);
  operands.weights.scales.resize(layer.n * groups);
  if (layer.zero_point != ZeroPoint::kNone) {
    operands.weights.zeros.resize(layer.n * groups);
  }
  // Integers spread over their range.
  const double spread = layer.a.is_integer() ? layer.a.MaxFinite() / 3 : 1;
  operands.a_scales.resize(InputScaleCount(problem, max_m));
  std::mt19937_64 scale_random(seed + 29);
  std::normal_distribution<float> scale_normal;
  for (float& scale : operands.a_scales) {
    scale =
        static_cast<float>(std::exp(0.5 * scale_normal(scale_random)) / spread);
  }
  InParallel(max_m, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::mt19937_64 random(seed * 1000003 + row);
      std::normal_distribution<float> normal;
      for (int64_t k = 0; k < layer.k; ++k)
        operands.a[row * layer.k + k] = layer.a.Encode(spread * normal(random));
    }
  });
  std::vector<absl::Status> statuses(layer.n);
  InParallel(layer.n, [&](int64_t begin, int64_t end) {
    std::vector<float> weights(layer.k);
    for (int64_t n = begin; n < end; ++n) {
      std::mt19937_64 random(~(seed * 1000003 + n));
      std::normal_distribution<float> normal(0.0f, 0.02f);
      for (float& weight : weights) weight = normal(random);
      const auto row = Quantize(one_row.layer, weights);
      statuses[n] = row.status();
      if (!row.ok()) continue;
      std::copy(row->codes.begin(), row->codes.end(),
                operands.weights.codes.begin() + n * layer.k);
      std::copy(row->scales.begin(), row->scales.begin() + groups,
                operands.weights.scales.begin() + n * groups);
      std::copy(row->zeros.begin(), row->zeros.end(),
                operands.weights.zeros.begin() + n * groups);
    }
  });
  for (const absl::Status& status : statuses) HONE_RETURN_IF_ERROR(status);
  if (layer.bias) {
    std::mt19937_64 random(seed + 17);
    std::normal_distribution<float> normal;
    operands.bias.resize(layer.n);
    for (uint16_t& code : operands.bias) code = layer.c.Encode(normal(random));
  }
  return operands;
}

// The scales of A's first `m` rows of `max_m`.
std::vector<float> FirstRows(const Problem& problem, int64_t max_m, int64_t m,
                             const std::vector<float>& all) {
  std::vector<float> some(InputScaleCount(problem, m));
  if (some.empty()) return some;
  const int64_t step = std::max<int64_t>(problem.layer.a_group, 1);
  const int64_t columns = problem.layer.a_group == 0 ? 1 : problem.layer.k;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < columns; k += step) {
      some[InputScaleIndex(problem, m, i, k)] =
          all[InputScaleIndex(problem, max_m, i, k)];
    }
  }
  return some;
}

// The columns that are checked: first, last and evenly between, so that every
// tile position comes up.
std::vector<int64_t> ChosenColumns(int64_t n, int64_t count) {
  std::vector<int64_t> columns;
  count = std::min(n, count);
  if (count == 1) return {0};
  for (int64_t i = 0; i < count; ++i)
    columns.push_back(i * (n - 1) / (count - 1));
  return columns;
}

// The oracle of the chosen columns, computed in slices on all cores.
OracleResult ColumnsOracle(const Problem& problem, int64_t m,
                           const HostOperands& operands,
                           const std::vector<int64_t>& columns) {
  const LayerConfig& layer = problem.layer;
  const int64_t groups = ScaleGroups(layer);
  const int64_t count = columns.size();
  OracleResult all;
  all.c.resize(m * count);
  all.magnitude.resize(m * count);
  InParallel(count, [&](int64_t begin, int64_t end) {
    if (begin == end) return;
    QuantizedWeights some;
    std::vector<uint16_t> bias;
    for (int64_t i = begin; i < end; ++i) {
      const auto& weights = operands.weights;
      const int64_t n = columns[i];
      some.codes.insert(some.codes.end(), weights.codes.begin() + n * layer.k,
                        weights.codes.begin() + (n + 1) * layer.k);
      some.scales.insert(some.scales.end(), weights.scales.begin() + n * groups,
                         weights.scales.begin() + (n + 1) * groups);
      if (!weights.zeros.empty()) {
        some.zeros.insert(some.zeros.end(), weights.zeros.begin() + n * groups,
                          weights.zeros.begin() + (n + 1) * groups);
      }
      if (layer.bias) bias.push_back(operands.bias[n]);
    }
    const OracleResult part =
        Oracle(WithColumns(problem, end - begin), m,
               absl::MakeConstSpan(operands.a).subspan(0, m * layer.k),
               operands.a_scales, some, bias);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = row * (end - begin) + i - begin;
        all.c[row * count + i] = part.c[from];
        all.magnitude[row * count + i] = part.magnitude[from];
      }
    }
  });
  return all;
}

absl::StatusOr<DeviceBuffer> Upload(const void* from, uint64_t bytes,
                                    StreamHandle stream) {
  HONE_ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(bytes));
  if (bytes > 0)
    HONE_RETURN_IF_ERROR(CopyToDevice(buffer.ptr(), from, bytes, stream));
  return buffer;
}

// Runs the call twice into a poisoned C.
absl::StatusOr<std::vector<uint16_t>> Run(Client& client, const GemmCall& call,
                                          bool* repeatable) {
  const uint64_t elements = call.m * call.problem.layer.n;
  std::vector<uint16_t> out[2];
  for (std::vector<uint16_t>& result : out) {
    result.resize(elements);
    HONE_RETURN_IF_ERROR(Fill(call.c, 0xff, elements * 2, call.stream));
    HONE_RETURN_IF_ERROR(client.Gemm(call));
    HONE_RETURN_IF_ERROR(
        CopyToHost(result.data(), call.c, elements * 2, call.stream));
  }
  *repeatable = out[0] == out[1];
  return std::move(out[0]);
}

absl::StatusOr<Outcome> Check(const Settings& settings,
                              const std::vector<int64_t>& ms) {
  Outcome outcome;
  HONE_ASSIGN_OR_RETURN(outcome.problem, Problem::Parse(settings.problem));
  const Problem& problem = outcome.problem;
  HONE_RETURN_IF_ERROR(problem.Validate());
  HONE_ASSIGN_OR_RETURN(const Context context,
                        Context::Retain(settings.client.device_ordinal));
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                        Client::Create(settings.client));
  outcome.device = client->device();
  const absl::Time start = absl::Now();
  HONE_RETURN_IF_ERROR(client->WarmUp(problem));
  outcome.warm_up_ms = absl::ToInt64Milliseconds(absl::Now() - start);

  const int64_t max_m = *std::max_element(ms.begin(), ms.end());
  HONE_ASSIGN_OR_RETURN(const HostOperands operands,
                        MakeOperands(problem, max_m, settings.seed));
  HONE_ASSIGN_OR_RETURN(const PackedWeights packed,
                        Pack(problem.layer, operands.weights));
  HONE_ASSIGN_OR_RETURN(const uint64_t workspace_bytes,
                        client->WorkspaceBytes(problem, max_m));
  HONE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create());
  const StreamHandle handle = stream.handle();
  const std::vector<std::byte> a_bytes =
      PackActivations(problem.layer, operands.a);
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer a,
                        Upload(a_bytes.data(), a_bytes.size(), handle));
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer b,
                        Upload(packed.b.data(), packed.b.size(), handle));
  HONE_ASSIGN_OR_RETURN(
      const DeviceBuffer scales,
      Upload(packed.scales.data(), packed.scales.size(), handle));
  HONE_ASSIGN_OR_RETURN(
      const DeviceBuffer bias,
      Upload(operands.bias.data(), operands.bias.size() * 2, handle));
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer c,
                        DeviceBuffer::Allocate(max_m * problem.layer.n * 2));
  HONE_ASSIGN_OR_RETURN(const DeviceBuffer workspace,
                        DeviceBuffer::Allocate(workspace_bytes));
  if (workspace_bytes > 0)
    HONE_RETURN_IF_ERROR(Fill(workspace.ptr(), 0, workspace_bytes, handle));

  const std::vector<int64_t> columns =
      ChosenColumns(problem.layer.n, settings.check_columns);
  const int64_t count = columns.size();
  outcome.columns = count;
  // Smaller M use its first rows.
  const OracleResult oracle = ColumnsOracle(problem, max_m, operands, columns);
  for (const int64_t m : ms) {
    HONE_ASSIGN_OR_RETURN(const ConfigAnswer answer,
                          client->Lookup(problem, m));
    outcome.revision = answer.provenance.revision;
    GemmCall call;
    call.problem = problem;
    call.m = m;
    call.a = a.ptr();
    const std::vector<float> a_scale_values =
        FirstRows(problem, max_m, m, operands.a_scales);
    HONE_ASSIGN_OR_RETURN(
        const DeviceBuffer a_scales,
        Upload(a_scale_values.data(), a_scale_values.size() * 4, handle));
    call.a_scale = a_scales.ptr();
    call.b = b.ptr();
    call.b_scale = scales.ptr();
    call.bias = bias.ptr();
    call.c = c.ptr();
    call.workspace = workspace.ptr();
    call.workspace_bytes = workspace_bytes;
    call.stream = handle;
    Row row;
    row.m = m;
    row.match = std::string(ToString(answer.provenance.match));
    row.config = answer.config.ToString();
    HONE_ASSIGN_OR_RETURN(const std::vector<uint16_t> out,
                          Run(*client, call, &row.repeatable));
    std::vector<uint16_t> chosen;
    for (int64_t i = 0; i < m; ++i) {
      for (const int64_t n : columns)
        chosen.push_back(out[i * problem.layer.n + n]);
    }
    OracleResult rows;
    rows.c.assign(oracle.c.begin(), oracle.c.begin() + m * count);
    rows.magnitude.assign(oracle.magnitude.begin(),
                          oracle.magnitude.begin() + m * count);
    const Comparison comparison = Compare(WithColumns(problem, count), m,
                                          chosen, rows, answer.config.mma);
    row.worst_ratio = comparison.worst_ratio;
    row.relative_norm = comparison.relative_norm;
    row.passed = comparison.passed && row.repeatable;
    outcome.rows.push_back(std::move(row));
  }
  return outcome;
}

std::string Table(const Outcome& outcome) {
  std::string text = absl::StrFormat(
      "%s\n%s, revision %d, warm-up %d ms, %d of %d columns checked\n%6s  "
      "%-14s  %9s  %9s  %-6s  %s\n",
      outcome.problem.ToString(), outcome.device.name, outcome.revision,
      outcome.warm_up_ms, outcome.columns, outcome.problem.layer.n, "M",
      "answer", "worst", "norm", "result", "config");
  for (const Row& row : outcome.rows) {
    absl::StrAppendFormat(&text, "%6d  %-14s  %9.4f  %9.2e  %-6s  %s\n", row.m,
                          row.match, row.worst_ratio, row.relative_norm,
                          row.passed        ? "ok"
                          : !row.repeatable ? "UNSURE"
                                            : "WRONG",
                          row.config);
  }
  return text;
}

// Every text here is canonical and needs no escapes, but for the device's name.
std::string Json(const Outcome& outcome) {
  std::string name;
  for (const char c : outcome.device.name) {
    if (c == '"' || c == '\\') name += '\\';
    name += c;
  }
  std::string text =
      absl::StrCat("{\"columns\":", outcome.columns, ",\"device\":\"", name,
                   "\",\"problem\":\"", outcome.problem.ToString(),
                   "\",\"revision\":", outcome.revision, ",\"results\":[");
  for (size_t i = 0; i < outcome.rows.size(); ++i) {
    const Row& row = outcome.rows[i];
    absl::StrAppendFormat(
        &text,
        "%s{\"config\":\"%s\",\"m\":%d,\"match\":\"%s\",\"passed\":%s,"
        "\"relative_norm\":%.6g,\"repeatable\":%s,\"worst_ratio\":%.6g}",
        i == 0 ? "" : ",", row.config, row.m, row.match,
        row.passed ? "true" : "false", row.relative_norm,
        row.repeatable ? "true" : "false",
        // JSON has no infinity.
        std::min(row.worst_ratio, 1e30));
  }
  absl::StrAppend(&text, "],\"warm_up_ms\":", outcome.warm_up_ms, "}\n");
  return text;
}

int Main(const std::vector<std::string>& args) {
  Settings settings;
  settings.client.libraries = LibrarySearchFromEnvironment(std::getenv);
  // A check has time: an answer of honed is what it is about.
  settings.client.deadline = absl::Seconds(5);
  bool help = false;
  FlagSet flags;
  flags.String("problem", "TEXT", "the problem, canonical text (required)",
               &settings.problem);
  flags.String("m", "LIST", "values of M, separated by commas", &settings.ms);
  flags.String("address", "ADDRESS", "honed's; a Unix socket or host:port",
               &settings.client.address);
  flags.String("cache-dir", "FOLDER", "where tables and cubins are kept",
               &settings.client.cache_dir);
  flags.String("bundle", "FILE", "answers when honed is away",
               &settings.client.bundle);
  flags.String("json", "FILE", "writes the results there as JSON too",
               &settings.json);
  flags.Int("check-columns", "columns of C that are checked",
            &settings.check_columns, 1, 1 << 20);
  flags.Int("seed", "of the operands", &settings.seed, 0, 1 << 20);
  flags.Switch("help", "shows this", &help);
  std::vector<std::string> rest;
  const absl::Status parsed = flags.Parse(args, std::getenv, &rest);
  std::vector<int64_t> ms;
  for (const absl::string_view part : absl::StrSplit(settings.ms, ',')) {
    int64_t m = 0;
    if (absl::SimpleAtoi(part, &m) && m >= 1 && m <= 1 << 20)
      ms.push_back(m);
    else
      ms = {0};
    if (ms.back() == 0) break;
  }
  if (help) {
    std::cout << "hone-client-check --problem=TEXT [flags]\n" << flags.Help();
    return 0;
  }
  if (!parsed.ok() || !rest.empty() || settings.problem.empty() ||
      ms.back() == 0) {
    std::cerr << (!parsed.ok() ? std::string(parsed.message())
                  : ms.back() == 0
                      ? "--m must be numbers from 1 to 1048576, separated by "
                        "commas"
                      : "give --problem=TEXT and no other arguments")
              << "\n";
    return 2;
  }
  const absl::StatusOr<Outcome> outcome = Check(settings, ms);
  if (!outcome.ok()) {
    std::cerr << outcome.status() << "\n";
    return 1;
  }
  std::cout << Table(*outcome);
  if (!settings.json.empty()) {
    std::ofstream file(settings.json);
    file << Json(*outcome);
    file.close();
    if (!file) {
      std::cerr << "--json: cannot write " << settings.json << "\n";
      return 1;
    }
  }
  return std::all_of(outcome->rows.begin(), outcome->rows.end(),
                     [](const Row& row) { return row.passed; })
             ? 0
             : 1;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main({argv + 1, argv + argc}); }
