// honed: the daemon of one device.
//
// Exit codes: 0 stopped by a signal, 1 could not start, 2 bad usage.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "kernels/jit/cubin_cache.h"
#include "service/flags/flags.h"
#include "service/paths/paths.h"
#include "service/server/daemon.h"

namespace hone {
namespace {

constexpr char kDefaultHttp[] = "127.0.0.1:8686";

constexpr char kUsage[] =
    "honed serves dispatch tables and tunes layers on one device.\n\n"
    "usage: honed [flags]\n\n";

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good())
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return text.str();
}

int Main(int argc, char** argv) {
  const auto env = [](const char* name) { return std::getenv(name); };
  DaemonOptions options;
  DeviceOptions device;
  options.listen = DefaultAddress(env);
  std::string cache;
  std::string import_key;
  int64_t compile_jobs = 0;
  int64_t max_queued = options.max_queued;
  bool no_recheck = false;
  bool help = false;
  FlagSet flags;
  flags.String("listen", "ADDRESS",
               "a socket's path, host:port or [v6]:port (default " +
                   options.listen + ")",
               &options.listen, "HONE_LISTEN");
  flags.Switch("insecure",
               "listen beyond loopback without encryption or authentication",
               &options.insecure);
  options.http = kDefaultHttp;
  options.http_may_be_taken = true;
  flags.Add(
      "http", "HOST:PORT",
      absl::StrCat("read-only web pages; off: none (default ", kDefaultHttp,
                   ")"),
      [&options](absl::string_view text) {
        options.http = text == "off" ? "" : std::string(text);
        options.http_may_be_taken = false;
        return absl::OkStatus();
      },
      "HONE_HTTP");
  flags.String("device", "DEVICE",
               "auto, gpu:N or model:h200|a100|rtx4090|t4 (default auto)",
               &device.device, "HONE_DEVICE");
  flags.String("db", "FILE",
               "the database (default ~/.local/state/hone/hone.db)",
               &options.database, "HONE_DB");
  flags.String("cache", "FOLDER", "compiled kernels (default ~/.cache/hone)",
               &cache, "HONE_CACHE");
  flags.String("worker", "FILE", "hone-worker (default beside honed)",
               &device.worker);
  flags.String("compiler", "FILE", "hone-compiler (default beside honed)",
               &device.compiler);
  flags.Int("compile-jobs", "compiles at once; 0 is one per core",
            &compile_jobs, 0, 1024);
  flags.Int("max-queued", "tunes that may wait", &max_queued, 1, 100000);
  flags.Switch("no-recheck",
               "do not recheck tables at start when driver, VBIOS or power "
               "limit have changed",
               &no_recheck);
  flags.Switch("idle-tune",
               "while no tune is asked for, tune what traffic and misses name; "
               "yields to any request",
               &options.idle_tune, "HONE_IDLE_TUNE");
  flags.Duration("idle-after", "how long no tune must have been asked for",
                 &options.idle_after, absl::Seconds(1), absl::Hours(24));
  flags.String("import-key", "FILE",
               "PEM public key that imported bundles must be signed by",
               &import_key);
  flags.Switch("help", "print this", &help);

  std::vector<std::string> positional;
  absl::Status status = flags.Parse(
      std::vector<std::string>(argv + 1, argv + argc), env, &positional);
  if (status.ok() && !positional.empty()) {
    status = absl::InvalidArgumentError(
        absl::StrCat("honed takes only flags, not \"", positional[0], "\""));
  }
  if (help) {
    std::cout << kUsage << flags.Help();
    return 0;
  }
  if (status.ok())
    status = CheckListenAddress(options.listen, options.insecure);
  if (status.ok() && !options.http.empty())
    status = ParseHttpAddress(options.http, options.insecure).status();
  if (!status.ok()) {
    std::cerr << "honed: " << status.message() << "\n";
    return 2;
  }

  // Before any thread starts, so that all inherit it: signals are waited for
  // in one place.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Logger log([](absl::string_view line) {
    const std::string text = absl::StrCat(line, "\n");
    // A log that cannot be written must not stop the daemon.
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, text.data(), text.size());
  });
  const auto fail = [&](const absl::Status& why) {
    log.Error("start_failed",
              {{"status", LogText(absl::StatusCodeToString(why.code()))},
               {"detail", LogText(why.message())}});
    return absl::IsInvalidArgument(why) ? 2 : 1;
  };

  if (options.database.empty()) {
    const auto path = DefaultDatabasePath(env);
    if (!path.ok()) return fail(path.status());
    options.database = *path;
  }
  if (cache.empty()) {
    const auto folder = DefaultCacheFolder(env);
    if (!folder.ok()) return fail(folder.status());
    cache = *folder;
  }
  if (!import_key.empty()) {
    auto key = ReadFile(import_key);
    if (!key.ok()) return fail(key.status());
    options.import_key_pem = *std::move(key);
  }
  options.max_queued = static_cast<int>(max_queued);
  options.recheck = !no_recheck;
  device.cache_folder = CubinFolder(cache);
  device.compile_jobs = static_cast<int>(compile_jobs);

  absl::StatusOr<DeviceBackend> backend = OpenDevice(device, env);
  if (!backend.ok()) return fail(backend.status());
  if (!backend->can_tune.ok())
    log.Warn("cannot_tune", {{"detail", LogText(backend->can_tune.message())}});
  const absl::StatusOr<std::unique_ptr<Daemon>> daemon =
      Daemon::Start(options, *std::move(backend), &log);
  if (!daemon.ok()) return fail(daemon.status());

  int received = 0;
  sigwait(&signals, &received);
  // A second signal ends honed at once; the database does not mind.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*daemon)->Drain();
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
