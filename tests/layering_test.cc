// The one allowed direction between folders, and the one folder that each
// third-party header stays behind.

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

struct Include {
  std::string from;  // path from the root
  std::string what;  // the text between quotes or brackets
};

// Every #include of the product's own C++ sources.
std::vector<Include> Includes() {
  const fs::path root = HONE_SOURCE_DIR;
  const std::set<std::string> extensions = {".h", ".cc", ".cuh", ".cu"};
  const std::regex line_pattern("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"].*");
  std::vector<Include> includes;
  for (const char* folder : {"kernels", "tuner", "db", "service"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (extensions.count(entry.path().extension().string()) == 0) continue;
      std::ifstream file(entry.path());
      std::string line;
      while (std::getline(file, line)) {
        std::smatch match;
        if (std::regex_match(line, match, line_pattern)) {
          includes.push_back(
              {fs::relative(entry.path(), root).string(), match[1]});
        }
      }
    }
  }
  return includes;
}

bool StartsWith(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

TEST(LayeringTest, FoldersDependOneWayOnly) {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"kernels", {"kernels"}},
      {"tuner", {"tuner", "kernels", "proto"}},
      {"db", {"db", "tuner", "kernels"}},
      {"service", {"service", "db", "tuner", "kernels", "proto"}},
  };
  const std::set<std::string> folders = {
      "kernels", "tuner", "db", "service", "proto", "tests", "dashboards"};
  const std::vector<Include> includes = Includes();
  ASSERT_GT(includes.size(), 100u);
  for (const Include& include : includes) {
    const std::string from = include.from.substr(0, include.from.find('/'));
    const std::string to = include.what.substr(0, include.what.find('/'));
    if (include.what.find('/') == std::string::npos || !folders.count(to)) {
      continue;
    }
    EXPECT_TRUE(allowed.at(from).count(to))
        << include.from << " includes " << include.what;
    if (from == "tuner" && to == "proto") {
      EXPECT_EQ(include.what, "proto/hone/v1/worker.pb.h")
          << include.from << ": only the worker's private messages";
    }
  }
}

TEST(LayeringTest, ThirdPartyHeadersStayBehindOneFolder) {
  const std::vector<std::pair<std::regex, std::vector<std::string>>> homes = {
      {std::regex("sqlite3\\.h"), {"db/"}},
      {std::regex("grpc(pp|)/.*"), {"service/"}},
      {std::regex("microhttpd\\.h"), {"service/http/"}},
      {std::regex("prometheus/.*"), {"service/metrics/"}},
      {std::regex("nvrtc\\.h"), {"kernels/jit/"}},
      {std::regex("cuda\\.h"), {"kernels/launch/", "tuner/measure/"}},
      {std::regex("cupti.*"), {"tuner/measure/"}},
      {std::regex("google/protobuf/.*"), {"service/", "tuner/worker"}},
  };
  for (const Include& include : Includes()) {
    for (const auto& [pattern, folders] : homes) {
      if (!std::regex_match(include.what, pattern)) continue;
      bool home = false;
      for (const std::string& folder : folders) {
        home = home || StartsWith(include.from, folder);
      }
      EXPECT_TRUE(home) << include.from << " includes " << include.what;
    }
  }
}

TEST(LayeringTest, DeviceCodeIncludesOnlyDeviceCode) {
  int files = 0;
  for (const Include& include : Includes()) {
    if (!StartsWith(include.from, "kernels/device/")) continue;
    ++files;
    EXPECT_TRUE(StartsWith(include.what, "kernels/device/"))
        << include.from << " includes " << include.what;
  }
  EXPECT_GT(files, 5);
}

// Inline PTX lives in one place, so that an instruction has one wrapper.
TEST(LayeringTest, InlinePtxLivesInThePtxFolder) {
  const fs::path root = HONE_SOURCE_DIR;
  const std::regex pattern("\\basm\\b");
  for (const auto& entry :
       fs::recursive_directory_iterator(root / "kernels/device")) {
    const std::string path = fs::relative(entry.path(), root).string();
    if (!entry.is_regular_file() || StartsWith(path, "kernels/device/ptx/")) {
      continue;
    }
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_FALSE(std::regex_search(text.str(), pattern)) << path;
  }
}

TEST(LayeringTest, TopLevelHoldsOnlyWhatTheDesignNames) {
  const std::set<std::string> allowed = {
      "tuner",     "kernels", "service",    "proto",
      "db",        "tests",   "dashboards", "CMakeLists.txt",
      "README.md", "LICENSE", "build",      "CMakePresets.json"};
  for (const auto& entry : fs::directory_iterator(HONE_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.') continue;
    EXPECT_TRUE(allowed.count(name)) << name;
  }
}

}  // namespace
}  // namespace hone
