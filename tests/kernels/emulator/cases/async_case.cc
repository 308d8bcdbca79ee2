#include "tests/kernels/emulator/cases/async_case.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/tensor_map.h"

namespace hone::emulator {

namespace async_case_internal {
// Defined in the generated file.
const std::vector<std::pair<absl::string_view, absl::string_view>>& Sources();
}  // namespace async_case_internal

std::string AsyncSource(absl::string_view name,
                        const std::vector<std::string>& macros) {
  std::string out;
  for (const std::string& macro : macros) {
    absl::StrAppend(&out, "#define ", macro, " 1\n");
  }
  for (const auto& [path, text] : async_case_internal::Sources()) {
    if (absl::EndsWith(path, absl::StrCat("/", name))) {
      return absl::StrCat(out, text);
    }
  }
  std::abort();
}

LaunchArg BufferArg(BufferRole role) {
  LaunchArg arg;
  arg.role = role;
  return arg;
}

LaunchArg IntArg(int32_t value) {
  LaunchArg arg;
  arg.kind = LaunchArg::Kind::kInt32;
  arg.value = value;
  return arg;
}

LaunchArg MapArg(int32_t index) {
  LaunchArg arg;
  arg.kind = LaunchArg::Kind::kTensorMap;
  arg.value = index;
  return arg;
}

TensorMap MatrixMap(BufferRole buffer, TensorMap::Element element,
                    uint64_t columns, uint64_t rows, uint32_t box_columns,
                    uint32_t box_rows, TensorMap::Swizzle swizzle) {
  TensorMap map;
  map.buffer = buffer;
  map.element = element;
  map.dims = {columns, rows};
  map.strides = {columns * BytesOf(element)};
  map.box = {box_columns, box_rows};
  map.element_strides = {1, 1};
  map.swizzle = swizzle;
  return map;
}

std::vector<AsyncCase> AllAsyncCases() {
  std::vector<AsyncCase> out;
  AddBulkCopyCases(&out);
  AddTensorCopyCases(&out);
  AddWgmmaCases(&out);
  AddAsyncGemmCases(&out);
  return out;
}

}  // namespace hone::emulator
