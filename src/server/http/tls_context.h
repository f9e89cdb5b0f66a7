// The certificate and keys that an HTTPS server shows, and whose certificates it asks of its clients.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace quire {

/// Paths of PEM files, as --ssl-certfile, --ssl-keyfile and --ssl-ca-certs name them, and --ssl-cert-reqs.
struct TlsOptions {
  enum class ClientCertificate : uint8_t { kNone, kOptional, kRequired };

  std::string certificate_file;  ///< the server's certificate, followed by those that vouch for it
  std::string key_file;          ///< its private key; empty: in the certificate's file
  std::string ca_file;           ///< who vouches for clients
  ClientCertificate client_certificate = ClientCertificate::kNone;
};

/// TLS 1.2 and 1.3, as OpenSSL's defaults have them, without renegotiation.
class TlsContext {
 public:
  /// Reads the files. Errors are one sentence that names the flag and the file.
  static Result<std::shared_ptr<TlsContext>> load(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  boost::asio::ssl::context& context() { return *context_; }

 private:
  TlsContext();
  Status read(const TlsOptions& options);

  std::unique_ptr<boost::asio::ssl::context> context_;
};

}  // namespace quire
