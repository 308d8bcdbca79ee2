#include "service/cli/args.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone {
namespace {

constexpr char kExitUrl[] = "hone.cli/exit";

}  // namespace

absl::Status WithExit(absl::Status status, Exit exit) {
  status.SetPayload(kExitUrl, absl::Cord(absl::StrCat(static_cast<int>(exit))));
  return status;
}

Exit ExitOf(const absl::Status& status) {
  if (status.ok()) return Exit::kOk;
  const auto payload = status.GetPayload(kExitUrl);
  int code = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &code))
    return Exit::kFailed;
  return static_cast<Exit>(code);
}

absl::Status UsageError(absl::string_view message) {
  return WithExit(absl::InvalidArgumentError(message), Exit::kUsage);
}

bool ParsedArgs::Has(absl::string_view flag) const {
  return values_.count(std::string(flag)) != 0;
}

std::string ParsedArgs::Get(absl::string_view flag) const {
  const auto it = values_.find(std::string(flag));
  return it == values_.end() ? "" : it->second.back();
}

std::vector<std::string> ParsedArgs::All(absl::string_view flag) const {
  const auto it = values_.find(std::string(flag));
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

absl::StatusOr<std::optional<int64_t>> ParsedArgs::Int(absl::string_view flag,
                                                       int64_t low,
                                                       int64_t high) const {
  if (!Has(flag)) return std::nullopt;
  const std::string text = Get(flag);
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
    return UsageError(absl::StrCat("--", flag, " is '", text,
                                   "'; it must be an integer from ", low,
                                   " to ", high));
  }
  return std::optional<int64_t>(value);
}

absl::StatusOr<std::optional<absl::Duration>> ParsedArgs::Time(
    absl::string_view flag, absl::Duration low, absl::Duration high) const {
  if (!Has(flag)) return std::nullopt;
  const std::string text = Get(flag);
  absl::Duration value;
  double seconds = 0;
  bool parsed = absl::ParseDuration(text, &value);
  if (!parsed && absl::SimpleAtod(text, &seconds)) {
    value = absl::Seconds(seconds);
    parsed = true;
  }
  if (!parsed || value < low || value > high) {
    return UsageError(
        absl::StrCat("--", flag, " is '", text, "'; it must be a time from ",
                     absl::FormatDuration(low), " to ",
                     absl::FormatDuration(high), ", such as 90s or 2m"));
  }
  return std::optional<absl::Duration>(value);
}

absl::StatusOr<ParsedArgs> ParseArgs(const std::vector<Flag>& flags,
                                     const std::vector<std::string>& args,
                                     size_t max_positional) {
  ParsedArgs parsed;
  bool only_positional = false;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string arg = args[i];
    if (only_positional || arg == "-" || !absl::StartsWith(arg, "-")) {
      parsed.positional_.push_back(arg);
      continue;
    }
    if (arg == "--") {
      only_positional = true;
      continue;
    }
    if (arg == "-h") arg = "--help";
    if (arg == "-o") {
      arg = "--output";
    } else if (absl::StartsWith(arg, "-o") && !absl::StartsWith(arg, "--")) {
      arg = absl::StrCat("--output=", arg.substr(arg[2] == '=' ? 3 : 2));
    }
    const size_t equals = arg.find('=');
    const std::string written = arg.substr(0, equals);
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const Flag& candidate) {
          return written == absl::StrCat("--", candidate.name);
        });
    if (flag == flags.end()) {
      std::vector<std::string> names;
      for (const Flag& known : flags)
        names.push_back(absl::StrCat("--", known.name));
      return UsageError(absl::StrCat("unknown flag ", written,
                                     "; the flags here are ",
                                     absl::StrJoin(names, ", ")));
    }
    std::string value;
    if (flag->value.empty()) {
      if (equals != std::string::npos)
        return UsageError(absl::StrCat(written,
                                       " is a switch; it takes no "
                                       "value"));
      value = "true";
    } else if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return UsageError(absl::StrCat(written, " needs a value: ", flag->value));
    }
    std::vector<std::string>& values = parsed.values_[flag->name];
    if (!values.empty() && !flag->repeated)
      return UsageError(absl::StrCat(written, " is given twice"));
    values.push_back(value);
  }
  if (parsed.positional_.size() > max_positional) {
    return UsageError(absl::StrCat("unexpected argument '",
                                   parsed.positional_[max_positional], "'"));
  }
  return parsed;
}

std::string FlagHelp(const std::vector<Flag>& flags) {
  size_t width = 0;
  std::vector<std::string> left;
  for (const Flag& flag : flags) {
    left.push_back(absl::StrCat("  --", flag.name,
                                flag.value.empty() ? "" : "=", flag.value));
    width = std::max(width, left.back().size());
  }
  std::string out;
  for (size_t i = 0; i < flags.size(); ++i) {
    absl::StrAppend(&out, left[i], std::string(width + 2 - left[i].size(), ' '),
                    flags[i].help, "\n");
  }
  return out;
}

}  // namespace hone
