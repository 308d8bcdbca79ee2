// Tables and answers as messages of hone.v1, and back; see config_convert.h.
#ifndef HONE_SERVICE_CONVERT_TABLE_CONVERT_H_
#define HONE_SERVICE_CONVERT_TABLE_CONVERT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hone/v1/table.pb.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/convert/answer.h"
#include "service/convert/errors.h"
#include "tuner/trial.h"

namespace hone {

v1::Protocol ToProto(const Protocol& protocol);
v1::CompileInfo ToProto(const CompileInfo& compile);
v1::Evidence ToProto(const Evidence& evidence);
v1::TableEntry ToProto(const TableEntry& entry);
v1::TradeOffStep ToProto(const TradeOffPoint& point);
// Without the trade-off, which answers carry beside the table.
v1::DispatchTable ToProto(const DispatchTable& table);
v1::Provenance ToProto(const Provenance& provenance);
v1::GetConfigResponse ToProto(const ConfigAnswer& answer);
v1::GetTableResponse ToProto(const TableAnswer& answer);

Protocol FromProto(const v1::Protocol& protocol);
CompileInfo FromProto(const v1::CompileInfo& compile);
Evidence FromProto(const v1::Evidence& evidence);
TradeOffPoint FromProto(const v1::TradeOffStep& step);
TableEntry FromProto(const v1::TableEntry& entry, absl::string_view path,
                     FieldErrors& errors);
DispatchTable FromProto(const v1::DispatchTable& table, absl::string_view path,
                        FieldErrors& errors);
Provenance FromProto(const v1::Provenance& provenance, absl::string_view path,
                     FieldErrors& errors);

// Converted, and the table checked for holes. InvalidArgument with field
// violations.
absl::StatusOr<ConfigAnswer> AnswerFromProto(
    const v1::GetConfigResponse& response);
absl::StatusOr<TableAnswer> AnswerFromProto(
    const v1::GetTableResponse& response);

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_TABLE_CONVERT_H_
