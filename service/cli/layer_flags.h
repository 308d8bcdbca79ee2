// A layer and a ladder as flags.
#ifndef HONE_SERVICE_CLI_LAYER_FLAGS_H_
#define HONE_SERVICE_CLI_LAYER_FLAGS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/problem.h"
#include "service/cli/args.h"

namespace hone {

// --n --k --a --b --c --group --zero-point --bias --batch-invariant --problem.
std::vector<Flag> LayerFlags();

// Whether any of LayerFlags() is given.
bool HasLayerFlags(const ParsedArgs& args);

// The problem that LayerFlags() describe. Usage errors name the flag.
absl::StatusOr<Problem> ProblemFromFlags(const ParsedArgs& args);

// --ladder=1,2,4, or another flag's list: rising, from 1, at most 256 points;
// empty when not given.
absl::StatusOr<std::vector<int64_t>> LadderFromFlags(
    const ParsedArgs& args, absl::string_view flag = "ladder");

}  // namespace hone

#endif  // HONE_SERVICE_CLI_LAYER_FLAGS_H_
