// hone's commands. RunHone() is the whole program save for signals, so that
// tests run it in their own process.
#ifndef HONE_SERVICE_CLI_COMMAND_H_
#define HONE_SERVICE_CLI_COMMAND_H_

#include <atomic>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/cli/args.h"

namespace hone {

// What a command may touch outside itself.
struct Environment {
  std::ostream& out;
  std::ostream& err;
  // Whether `err` is a terminal, where a progress line rewrites itself.
  bool err_is_terminal = false;
  std::function<const char*(const char*)> getenv;
  // How often Ctrl-C was pressed.
  const std::atomic<int>& interrupts;
  // The hone binary's own path.
  std::string executable;
  // Descriptors of the terminal that keys come from and that is drawn on; -1
  // where input or output is none.
  int terminal_in = -1;
  int terminal_out = -1;
};

enum class Format { kTable, kJson, kJsonLines };

// One run of one command.
struct Invocation {
  const ParsedArgs& args;
  Environment& env;
  Format format = Format::kTable;
  // The daemon; a sweep may have several.
  std::vector<std::string> addresses;
};

struct Command {
  std::string name;
  // What follows the flags: "FILE...".
  std::string positional;
  size_t max_positional = 0;
  std::string summary;
  // Further paragraphs of its help.
  std::string details;
  std::vector<Flag> flags;
  // Whether it may ask several daemons.
  bool many_addresses = false;
  absl::Status (*run)(const Invocation& invocation);
};

Command TuneCommand();
Command SweepCommand();
Command GetCommand();
Command TableCommand();
Command ExportCommand();
Command ImportCommand();
Command DevicesCommand();
Command BenchCommand();
Command ExplainCommand();
Command AuditCommand();
Command RecheckCommand();
Command TrafficCommand();
Command TopCommand();
Command PlotCommand();

// Flags that start a job: --budget --max-kernels --retune --ladder.
std::vector<Flag> TuneFlags();

// `args` without the program's name. Returns the exit code.
int RunHone(const std::vector<std::string>& args, Environment& env);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_COMMAND_H_
