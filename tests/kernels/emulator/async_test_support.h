// Kernels compiled by NVRTC for sm_90a.
#ifndef HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_
#define HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codegen/tensor_map.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/cases/async_case.h"
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

// A file of testdata, by its name.
inline Module CompileTestdata(const std::string& file,
                              std::vector<std::string> defines = {}) {
  return CompileSource(file, ReadTestdata(file), std::move(defines));
}

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_ASYNC_TEST_SUPPORT_H_
