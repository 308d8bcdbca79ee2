#include "db/study_json.h"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "db/json.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

Json Words(const std::vector<std::string>& words) {
  JsonArray array;
  for (const std::string& word : words) array.emplace_back(word);
  return Json(std::move(array));
}

Json SpecJson(const StudySpec& spec) {
  JsonArray parameters;
  for (const StudyParameter& parameter : spec.parameters) {
    JsonArray numbers;
    for (const int64_t number : parameter.numbers) numbers.emplace_back(number);
    parameters.emplace_back(JsonObject{{"name", Json(parameter.name)},
                                       {"numbers", Json(std::move(numbers))},
                                       {"words", Words(parameter.words)}});
  }
  JsonArray exclusions;
  for (const StudyExclusion& exclusion : spec.exclusions) {
    JsonArray terms;
    for (const auto& [parameter, values] : exclusion) {
      terms.emplace_back(JsonObject{{"parameter", Json(parameter)},
                                    {"values", Words(values)}});
    }
    exclusions.emplace_back(std::move(terms));
  }
  return Json(JsonObject{
      {"baseline",
       Json(absl::StrJoin(spec.baseline, ",", absl::PairFormatter("=")))},
      {"batch_size", Json(spec.batch_size)},
      {"device", Json(spec.device)},
      {"exclusions", Json(std::move(exclusions))},
      {"max_configs", Json(spec.max_configs)},
      {"parameters", Json(std::move(parameters))},
      {"problem", Json(spec.problem)},
      {"seed", Json(static_cast<int64_t>(spec.seed))}});
}

template <typename T>
absl::Status ReadArray(JsonFields& fields, absl::string_view key,
                       std::vector<T>& out) {
  HONE_ASSIGN_OR_RETURN(const JsonArray* const array, fields.Array(key));
  for (const Json& element : *array) {
    const T* const value = std::get_if<T>(&element.value);
    if (value == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.PathOf(key), " has an element of another type"));
    }
    out.push_back(*value);
  }
  return absl::OkStatus();
}

absl::Status ReadExclusion(const Json& json, StudyExclusion& exclusion) {
  const auto* const terms = std::get_if<JsonArray>(&json.value);
  if (terms == nullptr) {
    return absl::InvalidArgumentError("exclusions must hold arrays");
  }
  for (const Json& term : *terms) {
    HONE_ASSIGN_OR_RETURN(JsonFields fields,
                          JsonFields::Of(term, "exclusions[]."));
    std::string parameter;
    HONE_RETURN_IF_ERROR(fields.Get("parameter", parameter));
    HONE_RETURN_IF_ERROR(
        ReadArray(fields, "values", exclusion[std::move(parameter)]));
    HONE_RETURN_IF_ERROR(fields.Finish());
  }
  return absl::OkStatus();
}

Json AnswerJson(const Study& study) {
  const StudyAnswer answer = study.Answer();
  std::vector<std::string> ties;
  for (const size_t config : answer.ties) {
    ties.push_back(study.space().Text(config));
  }
  const Evidence& evidence = answer.evidence;
  return Json(JsonObject{
      {"baseline_median_ns", Json(evidence.default_median_ns)},
      {"best", Json(answer.best ? study.space().Text(*answer.best) : "")},
      {"decision", Json(std::string(ToString(answer.decision)))},
      {"high_ns", Json(evidence.high_ns)},
      {"low_ns", Json(evidence.low_ns)},
      {"margin", Json(evidence.margin)},
      {"median_ns", Json(evidence.median_ns)},
      {"samples", Json(evidence.samples)},
      {"ties", Words(ties)}});
}

}  // namespace

absl::string_view ToString(StudyDecision decision) {
  switch (decision) {
    case StudyDecision::kUndecided:
      return "undecided";
    case StudyDecision::kRaceSettled:
      return "race_settled";
    case StudyDecision::kRoundLimit:
      return "round_limit";
    case StudyDecision::kOnlyOne:
      return "only_one";
    case StudyDecision::kNoneWorks:
      return "none_works";
  }
  return "";
}

std::string WriteStudySpec(const StudySpec& spec) {
  return WriteJson(SpecJson(spec));
}

absl::StatusOr<StudySpec> ReadStudySpec(absl::string_view text) {
  HONE_ASSIGN_OR_RETURN(const Json json, ReadJson(text));
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, ""));
  StudySpec spec;
  std::string baseline;
  int64_t seed = 0;
  HONE_RETURN_IF_ERROR(fields.Get("baseline", baseline));
  HONE_RETURN_IF_ERROR(fields.Get("batch_size", spec.batch_size));
  HONE_RETURN_IF_ERROR(fields.Get("device", spec.device));
  HONE_RETURN_IF_ERROR(fields.Get("max_configs", spec.max_configs));
  HONE_RETURN_IF_ERROR(fields.Get("problem", spec.problem));
  HONE_RETURN_IF_ERROR(fields.Get("seed", seed));
  spec.seed = static_cast<uint64_t>(seed);
  for (const absl::string_view part : absl::StrSplit(baseline, ',')) {
    const std::pair<std::string, std::string> setting =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    spec.baseline.insert(setting);
  }
  HONE_ASSIGN_OR_RETURN(const JsonArray* const parameters,
                        fields.Array("parameters"));
  for (const Json& element : *parameters) {
    HONE_ASSIGN_OR_RETURN(JsonFields parameter,
                          JsonFields::Of(element, "parameters[]."));
    StudyParameter& added = spec.parameters.emplace_back();
    HONE_RETURN_IF_ERROR(parameter.Get("name", added.name));
    HONE_RETURN_IF_ERROR(ReadArray(parameter, "numbers", added.numbers));
    HONE_RETURN_IF_ERROR(ReadArray(parameter, "words", added.words));
    HONE_RETURN_IF_ERROR(parameter.Finish());
  }
  HONE_ASSIGN_OR_RETURN(const JsonArray* const exclusions,
                        fields.Array("exclusions"));
  for (const Json& element : *exclusions) {
    HONE_RETURN_IF_ERROR(
        ReadExclusion(element, spec.exclusions.emplace_back()));
  }
  HONE_RETURN_IF_ERROR(fields.Finish());
  return spec;
}

std::string RenderStudy(const StoredStudy& stored, const Study& study) {
  std::string lines =
      WriteJson(Json(JsonObject{{"answer", AnswerJson(study)},
                                {"id", Json(stored.id)},
                                {"spec", SpecJson(stored.spec)}})) +
      "\n";
  for (const StoredStudyResult& result : stored.results) {
    JsonArray samples;
    for (const Sample& sample : result.samples) {
      samples.emplace_back(JsonArray{Json(int64_t{sample.round}),
                                     Json(sample.duration_ns),
                                     Json(sample.sm_clock_khz)});
    }
    absl::StrAppend(
        &lines,
        WriteJson(Json(
            JsonObject{{"config", Json(result.config)},
                       {"detail", Json(result.detail)},
                       {"outcome", Json(std::string(ToString(result.outcome)))},
                       {"samples", Json(std::move(samples))}})),
        "\n");
  }
  return absl::StrCat(
      WriteJson(Json(JsonObject{
          {"format", Json(std::string("hone-study"))},
          {"results", Json(static_cast<int64_t>(stored.results.size()))},
          {"sha256", Json(Sha256Hex(lines))},
          {"version", Json(int64_t{1})}})),
      "\n", lines);
}

}  // namespace hone
