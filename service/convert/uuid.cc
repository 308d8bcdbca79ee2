#include "service/convert/uuid.h"

#include <cstdint>
#include <random>

#include "absl/strings/str_format.h"

namespace hone {

std::string NewUuid() {
  std::random_device random;
  uint32_t words[4];
  for (uint32_t& word : words) word = random();
  // Version 4, variant 1.
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%04x%08x", words[0],
                         words[1] >> 16, words[1] & 0xfff,
                         0x8000 | (words[2] >> 16 & 0x3fff), words[2] & 0xffff,
                         words[3]);
}

}  // namespace hone
