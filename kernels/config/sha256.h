// SHA-256, in lower-case hex. Used for every content address and key.
#ifndef HONE_KERNELS_CONFIG_SHA256_H_
#define HONE_KERNELS_CONFIG_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

namespace hone {

// 64 hex digits.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_SHA256_H_
