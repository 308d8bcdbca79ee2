#include "service/flags/flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

absl::Status Legal(absl::string_view legal) {
  return absl::InvalidArgumentError(legal);
}

// Names the flag or variable whose value `status` refuses.
absl::Status Named(absl::string_view what, absl::string_view value,
                   const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is \"", value, "\"; it ", status.message()));
}

}  // namespace

void FlagSet::Add(std::string name, std::string value_name, std::string help,
                  Parser parse, std::string env) {
  flags_.push_back({std::move(name), std::move(value_name), std::move(help),
                    std::move(env), std::move(parse)});
}

void FlagSet::String(std::string name, std::string value_name, std::string help,
                     std::string* target, std::string env) {
  Add(
      std::move(name), std::move(value_name), std::move(help),
      [target](absl::string_view text) {
        *target = std::string(text);
        return absl::OkStatus();
      },
      std::move(env));
}

void FlagSet::Strings(std::string name, std::string value_name,
                      std::string help, std::vector<std::string>* target) {
  Add(std::move(name), std::move(value_name), std::move(help),
      [target](absl::string_view text) {
        target->push_back(std::string(text));
        return absl::OkStatus();
      });
}

void FlagSet::Int(std::string name, std::string help, int64_t* target,
                  int64_t low, int64_t high, std::string env) {
  Add(
      std::move(name), "INT", std::move(help),
      [target, low, high](absl::string_view text) {
        int64_t value = 0;
        if (!absl::SimpleAtoi(text, &value) || value < low || value > high) {
          return Legal(
              absl::StrCat("must be an integer between ", low, " and ", high));
        }
        *target = value;
        return absl::OkStatus();
      },
      std::move(env));
}

void FlagSet::Switch(std::string name, std::string help, bool* target,
                     std::string env) {
  Add(
      std::move(name), "", std::move(help),
      [target](absl::string_view text) {
        if (!absl::SimpleAtob(text, target)) {
          return Legal("must be true or false");
        }
        return absl::OkStatus();
      },
      std::move(env));
}

void FlagSet::Duration(std::string name, std::string help,
                       absl::Duration* target, absl::Duration low,
                       absl::Duration high) {
  Add(std::move(name), "DURATION", std::move(help),
      [target, low, high](absl::string_view text) {
        absl::Duration value;
        if (!absl::ParseDuration(text, &value) || value < low || value > high) {
          return Legal(absl::StrCat("must be a duration such as 90s between ",
                                    absl::FormatDuration(low), " and ",
                                    absl::FormatDuration(high)));
        }
        *target = value;
        return absl::OkStatus();
      });
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  const auto it =
      std::find_if(flags_.begin(), flags_.end(),
                   [&](const Flag& flag) { return flag.name == name; });
  return it == flags_.end() ? nullptr : &*it;
}

absl::Status FlagSet::Parse(const std::vector<std::string>& args, EnvLookup env,
                            std::vector<std::string>* positional) {
  for (const Flag& flag : flags_) {
    if (flag.env.empty()) continue;
    const char* value = env(flag.env.c_str());
    if (value == nullptr || value[0] == '\0') continue;
    HONE_RETURN_IF_ERROR(Named(flag.env, value, flag.parse(value)));
  }
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    if (arg == "--") {
      positional->insert(positional->end(), args.begin() + i + 1, args.end());
      break;
    }
    if (!absl::StartsWith(arg, "-") || arg == "-") {
      positional->push_back(args[i]);
      continue;
    }
    const absl::string_view body =
        absl::StartsWith(arg, "--") ? arg.substr(2) : arg;
    const size_t equals = body.find('=');
    const absl::string_view name = body.substr(0, equals);
    const Flag* flag = absl::StartsWith(arg, "--") ? Find(name) : nullptr;
    if (flag == nullptr) {
      std::string known;
      for (const Flag& f : flags_)
        absl::StrAppend(&known, known.empty() ? "--" : ", --", f.name);
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag ", arg, "; there are ", known));
    }
    std::string value = "true";
    if (equals != body.npos) {
      value = std::string(body.substr(equals + 1));
    } else if (!flag->value_name.empty()) {
      if (i + 1 == args.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, " needs a value: ", flag->value_name));
      }
      value = args[++i];
    }
    HONE_RETURN_IF_ERROR(
        Named(absl::StrCat("--", name), value, flag->parse(value)));
  }
  return absl::OkStatus();
}

std::string FlagSet::Help() const {
  std::string out;
  for (const Flag& flag : flags_) {
    std::string head = absl::StrCat("  --", flag.name);
    if (!flag.value_name.empty()) absl::StrAppend(&head, "=", flag.value_name);
    head.resize(std::max<size_t>(head.size() + 2, 30), ' ');
    absl::StrAppend(&out, head, flag.help);
    if (!flag.env.empty()) absl::StrAppend(&out, " [", flag.env, "]");
    out += '\n';
  }
  return out;
}

}  // namespace hone
