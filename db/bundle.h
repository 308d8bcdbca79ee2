// Bundles: dispatch tables as one text that can be committed, mailed, signed
// and imported elsewhere.
//
// Canonical JSON Lines: keys sorted, no spaces, integers as integers, other
// numbers in their shortest form that reads back the same, UTF-8.
//
//   {"devices":1,"format":"hone-bundle","sha256":"…","tables":2,"version":1}
//   {"device":{…},"key":"…"}          by rising key
//   {"device":"<key>","problem":…}    by rising problem, then device class
//   {"ed25519":"…"}                   optional: signs all lines before it
//
// The SHA-256 is of the lines between the first and the signature. The same
// tables always give the same bytes: no time, machine or revision of the
// exporter is in them. A table's trade-off is left out when there is none, as
// in bundles of versions that did not know of it; those refuse a bundle that
// has one.
#ifndef HONE_DB_BUNDLE_H_
#define HONE_DB_BUNDLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/store.h"
#include "tuner/trial.h"

namespace hone {

// Larger texts are refused before they are read.
inline constexpr int64_t kMaxBundleBytes = int64_t{64} << 20;

// NotFound: no table passes the filter.
absl::StatusOr<std::string> ExportBundle(const Store& store,
                                         const TableFilter& filter = {});

// The bundle of given tables. InvalidArgument: two are of one problem and
// device class, or one does not pass CheckTable() of db/table_json.h.
absl::StatusOr<std::string> RenderBundle(
    absl::Span<const DispatchTable> tables);

struct Bundle {
  std::vector<DispatchTable> tables;
  // Of all lines but the signature: names the bundle.
  std::string sha256;
  // Whether there is a signature; it is checked only against a given key.
  bool is_signed = false;
};

// Checks everything: size, SHA-256, canonical form, every field, every config,
// the tables' ranges; with a public key (PEM, Ed25519) also the signature.
// InvalidArgument names line and field; a missing or wrong signature is
// PermissionDenied.
absl::StatusOr<Bundle> ParseBundle(absl::string_view text,
                                   absl::string_view public_key_pem = "");

struct ImportOptions {
  // When given, the bundle must be signed by this key.
  std::string public_key_pem;
  // When the import happened, microseconds since 1970.
  int64_t unix_us = 0;
};

// ParseBundle(), then all tables in one transaction, unverified. Local tables
// still answer first; the same bundle twice changes nothing.
absl::StatusOr<ImportResult> ImportBundle(Store& store, absl::string_view text,
                                          const ImportOptions& options);

// The bundle with a signature line, replacing one that is there. The key is
// Ed25519, PEM. InvalidArgument: not a bundle, or not such a key.
absl::StatusOr<std::string> SignBundle(absl::string_view text,
                                       absl::string_view private_key_pem);

}  // namespace hone

#endif  // HONE_DB_BUNDLE_H_
