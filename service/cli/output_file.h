// Files that commands write for people.
#ifndef HONE_SERVICE_CLI_OUTPUT_FILE_H_
#define HONE_SERVICE_CLI_OUTPUT_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hone {

// The file appears whole or not at all. Usage errors name `flag`, which named
// the file.
absl::Status WriteFile(absl::string_view flag, const std::string& path,
                       absl::string_view bytes);

// Writes an SVG image to `path`, or where that ends in ".png" the same at twice
// its size as a PNG, by rsvg-convert. `getenv` finds that in PATH. Usage errors
// as above, and when the path ends in neither; FailedPrecondition says what to
// install when rsvg-convert is not there, or what it said.
absl::Status WriteImage(absl::string_view flag, const std::string& path,
                        absl::string_view svg,
                        const std::function<const char*(const char*)>& getenv);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_OUTPUT_FILE_H_
