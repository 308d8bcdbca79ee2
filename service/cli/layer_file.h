// Files of layers, such as those under service/models; their README describes
// the format.
#ifndef HONE_SERVICE_CLI_LAYER_FILE_H_
#define HONE_SERVICE_CLI_LAYER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/problem.h"

namespace hone {

struct ModelLayer {
  std::string model;
  std::string name;
  Problem problem;
  // How often the layer occurs in the model.
  int64_t count = 1;
};

// What replaces or filters the file's own.
struct LayerFileOptions {
  // Ranks that share each layer: its `split` dimension is divided by this.
  int64_t tensor_parallel = 1;
  // Only layers of these names; all when empty.
  std::vector<std::string> layers;
  std::optional<DataType> a;
  std::optional<DataType> b;
  std::optional<int64_t> group;
  // Of every layer; no file says it, since it is not the model's to say.
  bool batch_invariant = false;
};

// Usage errors name `path`, the layer and the field. `path` is only named,
// `text` is the file.
absl::StatusOr<std::vector<ModelLayer>> ParseLayerFile(
    absl::string_view path, absl::string_view text,
    const LayerFileOptions& options);

// Reads and parses the file.
absl::StatusOr<std::vector<ModelLayer>> ReadLayerFile(
    const std::string& path, const LayerFileOptions& options);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_LAYER_FILE_H_
