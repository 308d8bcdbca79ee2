#include "tuner/study_space.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

constexpr size_t kMaxName = 64;
constexpr size_t kMaxShown = 24;

size_t Count(const StudyParameter& parameter) {
  return std::max(parameter.numbers.size(), parameter.words.size());
}

std::string ValueText(const StudyParameter& parameter, size_t value) {
  return parameter.words.empty() ? absl::StrCat(parameter.numbers[value])
                                 : parameter.words[value];
}

// Of a config's value in its parameter.
std::optional<size_t> IndexOf(const StudyParameter& parameter,
                              const std::string& text) {
  for (size_t i = 0; i < Count(parameter); ++i) {
    if (ValueText(parameter, i) == text) return i;
  }
  return std::nullopt;
}

std::string Legal(const StudyParameter& parameter) {
  std::vector<std::string> values;
  const size_t count = Count(parameter);
  for (size_t i = 0; i < std::min(count, kMaxShown); ++i) {
    values.push_back(ValueText(parameter, i));
  }
  if (count > kMaxShown) {
    values.back() = "...";
    values.push_back(ValueText(parameter, count - 1));
  }
  return absl::StrJoin(values, ", ");
}

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName &&
         absl::ascii_islower(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

bool IsWord(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) ||
                  absl::string_view("_.+-").find(c) != absl::string_view::npos;
         });
}

absl::Status CheckValues(const StudyParameter& parameter,
                         const std::string& field) {
  if (parameter.numbers.empty() == parameter.words.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has no values; it must have numbers or words, at least one"));
  }
  if (parameter.numbers.size() > kMaxStudyNumbers ||
      parameter.words.size() > kMaxStudyWords) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has ", Count(parameter), " values; it must have at most ",
        parameter.words.empty() ? kMaxStudyNumbers : kMaxStudyWords));
  }
  for (size_t i = 0; i < parameter.numbers.size(); ++i) {
    const int64_t number = parameter.numbers[i];
    if (std::abs(number) > kMaxStudyNumber ||
        (i > 0 && number <= parameter.numbers[i - 1])) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, " has the value ", number,
          "; numbers must rise and lie within ± ", kMaxStudyNumber));
    }
  }
  for (const std::string& word : parameter.words) {
    if (!IsWord(word)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has the value \"", word,
                       "\"; it must be 1 to 64 letters, digits and _ . + -"));
    }
    if (std::count(parameter.words.begin(), parameter.words.end(), word) > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, " has the value \"", word, "\" twice; values must differ"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StudySpace> StudySpace::Create(
    std::vector<StudyParameter> parameters,
    const std::vector<StudyExclusion>& exclusions) {
  if (parameters.empty() || parameters.size() > kMaxStudyParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameters has ", parameters.size(),
                     " entries; it must have 1 to ", kMaxStudyParameters));
  }
  StudySpace space;
  size_t total = 1;
  std::map<std::string, size_t> by_name;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const StudyParameter& parameter = parameters[i];
    const std::string field = absl::StrCat("parameters[", i, "]");
    if (!IsName(parameter.name) || !by_name.emplace(parameter.name, i).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".name is \"", parameter.name,
          "\"; it must be unique: a lower-case letter, then lower-case "
          "letters, digits and _, at most 64"));
    }
    HONE_RETURN_IF_ERROR(CheckValues(parameter, field));
    total *= Count(parameter);
    if (total > kMaxStudyConfigs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters make more than ", kMaxStudyConfigs,
          " configs; they must make at most so many before exclusions"));
    }
  }
  if (exclusions.size() > kMaxStudyExclusions) {
    return absl::InvalidArgumentError(
        absl::StrCat("exclusions has ", exclusions.size(),
                     " entries; it must have at most ", kMaxStudyExclusions));
  }
  // excludes[i]: for each parameter that exclusion i names, its values.
  std::vector<std::map<size_t, std::vector<bool>>> excludes;
  for (size_t i = 0; i < exclusions.size(); ++i) {
    const std::string field = absl::StrCat("exclusions[", i, "]");
    if (exclusions[i].empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, " names no parameter; it must name at least one"));
    }
    std::map<size_t, std::vector<bool>>& excluded = excludes.emplace_back();
    for (const auto& [name, values] : exclusions[i]) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, " names \"", name,
                         "\"; it must name one of the parameters"));
      }
      const StudyParameter& parameter = parameters[found->second];
      std::vector<bool>& flags = excluded[found->second];
      flags.assign(Count(parameter), false);
      for (const std::string& value : values) {
        const std::optional<size_t> index = IndexOf(parameter, value);
        if (!index) {
          return absl::InvalidArgumentError(
              absl::StrCat(field, " has the value \"", value, "\" of ", name,
                           "; it must be one of ", Legal(parameter)));
        }
        flags[*index] = true;
      }
    }
  }
  space.parameters_ = std::move(parameters);
  for (size_t config = 0; config < total; ++config) {
    const std::vector<size_t> values = space.ValuesOf(config);
    const bool excluded = std::any_of(
        excludes.begin(), excludes.end(), [&](const auto& exclusion) {
          return std::all_of(exclusion.begin(), exclusion.end(),
                             [&](const auto& term) {
                               return term.second[values[term.first]];
                             });
        });
    if (!excluded) space.configs_.push_back(config);
  }
  if (space.configs_.empty()) {
    return absl::InvalidArgumentError(
        "exclusions leave no config; they must leave at least one");
  }
  return space;
}

std::vector<size_t> StudySpace::ValuesOf(size_t config) const {
  std::vector<size_t> values(parameters_.size());
  for (size_t i = parameters_.size(); i-- > 0;) {
    values[i] = config % Count(parameters_[i]);
    config /= Count(parameters_[i]);
  }
  return values;
}

absl::StatusOr<size_t> StudySpace::Find(const StudySettings& settings,
                                        absl::string_view field) const {
  for (const auto& [name, value] : settings) {
    if (std::none_of(parameters_.begin(), parameters_.end(),
                     [&](const auto& p) { return p.name == name; })) {
      std::vector<std::string> names;
      for (const StudyParameter& p : parameters_) names.push_back(p.name);
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has \"", name, "\"; it must have exactly ",
                       absl::StrJoin(names, ", ")));
    }
  }
  size_t number = 0;
  for (const StudyParameter& parameter : parameters_) {
    const auto given = settings.find(parameter.name);
    const std::optional<size_t> value = given == settings.end()
                                            ? std::nullopt
                                            : IndexOf(parameter, given->second);
    if (!value) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".", parameter.name, " is ",
          given == settings.end() ? "missing"
                                  : absl::StrCat("\"", given->second, "\""),
          "; it must be one of ", Legal(parameter)));
    }
    number = number * Count(parameter) + *value;
  }
  const auto found = std::lower_bound(configs_.begin(), configs_.end(), number);
  if (found == configs_.end() || *found != number) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is excluded; it must be a config that no exclusion matches"));
  }
  return static_cast<size_t>(found - configs_.begin());
}

absl::StatusOr<size_t> StudySpace::FindText(absl::string_view text) const {
  StudySettings settings;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> setting =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    settings.insert(setting);
  }
  return Find(settings, "config");
}

StudySettings StudySpace::Settings(size_t config) const {
  const std::vector<size_t> values = ValuesOf(configs_[config]);
  StudySettings settings;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    settings[parameters_[i].name] = ValueText(parameters_[i], values[i]);
  }
  return settings;
}

std::string StudySpace::Text(size_t config) const {
  return absl::StrJoin(Settings(config), ",", absl::PairFormatter("="));
}

Position StudySpace::PositionOf(size_t config) const {
  const std::vector<size_t> values = ValuesOf(configs_[config]);
  Position position;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const StudyParameter& parameter = parameters_[i];
    for (size_t word = 0; word < parameter.words.size(); ++word) {
      // Two words differ in two of these.
      position.push_back(word == values[i] ? 0.25 : 0);
    }
    if (parameter.words.empty()) {
      const int64_t least = parameter.numbers.front();
      const int64_t number = parameter.numbers[values[i]];
      position.push_back(std::log2(
          static_cast<double>(least > 0 ? number : number - least + 1)));
    }
  }
  return position;
}

}  // namespace hone
