// Requests and results as bytes: in cache entries and between a pool and its
// children. Private to kernels/jit.
#ifndef HONE_KERNELS_JIT_CODEC_H_
#define HONE_KERNELS_JIT_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/jit/compile_result.h"

namespace hone {

// Appends fixed-width little-endian integers and length-prefixed bytes.
class ByteWriter {
 public:
  void PutInt(int64_t value);
  void PutBytes(absl::string_view bytes);
  void PutList(const std::vector<std::string>& list);
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads them back. After the first field that is not there, everything reads
// as zero or empty and ok() is false.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : rest_(bytes) {}
  int64_t Int();
  std::string Bytes();
  std::vector<std::string> List();
  bool ok() const { return ok_; }
  // Everything was read, and nothing was missing.
  bool Done() const { return ok_ && rest_.empty(); }

 private:
  absl::string_view Take(uint64_t size);

  absl::string_view rest_;
  bool ok_ = true;
};

std::string EncodeRequest(const CompileRequest& request);
std::string EncodeResult(const CompileResult& result);
// DataLoss unless `bytes` is exactly what the encoder makes.
absl::StatusOr<CompileRequest> DecodeRequest(absl::string_view bytes);
absl::StatusOr<CompileResult> DecodeResult(absl::string_view bytes);

// A compile's outcome including Hone's own failures.
std::string EncodeStatusOrResult(const absl::StatusOr<CompileResult>& result);
// DataLoss as above; otherwise the encoded value, its status included.
absl::StatusOr<CompileResult> DecodeStatusOrResult(absl::string_view bytes);

}  // namespace hone

#endif  // HONE_KERNELS_JIT_CODEC_H_
