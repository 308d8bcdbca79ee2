// What the emulator's tests share: golden PTX, small launches.
#ifndef HONE_TESTS_KERNELS_EMULATOR_EMULATOR_TEST_SUPPORT_H_
#define HONE_TESTS_KERNELS_EMULATOR_EMULATOR_TEST_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/emulator.h"

namespace hone::emulator {

inline std::string ReadTestdata(const std::string& name) {
  std::ifstream file(absl::StrCat(HONE_EMULATOR_TESTDATA, "/", name));
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Module MustParse(const std::string& ptx) {
  auto module = Module::Parse(ptx);
  if (!module.ok()) {
    ADD_FAILURE() << module.status();
    module = Module::Parse(".version 8.0\n.target sm_80\n.address_size 64\n");
  }
  return *std::move(module);
}

// "file:line" of the line of a testdata source that contains the marker.
inline std::string LineOf(const std::string& source,
                          const std::string& marker) {
  std::istringstream text(ReadTestdata(source));
  std::string line;
  for (int n = 1; std::getline(text, line); ++n) {
    const size_t at = line.find("// FAULT " + marker);
    if (at != std::string::npos && at + 9 + marker.size() == line.size()) {
      return source + ":" + std::to_string(n);
    }
  }
  ADD_FAILURE() << "no line is marked " << marker;
  return "";
}

template <typename T>
HostBuffer BufferOf(std::vector<T>& data, bool writable,
                    bool initialized = true) {
  return {reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(T),
          writable, initialized};
}

inline LaunchArg Buffer(BufferRole role) {
  LaunchArg arg;
  arg.role = role;
  return arg;
}
inline LaunchArg Int(int32_t value) {
  LaunchArg arg;
  arg.kind = LaunchArg::Kind::kInt32;
  arg.value = value;
  return arg;
}

// A plan for kernel(a, c, ints...).
inline LaunchPlan PlanFor(const std::string& kernel, Dim3 grid, Dim3 block,
                          uint32_t smem_bytes = 0,
                          std::vector<int32_t> ints = {}) {
  LaunchPlan plan;
  plan.kernel_name = kernel;
  plan.grid = grid;
  plan.block = block;
  plan.smem_bytes = smem_bytes;
  plan.args = {Buffer(BufferRole::kA), Buffer(BufferRole::kC)};
  for (int32_t value : ints) plan.args.push_back(Int(value));
  return plan;
}

// Runs a plan with a read-only `a` and an uninitialized, writable `c`.
template <typename A, typename C>
absl::StatusOr<Stats> RunPlan(const Module& module, const LaunchPlan& plan,
                              std::vector<A>& a, std::vector<C>& c,
                              Options options = {}) {
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(a, /*writable=*/false);
  bindings[BufferRole::kC] =
      BufferOf(c, /*writable=*/true, /*initialized=*/false);
  return Execute(module, plan, bindings, options);
}

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_EMULATOR_TEST_SUPPORT_H_
