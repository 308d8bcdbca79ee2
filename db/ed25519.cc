#include "db/ed25519.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

// A key in an encrypted PEM is refused rather than asked for on a terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

using PemReader = EVP_PKEY* (*)(BIO*, EVP_PKEY**, pem_password_cb*, void*);

absl::StatusOr<Key> ReadKey(absl::string_view pem, PemReader reader,
                            absl::string_view what) {
  const std::unique_ptr<BIO, Free> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Key key(bio == nullptr ? nullptr
                         : reader(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr || EVP_PKEY_base_id(key.get()) != EVP_PKEY_ED25519) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key must be ", what,
                     " Ed25519 key in PEM, without "
                     "a passphrase"));
  }
  return key;
}

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

absl::StatusOr<std::string> SignEd25519(absl::string_view text,
                                        absl::string_view private_key_pem) {
  HONE_ASSIGN_OR_RETURN(
      const Key key,
      ReadKey(private_key_pem, PEM_read_bio_PrivateKey, "a private"));
  const Context context(EVP_MD_CTX_new());
  unsigned char signature[64];
  size_t size = sizeof(signature);
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) !=
          1 ||
      EVP_DigestSign(context.get(), signature, &size, Bytes(text),
                     text.size()) != 1) {
    ERR_clear_error();
    return absl::InternalError("OpenSSL could not sign");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(signature), size));
}

absl::Status VerifyEd25519(absl::string_view text,
                           absl::string_view signature_hex,
                           absl::string_view public_key_pem) {
  HONE_ASSIGN_OR_RETURN(
      const Key key, ReadKey(public_key_pem, PEM_read_bio_PUBKEY, "a public"));
  const std::string signature = absl::HexStringToBytes(signature_hex);
  const Context context(EVP_MD_CTX_new());
  const bool good =
      context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr,
                           key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(),
                       Bytes(text), text.size()) == 1;
  ERR_clear_error();
  if (good) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "the signature is not of this text by the key's owner");
}

}  // namespace hone
