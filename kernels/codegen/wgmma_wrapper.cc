#include "kernels/codegen/wgmma_wrapper.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace hone {

std::string RenderWgmmaWrapper(DataType type, int64_t tokens) {
  const absl::string_view name = type == kBfloat16 ? "bf16" : "f16";
  const int64_t sums = tokens / 2;
  std::vector<std::string> names;
  std::vector<std::string> operands;
  for (int64_t i = 0; i < sums; ++i) {
    names.push_back(absl::StrCat("%", i));
    operands.push_back(absl::StrCat("\"+f\"(d[", i / 4, "][", i % 4, "])"));
  }
  return absl::StrCat(
      "  struct Mma {\n"
      "    template <bool kAccumulate>\n"
      "    static __device__ __forceinline__ void Run(\n"
      "        float (&d)[",
      tokens / 8,
      "][4], const hone::u32 (&a)[4], hone::u64 x) {\n"
      "      asm volatile(\"wgmma.mma_async.sync.aligned.m64n",
      tokens, "k16.f32.", name, ".", name, " {", absl::StrJoin(names, ","),
      "}, {%", sums, ",%", sums + 1, ",%", sums + 2, ",%", sums + 3, "}, %",
      sums + 4, ", %", sums + 5,
      ", 1, 1, 0;\"\n          : ", absl::StrJoin(operands, ","),
      "\n          : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]),\n"
      "            \"l\"(x), \"n\"(kAccumulate ? 1 : 0));\n"
      "    }\n"
      "  };\n");
}

}  // namespace hone
