#include "kernels/space/subspace.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"

namespace hone {

absl::StatusOr<Subspace> Subspace::Parse(absl::string_view text) {
  Subspace out;
  if (text.empty()) return out;
  for (const absl::string_view rule : absl::StrSplit(text, ',')) {
    const std::pair<std::string, absl::string_view> parts =
        absl::StrSplit(rule, absl::MaxSplits('=', 1));
    if (!absl::StrContains(rule, '=')) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", rule, "\" is not key=value or key=value|value"));
    }
    if (out.values_.contains(parts.first)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", parts.first, "\" is given twice"));
    }
    for (const absl::string_view value : absl::StrSplit(parts.second, '|')) {
      // The config's own parser knows each field's values.
      HONE_RETURN_IF_ERROR(
          TuningConfig::Parse(absl::StrCat(parts.first, "=", value)).status());
      out.values_[parts.first].emplace(value);
    }
  }
  return out;
}

bool Subspace::Contains(const TuningConfig& config) const {
  if (values_.empty()) return true;
  const std::string text = config.ToString();
  size_t met = 0;
  for (const absl::string_view field : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    const auto rule = values_.find(parts.first);
    if (rule == values_.end()) continue;
    if (!rule->second.contains(parts.second)) return false;
    ++met;
  }
  return met == values_.size();
}

std::string Subspace::ToString() const {
  std::vector<std::string> rules;
  rules.reserve(values_.size());
  for (const auto& [field, values] : values_) {
    rules.push_back(absl::StrCat(field, "=", absl::StrJoin(values, "|")));
  }
  return absl::StrJoin(rules, ",");
}

}  // namespace hone
