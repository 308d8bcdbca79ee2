#include "service/cli/layer_flags.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "service/models/layer_file.h"

namespace hone {
namespace {

constexpr int64_t kMaxDimension = int64_t{1} << 20;
constexpr size_t kMaxLadder = 256;

// A flag's type; `when_absent` when it is not given.
absl::StatusOr<DataType> TypeFlag(const ParsedArgs& args,
                                  absl::string_view flag,
                                  const DataType& when_absent) {
  if (!args.Has(flag)) return when_absent;
  absl::StatusOr<DataType> type = DataType::Parse(args.Get(flag));
  if (!type.ok()) {
    return UsageError(absl::StrCat("--", flag, ": ", type.status().message()));
  }
  return type;
}

// A flag's choice among `kinds`; `when_absent` when it is not given.
template <typename Kind>
absl::StatusOr<Kind> KindFlag(const ParsedArgs& args, absl::string_view flag,
                              std::initializer_list<Kind> kinds,
                              Kind when_absent) {
  if (!args.Has(flag)) return when_absent;
  std::vector<absl::string_view> names;
  for (const Kind kind : kinds) {
    if (args.Get(flag) == ToString(kind)) return kind;
    names.push_back(ToString(kind));
  }
  return UsageError(absl::StrCat("--", flag, " is '", args.Get(flag),
                                 "'; it must be one of ",
                                 absl::StrJoin(names, ", ")));
}

// Validate()'s message with the flag in place of the field.
std::string WithFlagNames(absl::string_view message) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"layer.n", "--n"},
      {"layer.k", "--k"},
      {"layer.a", "--a"},
      {"layer.b", "--b"},
      {"layer.c", "--c"},
      {"layer.b_group", "--group"},
      {"layer.a_scale", "--a-scale"},
      {"layer.a_group", "--a-group"},
      {"layer.b_scale_type", "--a"},
      {"layer.b_scale_window", "--scale-window"},
      {"layer.zero_point", "--zero-point"}};
  const size_t end = message.find(' ');
  for (const auto& [field, flag] : kNames) {
    if (message.substr(0, end) == field)
      return absl::StrCat(flag, message.substr(end));
  }
  return std::string(message);
}

}  // namespace

std::vector<Flag> LayerFlags() {
  return {
      {"n", "N", "rows of the weights: output features"},
      {"k", "K", "columns of the weights: input features"},
      {"a", "TYPE",
       "activations: float16 (default), bfloat16, float8e4m3, float8e5m2, "
       "int8, "
       "int4 or float4e2m1"},
      {"a-scale", "KIND",
       "scales of 8- and 4-bit activations: token (default), group, tensor or "
       "none"},
      {"a-group", "G",
       "activations along K that share a scale: 16 to 1024; with "
       "--a-scale=group"},
      {"b", "TYPE",
       "weights: int4 (default) or another type of at most 8 bits, such as "
       "uint3, int8, float8e4m3; or mxfp4, mxfp8, nvfp4, which set the scales "
       "too"},
      {"c", "TYPE",
       "output: float16 or bfloat16; the type of the activations where it is "
       "one of these, else float16, unless given"},
      {"group", "G",
       "weights along K that share a scale: 16 to 256, or 0 (default) for one "
       "scale per channel"},
      {"zero-point", "KIND", "none (default), integer or float"},
      {"scale-window", "",
       "the scales of each channel keep within the octaves that 8-bit "
       "activations' type has room for (mxfp4 with float8 activations): "
       "faster"},
      {"bias", "", "the layer adds a bias"},
      {"batch-invariant", "",
       "a row of activations gives the same bits of output whatever rows it is "
       "batched with"},
      {"problem", "TEXT",
       "the whole problem in canonical text, instead of the "
       "flags above"},
  };
}

bool HasLayerFlags(const ParsedArgs& args) {
  for (const Flag& flag : LayerFlags()) {
    if (args.Has(flag.name)) return true;
  }
  return false;
}

absl::StatusOr<Problem> ProblemFromFlags(const ParsedArgs& args) {
  if (args.Has("problem")) {
    for (const Flag& flag : LayerFlags()) {
      if (flag.name != "problem" && args.Has(flag.name)) {
        return UsageError(absl::StrCat("--", flag.name,
                                       " cannot stand beside --problem, which "
                                       "holds the whole layer"));
      }
    }
    absl::StatusOr<Problem> problem = Problem::Parse(args.Get("problem"));
    absl::Status status = problem.ok() ? problem->Validate() : problem.status();
    if (!status.ok())
      return UsageError(absl::StrCat("--problem: ", status.message()));
    return problem;
  }
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> n,
                        args.Int("n", 1, kMaxDimension));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> k,
                        args.Int("k", 1, kMaxDimension));
  if (!n || !k) {
    return UsageError(absl::StrCat(
        n ? "--k" : "--n", " is missing: a layer needs --n and --k (1 to ",
        kMaxDimension, " each), or --problem"));
  }
  HONE_ASSIGN_OR_RETURN(const DataType a, TypeFlag(args, "a", kFloat16));
  LayerConfig preset;
  const bool is_preset = ApplyPreset(args.Get("b"), preset).ok();
  if (is_preset && (args.Has("group") || args.Has("zero-point"))) {
    return UsageError(
        absl::StrCat(args.Has("group") ? "--group" : "--zero-point",
                     " cannot stand beside --b=", args.Get("b"),
                     ", which says how weights are scaled"));
  }
  DataType b = preset.b;
  if (!is_preset) {
    HONE_ASSIGN_OR_RETURN(b, TypeFlag(args, "b", kInt4));
  }
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> group,
                        args.Int("group", 0, kMaxDimension));
  Problem problem =
      DenseProblem(*n, *k, a, b, group.value_or(0), args.Has("bias"));
  problem.compute.batch_invariant = args.Has("batch-invariant");
  HONE_ASSIGN_OR_RETURN(problem.layer.c, TypeFlag(args, "c", problem.layer.c));
  HONE_ASSIGN_OR_RETURN(problem.layer.a_scale,
                        KindFlag(args, "a-scale",
                                 {InputScale::kNone, InputScale::kTensor,
                                  InputScale::kToken, InputScale::kGroup},
                                 problem.layer.a_scale));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> a_group,
                        args.Int("a-group", 0, kMaxDimension));
  problem.layer.a_group = a_group.value_or(0);
  problem.layer.b_scale_window = args.Has("scale-window");
  if (is_preset) {
    HONE_RETURN_IF_ERROR(ApplyPreset(args.Get("b"), problem.layer));
  }
  HONE_ASSIGN_OR_RETURN(
      problem.layer.zero_point,
      KindFlag(args, "zero-point",
               {ZeroPoint::kNone, ZeroPoint::kInteger, ZeroPoint::kFloat},
               problem.layer.zero_point));
  if (absl::Status status = problem.Validate(); !status.ok())
    return UsageError(WithFlagNames(status.message()));
  return problem;
}

absl::StatusOr<std::vector<int64_t>> LadderFromFlags(const ParsedArgs& args,
                                                     absl::string_view flag) {
  std::vector<int64_t> ladder;
  if (!args.Has(flag)) return ladder;
  const std::string list = args.Get(flag);
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    int64_t m = 0;
    if (!absl::SimpleAtoi(part, &m) || m < 1 ||
        (!ladder.empty() && m <= ladder.back()) ||
        ladder.size() == kMaxLadder) {
      return UsageError(absl::StrCat(
          "--", flag, " has '", part, "'; it must be a rising list of at most ",
          kMaxLadder, " integers from 1, such as 1,2,4"));
    }
    ladder.push_back(m);
  }
  return ladder;
}

}  // namespace hone
