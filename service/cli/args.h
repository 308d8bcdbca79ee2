// The command line: subcommands with `--name=value`, `--name value` and
// switches, and what ends the process with which code.
#ifndef HONE_SERVICE_CLI_ARGS_H_
#define HONE_SERVICE_CLI_ARGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

// hone's exit codes.
enum class Exit : int {
  kOk = 0,
  // The daemon answered with an error, or some layers of a sweep failed.
  kFailed = 1,
  // The command line or an input file is wrong.
  kUsage = 2,
  // No daemon at the address.
  kUnreachable = 3,
  // Ctrl-C.
  kInterrupted = 130,
};

// `status` with the exit code it ends the process with.
absl::Status WithExit(absl::Status status, Exit exit);
// kFailed for errors without one.
Exit ExitOf(const absl::Status& status);
// InvalidArgument that exits with kUsage.
absl::Status UsageError(absl::string_view message);

struct Flag {
  std::string name;  // without the dashes
  // What the value is called in help; empty for a switch.
  std::string value;
  std::string help;
  bool repeated = false;
};

class ParsedArgs {
 public:
  bool Has(absl::string_view flag) const;
  // The flag's only value, or "".
  std::string Get(absl::string_view flag) const;
  std::vector<std::string> All(absl::string_view flag) const;
  const std::vector<std::string>& positional() const { return positional_; }

  // Values with their bounds checked; nullopt when the flag is not given.
  // Usage errors name the flag and the legal values.
  absl::StatusOr<std::optional<int64_t>> Int(absl::string_view flag,
                                             int64_t low, int64_t high) const;
  // "90s", "2m" or a number of seconds.
  absl::StatusOr<std::optional<absl::Duration>> Time(absl::string_view flag,
                                                     absl::Duration low,
                                                     absl::Duration high) const;

 private:
  friend absl::StatusOr<ParsedArgs> ParseArgs(
      const std::vector<Flag>& flags, const std::vector<std::string>& args,
      size_t max_positional);
  std::map<std::string, std::vector<std::string>> values_;
  std::vector<std::string> positional_;
};

// Usage errors for unknown flags, values that are missing or too many, flags
// given twice, and more than `max_positional` other arguments. "-o" is short
// for "--output" and "-h" for "--help"; "--" ends the flags.
absl::StatusOr<ParsedArgs> ParseArgs(const std::vector<Flag>& flags,
                                     const std::vector<std::string>& args,
                                     size_t max_positional);

// The flags' part of a help text.
std::string FlagHelp(const std::vector<Flag>& flags);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_ARGS_H_
