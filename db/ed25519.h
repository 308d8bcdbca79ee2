// Ed25519 signatures by OpenSSL, over a whole text, with PEM keys as
// `openssl genpkey -algorithm ed25519` makes them.
#ifndef HONE_DB_ED25519_H_
#define HONE_DB_ED25519_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// 128 lower-case hex digits. InvalidArgument: not a private Ed25519 key.
absl::StatusOr<std::string> SignEd25519(absl::string_view text,
                                        absl::string_view private_key_pem);

// PermissionDenied: not the signature of this text by this key's owner.
// InvalidArgument: not a public Ed25519 key.
absl::Status VerifyEd25519(absl::string_view text,
                           absl::string_view signature_hex,
                           absl::string_view public_key_pem);

}  // namespace hone

#endif  // HONE_DB_ED25519_H_
