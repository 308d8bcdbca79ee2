// Device memory as a kernel sees it: every buffer in a 1 TiB range of its own,
// with exact byte bounds.
#ifndef HONE_KERNELS_EMULATOR_GLOBAL_MEMORY_H_
#define HONE_KERNELS_EMULATOR_GLOBAL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace hone::emulator {

// Shared by the host threads of one launch. Different CTAs may use different
// bytes at once; atomics and strong accesses take atomic_mutex().
class GlobalMemory {
 public:
  // Adds a buffer and returns its device address. With initialized_bytes <
  // bytes, reading later bytes before they are written is an error.
  uint64_t Add(absl::string_view name, std::byte* data, uint64_t bytes,
               bool writable, uint64_t initialized_bytes,
               uint64_t address_in_range, bool in_flight = false);

  // The host bytes of [address, address + bytes), or nullptr: Explain() says
  // why. A write marks them initialized.
  std::byte* ForRead(uint64_t address, uint32_t bytes);
  std::byte* ForWrite(uint64_t address, uint32_t bytes);

  // Of an address in bounds: whether the kernel may write there, and
  // "byte 12 of buffer C".
  bool IsWritable(uint64_t address) const;
  std::string Place(uint64_t address) const;

  // The name of the buffer around an address that is in bounds, if the launch
  // before this one may still use it; else nullptr.
  const std::string* InFlight(uint64_t address) const;

  // Why an access is not allowed, in words.
  std::string Explain(uint64_t address, uint32_t bytes, bool write) const;

  absl::Mutex& atomic_mutex() { return atomic_mutex_; }

 private:
  struct Buffer {
    std::string name;
    uint64_t base = 0;
    uint64_t bytes = 0;
    std::byte* data = nullptr;
    bool writable = false;
    bool in_flight = false;
    std::vector<uint8_t> initialized;  // per byte; empty: all are
  };
  Buffer* Find(uint64_t address, uint32_t bytes);

  std::vector<Buffer> buffers_;
  absl::Mutex atomic_mutex_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_GLOBAL_MEMORY_H_
