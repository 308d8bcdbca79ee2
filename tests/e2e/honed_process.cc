#include "tests/e2e/honed_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

constexpr char kBinFolder[] = HONE_BIN_FOLDER;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

int ExitCode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Starts a program with its output in files. `env` is added to this process's.
pid_t Start(const std::string& name, const std::vector<std::string>& args,
            const std::vector<std::string>& env, const std::string& out,
            const std::string& err) {
  std::vector<std::string> words = {absl::StrCat(kBinFolder, "/", name)};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (char** variable = environ; *variable != nullptr; ++variable)
    envp.push_back(*variable);
  for (const std::string& variable : env)
    envp.insert(envp.begin(), const_cast<char*>(variable.c_str()));
  envp.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int in_fd = open("/dev/null", O_RDONLY);
  const int out_fd = open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int err_fd = open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(in_fd, 0);
  dup2(out_fd, 1);
  dup2(err_fd, 2);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

}  // namespace

Finished RunProgram(const std::string& name,
                    const std::vector<std::string>& args,
                    const std::vector<std::string>& env) {
  char folder[] = "/tmp/hone-run-XXXXXX";
  if (mkdtemp(folder) == nullptr) return {};
  const std::string out = std::string(folder) + "/out";
  const std::string err = std::string(folder) + "/err";
  const pid_t pid = Start(name, args, env, out, err);
  int status = 0;
  waitpid(pid, &status, 0);
  Finished finished{ExitCode(status), ReadAll(out), ReadAll(err)};
  unlink(out.c_str());
  unlink(err.c_str());
  rmdir(folder);
  return finished;
}

HonedProcess::HonedProcess(const std::string& folder,
                           const std::vector<std::string>& args,
                           const std::vector<std::string>& env)
    : socket_(folder + "/run/honed.sock"), log_(folder + "/honed.log") {
  // An earlier life's log would say that this one serves.
  unlink(log_.c_str());
  std::vector<std::string> all = {"--listen=" + socket_, "--http=127.0.0.1:0"};
  all.insert(all.end(), args.begin(), args.end());
  pid_ = Start("honed", all, env, log_, log_);
}

HonedProcess::~HonedProcess() {
  if (pid_ > 0) Stop(SIGKILL);
}

bool HonedProcess::WaitUntilServing() {
  for (int i = 0; i < 3000; ++i) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    if (log().find("\"event\":\"serving\"") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int HonedProcess::Stop(int signal) {
  if (pid_ <= 0) return -1;
  kill(pid_, signal);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return ExitCode(status);
}

std::string HonedProcess::http() const {
  const std::string text = log();
  const std::string key = "\"http\":\"";
  const size_t at = text.find(key);
  if (at == text.npos) return "";
  const size_t begin = at + key.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

std::string HonedProcess::log() const { return ReadAll(log_); }

}  // namespace hone
