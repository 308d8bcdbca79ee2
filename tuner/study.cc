#include "tuner/study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "tuner/choose.h"
#include "tuner/cover.h"
#include "tuner/entrants.h"
#include "tuner/statistics.h"
#include "tuner/surrogate.h"

namespace hone {
namespace {

// One scout in this many is drawn at random: without a model of the kernel
// only they find what is unlike everything measured.
constexpr size_t kRandomShare = 4;
constexpr int64_t kMaxDurationNs = 1'000'000'000'000;
constexpr int64_t kMaxClockKhz = 100'000'000;
constexpr size_t kMaxKey = 256;
constexpr size_t kMaxDetail = 1024;

absl::Status CheckKey(const std::string& key, const char* field) {
  const bool printable = std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c));
  });
  if (!key.empty() && key.size() <= kMaxKey && printable) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(field, " has ", key.size(),
                                                 " bytes; it must have 1 to ",
                                                 kMaxKey, ", printable ASCII"));
}

absl::Status CheckRange(const char* field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is ", value, "; it must be between ", low, " and ", high));
}

std::vector<Sample> SamplesOf(const Study::Known& known) {
  std::vector<Sample> samples;
  for (const auto& [round, sample] : known.samples) samples.push_back(sample);
  return samples;
}

Trial TrialOf(std::vector<Sample> samples) {
  Trial trial;
  trial.samples = std::move(samples);
  trial.median_ns = std::llround(Median(Durations(trial.samples)));
  // All of one session: their rounds are paired.
  trial.session_id = "study";
  return trial;
}

}  // namespace

absl::StatusOr<Study> Study::Create(StudySpec spec) {
  HONE_RETURN_IF_ERROR(CheckKey(spec.problem, "problem"));
  HONE_RETURN_IF_ERROR(CheckKey(spec.device, "device"));
  HONE_RETURN_IF_ERROR(CheckRange("max_configs", spec.max_configs, 2, 512));
  HONE_RETURN_IF_ERROR(CheckRange("batch_size", spec.batch_size, 1, 64));
  HONE_ASSIGN_OR_RETURN(StudySpace space,
                        StudySpace::Create(spec.parameters, spec.exclusions));
  Study study;
  HONE_ASSIGN_OR_RETURN(study.baseline_, space.Find(spec.baseline, "baseline"));
  study.space_ = std::make_shared<const StudySpace>(std::move(space));
  study.random_.seed(spec.seed);
  study.spec_ = std::move(spec);
  study.StartRace(study.ChooseScouts());
  return study;
}

bool Study::Works(size_t config) const {
  const auto it = known_.find(config);
  return it == known_.end() || it->second.outcome == Outcome::kMeasured;
}

bool Study::IsAsked(size_t config, int32_t round) const {
  return std::any_of(
      rounds_.begin(), rounds_.end(), [&](const StudyRound& asked) {
        return asked.round == round &&
               std::count(asked.order.begin(), asked.order.end(), config) > 0;
      });
}

absl::StatusOr<bool> Study::Report(const StudyResult& result) {
  const size_t config = result.config;
  HONE_RETURN_IF_ERROR(CheckRange("config", static_cast<int64_t>(config), 0,
                                  static_cast<int64_t>(space_->size()) - 1));
  if (result.outcome != Outcome::kMeasured) {
    if (result.outcome == Outcome::kScreenedOut) {
      return absl::InvalidArgumentError(
          "outcome is screened_out; it must be one that the caller saw");
    }
    if (!result.samples.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("samples has ", result.samples.size(),
                       " entries; it must have none beside a failure"));
    }
    if (result.detail.size() > kMaxDetail) {
      return absl::InvalidArgumentError(
          absl::StrCat("detail has ", result.detail.size(),
                       " bytes; it must have at most ", kMaxDetail));
    }
    if (!Works(config)) return false;
    Known& known = known_[config];
    known.outcome = result.outcome;
    known.detail = result.detail;
    for (StudyRound& round : rounds_) std::erase(round.order, config);
    for (size_t i = 0; i < entrants_.size(); ++i) {
      if (entrants_[i] == config) {
        race_->Fail(static_cast<int>(i), result.outcome, result.detail);
      }
    }
    HONE_RETURN_IF_ERROR(Advance());
    return true;
  }

  if (result.samples.empty()) {
    return absl::InvalidArgumentError(
        "samples is empty; it must have at least one, or outcome a failure");
  }
  if (!Works(config)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "outcome is measured, but the config failed before (",
        ToString(known_[config].outcome), "); it must not be measured again"));
  }
  bool is_new = false;
  const auto known = known_.find(config);
  for (size_t i = 0; i < result.samples.size(); ++i) {
    const Sample& sample = result.samples[i];
    const std::string field = absl::StrCat("samples[", i, "]");
    HONE_RETURN_IF_ERROR(CheckRange((field + ".duration_ns").c_str(),
                                    sample.duration_ns, 1, kMaxDurationNs));
    HONE_RETURN_IF_ERROR(CheckRange((field + ".sm_clock_khz").c_str(),
                                    sample.sm_clock_khz, 0, kMaxClockKhz));
    if (i > 0 && sample.round <= result.samples[i - 1].round) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".round is ", sample.round,
                       "; rounds must rise from sample to sample"));
    }
    if (known != known_.end()) {
      const auto before = known->second.samples.find(sample.round);
      if (before != known->second.samples.end()) {
        if (before->second == sample) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            field, ".round is ", sample.round, ", which was reported with ",
            before->second.duration_ns, " ns; a sample must not change"));
      }
    }
    if (!IsAsked(config, sample.round)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".round is ", sample.round,
                       "; it must be a round that Suggest asks for now with "
                       "this config in it"));
    }
    is_new = true;
  }
  if (!is_new) return false;
  for (const Sample& sample : result.samples) {
    known_[config].samples[sample.round] = sample;
  }
  HONE_RETURN_IF_ERROR(Advance());
  return true;
}

absl::Status Study::Advance() {
  if (phase_ == StudyPhase::kDecided) return absl::OkStatus();
  for (const StudyRound& round : rounds_) {
    for (const size_t config : round.order) {
      if (!known_[config].samples.contains(round.round)) {
        return absl::OkStatus();
      }
    }
  }
  HONE_RETURN_IF_ERROR(FeedRace());
  if (!race_->over()) {
    AskRounds();
    return absl::OkStatus();
  }
  if (phase_ == StudyPhase::kScout) {
    TakeScouted();
    if (const std::vector<size_t> next = ChooseScouts(); !next.empty()) {
      StartRace(next);
      return absl::OkStatus();
    }
    phase_ = StudyPhase::kRace;
    StartRace(ChooseRacers());
    if (!race_->over()) return absl::OkStatus();
  }
  if (race_->leader() < 0) {
    // Every racer failed; others that work are raced in their place.
    StartRace(ChooseRacers());
    if (!race_->over()) return absl::OkStatus();
  }
  phase_ = StudyPhase::kDecided;
  rounds_.clear();
  return absl::OkStatus();
}

absl::Status Study::FeedRace() {
  for (const StudyRound& round : rounds_) {
    if (race_->over()) break;
    std::vector<int> order;
    RoundResult result;
    for (const size_t config : round.order) {
      const auto entrant =
          std::find(entrants_.begin(), entrants_.end(), config) -
          entrants_.begin();
      // One that an earlier of these rounds dropped is no longer compared.
      if (race_->entrants()[static_cast<size_t>(entrant)].status !=
          EntrantState::Status::kLive) {
        continue;
      }
      order.push_back(static_cast<int>(entrant));
      RoundResult::Entry entry;
      entry.sample = known_[config].samples.at(round.round);
      result.entries.push_back(entry);
    }
    HONE_RETURN_IF_ERROR(race_->Report(order, result).status());
  }
  return absl::OkStatus();
}

void Study::StartRace(const std::vector<size_t>& entrants) {
  RaceOptions options = options_;
  if (phase_ == StudyPhase::kScout) {
    options.min_rounds = options.max_rounds = options.screen_rounds;
  }
  const auto protected_entrant =
      std::find(entrants.begin(), entrants.end(), baseline_);
  race_.emplace(static_cast<int>(entrants.size()),
                protected_entrant == entrants.end()
                    ? -1
                    : static_cast<int>(protected_entrant - entrants.begin()),
                options, next_round_);
  entrants_ = entrants;
  for (const size_t config : entrants) {
    if (known_.try_emplace(config).second) ++asked_;
  }
  AskRounds();
}

void Study::AskRounds() {
  rounds_.clear();
  for (int32_t i = 0; i < options_.screen_rounds; ++i) {
    StudyRound& round = rounds_.emplace_back();
    round.round = race_->round() + i;
    for (const int entrant : race_->NextOrder(random_)) {
      round.order.push_back(entrants_[static_cast<size_t>(entrant)]);
    }
  }
  next_round_ = rounds_.back().round + 1;
}

void Study::TakeScouted() {
  const std::vector<Sample> base = SamplesOf(known_[baseline_]);
  const double base_ns = Median(Durations(base));
  for (auto& [config, known] : known_) {
    const std::vector<Sample> own = SamplesOf(known);
    const std::vector<double> ratios = PairedLogRatios(own, base);
    known.scouted_ns = ratios.empty() ? Median(Durations(own))
                                      : base_ns * std::exp(Median(ratios));
  }
}

std::vector<size_t> Study::ChooseScouts() {
  std::vector<size_t> unseen;
  std::vector<size_t> chosen;
  for (size_t config = 0; config < space_->size(); ++config) {
    if (config != baseline_ && !known_.contains(config)) {
      unseen.push_back(config);
    }
  }
  // The baseline counts from the first on.
  const auto left = static_cast<size_t>(
      std::max<int64_t>(0, spec_.max_configs - std::max<int64_t>(asked_, 1)));
  const size_t count =
      std::min({unseen.size(), left, static_cast<size_t>(spec_.batch_size)});
  if (count == 0 && !known_.empty()) return chosen;

  std::vector<double> scouted;
  for (const auto& [config, known] : known_) {
    if (Works(config) && known.scouted_ns > 0) {
      scouted.push_back(known.scouted_ns);
    }
  }
  if (!scouted.empty() && count > 0) {
    // All configs are equal until measurements say otherwise.
    const std::vector<double> equal = {Median(scouted)};
    Surrogate surrogate({1});
    for (const auto& [config, known] : known_) {
      if (Works(config)) {
        surrogate.Add(space_->PositionOf(config), equal, {known.scouted_ns});
      }
    }
    std::vector<std::vector<double>> times;
    Choice choice;
    choice.best = {*std::min_element(scouted.begin(), scouted.end())};
    for (const size_t config : unseen) {
      times.push_back(surrogate.Correct(space_->PositionOf(config), equal));
      choice.best[0] = std::min(choice.best[0], times.back()[0]);
    }
    choice.times = times;
    choice.shapes.assign(unseen.size(), 0);
    choice.used.assign(unseen.size(), false);
    choice.served = {0};
    choice.use = [&](size_t i) { choice.used[i] = true; };
    const ChoiceSpread spread = {.per_shape = std::numeric_limits<int>::max(),
                                 .served_by = 1};
    for (const size_t i :
         ChooseServing(choice, spread, count - count / kRandomShare, count)) {
      chosen.push_back(unseen[i]);
    }
    std::erase_if(unseen, [&](size_t config) {
      return std::count(chosen.begin(), chosen.end(), config) > 0;
    });
  }
  std::shuffle(unseen.begin(), unseen.end(), random_);
  for (const size_t config : unseen) {
    if (chosen.size() >= count) break;
    chosen.push_back(config);
  }
  if (Works(baseline_)) chosen.insert(chosen.begin(), baseline_);
  return chosen;
}

std::vector<size_t> Study::ChooseRacers() const {
  std::vector<size_t> order;
  for (const auto& [config, known] : known_) {
    if (Works(config) && known.scouted_ns > 0) order.push_back(config);
  }
  const auto time = [this](size_t config) {
    return known_.at(config).scouted_ns;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return time(a) < time(b); });
  std::vector<size_t> racers;
  for (const size_t config : order) {
    const bool likely = (time(config) <= kRaceRatio * time(order.front()) ||
                         racers.size() < kMinEntrants) &&
                        racers.size() < kMaxEntrants;
    if (likely || config == baseline_) racers.push_back(config);
  }
  return racers;
}

StudyAnswer Study::Answer() const {
  StudyAnswer answer;
  // Parallel: the evidence, and whose it is.
  std::vector<Trial> trials;
  std::vector<size_t> configs;
  const bool racing = phase_ != StudyPhase::kScout;
  if (racing) {
    for (size_t i = 0; i < entrants_.size(); ++i) {
      const EntrantState& entrant = race_->entrants()[i];
      if ((entrant.status == EntrantState::Status::kLive ||
           entrant.status == EntrantState::Status::kDropped) &&
          !entrant.samples.empty()) {
        trials.push_back(TrialOf(entrant.samples));
        configs.push_back(entrants_[i]);
      }
    }
  }
  const bool raced = !trials.empty();
  if (!raced) {
    for (const auto& [config, known] : known_) {
      if (!Works(config) || known.scouted_ns <= 0) continue;
      trials.push_back(TrialOf(SamplesOf(known)));
      configs.push_back(config);
    }
  }
  if (phase_ == StudyPhase::kDecided) {
    answer.decision = trials.empty()       ? StudyDecision::kNoneWorks
                      : trials.size() == 1 ? StudyDecision::kOnlyOne
                      : race_->Settled()   ? StudyDecision::kRaceSettled
                                           : StudyDecision::kRoundLimit;
  }
  if (trials.empty()) return answer;

  int standard = -1;
  std::vector<Measured> measured;
  const std::vector<CoverKernel> traits(trials.size());
  for (size_t i = 0; i < trials.size(); ++i) {
    measured.push_back({static_cast<int>(i), &trials[i]});
    if (configs[i] == baseline_) standard = static_cast<int>(i);
  }
  size_t best = 0;
  if (raced) {
    const std::vector<Standing> standings =
        JudgePoint(measured, standard, options_);
    CoverPoint point = PointOf(standings, standard);
    // A tie is no reason to leave the baseline.
    if (standard >= 0 && standings[static_cast<size_t>(standard)].tie) {
      point = {{standard}, {0}};
    }
    best = static_cast<size_t>(
        AssignPoints({point}, traits, point.kernels, /*tie=*/0).front());
    for (size_t i = 0; i < standings.size(); ++i) {
      if (standings[i].tie && i != best) answer.ties.push_back(configs[i]);
    }
    std::sort(answer.ties.begin(), answer.ties.end());
  } else {
    for (size_t i = 0; i < trials.size(); ++i) {
      if (known_.at(configs[i]).scouted_ns <
          known_.at(configs[best]).scouted_ns) {
        best = i;
      }
    }
  }
  answer.best = configs[best];
  answer.evidence = EvidenceOf(
      trials[best],
      standard < 0 ? nullptr : &trials[static_cast<size_t>(standard)]);
  return answer;
}

}  // namespace hone
