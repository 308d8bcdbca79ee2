// export and import: bundles between machines.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/convert/config_convert.h"

namespace hone {
namespace {

constexpr size_t kChunk = 256 << 10;
constexpr absl::Duration kTransferTime = absl::Minutes(10);

absl::Status CannotWrite(const std::string& path) {
  return absl::DataLossError(absl::StrCat("cannot write ", path));
}

absl::Status RunExport(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  v1::ExportRequest request;
  HONE_ASSIGN_OR_RETURN(
      const std::optional<int64_t> revision,
      args.Int("revision", 1, std::numeric_limits<int64_t>::max()));
  request.set_revision(revision.value_or(0));
  if (HasLayerFlags(args)) {
    HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
    *request.mutable_problem() = ToProto(problem);
  }
  if (args.Has("out") && args.Get("out").empty())
    return UsageError("--out is empty; it must name a file");

  // A file appears whole or not at all.
  const std::string path = args.Get("out");
  const std::string partial = path + ".partial";
  std::ofstream file;
  if (!path.empty()) {
    file.open(partial, std::ios::binary | std::ios::trunc);
    if (!file) return CannotWrite(partial);
  }
  std::ostream& out = path.empty() ? invocation.env.out : file;

  Connection connection(invocation.addresses[0]);
  grpc::ClientContext context;
  Connection::SetDeadline(context, kTransferTime);
  const auto reader = connection.stub().Export(&context, request);
  v1::ExportResponse response;
  int64_t bytes = 0;
  while (reader->Read(&response)) {
    out << response.chunk();
    bytes += static_cast<int64_t>(response.chunk().size());
  }
  const grpc::Status status = reader->Finish();
  out.flush();
  if (path.empty()) {
    if (!out) return CannotWrite("the standard output");
    return status.ok() ? absl::OkStatus() : connection.ToStatus(status);
  }
  file.close();
  std::error_code error;
  if (!status.ok() || !file) {
    std::filesystem::remove(partial, error);
    return status.ok() ? CannotWrite(partial) : connection.ToStatus(status);
  }
  std::filesystem::rename(partial, path, error);
  if (error) return CannotWrite(path);
  if (invocation.format == Format::kTable) {
    invocation.env.out << "Wrote " << bytes << " bytes to " << path << ".\n";
  } else {
    invocation.env.out
        << JsonObject().Add("file", path).Add("bytes", bytes).Build().text
        << "\n";
  }
  return absl::OkStatus();
}

absl::Status RunImport(const Invocation& invocation) {
  if (invocation.args.positional().empty())
    return UsageError("the bundle's file is missing: hone import FILE");
  const std::string path = invocation.args.positional()[0];
  std::ifstream file(path, std::ios::binary);
  if (!file) return UsageError(absl::StrCat("cannot read the bundle ", path));

  Connection connection(invocation.addresses[0]);
  grpc::ClientContext context;
  Connection::SetDeadline(context, kTransferTime);
  v1::ImportResponse response;
  const auto writer = connection.stub().Import(&context, &response);
  std::string buffer(kChunk, '\0');
  while (file.read(buffer.data(), static_cast<std::streamsize>(kChunk)) ||
         file.gcount() > 0) {
    v1::ImportRequest request;
    request.set_chunk(buffer.data(), static_cast<size_t>(file.gcount()));
    // The daemon has refused; Finish() says why.
    if (!writer->Write(request)) break;
  }
  if (file.bad()) {
    context.TryCancel();
    writer->Finish();
    return UsageError(absl::StrCat("cannot read the bundle ", path));
  }
  writer->WritesDone();
  if (const grpc::Status status = writer->Finish(); !status.ok())
    return connection.ToStatus(status);
  if (invocation.format != Format::kTable) {
    invocation.env.out
        << ToJson(response, invocation.format == Format::kJson).text << "\n";
    return absl::OkStatus();
  }
  invocation.env.out << "Imported " << response.tables_added() << " tables; "
                     << response.tables_known()
                     << " were there already. Revision " << response.revision()
                     << ".\n";
  if (response.tables_added() > 0) {
    invocation.env.out << "Imported tables stay unverified until their winners "
                          "beat the default on this device; hone recheck "
                          "finds out.\n";
  }
  return absl::OkStatus();
}

}  // namespace

Command ExportCommand() {
  Command command;
  command.name = "export";
  command.summary = "write tables and their evidence as a bundle";
  command.details =
      "All tables, or one layer's. The bundle is JSON Lines whatever "
      "--output says.\n";
  command.flags = {{"out", "FILE", "the standard output unless given"},
                   {"revision", "R",
                    "the tables of this revision; the newest "
                    "unless given"}};
  for (Flag& flag : LayerFlags()) command.flags.push_back(std::move(flag));
  command.run = RunExport;
  return command;
}

Command ImportCommand() {
  Command command;
  command.name = "import";
  command.positional = "FILE";
  command.max_positional = 1;
  command.summary = "read a bundle";
  command.details =
      "Local evidence is never replaced. Imported tables stay unverified until "
      "their winners\nbeat the default on this device; hone recheck finds "
      "out.\n";
  command.run = RunImport;
  return command;
}

}  // namespace hone
