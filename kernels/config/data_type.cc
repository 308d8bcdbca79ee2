#include "kernels/config/data_type.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

constexpr absl::string_view kLegalForms =
    "float16, bfloat16, float32, float{bits}e{exp}m{man} up to 8 bits (such as "
    "float8e4m3, float4e2m1, float8e8m0), int{1..8}, uint{1..8}";

// Which codes of the largest exponent are not finite.
enum class Specials : uint8_t {
  kIeee,     // all ones exponent: infinities and NaNs
  kNanOnly,  // only the code with all ones is NaN
  kNone,
};

Specials SpecialsOf(const DataType& t) {
  if (t.bits() >= 16 || t == kFloat8e5m2) return Specials::kIeee;
  if (t == kFloat8e4m3) return Specials::kNanOnly;
  return Specials::kNone;
}

int Bias(const DataType& t) {
  return t.exponent_bits() == 0 ? 0 : (1 << (t.exponent_bits() - 1)) - 1;
}

bool ParseInt(absl::string_view text, int* value) {
  // Digits only and no leading zero, so that each type has one spelling.
  return absl::SimpleAtoi(text, value) && absl::StrCat(*value) == text;
}

}  // namespace

absl::StatusOr<DataType> DataType::Parse(absl::string_view text) {
  const auto refuse = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("data type \"", text, "\" is none of ", kLegalForms));
  };
  if (text == "float16") return kFloat16;
  if (text == "bfloat16") return kBfloat16;
  if (text == "float32") return kFloat32;
  absl::string_view rest = text;
  int bits = 0;
  if (absl::ConsumePrefix(&rest, "int")) {
    if (!ParseInt(rest, &bits) || bits < 1 || bits > 8) return refuse();
    return Int(bits);
  }
  if (absl::ConsumePrefix(&rest, "uint")) {
    if (!ParseInt(rest, &bits) || bits < 1 || bits > 8) return refuse();
    return Uint(bits);
  }
  if (!absl::ConsumePrefix(&rest, "float")) return refuse();
  const size_t e = rest.find('e');
  const size_t m = rest.find('m');
  if (e == rest.npos || m == rest.npos || m < e) return refuse();
  int exponent = 0;
  int mantissa = 0;
  if (!ParseInt(rest.substr(0, e), &bits) ||
      !ParseInt(rest.substr(e + 1, m - e - 1), &exponent) ||
      !ParseInt(rest.substr(m + 1), &mantissa)) {
    return refuse();
  }
  const DataType type = Float(exponent, mantissa);
  if (exponent > 8 || mantissa > 23 || type.bits() != bits) return refuse();
  if (bits > 8 && !(type == kFloat16 || type == kBfloat16 || type == kFloat32))
    return refuse();
  if (exponent == 0 && mantissa == 0) return refuse();
  return type;
}

std::string DataType::ToString() const {
  switch (kind_) {
    case Kind::kInt:
      return absl::StrCat("int", bits());
    case Kind::kUint:
      return absl::StrCat("uint", bits());
    case Kind::kFloat:
      break;
  }
  if (*this == kFloat16) return "float16";
  if (*this == kBfloat16) return "bfloat16";
  if (*this == kFloat32) return "float32";
  return absl::StrCat("float", bits(), "e", exponent_bits(), "m",
                      mantissa_bits());
}

double DataType::Decode(uint32_t code) const {
  const uint32_t mask = bits() == 32 ? ~0u : (1u << bits()) - 1;
  code &= mask;
  switch (kind_) {
    case Kind::kUint:
      return code;
    case Kind::kInt: {
      const uint32_t sign = 1u << (bits() - 1);
      return (code & sign) ? static_cast<double>(code) - 2.0 * sign : code;
    }
    case Kind::kFloat:
      break;
  }
  if (is_e8m0()) {
    return code == 255 ? std::numeric_limits<double>::quiet_NaN()
                       : std::ldexp(1.0, static_cast<int>(code) - 127);
  }
  const double sign = (code >> (bits() - 1)) ? -1.0 : 1.0;
  const uint32_t man_mask = (1u << mantissa_bits()) - 1;
  const uint32_t exp_mask = (1u << exponent_bits()) - 1;
  const uint32_t mantissa = code & man_mask;
  const uint32_t exponent = (code >> mantissa_bits()) & exp_mask;
  // No exponent bits: sign and magnitude.
  if (exponent_bits() == 0) return sign * mantissa;
  if (exponent == exp_mask) {
    const Specials specials = SpecialsOf(*this);
    if (specials == Specials::kIeee) {
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
    }
    if (specials == Specials::kNanOnly && mantissa == man_mask) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
  const int bias = Bias(*this);
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits());
  }
  return sign * std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits()),
                           static_cast<int>(exponent) - bias - mantissa_bits());
}

double DataType::MaxFinite() const {
  switch (kind_) {
    case Kind::kInt:
    case Kind::kUint:
      return std::ldexp(1.0, mantissa_bits()) - 1;
    case Kind::kFloat:
      break;
  }
  if (is_e8m0()) return std::ldexp(1.0, 127);
  if (exponent_bits() == 0) return std::ldexp(1.0, mantissa_bits()) - 1;
  const uint32_t exp_mask = (1u << exponent_bits()) - 1;
  const uint32_t man_mask = (1u << mantissa_bits()) - 1;
  switch (SpecialsOf(*this)) {
    case Specials::kIeee:
      return Decode(((exp_mask - 1) << mantissa_bits()) | man_mask);
    case Specials::kNanOnly:
      return Decode((exp_mask << mantissa_bits()) | (man_mask - 1));
    case Specials::kNone:
      break;
  }
  return Decode((exp_mask << mantissa_bits()) | man_mask);
}

uint32_t DataType::Encode(double value) const {
  if (is_integer()) {
    if (std::isnan(value)) return 0;
    const double low =
        kind_ == Kind::kInt ? -std::ldexp(1.0, mantissa_bits()) : 0.0;
    const double rounded = std::clamp(std::nearbyint(value), low, MaxFinite());
    const uint32_t mask = (1u << bits()) - 1;
    return static_cast<uint32_t>(static_cast<int64_t>(rounded)) & mask;
  }
  if (is_e8m0()) {
    if (std::isnan(value)) return 255;
    if (value <= std::ldexp(1.0, -127)) return 0;
    if (value >= std::ldexp(1.0, 127)) return 254;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
    // Nearest power of two: 2^(e-1) or 2^e, split at 0.75·2^e.
    return static_cast<uint32_t>(exponent - 1 + (fraction > 0.75 ? 1 : 0) +
                                 127);
  }
  const uint32_t sign = std::signbit(value) ? 1u << (bits() - 1) : 0;
  const uint32_t man_mask = (1u << mantissa_bits()) - 1;
  const uint32_t exp_mask = (1u << exponent_bits()) - 1;
  const Specials specials = SpecialsOf(*this);
  if (std::isnan(value)) {
    if (specials == Specials::kNone) return 0;
    return (exp_mask << mantissa_bits()) |
           (specials == Specials::kIeee ? (man_mask >> 1) + 1 : man_mask);
  }
  if (std::isinf(value) && specials == Specials::kIeee) {
    return sign | (exp_mask << mantissa_bits());
  }
  const double magnitude = std::min(std::fabs(value), MaxFinite());
  if (exponent_bits() == 0) {
    return sign | static_cast<uint32_t>(std::nearbyint(magnitude));
  }
  const int min_exponent = 1 - Bias(*this);
  int exponent = magnitude == 0 ? min_exponent : std::ilogb(magnitude);
  exponent = std::max(exponent, min_exponent);
  // An integer number of units in the last place; rounding up to the next
  // power of two carries into the exponent by itself.
  const auto units = static_cast<uint64_t>(
      std::nearbyint(std::ldexp(magnitude, mantissa_bits() - exponent)));
  const uint64_t base = static_cast<uint64_t>(exponent - min_exponent)
                        << mantissa_bits();
  return sign | static_cast<uint32_t>(base + units);
}

std::vector<double> DataType::CodeTable() const {
  std::vector<double> table(size_t{1} << bits());
  for (size_t code = 0; code < table.size(); ++code) {
    table[code] = Decode(static_cast<uint32_t>(code));
  }
  return table;
}

}  // namespace hone
