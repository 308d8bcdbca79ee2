// The text of CUDA C++ sources reduced to what a compiler sees in it, for
// hashes that comments and formatting must not change.
#ifndef HONE_KERNELS_CONFIG_SOURCE_TEXT_H_
#define HONE_KERNELS_CONFIG_SOURCE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// The preprocessing tokens of `source` (C++17, [lex.pptoken]), one space
// between two: the same for texts that differ in comments, white space and line
// continuations only, and different when a token differs. A directive keeps a
// line of its own, and the places of its white space, which count in a #define.
// Literals are kept as they are. What is no valid source has a canonical text
// too.
std::string CanonicalSource(absl::string_view source);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_SOURCE_TEXT_H_
