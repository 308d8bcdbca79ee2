// The device sources that are embedded in the binary.
#ifndef HONE_KERNELS_CODEGEN_EMBEDDED_H_
#define HONE_KERNELS_CODEGEN_EMBEDDED_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

// The text of kernels/device/<path>, e.g. "memory/packed_layout.cuh"; empty
// when there is no such file.
absl::string_view EmbeddedDeviceSource(absl::string_view path);

// The files kernels/device/<path>, each preceded by everything it includes,
// each file once and without its include lines: a unit that compiles without an
// include path.
std::string FlattenedDeviceSource(
    std::initializer_list<absl::string_view> paths);

// Paths and texts.
using SourceFiles =
    std::vector<std::pair<absl::string_view, absl::string_view>>;

// SHA-256 over the paths and the canonical texts (CanonicalSource()) of files,
// in hex: comments and formatting do not count.
std::string SourceHash(const SourceFiles& files);

// That of all embedded device sources. What was tuned with others is outdated.
std::string SourceClosureHash();

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_EMBEDDED_H_
