#include "service/cli/traffic_file.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/config/problem.h"
#include "kernels/config/status_macros.h"
#include "service/cli/args.h"
#include "service/convert/config_convert.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

constexpr double kMaxCalls = 1e12;

// Fields by name, so that the first complaint is always the same.
using Fields = std::map<std::string, const Value*>;

Fields FieldsOf(const Struct& object) {
  Fields fields;
  for (const auto& [name, value] : object.fields()) fields[name] = &value;
  return fields;
}

absl::Status OnlyKnows(const Fields& fields, absl::string_view where,
                       absl::string_view one, absl::string_view other) {
  for (const auto& [name, value] : fields) {
    if (name != one && name != other) {
      return UsageError(absl::StrCat(where, ": \"", name,
                                     "\" is unknown; the fields here are ", one,
                                     " and ", other));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseProblem(const Value& value, const std::string& where,
                          v1::ProblemCalls& out) {
  if (!value.has_struct_value())
    return UsageError(absl::StrCat(where, " must be an object"));
  const Fields fields = FieldsOf(value.struct_value());
  HONE_RETURN_IF_ERROR(OnlyKnows(fields, where, "problem", "calls"));
  const auto text = fields.find("problem");
  if (text == fields.end() || !text->second->has_string_value()) {
    return UsageError(absl::StrCat(
        where, ": \"problem\" must be a problem's canonical text, such as ",
        "n=8192,k=8192,b=int4,b_scale=group,b_group=128"));
  }
  std::string canonical = text->second->string_value();
  if (!absl::StrContains(canonical, ';'))
    absl::StrAppend(&canonical, ";", ComputeConfig().ToString());
  const absl::StatusOr<Problem> problem = Problem::Parse(canonical);
  absl::Status valid = problem.status();
  if (valid.ok()) valid = problem->Validate();
  if (!valid.ok()) {
    return UsageError(absl::StrCat(where, ": \"problem\": ", valid.message()));
  }
  *out.mutable_problem() = ToProto(*problem);
  const auto calls = fields.find("calls");
  if (calls == fields.end() || !calls->second->has_struct_value() ||
      calls->second->struct_value().fields().empty()) {
    return UsageError(
        absl::StrCat(where,
                     ": \"calls\" must be an object of counts by M, such as "
                     "{\"1\": 1000, \"16\": 20}"));
  }
  std::map<int64_t, int64_t> by_m;
  for (const auto& [name, count] : FieldsOf(calls->second->struct_value())) {
    int64_t m = 0;
    if (!absl::SimpleAtoi(name, &m) || m < 1 || m > int64_t{1} << 30) {
      return UsageError(absl::StrCat(where, ": \"calls\" has \"", name,
                                     "\"; M must be 1 to ", int64_t{1} << 30));
    }
    const double number = count->number_value();
    if (!count->has_number_value() || number != std::floor(number) ||
        number < 1 || number > kMaxCalls) {
      return UsageError(absl::StrCat(where, ": \"calls\" at M = ", m,
                                     " must be an integer from 1 to 10^12"));
    }
    by_m[m] += static_cast<int64_t>(number);
  }
  for (const auto& [m, count] : by_m) {
    v1::CallCount* call = out.add_calls();
    call->set_m(m);
    call->set_calls(count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::ReportTrafficRequest> ParseTrafficFile(
    absl::string_view path, absl::string_view text) {
  Struct root;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage(std::string(text), &root);
  if (!parsed.ok()) {
    return UsageError(absl::StrCat(
        path, " is not a JSON object: ", std::string(parsed.message())));
  }
  const Fields fields = FieldsOf(root);
  HONE_RETURN_IF_ERROR(OnlyKnows(fields, path, "report_id", "problems"));
  v1::ReportTrafficRequest request;
  if (const auto id = fields.find("report_id"); id == fields.end()) {
    request.set_report_id(NewUuid());
  } else if (id->second->has_string_value()) {
    request.set_report_id(id->second->string_value());
  } else {
    return UsageError(absl::StrCat(path, ": \"report_id\" must be a UUID"));
  }
  const auto problems = fields.find("problems");
  if (problems == fields.end() || !problems->second->has_list_value() ||
      problems->second->list_value().values_size() == 0) {
    return UsageError(absl::StrCat(
        path, ": \"problems\" must be a list of at least one problem"));
  }
  const auto& list = problems->second->list_value();
  for (int i = 0; i < list.values_size(); ++i) {
    HONE_RETURN_IF_ERROR(ParseProblem(list.values(i),
                                      absl::StrCat(path, ": problem ", i + 1),
                                      *request.add_problems()));
  }
  return request;
}

absl::StatusOr<v1::ReportTrafficRequest> ReadTrafficFile(
    const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return UsageError(absl::StrCat("cannot read the traffic file ", path));
  return ParseTrafficFile(path, text.str());
}

}  // namespace hone
