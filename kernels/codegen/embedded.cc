#include "kernels/codegen/embedded.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/config/sha256.h"
#include "kernels/config/source_text.h"

namespace hone {

namespace embedded_internal {
// Defined in the generated file.
const SourceFiles& DeviceFiles();
}  // namespace embedded_internal

namespace {

constexpr absl::string_view kRoot = "kernels/device/";

void AppendFlattened(absl::string_view path,
                     std::vector<absl::string_view>& done, std::string& out) {
  if (std::find(done.begin(), done.end(), path) != done.end()) return;
  done.push_back(path);
  std::string own;
  for (absl::string_view line :
       absl::StrSplit(EmbeddedDeviceSource(path), '\n')) {
    absl::string_view include = line;
    if (absl::ConsumePrefix(&include, "#include \"") &&
        absl::ConsumePrefix(&include, kRoot) &&
        absl::ConsumeSuffix(&include, "\"")) {
      AppendFlattened(include, done, out);
    } else {
      absl::StrAppend(&own, line, "\n");
    }
  }
  absl::StrAppend(&out, own);
}

}  // namespace

absl::string_view EmbeddedDeviceSource(absl::string_view path) {
  for (const auto& [name, text] : embedded_internal::DeviceFiles()) {
    absl::string_view relative = name;
    if (absl::ConsumePrefix(&relative, kRoot) && relative == path) return text;
  }
  return "";
}

std::string FlattenedDeviceSource(
    std::initializer_list<absl::string_view> paths) {
  std::vector<absl::string_view> done;
  std::string out;
  for (const absl::string_view path : paths) AppendFlattened(path, done, out);
  return out;
}

std::string SourceHash(const SourceFiles& files) {
  std::string all;
  for (const auto& [path, source] : files) {
    const std::string text = CanonicalSource(source);
    absl::StrAppend(&all, path.size(), ":", path, text.size(), ":", text);
  }
  return Sha256Hex(all);
}

std::string SourceClosureHash() {
  return SourceHash(embedded_internal::DeviceFiles());
}

}  // namespace hone
