#include "service/web/answer.h"

#include <algorithm>
#include <limits>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

constexpr char kFieldPayload[] = "hone.web/field";

absl::Status OfField(absl::Status status, absl::string_view field) {
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
      return 503;
    default:
      return 500;
  }
}

// The scales of B, in words; nothing for none.
std::string ScaleWords(const LayerConfig& layer) {
  switch (layer.b_scale) {
    case ScaleGranularity::kNone:
      return "";
    case ScaleGranularity::kBlock:
      return absl::StrCat(" block ", layer.b_group_n, "×", layer.b_group);
    case ScaleGranularity::kGroup:
      return absl::StrCat(" group ", layer.b_group);
    case ScaleGranularity::kGroupTensor:
      return absl::StrCat(" group ", layer.b_group, " + tensor");
    case ScaleGranularity::kTensor:
    case ScaleGranularity::kChannel:
      break;
  }
  return absl::StrCat(" per ", ToString(layer.b_scale));
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view message) {
  return OfField(absl::InvalidArgumentError(message), field);
}

absl::Status FieldNotFound(absl::string_view field, absl::string_view message) {
  return OfField(absl::NotFoundError(message), field);
}

HttpResponse ErrorAnswer(const absl::Status& status) {
  const auto field = status.GetPayload(kFieldPayload);
  return HttpError(HttpStatusOf(status), field ? std::string(*field) : "",
                   status.message());
}

absl::StatusOr<QueryFields> QueryFields::Of(
    const HttpRequest& request, std::initializer_list<const char*> known) {
  QueryFields fields;
  for (const auto& [name, value] : request.query) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return FieldError(
          name, known.size() == 0
                    ? std::string("is unknown; there are no fields here")
                    : absl::StrCat("is unknown; the fields here are ",
                                   absl::StrJoin(known, ", ")));
    }
    for (const auto& [other, ignored] : fields.fields_) {
      if (other == name) return FieldError(name, "is given twice");
    }
    fields.fields_.emplace_back(name, value);
  }
  return fields;
}

const std::string* QueryFields::Find(absl::string_view name) const {
  for (const auto& [field, value] : fields_) {
    if (field == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<std::string> QueryFields::Text(absl::string_view name) const {
  const std::string* text = Find(name);
  if (text == nullptr || text->empty()) return FieldError(name, "is missing");
  return *text;
}

absl::StatusOr<std::string> QueryFields::Hash(absl::string_view name) const {
  const auto is_hex = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  const std::string* text = Find(name);
  if (text == nullptr || text->size() != 64 ||
      !std::all_of(text->begin(), text->end(), is_hex)) {
    return FieldError(
        name,
        absl::StrCat("must be 64 hex digits in lower case, as /api/v1/",
                     name == "class" ? "classes" : "problems", " lists them"));
  }
  return *text;
}

absl::StatusOr<std::optional<int64_t>> QueryFields::Int(absl::string_view name,
                                                        int64_t low,
                                                        int64_t high) const {
  const std::string* text = Find(name);
  if (text == nullptr) return std::nullopt;
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number) || number < low || number > high) {
    return FieldError(
        name,
        high == std::numeric_limits<int64_t>::max()
            ? absl::StrCat("must be an integer of at least ", low)
            : absl::StrCat("must be an integer from ", low, " to ", high));
  }
  return number;
}

absl::StatusOr<DeviceSpec> DeviceOfClass(const WebParts& parts,
                                         const StoreSnapshot& store,
                                         absl::string_view class_hash) {
  absl::StatusOr<DeviceSpec> device = store.DeviceOf(class_hash);
  if (device.ok() || !absl::IsNotFound(device.status())) return device;
  if (parts.device && parts.device->ClassHash() == class_hash)
    return *parts.device;
  HONE_ASSIGN_OR_RETURN(const std::vector<BrowsedClass> classes,
                        store.Classes());
  std::string known;
  for (const BrowsedClass& browsed : classes) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", browsed.hash, " (",
                    browsed.devices.back().name, ")");
  }
  return FieldNotFound(
      "class", known.empty() ? std::string("is not known; nothing was recorded "
                                           "on any device yet")
                             : absl::StrCat("is not known; there are ", known));
}

absl::StatusOr<Problem> ProblemOf(const StoreSnapshot& store,
                                  absl::string_view problem_hash) {
  absl::StatusOr<Problem> problem = store.FindProblem(problem_hash);
  if (!absl::IsNotFound(problem.status())) return problem;
  return FieldNotFound("problem",
                       "is not known; /api/v1/problems lists those that are");
}

HttpResponse JsonAnswer(JsonWriter json) {
  HttpResponse response;
  response.content_type = "application/json; charset=utf-8";
  response.body = std::move(json).Take();
  return response;
}

absl::StatusOr<std::string> EtagOf(const WebParts& parts,
                                   const StoreSnapshot& store) {
  HONE_ASSIGN_OR_RETURN(const std::string version, store.Version());
  return absl::StrCat(parts.process, ".", version);
}

std::string ProblemLabel(const Problem& problem) {
  const LayerConfig& layer = problem.layer;
  const ComputeConfig& compute = problem.compute;
  std::string label =
      absl::StrCat(layer.n, "×", layer.k, " ", layer.a.ToString(), " × ",
                   layer.b.ToString(), ScaleWords(layer));
  const auto add = [&label](bool given, absl::string_view words) {
    if (given) absl::StrAppend(&label, ", ", words);
  };
  const bool own_type = layer.b_scale != ScaleGranularity::kNone &&
                        layer.b_scale_type != kFloat16 &&
                        layer.b_scale_type != layer.a;
  add(own_type, absl::StrCat(layer.b_scale_type.ToString(), " scales"));
  add(layer.b_scale_window, "windowed");
  add(layer.zero_point != ZeroPoint::kNone,
      absl::StrCat(ToString(layer.zero_point), " zero points"));
  add(layer.bias, "bias");
  add(layer.experts > 1, absl::StrCat(layer.experts, " experts"));
  add(compute.batch_invariant, "batch-invariant");
  add(compute.accumulator != kFloat32,
      absl::StrCat(compute.accumulator.ToString(), " sums"));
  return label;
}

void WriteDevice(JsonWriter& json, absl::string_view key,
                 const DeviceSpec& device) {
  json.Key(key)
      .BeginObject()
      .Field("class", device.ClassHash())
      .Field("name", device.name)
      .Field("uuid", device.uuid)
      .Field("modelled", device.modelled())
      .Field("sm_arch", device.sm_arch)
      .Field("sm_count", device.sm_count)
      .FieldOrNull("l2_bytes", device.l2_bytes)
      .Field("driver", device.driver)
      .Field("vbios", device.vbios)
      .FieldOrNull("power_limit_w",
                   static_cast<double>(device.power_limit_mw) / 1e3)
      .Field("ecc", device.ecc)
      .FieldOrNull("memory_bytes", device.memory_bytes)
      .FieldOrNull("memory_gbps", device.memory_gbps)
      .FieldOrNull("peak_tflops", device.peak_tflops)
      .FieldOrNull("mma_sync_tflops", device.mma_sync_tflops)
      .FieldOrNull("max_clock_mhz",
                   static_cast<double>(device.max_clock_khz) / 1e3)
      .EndObject();
}

void WriteProblem(JsonWriter& json, const Problem& problem) {
  json.Field("problem", problem.Hash())
      .Field("text", problem.ToString())
      .Field("label", ProblemLabel(problem));
}

}  // namespace hone
