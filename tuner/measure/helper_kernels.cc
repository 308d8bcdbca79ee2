#include "tuner/measure/helper_kernels.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/codegen/embedded.h"
#include "kernels/config/status_macros.h"

namespace hone {

namespace embedded_internal {
// Defined in the generated file; generator.cuh first.
const std::vector<std::pair<absl::string_view, absl::string_view>>&
HelperFiles();
}  // namespace embedded_internal

std::string HelperSource() {
  std::string source =
      FlattenedDeviceSource({"memory/packed_layout.cuh", "numeric/codes.cuh"});
  for (const auto& [name, text] : embedded_internal::HelperFiles()) {
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, "#include")) {
        absl::StrAppend(&source, line, "\n");
      }
    }
  }
  return source;
}

absl::StatusOr<HelperKernels> HelperKernels::Load(absl::string_view cubin) {
  HelperKernels k;
  HONE_ASSIGN_OR_RETURN(k.module_, Module::Load(cubin));
  const std::pair<const char*, FunctionHandle*> functions[] = {
      {"hone_fill_activations", &k.fill_activations},
      {"hone_fill_input_scales", &k.fill_input_scales},
      {"hone_fill_bias", &k.fill_bias},
      {"hone_fill_weights", &k.fill_weights},
      {"hone_fill_scales", &k.fill_scales},
      {"hone_flush", &k.flush},
      {"hone_reference", &k.reference},
      {"hone_compare", &k.compare},
      {"hone_check_repeat", &k.check_repeat},
      {"hone_check_bytes", &k.check_bytes},
      {"hone_hash_words", &k.hash_words},
      {"hone_sentinel", &k.sentinel},
  };
  for (const auto& [name, function] : functions) {
    HONE_ASSIGN_OR_RETURN(*function, k.module_.Function(name));
  }
  return k;
}

}  // namespace hone
