// The device sources that are embedded in the binary.
#ifndef HONE_KERNELS_CODEGEN_EMBEDDED_H_
#define HONE_KERNELS_CODEGEN_EMBEDDED_H_

#include <initializer_list>
#include <string>

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

// SHA-256 over the names and texts of all embedded device sources, in hex.
std::string SourceClosureHash();

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_EMBEDDED_H_
