// Compiler: source in, kernel out. Joins the cubin cache with NVRTC in this
// process (clients, tools) or with the compile pool (honed).
#ifndef HONE_KERNELS_JIT_COMPILER_H_
#define HONE_KERNELS_JIT_COMPILER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/jit/compile_pool.h"
#include "kernels/jit/compile_result.h"
#include "kernels/jit/cubin_cache.h"
#include "kernels/jit/nvrtc.h"

namespace hone {

// Thread-safe.
class Compiler {
 public:
  // `cache` may be null: then every call compiles.
  Compiler(std::shared_ptr<const Nvrtc> nvrtc,
           std::shared_ptr<CubinCache> cache);
  // Compiles past `deadline` end as kTimeout.
  Compiler(std::shared_ptr<CompilePool> pool, absl::Duration deadline,
           std::shared_ptr<CubinCache> cache);

  // "13.0".
  const std::string& nvrtc_version() const { return nvrtc_version_; }
  // How many Compile() calls are worth running at once; at least 1.
  int parallelism() const { return parallelism_; }

  // The key of a unit, without compiling it.
  std::string KeyOf(absl::string_view source, absl::string_view arch) const;

  struct Compiled {
    CompileResult result;
    std::string source_key;
    bool from_cache = false;
    // Not OK when the cache could not store the result, which is as good.
    absl::Status stored;
  };

  // Blocks. A source that does not compile, or not in time, is a result; see
  // Nvrtc::Compile and CompilePool::Submit for the errors.
  absl::StatusOr<Compiled> Compile(absl::string_view source,
                                   absl::string_view arch);

 private:
  std::function<absl::StatusOr<CompileResult>(const CompileRequest&)> compile_;
  std::shared_ptr<CubinCache> cache_;
  std::string nvrtc_version_;
  int parallelism_ = 1;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_COMPILER_H_
