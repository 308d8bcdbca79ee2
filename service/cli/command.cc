#include "service/cli/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/convert/errors.h"
#include "service/paths/paths.h"

namespace hone {
namespace {

constexpr char kServe[] = "serve";
constexpr char kServeSummary[] =
    "start the daemon; its arguments are honed's (hone serve --help)";

constexpr char kExitCodes[] =
    "Exit codes:\n"
    "  0    success\n"
    "  1    the daemon refused or failed; a layer of a sweep failed\n"
    "  2    the command line or an input file is wrong\n"
    "  3    no daemon at the address\n"
    "  130  interrupted with Ctrl-C\n";

std::vector<Command> Commands() {
  return {TuneCommand(),    SweepCommand(),  GetCommand(),    TableCommand(),
          ExplainCommand(), BenchCommand(),  PlotCommand(),   AuditCommand(),
          RecheckCommand(), TopCommand(),    ExportCommand(), ImportCommand(),
          DevicesCommand(), TrafficCommand()};
}

std::vector<Flag> GlobalFlags(bool many_addresses) {
  return {
      {"address", "ADDRESS",
       many_addresses ? "a daemon: a Unix socket's path or host:port; once per "
                        "daemon"
                      : "the daemon: a Unix socket's path or host:port",
       many_addresses},
      {"output", "FORMAT",
       "also -o: table (default), json, or jsonl: one line per item"},
      {"help", "", "show this"},
  };
}

std::string Overview() {
  std::string out =
      "hone tunes quantized GEMM kernels on this GPU and serves the fastest.\n"
      "\nUsage: hone COMMAND [flags]\n\nCommands:\n";
  absl::StrAppend(&out, "  serve    ", kServeSummary, "\n");
  for (const Command& command : Commands()) {
    absl::StrAppend(&out, "  ", command.name,
                    std::string(9 - command.name.size(), ' '), command.summary,
                    "\n");
  }
  absl::StrAppend(
      &out, "\nFlags of every command but serve:\n",
      FlagHelp(GlobalFlags(/*many_addresses=*/false)),
      "\nThe daemon is --address, else HONE_ADDRESS, else a Unix socket of "
      "this user:\n$XDG_RUNTIME_DIR/hone/honed.sock or "
      "/tmp/hone-<uid>/honed.sock.\n\n",
      kExitCodes, "\n'hone help COMMAND' describes a command.\n");
  return out;
}

// The command's own flags, then those of every command.
std::vector<Flag> AllFlags(const Command& command) {
  std::vector<Flag> flags = command.flags;
  for (Flag& flag : GlobalFlags(command.many_addresses))
    flags.push_back(std::move(flag));
  return flags;
}

std::string HelpOf(const Command& command) {
  return absl::StrCat(
      "hone ", command.name, ": ", command.summary, "\n\nUsage: hone ",
      command.name, " [flags]", command.positional.empty() ? "" : " ",
      command.positional, "\n", command.details.empty() ? "" : "\n",
      command.details, "\nFlags:\n", FlagHelp(AllFlags(command)));
}

// Becomes honed. Returns only when that fails.
absl::Status Serve(const std::vector<std::string>& args, Environment& env) {
  const std::string honed =
      (std::filesystem::path(env.executable).parent_path() / "honed").string();
  std::vector<std::string> words = {honed};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  env.out.flush();
  execv(honed.c_str(), argv.data());
  return absl::NotFoundError(absl::StrCat("cannot start ", honed, ": ",
                                          std::strerror(errno),
                                          "; it must stand beside hone"));
}

absl::StatusOr<Format> FormatOf(const ParsedArgs& args) {
  const std::string name = args.Has("output") ? args.Get("output") : "table";
  if (name == "table") return Format::kTable;
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonLines;
  return UsageError(absl::StrCat("--output is '", name,
                                 "'; it must be table, json or jsonl"));
}

absl::Status Run(const Command& command, const std::vector<std::string>& args,
                 Environment& env) {
  const absl::StatusOr<ParsedArgs> parsed =
      ParseArgs(AllFlags(command), args, command.max_positional);
  if (!parsed.ok()) return parsed.status();
  if (parsed->Has("help")) {
    env.out << HelpOf(command);
    return absl::OkStatus();
  }
  const absl::StatusOr<Format> format = FormatOf(*parsed);
  if (!format.ok()) return format.status();
  Invocation invocation{*parsed, env, *format, parsed->All("address")};
  if (invocation.addresses.empty()) {
    const char* given = env.getenv("HONE_ADDRESS");
    invocation.addresses = {given != nullptr && *given != '\0'
                                ? std::string(given)
                                : DefaultAddress(env.getenv)};
  }
  for (const std::string& address : invocation.addresses) {
    if (address.empty()) {
      return UsageError(
          "--address is empty; it must be a Unix socket's path or host:port");
    }
  }
  return command.run(invocation);
}

// Says what went wrong, and what the daemon said about it.
void PrintError(absl::string_view command, const absl::Status& status,
                std::ostream& err) {
  const Exit exit = ExitOf(status);
  const std::string name =
      command.empty() ? "hone" : absl::StrCat("hone ", command);
  err << name << ": ";
  const std::vector<FieldViolation> violations = ViolationsOf(status);
  if (violations.empty()) {
    err << status.message();
  } else {
    err << "the request was refused";
  }
  if (exit == Exit::kFailed) err << " [" << ReasonOf(status) << "]";
  err << "\n";
  for (const FieldViolation& violation : violations)
    err << "  " << violation.field << " " << violation.description << "\n";
  if (const absl::Duration retry = RetryDelayOf(status);
      retry > absl::ZeroDuration())
    err << "  try again in " << absl::FormatDuration(retry) << "\n";
  if (exit == Exit::kUsage)
    err << "'hone help" << (command.empty() ? "" : " ") << command
        << "' lists what is legal\n";
}

absl::Status Dispatch(const std::vector<std::string>& args, Environment& env,
                      std::string& name) {
  if (args.empty()) {
    env.err << Overview();
    return UsageError("a command is missing");
  }
  const bool help = args[0] == "help" || args[0] == "--help" || args[0] == "-h";
  const std::string wanted = help && args.size() > 1 ? args[1] : args[0];
  if (help && args.size() == 1) {
    env.out << Overview();
    return absl::OkStatus();
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (wanted == kServe) {
    name = kServe;
    return Serve(help ? std::vector<std::string>{"--help"} : rest, env);
  }
  std::vector<std::string> names = {kServe};
  for (const Command& command : Commands()) {
    names.push_back(command.name);
    if (command.name != wanted) continue;
    name = command.name;
    if (!help) return Run(command, rest, env);
    env.out << HelpOf(command);
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat("unknown command '", wanted,
                                 "'; the commands are ",
                                 absl::StrJoin(names, ", ")));
}

}  // namespace

int RunHone(const std::vector<std::string>& args, Environment& env) {
  std::string name;
  const absl::Status status = Dispatch(args, env, name);
  env.out.flush();
  if (!status.ok()) PrintError(name, status, env.err);
  env.err.flush();
  return static_cast<int>(ExitOf(status));
}

}  // namespace hone
