#include "service/server/study_requests.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

constexpr int64_t kDefaultMaxConfigs = 64;
constexpr int64_t kDefaultBatchSize = 8;
constexpr int kMaxSamples = 64;

// "samples[0].round is 3; it must ...": the field is the first word.
absl::Status FirstWordViolation(const absl::Status& status,
                                absl::string_view prefix) {
  if (!absl::IsInvalidArgument(status)) return status;
  const absl::string_view message = status.message();
  const absl::string_view field = message.substr(0, message.find(' '));
  FieldErrors errors;
  errors.Add(absl::StrCat(prefix, field),
             absl::StripPrefix(message.substr(field.size()), " "));
  return errors.ToStatus();
}

StudySettings SettingsFromProto(const v1::ParameterValues& message) {
  return {message.values().begin(), message.values().end()};
}

// The values of a numeric parameter. One more than is legal stands for all
// beyond.
void AddRange(const v1::IntegerRange& range, const std::string& field,
              std::vector<int64_t>& numbers, FieldErrors& errors) {
  const int64_t step = range.step() == 0 ? 1 : range.step();
  if (step < 1 || step > kMaxStudyNumber) {
    errors.Add(field + ".step", absl::StrCat("is ", step, "; it must be 0 to ",
                                             kMaxStudyNumber));
    return;
  }
  if (range.low() < -kMaxStudyNumber || range.high() > kMaxStudyNumber ||
      range.low() > range.high()) {
    errors.Add(field, absl::StrCat("is ", range.low(), " to ", range.high(),
                                   "; low must be at most high, both within ± ",
                                   kMaxStudyNumber));
    return;
  }
  for (int64_t number = range.low();
       number <= range.high() && numbers.size() <= kMaxStudyNumbers;
       number += step) {
    numbers.push_back(number);
  }
}

void AddPowers(const v1::PowersOfTwo& powers, const std::string& field,
               std::vector<int64_t>& numbers, FieldErrors& errors) {
  const auto is_power = [](int64_t n) {
    return n > 0 && n <= kMaxStudyNumber && (n & (n - 1)) == 0;
  };
  if (!is_power(powers.low()) || !is_power(powers.high()) ||
      powers.low() > powers.high()) {
    errors.Add(field, absl::StrCat("is ", powers.low(), " to ", powers.high(),
                                   "; both must be powers of two from 1 to ",
                                   kMaxStudyNumber, ", low at most high"));
    return;
  }
  for (int64_t number = powers.low(); number <= powers.high(); number *= 2) {
    numbers.push_back(number);
  }
}

StudyParameter ParameterFromProto(const v1::Parameter& message,
                                  const std::string& field,
                                  FieldErrors& errors) {
  StudyParameter parameter;
  parameter.name = message.name();
  switch (message.kind_case()) {
    case v1::Parameter::kRange:
      AddRange(message.range(), field + ".range", parameter.numbers, errors);
      break;
    case v1::Parameter::kPowersOfTwo:
      AddPowers(message.powers_of_two(), field + ".powers_of_two",
                parameter.numbers, errors);
      break;
    case v1::Parameter::kIntegers:
      parameter.numbers.assign(message.integers().values().begin(),
                               message.integers().values().end());
      break;
    case v1::Parameter::kWords:
      parameter.words.assign(message.words().values().begin(),
                             message.words().values().end());
      break;
    case v1::Parameter::KIND_NOT_SET:
      errors.Add(field,
                 "has no kind; it must have one of range, powers_of_two, "
                 "integers and words");
      break;
  }
  return parameter;
}

}  // namespace

absl::StatusOr<Study> StudyFromProto(const v1::StudySpec& message) {
  FieldErrors errors;
  StudySpec spec;
  spec.problem = message.problem();
  spec.device = message.device();
  for (int i = 0; i < message.parameters_size(); ++i) {
    spec.parameters.push_back(
        ParameterFromProto(message.parameters(i),
                           absl::StrCat("spec.parameters[", i, "]"), errors));
  }
  for (int i = 0; i < message.exclusions_size(); ++i) {
    StudyExclusion& exclusion = spec.exclusions.emplace_back();
    for (const v1::ExclusionTerm& term : message.exclusions(i).terms()) {
      const bool is_new =
          exclusion
              .try_emplace(term.parameter(), term.values().begin(),
                           term.values().end())
              .second;
      if (!is_new) {
        errors.Add(absl::StrCat("spec.exclusions[", i, "].terms"),
                   absl::StrCat("names \"", term.parameter(),
                                "\" twice; a parameter must have one term"));
      }
    }
  }
  spec.baseline = SettingsFromProto(message.baseline());
  spec.max_configs =
      message.max_configs() == 0 ? kDefaultMaxConfigs : message.max_configs();
  spec.batch_size =
      message.batch_size() == 0 ? kDefaultBatchSize : message.batch_size();
  spec.seed = message.seed();
  if (!errors.ok()) return errors.ToStatus();
  absl::StatusOr<Study> study = Study::Create(std::move(spec));
  if (!study.ok()) return FirstWordViolation(study.status(), "spec.");
  return study;
}

v1::StudySpec ToProto(const StudySpec& spec) {
  v1::StudySpec out;
  out.set_problem(spec.problem);
  out.set_device(spec.device);
  for (const StudyParameter& parameter : spec.parameters) {
    v1::Parameter& added = *out.add_parameters();
    added.set_name(parameter.name);
    for (const int64_t number : parameter.numbers) {
      added.mutable_integers()->add_values(number);
    }
    for (const std::string& word : parameter.words) {
      added.mutable_words()->add_values(word);
    }
  }
  for (const StudyExclusion& exclusion : spec.exclusions) {
    v1::Exclusion& added = *out.add_exclusions();
    for (const auto& [parameter, values] : exclusion) {
      v1::ExclusionTerm& term = *added.add_terms();
      term.set_parameter(parameter);
      term.mutable_values()->Add(values.begin(), values.end());
    }
  }
  *out.mutable_baseline() = ToProto(spec.baseline);
  out.set_max_configs(spec.max_configs);
  out.set_batch_size(spec.batch_size);
  out.set_seed(spec.seed);
  return out;
}

absl::StatusOr<StudyResult> StudyResultFromProto(const v1::StudyResult& message,
                                                 const StudySpace& space,
                                                 absl::string_view field) {
  FieldErrors errors;
  StudyResult result;
  const absl::StatusOr<size_t> config =
      space.Find(SettingsFromProto(message.config()), "config");
  if (!config.ok()) {
    return FirstWordViolation(config.status(), absl::StrCat(field, "."));
  }
  result.config = *config;
  switch (message.kind_case()) {
    case v1::StudyResult::kSamples:
      if (message.samples().samples_size() > kMaxSamples) {
        errors.Add(
            absl::StrCat(field, ".samples.samples"),
            absl::StrCat("has ", message.samples().samples_size(),
                         " entries; it must have at most ", kMaxSamples));
        break;
      }
      for (const v1::StudySample& sample : message.samples().samples()) {
        result.samples.push_back(
            {sample.duration_ns(), sample.sm_clock_khz(), sample.round()});
      }
      break;
    case v1::StudyResult::kFailure: {
      // The enums have the same order; UNSPECIFIED comes first.
      const int outcome = message.failure().outcome() - 1;
      if (outcome <= static_cast<int>(Outcome::kMeasured) ||
          outcome > static_cast<int>(Outcome::kTimeout)) {
        errors.Add(absl::StrCat(field, ".failure.outcome"),
                   "must be a known outcome other than MEASURED");
        break;
      }
      result.outcome = static_cast<Outcome>(outcome);
      result.detail = message.failure().detail();
      break;
    }
    case v1::StudyResult::KIND_NOT_SET:
      errors.Add(field, "has no kind; it must have samples or a failure");
      break;
  }
  if (!errors.ok()) return errors.ToStatus();
  return result;
}

absl::Status AsResultViolation(const absl::Status& status,
                               const v1::StudyResult& result,
                               absl::string_view field) {
  return FirstWordViolation(
      status,
      absl::StrCat(field, result.has_failure() ? ".failure." : ".samples."));
}

v1::ParameterValues ToProto(const StudySettings& settings) {
  v1::ParameterValues out;
  out.mutable_values()->insert(settings.begin(), settings.end());
  return out;
}

v1::StudyPhase ToProto(StudyPhase phase) {
  switch (phase) {
    case StudyPhase::kScout:
      return v1::STUDY_PHASE_SCOUT;
    case StudyPhase::kRace:
      return v1::STUDY_PHASE_RACE;
    case StudyPhase::kDecided:
      return v1::STUDY_PHASE_DECIDED;
  }
  return v1::STUDY_PHASE_UNSPECIFIED;
}

v1::StudyAnswer ToProto(const StudyAnswer& answer, const StudySpace& space) {
  v1::StudyAnswer out;
  switch (answer.decision) {
    case StudyDecision::kUndecided:
      out.set_decision(v1::STUDY_DECISION_UNDECIDED);
      break;
    case StudyDecision::kRaceSettled:
      out.set_decision(v1::STUDY_DECISION_RACE_SETTLED);
      break;
    case StudyDecision::kRoundLimit:
      out.set_decision(v1::STUDY_DECISION_ROUND_LIMIT);
      break;
    case StudyDecision::kOnlyOne:
      out.set_decision(v1::STUDY_DECISION_ONLY_ONE);
      break;
    case StudyDecision::kNoneWorks:
      out.set_decision(v1::STUDY_DECISION_NONE_WORKS);
      break;
  }
  if (answer.best) *out.mutable_best() = ToProto(space.Settings(*answer.best));
  const Evidence& evidence = answer.evidence;
  out.set_samples(evidence.samples);
  out.set_median_ns(evidence.median_ns);
  out.set_low_ns(evidence.low_ns);
  out.set_high_ns(evidence.high_ns);
  out.set_baseline_median_ns(evidence.default_median_ns);
  out.set_margin(evidence.margin);
  for (const size_t config : answer.ties) {
    *out.add_ties() = ToProto(space.Settings(config));
  }
  return out;
}

v1::SuggestResponse SuggestionOf(const Study& study) {
  v1::SuggestResponse out;
  out.set_phase(ToProto(study.phase()));
  std::map<size_t, int> indexes;
  for (const StudyRound& round : study.rounds()) {
    v1::StudyRound& added = *out.add_rounds();
    added.set_round(round.round);
    for (const size_t config : round.order) {
      const auto [index, is_new] =
          indexes.try_emplace(config, out.configs_size());
      if (is_new) *out.add_configs() = ToProto(study.space().Settings(config));
      added.add_order(index->second);
    }
  }
  return out;
}

}  // namespace hone
