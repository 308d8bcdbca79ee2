// Files of layers, such as those in this folder; its README describes the
// format.
#ifndef HONE_SERVICE_MODELS_LAYER_FILE_H_
#define HONE_SERVICE_MODELS_LAYER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
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

// A dense layer whose output, scales and activations share the type `a`, or
// where that has less than 16 bits, whose output and scales are float16 and
// whose activations have a scale per token; group 0 gives one scale of the
// weights per channel. Not validated.
Problem DenseProblem(int64_t n, int64_t k, const DataType& a, const DataType& b,
                     int64_t group, bool bias);

// InvalidArgument names `path`, the layer and the field, or the flag of `hone
// sweep` that an option comes from. `path` is only named, `text` is the file.
absl::StatusOr<std::vector<ModelLayer>> ParseLayerFile(
    absl::string_view path, absl::string_view text,
    const LayerFileOptions& options);

// Reads and parses the file. InvalidArgument too when it cannot be read.
absl::StatusOr<std::vector<ModelLayer>> ReadLayerFile(
    const std::string& path, const LayerFileOptions& options);

// The files of this folder, embedded: name ("llama-3.1-70b.json") and text, by
// rising name.
std::vector<std::pair<std::string, absl::string_view>> ShippedLayerFiles();

}  // namespace hone

#endif  // HONE_SERVICE_MODELS_LAYER_FILE_H_
