#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "service/cli/command.h"

namespace {

// Written by the signal handler.
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

int main(int argc, char** argv) {
  std::error_code error;
  std::string executable =
      std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) executable = argv[0];
  // Only these have something to wind up; the others just end.
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "tune" || command == "sweep" || command == "audit" ||
      command == "top") {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupts.fetch_add(1); };
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }
  hone::Environment env{std::cout,
                        std::cerr,
                        isatty(STDERR_FILENO) != 0,
                        [](const char* name) {
                          return static_cast<const char*>(std::getenv(name));
                        },
                        interrupts,
                        executable,
                        isatty(STDIN_FILENO) != 0 ? STDIN_FILENO : -1,
                        isatty(STDOUT_FILENO) != 0 ? STDOUT_FILENO : -1};
  return hone::RunHone(std::vector<std::string>(argv + 1, argv + argc), env);
}
