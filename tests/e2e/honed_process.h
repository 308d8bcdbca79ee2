// A honed of its own, as a user would start it, and the hone command.
#ifndef HONE_TESTS_E2E_HONED_PROCESS_H_
#define HONE_TESTS_E2E_HONED_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace hone {

// What a finished program left.
struct Finished {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// Runs a program of the build's bin folder to its end.
Finished RunProgram(const std::string& name,
                    const std::vector<std::string>& args,
                    const std::vector<std::string>& env = {});

// Killed at the latest when destroyed.
class HonedProcess {
 public:
  // Listens on `folder`/run/honed.sock, serves pages on a free port unless
  // `args` say otherwise, and writes `folder`/honed.log.
  HonedProcess(const std::string& folder, const std::vector<std::string>& args,
               const std::vector<std::string>& env = {});
  ~HonedProcess();
  HonedProcess(const HonedProcess&) = delete;
  HonedProcess& operator=(const HonedProcess&) = delete;

  const std::string& socket() const { return socket_; }
  // "host:port" of the pages once it serves; empty without them.
  std::string http() const;
  pid_t pid() const { return pid_; }
  // False when it ended, or did not listen within 30 s.
  bool WaitUntilServing();
  // Sends a signal and waits for the end; the exit code as in Finished.
  int Stop(int signal);
  std::string log() const;

 private:
  const std::string socket_;
  const std::string log_;
  pid_t pid_ = -1;
};

}  // namespace hone

#endif  // HONE_TESTS_E2E_HONED_PROCESS_H_
