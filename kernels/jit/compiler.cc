#include "kernels/jit/compiler.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "kernels/config/status_macros.h"

namespace hone {
namespace {

CompileRequest RequestFor(absl::string_view source, absl::string_view arch) {
  return {.source = std::string(source), .arch = std::string(arch)};
}

}  // namespace

Compiler::Compiler(std::shared_ptr<const Nvrtc> nvrtc,
                   std::shared_ptr<CubinCache> cache)
    : cache_(std::move(cache)),
      nvrtc_version_(nvrtc->version()),
      parallelism_(
          std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
  compile_ = [nvrtc = std::move(nvrtc)](const CompileRequest& request) {
    return nvrtc->Compile(request);
  };
}

Compiler::Compiler(std::shared_ptr<CompilePool> pool, absl::Duration deadline,
                   std::shared_ptr<CubinCache> cache)
    : cache_(std::move(cache)),
      nvrtc_version_(pool->nvrtc_version()),
      parallelism_(pool->processes()) {
  compile_ = [pool = std::move(pool), deadline](const CompileRequest& request) {
    return pool->Compile(request, deadline);
  };
}

std::string Compiler::KeyOf(absl::string_view source,
                            absl::string_view arch) const {
  return SourceKey(RequestFor(source, arch), nvrtc_version_);
}

absl::StatusOr<Compiler::Compiled> Compiler::Compile(absl::string_view source,
                                                     absl::string_view arch) {
  const CompileRequest request = RequestFor(source, arch);
  Compiled compiled;
  compiled.source_key = SourceKey(request, nvrtc_version_);
  if (cache_ == nullptr) {
    HONE_ASSIGN_OR_RETURN(compiled.result, compile_(request));
    return compiled;
  }
  HONE_ASSIGN_OR_RETURN(CubinCache::Fetched fetched,
                        cache_->GetOrCompile(compiled.source_key, [&] {
                          return compile_(request);
                        }));
  compiled.result = std::move(fetched.result);
  compiled.from_cache = fetched.hit;
  compiled.stored = std::move(fetched.stored);
  return compiled;
}

}  // namespace hone
