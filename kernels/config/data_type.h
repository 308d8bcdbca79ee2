// DataType: the numeric type of one tensor element.
//
// A type is a float `float{bits}e{exp}m{man}`, a signed integer `int{b}` or an
// unsigned integer `uint{b}`. `float16`, `bfloat16` and `float32` are the usual
// names of float16e5m10, float16e8m7 and float32e8m23, and are what ToString()
// prints. A float with no exponent bits (`float8e0m7`) is a symmetric integer
// in sign and magnitude.
//
// Types are plain values: cheap to copy, comparable, hashable, thread-safe.
#ifndef HONE_KERNELS_CONFIG_DATA_TYPE_H_
#define HONE_KERNELS_CONFIG_DATA_TYPE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

class DataType {
 public:
  enum class Kind : uint8_t { kFloat, kInt, kUint };

  // float16; the default only so that configs can be value-initialized.
  constexpr DataType() = default;

  static constexpr DataType Float(int exponent_bits, int mantissa_bits) {
    return DataType(Kind::kFloat, exponent_bits, mantissa_bits);
  }
  static constexpr DataType Int(int bits) {
    return DataType(Kind::kInt, 0, bits - 1);
  }
  static constexpr DataType Uint(int bits) {
    return DataType(Kind::kUint, 0, bits);
  }

  // Parses a canonical or long name. InvalidArgument names the legal forms.
  static absl::StatusOr<DataType> Parse(absl::string_view text);

  // The canonical name, which Parse() reads back.
  std::string ToString() const;

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_float() const { return kind_ == Kind::kFloat; }
  constexpr bool is_integer() const { return kind_ != Kind::kFloat; }
  constexpr int exponent_bits() const { return exponent_bits_; }
  constexpr int mantissa_bits() const { return mantissa_bits_; }
  // Storage bits of one element. float8e8m0 is the one unsigned float: it has
  // eight exponent bits and no sign.
  constexpr int bits() const {
    switch (kind_) {
      case Kind::kInt:
        return mantissa_bits_ + 1;
      case Kind::kUint:
        return mantissa_bits_;
      case Kind::kFloat:
        break;
    }
    return is_e8m0() ? 8 : 1 + exponent_bits_ + mantissa_bits_;
  }
  constexpr bool is_e8m0() const {
    return kind_ == Kind::kFloat && exponent_bits_ == 8 && mantissa_bits_ == 0;
  }

  // The value of one code (its low bits() bits). Floats follow IEEE 754 with
  // subnormals; float8e4m3 and narrower floats have no infinities, as OCP FP8
  // and MX define them (float8e4m3 keeps one NaN code per sign; types under 8
  // bits have neither). Codes of NaN return a quiet NaN.
  double Decode(uint32_t code) const;

  // The code nearest to `value`, ties to even, saturating at the largest
  // finite value. NaN maps to a NaN code where the type has one, else to 0.
  uint32_t Encode(double value) const;

  // Every code's value, by code. Only for bits() <= 16.
  std::vector<double> CodeTable() const;

  // Largest finite magnitude.
  double MaxFinite() const;

  friend constexpr bool operator==(const DataType&, const DataType&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const DataType& t) {
    return H::combine(std::move(h), t.kind_, t.exponent_bits_,
                      t.mantissa_bits_);
  }

 private:
  constexpr DataType(Kind kind, int exponent_bits, int mantissa_bits)
      : kind_(kind),
        exponent_bits_(static_cast<int8_t>(exponent_bits)),
        mantissa_bits_(static_cast<int8_t>(mantissa_bits)) {}

  Kind kind_ = Kind::kFloat;
  int8_t exponent_bits_ = 5;
  int8_t mantissa_bits_ = 10;
};

inline constexpr DataType kFloat16 = DataType::Float(5, 10);
inline constexpr DataType kBfloat16 = DataType::Float(8, 7);
inline constexpr DataType kFloat32 = DataType::Float(8, 23);
inline constexpr DataType kFloat8e4m3 = DataType::Float(4, 3);
inline constexpr DataType kFloat8e5m2 = DataType::Float(5, 2);
inline constexpr DataType kFloat8e8m0 = DataType::Float(8, 0);
inline constexpr DataType kFloat4e2m1 = DataType::Float(2, 1);
inline constexpr DataType kInt8 = DataType::Int(8);
inline constexpr DataType kInt4 = DataType::Int(4);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_DATA_TYPE_H_
