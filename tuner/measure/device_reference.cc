#include "tuner/measure/device_reference.h"

#include <algorithm>
#include <utility>

#include "kernels/config/status_macros.h"
#include "kernels/reference/reference.h"
#include "tuner/measure/device/generator.cuh"

namespace hone {
namespace {

constexpr int64_t kAllRows = 512;
constexpr int64_t kStride = 16;
constexpr int64_t kLastRows = 64;
constexpr int64_t kChunkRows = 64;

}  // namespace

std::vector<int64_t> CheckedRows(int64_t m, uint64_t seed) {
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < std::min(m, kAllRows); ++row) rows.push_back(row);
  const int64_t last = std::max(kAllRows, m - kLastRows);
  for (int64_t begin = kAllRows; begin < last; begin += kStride) {
    const int64_t pick =
        begin + static_cast<int64_t>(generator::Mix(seed + begin) % kStride);
    if (pick < last) rows.push_back(pick);
  }
  for (int64_t row = last; row < m; ++row) rows.push_back(row);
  return rows;
}

DeviceReference::DeviceReference(const HelperKernels& helpers,
                                 const Problem& problem,
                                 const Operands& operands, int64_t max_m,
                                 uint64_t seed)
    : helpers_(helpers),
      problem_(problem),
      operands_(operands),
      seed_(seed),
      usual_rows_(CheckedRows(max_m, seed)) {}

absl::Status DeviceReference::Compute(const std::vector<int64_t>& rows,
                                      StreamHandle stream) {
  const LayerConfig& layer = problem_.layer;
  const auto elements = rows.size() * static_cast<uint64_t>(layer.n);
  Chunk chunk;
  HONE_ASSIGN_OR_RETURN(chunk.reference,
                        DeviceBuffer::Allocate(elements * sizeof(double)));
  HONE_ASSIGN_OR_RETURN(chunk.magnitude,
                        DeviceBuffer::Allocate(elements * sizeof(float)));
  std::vector<int32_t> indexes(rows.begin(), rows.end());
  HONE_ASSIGN_OR_RETURN(
      const DeviceBuffer list,
      DeviceBuffer::Allocate(indexes.size() * sizeof(int32_t)));
  HONE_RETURN_IF_ERROR(
      CopyToDevice(list.ptr(), indexes.data(), list.bytes(), stream));
  const Dim3 grid = {static_cast<uint32_t>((layer.n + 63) / 64), 1, 1};
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers_.reference, grid, 256, stream, operands_.a(),
      operands_.RowScales(), operands_.b(), operands_.scales(),
      operands_.bias(), list.ptr(), static_cast<int32_t>(rows.size()),
      static_cast<int32_t>(layer.n), static_cast<int32_t>(layer.k),
      GeneratorFormat(layer), GeneratorType(layer.a), GeneratorType(layer.c),
      MagnitudeFloor(layer), chunk.reference.ptr(), chunk.magnitude.ptr()));
  HONE_RETURN_IF_ERROR(Synchronize(stream));
  for (size_t i = 0; i < rows.size(); ++i) {
    places_[rows[i]] = {chunks_.size(), static_cast<int64_t>(i)};
  }
  chunks_.push_back(std::move(chunk));
  return absl::OkStatus();
}

absl::StatusOr<const DeviceReference::Rows*> DeviceReference::RowsFor(
    int64_t m, StreamHandle stream) {
  if (const auto found = by_m_.find(m); found != by_m_.end()) {
    return &found->second;
  }
  Rows result;
  result.rows = CheckedRows(m, seed_);
  std::vector<int64_t> unusual;
  for (const int64_t row : result.rows) {
    if (places_.contains(row)) continue;
    const auto usual =
        std::lower_bound(usual_rows_.begin(), usual_rows_.end(), row);
    if (usual == usual_rows_.end() || *usual != row) {
      unusual.push_back(row);
      continue;
    }
    const auto begin = usual - (usual - usual_rows_.begin()) % kChunkRows;
    const auto end = usual_rows_.end() - begin > kChunkRows ? begin + kChunkRows
                                                            : usual_rows_.end();
    HONE_RETURN_IF_ERROR(Compute({begin, end}, stream));
  }
  // At most kLastRows, so one chunk.
  if (!unusual.empty()) HONE_RETURN_IF_ERROR(Compute(unusual, stream));

  const auto n = static_cast<uint64_t>(problem_.layer.n);
  std::vector<RowReference> table;
  for (const int64_t row : result.rows) {
    const Place& place = places_.at(row);
    const Chunk& chunk = chunks_[place.chunk];
    const uint64_t offset = static_cast<uint64_t>(place.index) * n;
    table.push_back({static_cast<uint64_t>(row),
                     chunk.reference.ptr() + offset * sizeof(double),
                     chunk.magnitude.ptr() + offset * sizeof(float)});
  }
  HONE_ASSIGN_OR_RETURN(result.table, DeviceBuffer::Allocate(
                                          table.size() * sizeof(RowReference)));
  HONE_RETURN_IF_ERROR(CopyToDevice(result.table.ptr(), table.data(),
                                    result.table.bytes(), stream));
  HONE_RETURN_IF_ERROR(Synchronize(stream));
  return &by_m_.emplace(m, std::move(result)).first->second;
}

std::vector<const DeviceBuffer*> DeviceReference::Buffers() const {
  std::vector<const DeviceBuffer*> buffers;
  for (const Chunk& chunk : chunks_) {
    buffers.push_back(&chunk.reference);
    buffers.push_back(&chunk.magnitude);
  }
  for (const auto& [m, rows] : by_m_) buffers.push_back(&rows.table);
  return buffers;
}

}  // namespace hone
