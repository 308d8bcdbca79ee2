#include "service/cli/output_file.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "service/cli/args.h"

namespace hone {
namespace {

constexpr char kRasterizer[] = "rsvg-convert";

// The program's path; empty when PATH does not have it.
std::string FindProgram(const char* path) {
  if (path == nullptr) return "";
  for (const absl::string_view folder : absl::StrSplit(path, ':')) {
    const std::string file = absl::StrCat(folder, "/", kRasterizer);
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

absl::Status Rasterize(const std::string& program, std::string svg,
                       std::string png) {
  std::string words[] = {program, "--zoom=2", "--output", std::move(png),
                         std::move(svg)};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                  words[3].data(), words[4].data(), nullptr};
  pid_t pid = 0;
  if (const int error =
          posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environ);
      error != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot start ", program, ": ", std::strerror(error)));
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      program,
      WIFEXITED(status) ? " failed with exit code " : " died of signal ",
      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
      "; an .svg needs no such program"));
}

}  // namespace

absl::Status WriteFile(absl::string_view flag, const std::string& path,
                       absl::string_view bytes) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(partial, path, error);
  if (file && !error) return absl::OkStatus();
  std::filesystem::remove(partial, error);
  return UsageError(absl::StrCat("--", flag, ": cannot write ", path));
}

absl::Status WriteImage(absl::string_view flag, const std::string& path,
                        absl::string_view svg,
                        const std::function<const char*(const char*)>& getenv) {
  if (absl::EndsWith(path, ".svg")) return WriteFile(flag, path, svg);
  if (!absl::EndsWith(path, ".png")) {
    return UsageError(absl::StrCat("--", flag, " is '", path,
                                   "'; it must end in .svg or .png"));
  }
  const std::string program = FindProgram(getenv("PATH"));
  if (program.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a .png needs ", kRasterizer,
        " (Debian: librsvg2-bin), which is not in PATH; install it, or write "
        "an .svg"));
  }
  const std::string source = path + ".partial.svg";
  const std::string partial = path + ".partial";
  const absl::Cleanup remove = [&] {
    std::error_code ignored;
    std::filesystem::remove(source, ignored);
    std::filesystem::remove(partial, ignored);
  };
  HONE_RETURN_IF_ERROR(WriteFile(flag, source, svg));
  HONE_RETURN_IF_ERROR(Rasterize(program, source, partial));
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (!error) return absl::OkStatus();
  return UsageError(absl::StrCat("--", flag, ": cannot write ", path));
}

}  // namespace hone
