// What was tuned when, how noisy it is, and what changed with the tools.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "service/web/answers.h"
#include "service/web/history.h"

namespace hone {
namespace {

constexpr int64_t kMaxSessions = 200;
// Measured trials that are looked through for repeats, and repeats that are
// compared.
constexpr int64_t kScan = 500'000;
constexpr int64_t kMaxRepeats = 20'000;
// Of each list that is sent.
constexpr size_t kMaxRows = 5'000;

// The repeats of a class, and what to call their problems.
struct Repeats {
  std::string etag;
  bool unchanged = false;
  bool modelled = false;
  std::vector<RepeatedTrial> trials;
  std::map<std::string, std::string> labels;
};

absl::StatusOr<Repeats> ReadRepeats(const WebParts& parts,
                                    const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"class"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  Repeats repeats;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_ASSIGN_OR_RETURN(repeats.etag, EtagOf(parts, store));
        repeats.unchanged = EtagMatches(request.if_none_match, repeats.etag);
        if (repeats.unchanged) return absl::OkStatus();
        HONE_ASSIGN_OR_RETURN(const DeviceSpec device,
                              DeviceOfClass(parts, store, class_hash));
        repeats.modelled = device.modelled();
        HONE_ASSIGN_OR_RETURN(repeats.trials,
                              store.Repeats(class_hash, kScan, kMaxRepeats));
        for (const RepeatedTrial& trial : repeats.trials) {
          std::string& label = repeats.labels[trial.problem_hash];
          if (!label.empty()) continue;
          HONE_ASSIGN_OR_RETURN(const Problem problem,
                                store.FindProblem(trial.problem_hash));
          label = ProblemLabel(problem);
        }
        return absl::OkStatus();
      }));
  return repeats;
}

HttpResponse Unchanged(const Repeats& repeats) {
  HttpResponse response;
  response.status = 304;
  response.etag = repeats.etag;
  return response;
}

double Mhz(int64_t khz) { return static_cast<double>((khz + 500) / 1000); }

// "problem", "label", "m" and "config".
void WriteSubject(JsonWriter& json, const Repeats& repeats,
                  const RepeatedTrial& trial) {
  json.Field("problem", trial.problem_hash)
      .Field("label", repeats.labels.at(trial.problem_hash))
      .Field("m", trial.m)
      .Field("config", trial.config);
}

void WriteSide(JsonWriter& json, absl::string_view key, int64_t version,
               const RepeatedTrial& trial) {
  json.Key(key)
      .BeginObject()
      .Field("trial", trial.id)
      .Field("version", version)
      .Field("median_ns", trial.median_ns)
      .FieldOrNull("low_ns", trial.low_ns)
      .FieldOrNull("high_ns", trial.high_ns)
      .Field("kernel_id", trial.kernel_id)
      .Field("clock_mhz", Mhz(trial.clock_khz))
      .Field("unix_us", trial.unix_us)
      .EndObject();
}

}  // namespace

absl::StatusOr<HttpResponse> SessionsAnswer(const WebParts& parts,
                                            const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"class"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  std::vector<BrowsedSession> sessions;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_RETURN_IF_ERROR(DeviceOfClass(parts, store, class_hash).status());
        HONE_ASSIGN_OR_RETURN(sessions,
                              store.Sessions(class_hash, kMaxSessions));
        return absl::OkStatus();
      }));
  JsonWriter json;
  json.BeginArray();
  for (const BrowsedSession& session : sessions) {
    const auto count = [&session](const char* outcome) {
      const auto found = session.outcomes.find(outcome);
      return found == session.outcomes.end() ? int64_t{0} : found->second;
    };
    json.BeginObject()
        .Field("id", session.id)
        .Field("problem", session.problem_hash)
        .Field("label", ProblemLabel(session.problem))
        .Field("status", ToString(session.status))
        .Field("detail", session.detail)
        .Field("started_us", session.started_us)
        .FieldOrNull("finished_us", session.finished_us)
        .Field("trials", session.trials)
        .Field("measured", count("measured"))
        .Field("screened_out", count("screened_out"))
        .Key("failed")
        .BeginObject();
    for (const auto& [outcome, n] : session.outcomes) {
      if (outcome != "measured" && outcome != "screened_out")
        json.Field(outcome, n);
    }
    json.EndObject().EndObject();
  }
  json.EndArray();
  return JsonAnswer(std::move(json));
}

absl::StatusOr<HttpResponse> NoiseAnswer(const WebParts& parts,
                                         const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const Repeats repeats, ReadRepeats(parts, request));
  if (repeats.unchanged) return Unchanged(repeats);
  const Noise noise = NoiseOf(repeats.trials);
  JsonWriter json;
  json.BeginObject().Field("modelled", repeats.modelled);
  json.Key("pairs").BeginArray();
  for (size_t i = 0; i < std::min(noise.pairs.size(), kMaxRows); ++i) {
    const NoisePair& pair = noise.pairs[i];
    json.BeginObject();
    WriteSubject(json, repeats, *pair.first);
    json.Field("first_ns", pair.first->median_ns)
        .Field("second_ns", pair.second->median_ns)
        .Field("log_ratio", pair.log_ratio)
        .Key("clock_mhz")
        .BeginArray()
        .Value(Mhz(pair.first->clock_khz))
        .Value(Mhz(pair.second->clock_khz))
        .EndArray()
        .Key("unix_us")
        .BeginArray()
        .Value(pair.first->unix_us)
        .Value(pair.second->unix_us)
        .EndArray()
        .EndObject();
  }
  json.EndArray()
      .Field("pairs_found", std::ssize(noise.pairs))
      .Field("median_abs_log_ratio", noise.median)
      .Field("p95_abs_log_ratio", noise.percentile_95)
      .EndObject();
  HttpResponse response = JsonAnswer(std::move(json));
  response.etag = repeats.etag;
  return response;
}

absl::StatusOr<HttpResponse> RegressionsAnswer(const WebParts& parts,
                                               const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const Repeats repeats, ReadRepeats(parts, request));
  if (repeats.unchanged) return Unchanged(repeats);
  const Regressions found = RegressionsOf(repeats.trials);
  JsonWriter json;
  json.BeginObject().Field("modelled", repeats.modelled);
  json.Key("versions").BeginArray();
  for (size_t i = 0; i < found.versions.size(); ++i) {
    json.BeginObject()
        .Field("id", i)
        .Field("driver", found.versions[i].driver)
        .Field("nvrtc", found.versions[i].nvrtc)
        .Field("vbios", found.versions[i].vbios)
        .FieldOrNull(
            "power_limit_w",
            static_cast<double>(found.versions[i].power_limit_mw) / 1e3)
        .Field("ecc", found.versions[i].ecc)
        .Field("from_us", found.versions[i].from_us)
        .EndObject();
  }
  json.EndArray().Key("rows").BeginArray();
  for (size_t i = 0; i < std::min(found.rows.size(), kMaxRows); ++i) {
    const Regression& row = found.rows[i];
    json.BeginObject();
    WriteSubject(json, repeats, *row.after);
    WriteSide(json, "before", row.version_before, *row.before);
    WriteSide(json, "after", row.version_after, *row.after);
    json.Field("ratio", row.ratio)
        .Field("beyond_tie", row.beyond_tie)
        .EndObject();
  }
  json.EndArray().Field("rows_found", std::ssize(found.rows)).EndObject();
  HttpResponse response = JsonAnswer(std::move(json));
  response.etag = repeats.etag;
  return response;
}

}  // namespace hone
