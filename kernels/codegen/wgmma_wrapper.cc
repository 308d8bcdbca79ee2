#include "kernels/codegen/wgmma_wrapper.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/config/weight_layout.h"

namespace hone {
namespace {

absl::string_view OperandName(DataType type, bool is_unsigned) {
  if (type == kFloat16) return "f16";
  if (type == kBfloat16) return "bf16";
  if (type == kFloat8e4m3) return "e4m3";
  if (type == kFloat8e5m2) return "e5m2";
  return is_unsigned ? "u8" : "s8";
}

}  // namespace

std::string RenderWgmmaWrapper(const LayerConfig& layer, int64_t columns,
                               bool token_rows) {
  const bool integer = layer.a.is_integer();
  const bool direct = WeightLayoutOf(layer).direct();
  const int64_t sums = columns / 2;
  std::vector<std::string> names;
  std::vector<std::string> outputs;
  for (int64_t i = 0; i < sums; ++i) {
    names.push_back(absl::StrCat("%", i));
    outputs.push_back(absl::StrCat("\"+", integer ? "r" : "f", "\"(d[", i / 4,
                                   "][", i % 4, "])"));
  }
  // The operands after the sums: rows, columns, whether to add to d, and where
  // the type has them the signs and transpositions.
  std::string rows = absl::StrCat("%", sums);
  int64_t next = sums + 1;
  if (!direct) {
    rows = absl::StrCat("{%", sums, ",%", sums + 1, ",%", sums + 2, ",%",
                        sums + 3, "}");
    next = sums + 4;
  }
  const absl::string_view flags = integer               ? ""
                                  : layer.a.bits() == 8 ? ", 1, 1"
                                                        : ", 1, 1, 0";
  return absl::StrCat(
      "  struct Mma {\n"
      "    template <bool kAccumulate>\n"
      "    static __device__ __forceinline__ void Run(\n"
      "        ",
      integer ? "int" : "float", " (&d)[", columns / 8, "][4], ",
      direct ? "hone::u64 rows" : "const hone::u32 (&rows)[4]",
      ", hone::u64 columns) {\n",
      "      asm volatile(\"wgmma.mma_async.sync.aligned.m64n", columns, "k",
      256 / layer.a.bits(), integer ? ".s32." : ".f32.",
      OperandName(layer.a, HasUnsignedOperand(layer) && !token_rows), ".",
      OperandName(layer.a, HasUnsignedOperand(layer) && token_rows), " {",
      absl::StrJoin(names, ","), "}, ", rows, ", %", next, ", %", next + 1,
      flags, ";\"\n          : ", absl::StrJoin(outputs, ","), "\n          : ",
      direct ? "\"l\"(rows)"
             : "\"r\"(rows[0]), \"r\"(rows[1]), \"r\"(rows[2]), "
               "\"r\"(rows[3])",
      ",\n            \"l\"(columns), \"n\"(kAccumulate ? 1 : 0));\n"
      "    }\n"
      "  };\n");
}

}  // namespace hone
