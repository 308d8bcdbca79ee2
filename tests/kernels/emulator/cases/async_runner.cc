#include "tests/kernels/emulator/cases/async_runner.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone::emulator {
namespace {

CompiledUnit CompileOne(const Nvrtc& nvrtc, const std::string& source,
                        const std::string& arch) {
  CompiledUnit unit;
  CompileRequest request;
  request.arch = arch;
  request.source = source;
  request.options = {"-lineinfo"};
  absl::StatusOr<CompileResult> compiled = nvrtc.Compile(request);
  if (!compiled.ok()) {
    unit.status = compiled.status();
    return unit;
  }
  if (!compiled->ok()) {
    unit.status = absl::InvalidArgumentError(compiled->log);
    return unit;
  }
  absl::StatusOr<Module> module = Module::Parse(compiled->ptx);
  unit.status = module.status();
  if (!module.ok()) return unit;
  unit.module = *std::move(module);
  unit.cubin = std::move(compiled->cubin);
  return unit;
}

std::vector<uint32_t> Words(const std::vector<uint8_t>& bytes) {
  std::vector<uint32_t> words((bytes.size() + 3) / 4, 0);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

std::map<std::string, CompiledUnit> CompileAsyncSources(
    const Nvrtc& nvrtc, const std::vector<AsyncCase>& cases,
    const std::string& arch) {
  std::map<std::string, CompiledUnit> units;
  for (const AsyncCase& c : cases) units[c.source];
  std::vector<std::pair<const std::string, CompiledUnit>*> work;
  for (auto& entry : units) work.push_back(&entry);
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < work.size(); i = next++) {
      work[i]->second = CompileOne(nvrtc, work[i]->first, arch);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back(run);
  }
  run();
  for (std::thread& thread : threads) thread.join();
  return units;
}

absl::StatusOr<std::vector<uint8_t>> EmulateAsyncCase(const AsyncCase& c,
                                                      const Module& module,
                                                      const Options& options) {
  auto buffers = c.buffers;
  Bindings bindings;
  for (auto& [role, bytes] : buffers) {
    bindings[role] = {reinterpret_cast<std::byte*>(bytes.data()), bytes.size(),
                      /*writable=*/role == BufferRole::kC,
                      /*initialized=*/true};
  }
  HONE_RETURN_IF_ERROR(Execute(module, c.plan, bindings, options).status());
  return buffers[BufferRole::kC];
}

Difference CompareOutputs(const AsyncCase& c, const std::vector<uint8_t>& got,
                          const std::vector<uint8_t>& want, double bound) {
  InstructionCase as;
  as.compare = c.compare;
  as.outputs = 1;
  return CompareResults(as, Words(got), {Words(want), c.magnitude}, bound);
}

std::vector<uint32_t> KeptOutputs(const AsyncCase& c,
                                  const std::vector<uint8_t>& output) {
  if (c.compare != Compare::kBits) return Words(output);
  const std::string hex = Sha256Hex(absl::string_view(
      reinterpret_cast<const char*>(output.data()), output.size()));
  std::vector<uint32_t> words(8);
  for (size_t i = 0; i < words.size(); ++i) {
    const bool ok =
        absl::SimpleHexAtoi(absl::string_view(hex).substr(8 * i, 8), &words[i]);
    if (!ok) return {};
  }
  return words;
}

}  // namespace hone::emulator
