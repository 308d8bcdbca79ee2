#include "service/models/layer_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/config/status_macros.h"

namespace hone {

// Generated from the files (CMakeLists.txt).
const std::vector<std::pair<absl::string_view, absl::string_view>>&
ModelFiles();

namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr int64_t kMaxDimension = int64_t{1} << 20;

// An object of the file, and what to call it in errors.
class Object {
 public:
  Object(const Struct& fields, std::string where)
      : fields_(fields), where_(std::move(where)) {}

  absl::Status Error(absl::string_view field, absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(where_, ": \"", field, "\" ", what));
  }

  absl::Status OnlyKnows(std::initializer_list<const char*> known) const {
    // By name, so that the first complaint is always the same.
    std::set<std::string> names;
    for (const auto& [name, value] : fields_.fields()) names.insert(name);
    for (const std::string& name : names) {
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        return Error(name, absl::StrCat("is unknown; the fields here are ",
                                        absl::StrJoin(known, ", ")));
      }
    }
    return absl::OkStatus();
  }

  const Value* Find(const char* field) const {
    const auto it = fields_.fields().find(field);
    return it == fields_.fields().end() ? nullptr : &it->second;
  }

  absl::StatusOr<std::string> String(const char* field) const {
    const Value* value = Find(field);
    if (value == nullptr || !value->has_string_value() ||
        value->string_value().empty())
      return Error(field, "must be a text that is not empty");
    return value->string_value();
  }

  absl::StatusOr<int64_t> Int(const char* field, int64_t low, int64_t high,
                              std::optional<int64_t> when_absent) const {
    const Value* value = Find(field);
    if (value == nullptr && when_absent) return *when_absent;
    const double number = value == nullptr ? NAN : value->number_value();
    if (value == nullptr || !value->has_number_value() ||
        number != std::floor(number) || number < low || number > high) {
      return Error(field,
                   absl::StrCat("must be an integer from ", low, " to ", high));
    }
    return static_cast<int64_t>(number);
  }

  absl::StatusOr<DataType> Type(const char* field) const {
    HONE_ASSIGN_OR_RETURN(const std::string text, String(field));
    absl::StatusOr<DataType> type = DataType::Parse(text);
    if (!type.ok()) return Error(field, type.status().message());
    return type;
  }

 private:
  const Struct& fields_;
  const std::string where_;
};

struct Quantization {
  DataType a;
  // Of a preset (mxfp4, ...), which sets the scales; else `b` and `group` do.
  std::string preset;
  DataType b;
  int64_t group = 0;
};

absl::StatusOr<Quantization> ParseQuantization(
    const Object& file, absl::string_view path,
    const LayerFileOptions& options) {
  const Value* value = file.Find("quantization");
  if (value == nullptr || !value->has_struct_value()) {
    return file.Error("quantization",
                      "must be an object with \"a\", \"b\" and \"group\"");
  }
  const Object object(value->struct_value(),
                      absl::StrCat(path, ": quantization"));
  HONE_RETURN_IF_ERROR(object.OnlyKnows({"a", "b", "group"}));
  Quantization out;
  HONE_ASSIGN_OR_RETURN(out.a, object.Type("a"));
  HONE_ASSIGN_OR_RETURN(out.preset, object.String("b"));
  LayerConfig preset;
  if (ApplyPreset(out.preset, preset).ok()) {
    if (object.Find("group") != nullptr || options.b || options.group) {
      return object.Error("b", absl::StrCat("is ", out.preset,
                                            ", which sets the scales: neither "
                                            "\"group\" nor --b nor --group go "
                                            "with it"));
    }
    out.a = options.a.value_or(out.a);
    return out;
  }
  out.preset.clear();
  HONE_ASSIGN_OR_RETURN(out.b, object.Type("b"));
  HONE_ASSIGN_OR_RETURN(out.group,
                        object.Int("group", 0, kMaxDimension, std::nullopt));
  out.a = options.a.value_or(out.a);
  out.b = options.b.value_or(out.b);
  out.group = options.group.value_or(out.group);
  return out;
}

absl::StatusOr<ModelLayer> ParseLayer(const Object& object, std::string model,
                                      const Quantization& quantization,
                                      int64_t tensor_parallel) {
  HONE_RETURN_IF_ERROR(
      object.OnlyKnows({"name", "n", "k", "split", "count", "bias"}));
  ModelLayer layer;
  layer.model = std::move(model);
  HONE_ASSIGN_OR_RETURN(layer.name, object.String("name"));
  HONE_ASSIGN_OR_RETURN(int64_t n,
                        object.Int("n", 1, kMaxDimension, std::nullopt));
  HONE_ASSIGN_OR_RETURN(int64_t k,
                        object.Int("k", 1, kMaxDimension, std::nullopt));
  HONE_ASSIGN_OR_RETURN(layer.count, object.Int("count", 1, 100000, 1));
  HONE_ASSIGN_OR_RETURN(const std::string split, object.String("split"));
  if (split != "n" && split != "k")
    return object.Error("split", "must be \"n\" or \"k\"");
  int64_t& divided = split == "n" ? n : k;
  if (divided % tensor_parallel != 0) {
    return object.Error(split.c_str(),
                        absl::StrCat("is ", divided, ", which --tp=",
                                     tensor_parallel, " does not divide"));
  }
  divided /= tensor_parallel;
  const Value* bias = object.Find("bias");
  if (bias != nullptr && !bias->has_bool_value())
    return object.Error("bias", "must be true or false");
  layer.problem =
      DenseProblem(n, k, quantization.a, quantization.b, quantization.group,
                   bias != nullptr && bias->bool_value());
  if (!quantization.preset.empty()) {
    HONE_RETURN_IF_ERROR(ApplyPreset(quantization.preset, layer.problem.layer));
  }
  if (absl::Status status = layer.problem.Validate(); !status.ok())
    return object.Error("name", absl::StrCat("has a layer that is not valid: ",
                                             status.message()));
  return layer;
}

}  // namespace

Problem DenseProblem(int64_t n, int64_t k, const DataType& a, const DataType& b,
                     int64_t group, bool bias) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.a = a;
  problem.layer.b = b;
  const bool narrow = a.bits() < 16;
  problem.layer.c = narrow ? kFloat16 : a;
  problem.layer.b_scale_type = narrow ? kFloat16 : a;
  problem.layer.a_scale = narrow ? InputScale::kToken : InputScale::kNone;
  problem.layer.b_scale =
      group == 0 ? ScaleGranularity::kChannel : ScaleGranularity::kGroup;
  problem.layer.b_group = group;
  problem.layer.bias = bias;
  return problem;
}

absl::StatusOr<std::vector<ModelLayer>> ParseLayerFile(
    absl::string_view path, absl::string_view text,
    const LayerFileOptions& options) {
  Struct root;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text), &root);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is not a JSON object: ", std::string(parsed.message())));
  }
  const Object file(root, std::string(path));
  HONE_RETURN_IF_ERROR(
      file.OnlyKnows({"model", "source", "quantization", "layers"}));
  HONE_ASSIGN_OR_RETURN(const std::string model, file.String("model"));
  HONE_RETURN_IF_ERROR(file.String("source").status());
  HONE_ASSIGN_OR_RETURN(const Quantization quantization,
                        ParseQuantization(file, path, options));
  const Value* list = file.Find("layers");
  if (list == nullptr || !list->has_list_value() ||
      list->list_value().values_size() == 0)
    return file.Error("layers", "must be a list of at least one layer");

  std::vector<ModelLayer> layers;
  std::set<std::string> names;
  for (int i = 0; i < list->list_value().values_size(); ++i) {
    const Value& value = list->list_value().values(i);
    std::string where = absl::StrCat(path, ": layer ", i + 1);
    if (!value.has_struct_value())
      return absl::InvalidArgumentError(
          absl::StrCat(where, " must be an object"));
    const auto name = value.struct_value().fields().find("name");
    if (name != value.struct_value().fields().end() &&
        name->second.has_string_value())
      absl::StrAppend(&where, " (", name->second.string_value(), ")");
    const Object object(value.struct_value(), where);
    HONE_ASSIGN_OR_RETURN(
        ModelLayer layer,
        ParseLayer(object, model, quantization, options.tensor_parallel));
    layer.problem.compute.batch_invariant = options.batch_invariant;
    if (!names.insert(layer.name).second)
      return object.Error("name", "is used by an earlier layer");
    layers.push_back(std::move(layer));
  }
  for (const std::string& wanted : options.layers) {
    if (names.count(wanted) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--layers names '", wanted, "', but ", path, " has ",
                       absl::StrJoin(names, ", ")));
    }
  }
  std::erase_if(layers, [&](const ModelLayer& layer) {
    return !options.layers.empty() &&
           std::find(options.layers.begin(), options.layers.end(),
                     layer.name) == options.layers.end();
  });
  return layers;
}

absl::StatusOr<std::vector<ModelLayer>> ReadLayerFile(
    const std::string& path, const LayerFileOptions& options) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read the layer file ", path));
  return ParseLayerFile(path, text.str(), options);
}

std::vector<std::pair<std::string, absl::string_view>> ShippedLayerFiles() {
  std::vector<std::pair<std::string, absl::string_view>> files;
  for (const auto& [path, text] : ModelFiles())
    files.emplace_back(path.substr(path.rfind('/') + 1), text);
  return files;
}

}  // namespace hone
