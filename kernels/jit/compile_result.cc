#include "kernels/jit/compile_result.h"

namespace hone {

absl::string_view CompileOutcomeName(CompileOutcome outcome) {
  switch (outcome) {
    case CompileOutcome::kCompiled:
      return "compiled";
    case CompileOutcome::kRejected:
      return "rejected";
    case CompileOutcome::kTimeout:
      return "timeout";
    case CompileOutcome::kCrashed:
      return "crashed";
    case CompileOutcome::kKilled:
      return "killed";
  }
  return "unknown";
}

}  // namespace hone
