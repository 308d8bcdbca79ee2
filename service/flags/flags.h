// Command-line flags: a set of them per command, each also settable by an
// environment variable. Flags beat the environment, which beats the default.
// Errors name the flag and the legal values.
#ifndef HONE_SERVICE_FLAGS_FLAGS_H_
#define HONE_SERVICE_FLAGS_FLAGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/jit/shared_library.h"

namespace hone {

class FlagSet {
 public:
  // Takes a value; the error says only what is legal.
  using Parser = std::function<absl::Status(absl::string_view)>;

  // `name` without dashes. `value_name` is shown in the help; empty makes a
  // switch, which also stands alone. `env` may be empty.
  void Add(std::string name, std::string value_name, std::string help,
           Parser parse, std::string env = "");

  // Common kinds. Targets hold their default and must outlive Parse().
  void String(std::string name, std::string value_name, std::string help,
              std::string* target, std::string env = "");
  // Repeatable.
  void Strings(std::string name, std::string value_name, std::string help,
               std::vector<std::string>* target);
  void Int(std::string name, std::string help, int64_t* target, int64_t low,
           int64_t high, std::string env = "");
  void Switch(std::string name, std::string help, bool* target,
              std::string env = "");
  // "90s", "5m", "1h30m".
  void Duration(std::string name, std::string help, absl::Duration* target,
                absl::Duration low, absl::Duration high);

  // Reads the environment, then `args` ("--name=value", "--name value",
  // "--switch"). Everything else, and all after "--", is put into
  // `positional`. InvalidArgument names the flag.
  absl::Status Parse(const std::vector<std::string>& args, EnvLookup env,
                     std::vector<std::string>* positional);

  // One line or more a flag, in the order added.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;
    std::string help;
    std::string env;
    Parser parse;
  };
  const Flag* Find(absl::string_view name) const;
  std::vector<Flag> flags_;
};

}  // namespace hone

#endif  // HONE_SERVICE_FLAGS_FLAGS_H_
