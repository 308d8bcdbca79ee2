#include "kernels/emulator/global_memory.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/program.h"

namespace hone::emulator {

uint64_t GlobalMemory::Add(absl::string_view name, std::byte* data,
                           uint64_t bytes, bool writable,
                           uint64_t initialized_bytes,
                           uint64_t address_in_range, bool in_flight) {
  Buffer buffer;
  buffer.name = std::string(name);
  buffer.base =
      (uint64_t{buffers_.size() + 1} << kBufferShift) + address_in_range;
  buffer.bytes = bytes;
  buffer.data = data;
  buffer.writable = writable;
  buffer.in_flight = in_flight;
  if (initialized_bytes < bytes) {
    buffer.initialized.assign(bytes, 0);
    std::memset(buffer.initialized.data(), 1, initialized_bytes);
  }
  buffers_.push_back(std::move(buffer));
  return buffers_.back().base;
}

GlobalMemory::Buffer* GlobalMemory::Find(uint64_t address, uint32_t bytes) {
  const uint64_t index = (address >> kBufferShift) - 1;
  if (index >= buffers_.size()) return nullptr;
  Buffer& buffer = buffers_[index];
  const uint64_t offset = address - buffer.base;
  if (offset >= buffer.bytes || buffer.bytes - offset < bytes) return nullptr;
  return &buffer;
}

std::byte* GlobalMemory::ForRead(uint64_t address, uint32_t bytes) {
  Buffer* buffer = Find(address, bytes);
  if (buffer == nullptr) return nullptr;
  const uint64_t offset = address - buffer->base;
  if (!buffer->initialized.empty()) {
    for (uint32_t i = 0; i < bytes; ++i) {
      if (buffer->initialized[offset + i] == 0) return nullptr;
    }
  }
  return buffer->data + offset;
}

std::byte* GlobalMemory::ForWrite(uint64_t address, uint32_t bytes) {
  Buffer* buffer = Find(address, bytes);
  if (buffer == nullptr || !buffer->writable) return nullptr;
  const uint64_t offset = address - buffer->base;
  if (!buffer->initialized.empty()) {
    std::memset(&buffer->initialized[offset], 1, bytes);
  }
  return buffer->data + offset;
}

bool GlobalMemory::IsWritable(uint64_t address) const {
  const uint64_t index = (address >> kBufferShift) - 1;
  return index < buffers_.size() && buffers_[index].writable;
}

std::string GlobalMemory::Place(uint64_t address) const {
  const Buffer& buffer = buffers_[(address >> kBufferShift) - 1];
  return absl::StrCat("byte ", address - buffer.base, " of buffer ",
                      buffer.name);
}

const std::string* GlobalMemory::InFlight(uint64_t address) const {
  const uint64_t index = (address >> kBufferShift) - 1;
  if (index >= buffers_.size() || !buffers_[index].in_flight) return nullptr;
  return &buffers_[index].name;
}

std::string GlobalMemory::Explain(uint64_t address, uint32_t bytes,
                                  bool write) const {
  const absl::string_view verb = write ? "write" : "read";
  const uint64_t index = (address >> kBufferShift) - 1;
  if (index >= buffers_.size()) {
    return absl::StrFormat(
        "out of bounds: %s of %d bytes at 0x%x, which is in no bound buffer",
        verb, bytes, address);
  }
  const Buffer& buffer = buffers_[index];
  const int64_t offset = static_cast<int64_t>(address - buffer.base);
  if (offset < 0 || static_cast<uint64_t>(offset) + bytes > buffer.bytes) {
    return absl::StrFormat(
        "out of bounds: %s of %d bytes at byte %d of buffer %s, which has %d "
        "bytes",
        verb, bytes, offset, buffer.name, buffer.bytes);
  }
  if (write) {
    return absl::StrFormat(
        "write of %d bytes at byte %d of buffer %s, which is read-only", bytes,
        offset, buffer.name);
  }
  int64_t first = offset;
  while (!buffer.initialized.empty() && buffer.initialized[first] != 0) {
    ++first;
  }
  return absl::StrFormat(
      "uninitialized: read of %d bytes at byte %d of buffer %s, of which byte "
      "%d was never written",
      bytes, offset, buffer.name, first);
}

}  // namespace hone::emulator
