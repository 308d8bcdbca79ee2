// Kernels compiled by NVRTC for sm_90a, and launches with tensor maps.
#ifndef HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_
#define HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codegen/tensor_map.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {

// `source` names the unit in messages. Fails the test unless it compiles.
inline Module CompileSource(const std::string& name, const std::string& source,
                            std::vector<std::string> defines = {}) {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  CompileRequest request;
  request.name = name;
  request.arch = "sm_90a";
  request.source = source;
  request.options = {"-lineinfo"};
  for (const std::string& define : defines) {
    request.options.push_back("-D" + define);
  }
  const auto compiled = (*nvrtc)->Compile(request);
  EXPECT_TRUE(compiled.ok() && compiled->ok())
      << (compiled.ok() ? compiled->log : compiled.status().ToString());
  return MustParse(compiled->ptx);
}

inline Module CompileTestdata(const std::string& file,
                              std::vector<std::string> defines = {}) {
  return CompileSource(file, ReadTestdata(file), std::move(defines));
}

inline LaunchArg Map(int32_t index) {
  LaunchArg arg;
  arg.kind = LaunchArg::Kind::kTensorMap;
  arg.value = index;
  return arg;
}

// A row-major matrix of `rows` x `columns` elements, copied in boxes.
inline TensorMap MatrixMap(
    BufferRole buffer, TensorMap::Element element, uint64_t columns,
    uint64_t rows, uint32_t box_columns, uint32_t box_rows,
    TensorMap::Swizzle swizzle = TensorMap::Swizzle::kNone) {
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

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_
