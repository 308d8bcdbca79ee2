#include "kernels/pack/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/device/memory/packed_layout.cuh"

namespace hone {
namespace {

absl::Status CheckSize(absl::string_view what, size_t got, int64_t want,
                       absl::string_view shape) {
  if (got == static_cast<size_t>(want)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " has ", got, " elements; it must have ", want, ", ", shape));
}

// Where the bits of a block's codes lie: [16 rows][64 columns][b] places.
class BlockMap {
 public:
  explicit BlockMap(const WeightLayout& weights) : bits_(weights.bits) {
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < layout::kUnitColumns; ++column) {
        for (int j = 0; j < bits_; ++j) {
          places_.push_back(static_cast<uint16_t>(layout::CodeBitOffset(
              row, column, layout::kUnitColumns, weights.width, bits_,
              weights.code_layout, j)));
        }
      }
    }
  }
  int words() const { return 32 * bits_; }

  void Set(uint32_t* words, int64_t row, int64_t column, uint32_t code) const {
    const uint16_t* place = At(row, column);
    for (int j = 0; j < bits_; ++j) {
      words[place[j] / 32] |= (code >> j & 1) << (place[j] % 32);
    }
  }
  uint32_t Get(const uint32_t* words, int64_t row, int64_t column) const {
    const uint16_t* place = At(row, column);
    uint32_t code = 0;
    for (int j = 0; j < bits_; ++j) {
      code |= (words[place[j] / 32] >> (place[j] % 32) & 1) << j;
    }
    return code;
  }

 private:
  const uint16_t* At(int64_t row, int64_t column) const {
    return places_.data() + (row * layout::kUnitColumns + column) * bits_;
  }
  int bits_;
  std::vector<uint16_t> places_;
};

// Calls block(n0, k0, word) for each block of 16 rows x 64 columns, with its
// first word, in the order in which they are packed.
template <typename Block>
void ForEachBlock(const LayerConfig& layer, int64_t words, Block block) {
  int64_t word = 0;
  for (int64_t n0 = 0; n0 < layer.n; n0 += layout::kUnitRows) {
    for (int64_t k0 = 0; k0 < layer.k; k0 += layout::kUnitColumns) {
      for (int64_t row = 0; row < layout::kUnitRows; row += 16) {
        block(n0 + row, k0, word);
        word += words;
      }
    }
  }
}

// First bit of a code that is kept in rows.
int64_t RowBit(const LayerConfig& layer, int64_t n, int64_t k) {
  return layout::CodeBitOffset(n, k, layer.k, layer.a.bits(), layer.b.bits(),
                               layout::CodeLayout::kRows, 0);
}

void PackCodes(const LayerConfig& layer, absl::Span<const uint8_t> codes,
               std::vector<std::byte>& b) {
  const WeightLayout w = WeightLayoutOf(layer);
  b.resize(w.weight_bytes);
  if (w.direct()) {
    for (int64_t n = 0; n < layer.n; ++n) {
      for (int64_t k = 0; k < layer.k; ++k) {
        const int64_t bit = RowBit(layer, n, k);
        b[bit / 8] |= static_cast<std::byte>(codes[n * layer.k + k] << bit % 8);
      }
    }
    return;
  }
  const uint32_t stored_xor = StoredXor(layer);
  const BlockMap map(w);
  std::vector<uint32_t> words(map.words());
  ForEachBlock(layer, map.words(), [&](int64_t n0, int64_t k0, int64_t at) {
    std::fill(words.begin(), words.end(), 0);
    for (int64_t row = 0; row < 16; ++row) {
      for (int64_t column = 0; column < layout::kUnitColumns; ++column) {
        const int64_t n = n0 + row;
        const int64_t k = k0 + column;
        // Code 0 is the value 0, also of the padding.
        const uint32_t code =
            n < layer.n && k < layer.k ? codes[n * layer.k + k] : 0;
        map.Set(words.data(), row, column, code ^ stored_xor);
      }
    }
    std::memcpy(b.data() + at * 4, words.data(), words.size() * 4);
  });
}

void UnpackCodes(const LayerConfig& layer, absl::Span<const std::byte> b,
                 std::vector<uint8_t>& codes) {
  const WeightLayout w = WeightLayoutOf(layer);
  codes.resize(layer.n * layer.k);
  if (w.direct()) {
    for (int64_t n = 0; n < layer.n; ++n) {
      for (int64_t k = 0; k < layer.k; ++k) {
        const int64_t bit = RowBit(layer, n, k);
        codes[n * layer.k + k] = static_cast<uint8_t>(
            static_cast<uint32_t>(b[bit / 8]) >> bit % 8 & ((1 << w.bits) - 1));
      }
    }
    return;
  }
  const uint32_t stored_xor = StoredXor(layer);
  const BlockMap map(w);
  std::vector<uint32_t> words(map.words());
  ForEachBlock(layer, map.words(), [&](int64_t n0, int64_t k0, int64_t at) {
    std::memcpy(words.data(), b.data() + at * 4, words.size() * 4);
    for (int64_t n = n0; n < std::min(n0 + 16, layer.n); ++n) {
      for (int64_t k = k0; k < std::min(k0 + layout::kUnitColumns, layer.k);
           ++k) {
        codes[n * layer.k + k] = static_cast<uint8_t>(
            map.Get(words.data(), n - n0, k - k0) ^ stored_xor);
      }
    }
  });
}

// Fields of 4 bits and more within the entries.
void PutField(std::byte* entry, int index, int bits, uint32_t value) {
  if (bits == 4) {
    std::byte& byte = entry[index / 2];
    const int shift = index % 2 * 4;
    byte = (byte & ~(std::byte{15} << shift)) |
           (static_cast<std::byte>(value) << shift);
    return;
  }
  std::memcpy(entry + index * bits / 8, &value, bits / 8);
}
uint32_t GetField(const std::byte* entry, int index, int bits) {
  if (bits == 4) {
    return static_cast<uint32_t>(entry[index / 2]) >> (index % 2 * 4) & 15;
  }
  uint32_t value = 0;
  std::memcpy(&value, entry + index * bits / 8, bits / 8);
  return value;
}

// Scale and zero point of some weights.
struct Affine {
  float scale = 1;
  float zero = 0;
  uint32_t scale_code = 0;
  uint16_t zero_code = 0;
};

class Quantizer {
 public:
  explicit Quantizer(const LayerConfig& layer)
      : layer_(layer),
        zero_(layer.zero_point != ZeroPoint::kNone),
        divisor_(static_cast<float>(QuantizationDivisor(layer))) {}

  // The extent of weights [begin, end) of a row, which the scale divides:
  // largest magnitude, or range where there are zero points.
  struct Extent {
    float low = 0;
    float high = 0;
    void Merge(const Extent& other) {
      low = std::min(low, other.low);
      high = std::max(high, other.high);
    }
  };
  static Extent ExtentOf(absl::Span<const float> weights) {
    Extent extent;
    for (const float w : weights) {
      extent.low = std::min(extent.low, w);
      extent.high = std::max(extent.high, w);
    }
    return extent;
  }
  // Before it is rounded to its type.
  float IdealScale(const Extent& e) const {
    const float extent =
        zero_ ? e.high - e.low : std::max(0.0f - e.low, e.high);
    return extent / divisor_;
  }

  // `tensor` is 1 unless the layer's scales are relative to a tensor scale.
  Affine Choose(const Extent& extent, float tensor) const {
    Affine a;
    a.scale_code = EncodeScale(IdealScale(extent) / tensor);
    a.scale =
        static_cast<float>(layer_.b_scale_type.Decode(a.scale_code)) * tensor;
    if (a.scale == 0) return Nothing(tensor);
    ChooseZero(extent, a);
    return a;
  }
  // With a scale already chosen.
  void ChooseZero(const Extent& extent, Affine& a) const {
    if (layer_.zero_point == ZeroPoint::kInteger) {
      a.zero = std::clamp(std::nearbyintf((0.0f - extent.low) / a.scale), 0.0f,
                          static_cast<float>(layer_.b.MaxFinite()));
      a.zero_code = static_cast<uint16_t>(a.zero);
    } else if (layer_.zero_point == ZeroPoint::kFloat) {
      a.zero_code =
          static_cast<uint16_t>(layer_.a.Encode((0.0f - extent.low) / a.scale));
      a.zero = static_cast<float>(layer_.a.Decode(a.zero_code));
    }
  }
  // All weights zero.
  Affine Nothing(float tensor) const {
    Affine a;
    a.scale_code = layer_.b_scale_type.Encode(1);
    a.scale = tensor;
    return a;
  }

  uint8_t Code(float weight, const Affine& a) const {
    float q = weight / a.scale;
    if (zero_) q = q + a.zero;
    if (layer_.b.kind() == DataType::Kind::kInt && layer_.b.bits() > 1) {
      q = std::max(q, -divisor_);
    } else if (layer_.b.is_float()) {
      q = std::clamp(q, -divisor_, divisor_);
    }
    return static_cast<uint8_t>(layer_.b.Encode(q));
  }

 private:
  uint32_t EncodeScale(float ideal) const {
    const DataType type = layer_.b_scale_type;
    if (!(ideal > 0)) return type.Encode(1);
    const uint32_t code = type.Encode(ideal);
    return type.is_e8m0() && code < 254 && type.Decode(code) < ideal ? code + 1
                                                                     : code;
  }

  const LayerConfig& layer_;
  bool zero_;
  float divisor_;
};

absl::Status CheckFinite(const LayerConfig& layer,
                         absl::Span<const float> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("weights[", i / layer.k, "][", i % layer.k,
                       "] is not finite; quantization needs finite weights"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCodes(const LayerConfig& layer,
                        const QuantizedWeights& weights) {
  const WeightLayout w = WeightLayoutOf(layer);
  HONE_RETURN_IF_ERROR(
      CheckSize("codes", weights.codes.size(), layer.n * layer.k, "N x K"));
  HONE_RETURN_IF_ERROR(CheckSize(
      "scales", weights.scales.size(),
      w.has_scales() ? ScaleRows(layer) * w.groups : 0, "rows x groups"));
  HONE_RETURN_IF_ERROR(CheckSize("zeros", weights.zeros.size(),
                                 w.zero_bits != 0 ? layer.n * w.groups : 0,
                                 "N x groups"));
  std::vector<bool> legal;
  for (const double value : layer.b.CodeTable()) {
    legal.push_back(IsFiniteWeight(layer, value));
  }
  for (size_t i = 0; i < weights.codes.size(); ++i) {
    const uint8_t code = weights.codes[i];
    if (code < legal.size() && legal[code]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "codes[", i / layer.k, "][", i % layer.k, "] is ", code, "; it must be",
        " a code of ", layer.b.ToString(), " below ", legal.size(),
        " whose value is finite in ", layer.a.ToString()));
  }
  for (size_t i = 0; i < weights.scales.size(); ++i) {
    if (std::isfinite(layer.b_scale_type.Decode(weights.scales[i]))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "scales[", i / w.groups, "][", i % w.groups, "] is not finite"));
  }
  for (size_t i = 0; i < weights.zeros.size(); ++i) {
    const bool fits = layer.zero_point == ZeroPoint::kInteger
                          ? weights.zeros[i] <= layer.b.MaxFinite()
                          : std::isfinite(layer.a.Decode(weights.zeros[i]));
    if (fits) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("zeros[", i / w.groups, "][", i % w.groups, "] is ",
                     weights.zeros[i], "; it must be ",
                     layer.zero_point == ZeroPoint::kInteger
                         ? absl::StrCat("at most ", layer.b.MaxFinite())
                         : absl::StrCat("finite as ", layer.a.ToString())));
  }
  if (!std::isfinite(weights.tensor_scale)) {
    return absl::InvalidArgumentError("tensor_scale is not finite");
  }
  return absl::OkStatus();
}

// Each channel's least scale code of the groups that have weights other than
// zero, to `bases`. FailedPrecondition where the largest is too far from it.
absl::Status PackWindow(const LayerConfig& layer,
                        const QuantizedWeights& weights,
                        absl::Span<std::byte> bases) {
  const WeightLayout w = WeightLayoutOf(layer);
  const auto one = static_cast<std::byte>(layer.b_scale_type.Encode(1));
  std::fill(bases.begin(), bases.end(), one);
  for (int64_t n = 0; n < layer.n; ++n) {
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    for (int64_t g = 0; g * w.group < layer.k; ++g) {
      const int64_t begin = n * layer.k + g * w.group;
      const int64_t end = n * layer.k + std::min((g + 1) * w.group, layer.k);
      const bool zero = std::all_of(
          weights.codes.begin() + begin, weights.codes.begin() + end,
          [](uint8_t code) { return (code & 7) == 0; });
      if (zero) continue;
      const uint32_t code = weights.scales[n * w.groups + g];
      least = std::min(least, code);
      most = std::max(most, code);
    }
    if (most < least) continue;
    if (most - least > static_cast<uint32_t>(WindowOctaves(layer.a))) {
      return absl::FailedPreconditionError(absl::StrCat(
          "scales[", n, "] span ", most - least,
          " octaves; with layer.b_scale_window=1 and layer.a ",
          layer.a.ToString(), " a channel's may span ", WindowOctaves(layer.a),
          ": pack with layer.b_scale_window=0"));
    }
    bases[n] = static_cast<std::byte>(least);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ScaleGroups(const LayerConfig& layer) {
  return WeightLayoutOf(layer).groups;
}

int64_t ScaleRows(const LayerConfig& layer) {
  const int64_t rows = WeightLayoutOf(layer).group_n;
  return (layer.n + rows - 1) / rows;
}

int64_t PackedWeightBytes(const LayerConfig& layer) {
  return WeightLayoutOf(layer).weight_bytes;
}

int64_t PackedScaleBytes(const LayerConfig& layer) {
  return std::max<int64_t>(1, WeightLayoutOf(layer).scale_bytes);
}

double LargestRelativeScale(DataType scale_type) {
  return std::min(scale_type.MaxFinite(), kFloat16.MaxFinite());
}

double QuantizationDivisor(const LayerConfig& layer) {
  if (layer.b.is_float()) return LargestWeightValue(layer);
  // int1 has −1 and 0.
  return std::max(1.0, layer.b.MaxFinite());
}

uint32_t StoredXor(const LayerConfig& layer) {
  const bool offset =
      layer.b.kind() == DataType::Kind::kInt && layer.a.bits() == 16;
  return offset ? 1u << (layer.b.bits() - 1) : 0;
}

std::vector<std::byte> PackActivations(const LayerConfig& layer,
                                       absl::Span<const uint16_t> codes) {
  const int bits = layer.a.bits();
  std::vector<std::byte> bytes(codes.size() * bits / 8);
  for (size_t i = 0; i < codes.size(); ++i) {
    if (bits == 16) {
      std::memcpy(&bytes[2 * i], &codes[i], 2);
    } else {
      bytes[i * bits / 8] |= static_cast<std::byte>(codes[i] << i * bits % 8);
    }
  }
  return bytes;
}

absl::StatusOr<QuantizedWeights> Quantize(const LayerConfig& layer,
                                          absl::Span<const float> weights) {
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  HONE_RETURN_IF_ERROR(
      CheckSize("weights", weights.size(), layer.n * layer.k, "N x K"));
  HONE_RETURN_IF_ERROR(CheckFinite(layer, weights));
  const WeightLayout w = WeightLayoutOf(layer);
  const Quantizer quantizer(layer);
  const int64_t columns = w.group == 0 ? layer.k : w.group;
  const auto slice = [&](int64_t n, int64_t g) {
    const int64_t begin = std::min(g * columns, layer.k);
    const int64_t end = std::min(begin + columns, layer.k);
    return weights.subspan(n * layer.k + begin, end - begin);
  };
  // Extents of what shares a scale; of each row where there is a zero point,
  // which is each row's own.
  const int64_t rows = ScaleRows(layer);
  std::vector<Quantizer::Extent> extents(rows * w.groups);
  float largest_scale = 0;
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t g = 0; g < w.groups; ++g) {
      extents[n / w.group_n * w.groups + g].Merge(
          Quantizer::ExtentOf(slice(n, g)));
    }
  }
  for (const auto& extent : extents) {
    largest_scale = std::max(largest_scale, quantizer.IdealScale(extent));
  }
  QuantizedWeights out;
  if (layer.b_scale == ScaleGranularity::kTensor) {
    out.tensor_scale = largest_scale;
  } else if (layer.b_scale == ScaleGranularity::kGroupTensor) {
    out.tensor_scale =
        largest_scale /
        static_cast<float>(LargestRelativeScale(layer.b_scale_type));
  }
  if (out.tensor_scale == 0) out.tensor_scale = 1;

  out.codes.resize(weights.size());
  if (w.has_scales()) out.scales.resize(extents.size());
  if (w.zero_bits != 0) out.zeros.resize(layer.n * w.groups);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t g = 0; g < w.groups; ++g) {
      const int64_t at = n / w.group_n * w.groups + g;
      Affine a;
      if (w.has_scales()) {
        a = quantizer.Choose(extents[at], out.tensor_scale);
        out.scales[at] = a.scale_code;
      } else {
        a.scale = out.tensor_scale;
        quantizer.ChooseZero(extents[at], a);
      }
      if (w.zero_bits != 0) out.zeros[n * w.groups + g] = a.zero_code;
      const absl::Span<const float> from = slice(n, g);
      uint8_t* to = out.codes.data() + (from.data() - weights.data());
      for (size_t i = 0; i < from.size(); ++i) {
        to[i] = quantizer.Code(from[i], a);
      }
    }
  }
  return out;
}

absl::StatusOr<PackedWeights> Pack(const LayerConfig& layer,
                                   const QuantizedWeights& weights) {
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  HONE_RETURN_IF_ERROR(CheckCodes(layer, weights));
  const WeightLayout w = WeightLayoutOf(layer);
  PackedWeights packed;
  PackCodes(layer, weights.codes, packed.b);
  packed.scales.resize(PackedScaleBytes(layer));
  const uint32_t one = layer.b_scale_type.Encode(1);
  const int64_t padded_n = layout::RoundUp(layer.n, layout::kUnitRows);
  for (int64_t n = 0; n < padded_n; ++n) {
    for (int64_t g = 0; g < w.groups; ++g) {
      std::byte* entry = packed.scales.data() +
                         (n / layout::kUnitRows * w.groups + g) * w.entry_bytes;
      const int index = layout::LaneOrder(n);
      const bool inside = n < layer.n;
      if (w.block) {
        // A unit of rows lies within one block.
        if (n % layout::kUnitRows != 0) continue;
        for (int i = 0; i < 4; ++i) {
          PutField(entry, i, 32, weights.scales[n / w.group_n * w.groups + g]);
        }
      } else if (w.scale_bits != 0) {
        PutField(entry, index, w.scale_bits,
                 inside ? weights.scales[n * w.groups + g] : one);
      }
      if (w.zero_bits != 0) {
        PutField(entry + w.scale_bytes_per_entry, index, w.zero_bits,
                 inside ? weights.zeros[n * w.groups + g] : 0);
      }
    }
  }
  if (w.tensor_scale) {
    std::memcpy(packed.scales.data() + w.tensor_offset, &weights.tensor_scale,
                4);
  }
  if (w.window) {
    HONE_RETURN_IF_ERROR(
        PackWindow(layer, weights,
                   absl::MakeSpan(packed.scales).subspan(w.window_offset)));
  }
  return packed;
}

absl::StatusOr<QuantizedWeights> Unpack(const LayerConfig& layer,
                                        const PackedWeights& packed) {
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  HONE_RETURN_IF_ERROR(CheckSize("packed b", packed.b.size(),
                                 PackedWeightBytes(layer), "bytes"));
  HONE_RETURN_IF_ERROR(CheckSize("packed scales", packed.scales.size(),
                                 PackedScaleBytes(layer), "bytes"));
  const WeightLayout w = WeightLayoutOf(layer);
  QuantizedWeights out;
  UnpackCodes(layer, packed.b, out.codes);
  const int64_t rows = w.has_scales() ? ScaleRows(layer) : 0;
  out.scales.resize(rows * w.groups);
  out.zeros.resize(w.zero_bits != 0 ? layer.n * w.groups : 0);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t g = 0; g < w.groups; ++g) {
      const std::byte* entry =
          packed.scales.data() +
          (n / layout::kUnitRows * w.groups + g) * w.entry_bytes;
      const int index = layout::LaneOrder(n);
      if (w.block) {
        out.scales[n / w.group_n * w.groups + g] = GetField(entry, 0, 32);
      } else if (w.scale_bits != 0) {
        out.scales[n * w.groups + g] = GetField(entry, index, w.scale_bits);
      }
      if (w.zero_bits != 0) {
        out.zeros[n * w.groups + g] = static_cast<uint16_t>(
            GetField(entry + w.scale_bytes_per_entry, index, w.zero_bits));
      }
    }
  }
  if (w.tensor_scale) {
    std::memcpy(&out.tensor_scale, packed.scales.data() + w.tensor_offset, 4);
  }
  return out;
}

bool SignMagnitudeIsFaster(const LayerConfig& layer) {
  const bool in_float32 =
      WeightLayoutOf(layer).groups == 1 || ScalesNeedFloat32(layer);
  return layer.a.is_float() && layer.a != kBfloat16 &&
         layer.b.kind() == DataType::Kind::kInt && layer.b.bits() > 1 &&
         in_float32;
}

absl::StatusOr<bool> UseSignMagnitude(LayerConfig& layer,
                                      QuantizedWeights& weights) {
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  if (!SignMagnitudeIsFaster(layer)) return false;
  const uint32_t sign = 1u << (layer.b.bits() - 1);
  for (const uint8_t code : weights.codes) {
    if (code == sign) return false;
  }
  for (uint8_t& code : weights.codes) {
    if (code & sign) code = static_cast<uint8_t>(sign | ((2 * sign - code)));
  }
  layer.b = DataType::Float(0, layer.b.bits() - 1);
  return true;
}

}  // namespace hone
