// A folder that goes away with its test. Short, since Unix sockets live in it.
#ifndef HONE_TESTS_SERVICE_SUPPORT_TEMP_FOLDER_H_
#define HONE_TESTS_SERVICE_SUPPORT_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace hone {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = "/tmp/hone-test-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_SUPPORT_TEMP_FOLDER_H_
