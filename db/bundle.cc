#include "db/bundle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/ed25519.h"
#include "db/json.h"
#include "db/table_json.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

constexpr absl::string_view kFormat = "hone-bundle";
constexpr int64_t kVersion = 1;
constexpr absl::string_view kSignatureKey = "ed25519";

struct Manifest {
  int64_t devices = 0;
  int64_t tables = 0;
  std::string sha256;
};

std::string ManifestLine(const Manifest& manifest) {
  return WriteJson(Json(JsonObject{{"devices", Json(manifest.devices)},
                                   {"format", Json(std::string(kFormat))},
                                   {"sha256", Json(manifest.sha256)},
                                   {"tables", Json(manifest.tables)},
                                   {"version", Json(kVersion)}}));
}

absl::StatusOr<Manifest> ReadManifest(absl::string_view line) {
  HONE_ASSIGN_OR_RETURN(const Json json, ReadJson(line));
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, ""));
  Manifest manifest;
  std::string format;
  int64_t version = 0;
  HONE_RETURN_IF_ERROR(fields.Get("format", format));
  if (format != kFormat) {
    return absl::InvalidArgumentError(absl::StrCat(
        "format is \"", format, "\"; it must be \"", kFormat, "\""));
  }
  HONE_RETURN_IF_ERROR(fields.Get("version", version));
  if (version != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("version is ", version, "; this Hone reads ", kVersion));
  }
  HONE_RETURN_IF_ERROR(fields.Get("devices", manifest.devices));
  HONE_RETURN_IF_ERROR(fields.Get("tables", manifest.tables));
  HONE_RETURN_IF_ERROR(fields.Get("sha256", manifest.sha256));
  HONE_RETURN_IF_ERROR(fields.Finish());
  return manifest;
}

std::string SignatureLine(absl::string_view hex) {
  return absl::StrCat("{\"", kSignatureKey, "\":\"", hex, "\"}\n");
}

// The text up to a signature line, and the signature in hex ("" if none).
struct SignedText {
  absl::string_view body;
  std::string signature;
};

absl::StatusOr<SignedText> SplitSignature(absl::string_view text) {
  if (text.empty() || text.back() != '\n') {
    return absl::InvalidArgumentError(
        "the bundle must end with an end of line");
  }
  const size_t end = text.substr(0, text.size() - 1).rfind('\n');
  const size_t start = end == text.npos ? 0 : end + 1;
  absl::string_view line = absl::StripSuffix(text.substr(start), "\n");
  if (!absl::ConsumePrefix(&line, absl::StrCat("{\"", kSignatureKey, "\":"))) {
    return SignedText{text, ""};
  }
  if (line.size() != 131 || !absl::ConsumePrefix(&line, "\"") ||
      !absl::ConsumeSuffix(&line, "\"}") ||
      line.find_first_not_of("0123456789abcdef") != line.npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "last line: ", kSignatureKey, " must be 128 lower-case hex digits"));
  }
  return SignedText{text.substr(0, start), std::string(line)};
}

absl::Status AtLine(size_t number, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", number, ": ", status.message()));
}

// The place of a table in a bundle, and what may be in it only once.
std::pair<std::string, std::string> KeyOf(const DispatchTable& table) {
  return {table.problem.ToString(), table.device.ClassHash()};
}

// The first line in which the two differ.
size_t DifferingLine(absl::string_view a, absl::string_view b) {
  const auto [at, other] =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return 1 + static_cast<size_t>(std::count(a.begin(), at, '\n'));
}

absl::StatusOr<std::vector<DispatchTable>> ReadLines(absl::string_view body) {
  // What follows the last end of line is empty.
  const std::vector<absl::string_view> lines =
      absl::StrSplit(body.substr(0, body.size() - 1), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() > kMaxLineBytes) {
      return AtLine(i + 1, absl::InvalidArgumentError(absl::StrCat(
                               "longer than ", kMaxLineBytes, " bytes")));
    }
  }
  const absl::StatusOr<Manifest> manifest = ReadManifest(lines[0]);
  HONE_RETURN_IF_ERROR(AtLine(1, manifest.status()));
  const auto count = static_cast<int64_t>(lines.size()) - 1;
  if (manifest->devices < 0 || manifest->devices > count ||
      manifest->tables != count - manifest->devices) {
    return AtLine(
        1, absl::InvalidArgumentError(absl::StrCat(
               "devices ", manifest->devices, " and tables ", manifest->tables,
               " must be the ", count, " lines that follow")));
  }
  if (Sha256Hex(body.substr(lines[0].size() + 1)) != manifest->sha256) {
    return AtLine(1, absl::InvalidArgumentError(
                         "sha256 is not that of the lines that follow"));
  }
  std::map<std::string, DeviceSpec> devices;
  std::vector<DispatchTable> tables;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (static_cast<int64_t>(i) <= manifest->devices) {
      const absl::StatusOr<DeviceSpec> device = ReadDeviceLine(lines[i]);
      HONE_RETURN_IF_ERROR(AtLine(i + 1, device.status()));
      HONE_RETURN_IF_ERROR(AtLine(i + 1, CheckDevice(*device)));
      devices[DeviceKey(*device)] = *device;
      continue;
    }
    absl::StatusOr<DispatchTable> table = ReadTableLine(lines[i], devices);
    HONE_RETURN_IF_ERROR(AtLine(i + 1, table.status()));
    HONE_RETURN_IF_ERROR(AtLine(i + 1, CheckTable(*table)));
    tables.push_back(*std::move(table));
  }
  return tables;
}

}  // namespace

absl::StatusOr<std::string> RenderBundle(
    absl::Span<const DispatchTable> tables) {
  std::map<std::string, std::string> devices;
  std::map<std::pair<std::string, std::string>, std::string> lines;
  for (const DispatchTable& table : tables) {
    HONE_RETURN_IF_ERROR(CheckTable(table));
    devices.emplace(DeviceKey(table.device), DeviceLine(table.device));
    if (!lines.emplace(KeyOf(table), TableLine(table)).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a bundle has one table per problem and device class; there are two "
          "of ",
          table.problem.ToString(), " on ", table.device.ClassText()));
    }
  }
  std::string rest;
  for (const auto& [key, line] : devices) absl::StrAppend(&rest, line, "\n");
  for (const auto& [key, line] : lines) absl::StrAppend(&rest, line, "\n");
  Manifest manifest;
  manifest.devices = static_cast<int64_t>(devices.size());
  manifest.tables = static_cast<int64_t>(lines.size());
  manifest.sha256 = Sha256Hex(rest);
  return absl::StrCat(ManifestLine(manifest), "\n", rest);
}

absl::StatusOr<std::string> ExportBundle(const Store& store,
                                         const TableFilter& filter) {
  HONE_ASSIGN_OR_RETURN(std::vector<StoredTable> stored, store.Tables(filter));
  if (stored.empty()) {
    return absl::NotFoundError("no table to export: none is stored for this");
  }
  std::vector<DispatchTable> tables;
  for (StoredTable& table : stored) tables.push_back(std::move(table.table));
  return RenderBundle(tables);
}

absl::StatusOr<Bundle> ParseBundle(absl::string_view text,
                                   absl::string_view public_key_pem) {
  if (static_cast<int64_t>(text.size()) > kMaxBundleBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the bundle has ", text.size(), " bytes; at most ",
                     kMaxBundleBytes, " are read"));
  }
  HONE_ASSIGN_OR_RETURN(const SignedText parts, SplitSignature(text));
  if (!public_key_pem.empty()) {
    if (parts.signature.empty()) {
      return absl::PermissionDeniedError(
          "the bundle is not signed, and a key was given to check it");
    }
    HONE_RETURN_IF_ERROR(
        VerifyEd25519(parts.body, parts.signature, public_key_pem));
  }
  if (parts.body.empty()) {
    return absl::InvalidArgumentError("the bundle has no lines");
  }
  Bundle bundle;
  bundle.is_signed = !parts.signature.empty();
  HONE_ASSIGN_OR_RETURN(bundle.tables, ReadLines(parts.body));
  // What the values do not say again is not canonical: order, devices that no
  // table uses, configs in another spelling.
  HONE_ASSIGN_OR_RETURN(const std::string canonical,
                        RenderBundle(bundle.tables));
  if (canonical != parts.body) {
    return AtLine(DifferingLine(canonical, parts.body),
                  absl::InvalidArgumentError("not in canonical form"));
  }
  bundle.sha256 = Sha256Hex(parts.body);
  return bundle;
}

absl::StatusOr<ImportResult> ImportBundle(Store& store, absl::string_view text,
                                          const ImportOptions& options) {
  HONE_ASSIGN_OR_RETURN(const Bundle bundle,
                        ParseBundle(text, options.public_key_pem));
  return store.ImportTables(bundle.tables, bundle.sha256, options.unix_us);
}

absl::StatusOr<std::string> SignBundle(absl::string_view text,
                                       absl::string_view private_key_pem) {
  HONE_RETURN_IF_ERROR(ParseBundle(text).status());
  HONE_ASSIGN_OR_RETURN(const SignedText parts, SplitSignature(text));
  HONE_ASSIGN_OR_RETURN(const std::string signature,
                        SignEd25519(parts.body, private_key_pem));
  return absl::StrCat(parts.body, SignatureLine(signature));
}

}  // namespace hone
