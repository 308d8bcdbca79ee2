// Runs whole commands, in this process, against a TuningService with scripted
// answers.
#ifndef HONE_TESTS_SERVICE_CLI_COMMAND_FIXTURE_H_
#define HONE_TESTS_SERVICE_CLI_COMMAND_FIXTURE_H_

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "service/cli/command.h"
#include "tests/service/cli/fake_service.h"

namespace hone {

struct RunResult {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs hone in this process, against the daemon "a" if a test started it.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    char folder[] = "/tmp/hone-cli-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~CommandTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return (folder_ / name).string();
  }

  std::unique_ptr<FakeService> Start(const std::string& name = "a",
                                     absl::string_view device = "h200") {
    return std::make_unique<FakeService>(Path(name), device);
  }

  // HONE_ADDRESS names the daemon "a".
  RunResult Run(const std::vector<std::string>& args) {
    const std::string address = Path("a");
    std::ostringstream out;
    std::ostringstream err;
    Environment env{out,
                    err,
                    /*err_is_terminal=*/false,
                    [&](const char* name) {
                      const auto it = variables_.find(name);
                      if (it != variables_.end()) return it->second.c_str();
                      return std::string(name) == "HONE_ADDRESS"
                                 ? address.c_str()
                                 : nullptr;
                    },
                    interrupts_,
                    Path("bin/hone"),
                    terminal_,
                    terminal_};
    RunResult result;
    result.code = RunHone(args, env);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

  std::string WriteLayers() {
    const std::string path = Path("layers.json");
    std::ofstream(path) << R"({"model": "Tiny", "source": "here",
      "quantization": {"a": "float16", "b": "int4", "group": 128},
      "layers": [{"name": "qkv", "n": 1024, "k": 512, "split": "n"},
                 {"name": "o", "n": 512, "k": 1024, "split": "k"},
                 {"name": "up", "n": 2048, "k": 512, "split": "n"},
                 {"name": "down", "n": 512, "k": 2048, "split": "k"}]})";
    return path;
  }

  std::filesystem::path folder_;
  std::atomic<int> interrupts_ = 0;
  std::map<std::string, std::string> variables_;
  // A terminal's descriptor, for commands that draw on one.
  int terminal_ = -1;
};

inline google::protobuf::Struct ParseJson(const std::string& text) {
  google::protobuf::Struct value;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &value).ok())
      << text;
  return value;
}

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_CLI_COMMAND_FIXTURE_H_
