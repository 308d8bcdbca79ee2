#include "kernels/jit/codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("malformed ", what));
}

}  // namespace

void ByteWriter::PutInt(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) {
    bytes_.push_back(static_cast<char>(bits >> shift));
  }
}

void ByteWriter::PutBytes(absl::string_view bytes) {
  PutInt(static_cast<int64_t>(bytes.size()));
  bytes_.append(bytes.data(), bytes.size());
}

void ByteWriter::PutList(const std::vector<std::string>& list) {
  PutInt(static_cast<int64_t>(list.size()));
  for (const std::string& item : list) PutBytes(item);
}

absl::string_view ByteReader::Take(uint64_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const absl::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

int64_t ByteReader::Int() {
  uint64_t bits = 0;
  int shift = 0;
  for (const char byte : Take(8)) {
    bits |= uint64_t{static_cast<uint8_t>(byte)} << shift;
    shift += 8;
  }
  return static_cast<int64_t>(bits);
}

std::string ByteReader::Bytes() {
  const auto size = static_cast<uint64_t>(Int());
  return std::string(Take(size));
}

std::vector<std::string> ByteReader::List() {
  std::vector<std::string> list;
  const auto size = static_cast<uint64_t>(Int());
  for (uint64_t i = 0; i < size && ok_; ++i) list.push_back(Bytes());
  return list;
}

std::string EncodeRequest(const CompileRequest& request) {
  ByteWriter w;
  w.PutBytes(request.name);
  w.PutBytes(request.source);
  w.PutBytes(request.arch);
  w.PutList(request.options);
  return w.Take();
}

absl::StatusOr<CompileRequest> DecodeRequest(absl::string_view bytes) {
  ByteReader r(bytes);
  CompileRequest request;
  request.name = r.Bytes();
  request.source = r.Bytes();
  request.arch = r.Bytes();
  request.options = r.List();
  if (!r.Done()) return Malformed("compile request");
  return request;
}

std::string EncodeResult(const CompileResult& result) {
  ByteWriter w;
  w.PutInt(static_cast<int64_t>(result.outcome));
  w.PutBytes(result.log);
  w.PutBytes(result.cubin);
  w.PutBytes(result.ptx);
  w.PutInt(result.resources.registers);
  w.PutInt(result.resources.static_smem_bytes);
  w.PutInt(result.resources.stack_bytes);
  w.PutInt(result.resources.spill_store_bytes);
  w.PutInt(result.resources.spill_load_bytes);
  w.PutList(result.warnings);
  w.PutInt(result.compile_ms);
  w.PutBytes(result.nvrtc_version);
  return w.Take();
}

absl::StatusOr<CompileResult> DecodeResult(absl::string_view bytes) {
  ByteReader r(bytes);
  CompileResult result;
  const int64_t outcome = r.Int();
  if (outcome < 0 || outcome > static_cast<int64_t>(CompileOutcome::kKilled)) {
    return Malformed("compile result");
  }
  result.outcome = static_cast<CompileOutcome>(outcome);
  result.log = r.Bytes();
  result.cubin = r.Bytes();
  result.ptx = r.Bytes();
  result.resources.registers = static_cast<int32_t>(r.Int());
  result.resources.static_smem_bytes = static_cast<int32_t>(r.Int());
  result.resources.stack_bytes = static_cast<int32_t>(r.Int());
  result.resources.spill_store_bytes = static_cast<int32_t>(r.Int());
  result.resources.spill_load_bytes = static_cast<int32_t>(r.Int());
  result.warnings = r.List();
  result.compile_ms = r.Int();
  result.nvrtc_version = r.Bytes();
  if (!r.Done()) return Malformed("compile result");
  return result;
}

std::string EncodeStatusOrResult(const absl::StatusOr<CompileResult>& result) {
  ByteWriter w;
  w.PutInt(result.status().raw_code());
  if (result.ok()) {
    w.PutBytes(EncodeResult(*result));
  } else {
    w.PutBytes(result.status().message());
  }
  return w.Take();
}

absl::StatusOr<CompileResult> DecodeStatusOrResult(absl::string_view bytes) {
  ByteReader r(bytes);
  const int64_t code = r.Int();
  const std::string body = r.Bytes();
  if (!r.Done()) return Malformed("compile answer");
  if (code == 0) return DecodeResult(body);
  return absl::Status(static_cast<absl::StatusCode>(code), body);
}

}  // namespace hone
