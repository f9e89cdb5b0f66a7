// OpenSSL through Asio.
#include "server/http/tls_context.h"

#include <fmt/format.h>

#include <boost/asio/ssl/context.hpp>

namespace quire {

namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;
using ClientCertificate = TlsOptions::ClientCertificate;

Error cannot_read(const char* flag, const std::string& path, const char* what, const error_code& error) {
  return invalid_argument(fmt::format("{} '{}' cannot be read as {}: {}.", flag, path, what, error.message()),
                          flag + 2);
}

ssl::verify_mode verify_mode(ClientCertificate asked) {
  if (asked == ClientCertificate::kNone) return ssl::verify_none;
  return asked == ClientCertificate::kOptional ? ssl::verify_peer : ssl::verify_peer | ssl::verify_fail_if_no_peer_cert;
}

}  // namespace

TlsContext::TlsContext() : context_(std::make_unique<ssl::context>(ssl::context::tls_server)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::load(const TlsOptions& options) {
  std::shared_ptr<TlsContext> tls(new TlsContext());
  QUIRE_RETURN_IF_ERROR(tls->read(options));
  return tls;
}

Status TlsContext::read(const TlsOptions& options) {
  ssl::context& context = *context_;
  SSL_CTX* const native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION);
  error_code error;
  // A key with a pass phrase is refused; without this OpenSSL would ask the terminal for it.
  context.set_password_callback([](size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context.use_certificate_chain_file(options.certificate_file, error);
  if (error) return cannot_read("--ssl-certfile", options.certificate_file, "a certificate in PEM form", error);
  const bool own_key = !options.key_file.empty();
  const std::string& key = own_key ? options.key_file : options.certificate_file;
  context.use_private_key_file(key, ssl::context::pem, error);
  if (error) {
    return cannot_read(own_key ? "--ssl-keyfile" : "--ssl-certfile", key,
                       "the certificate's private key in PEM form, without a pass phrase", error);
  }
  if (!options.ca_file.empty()) {
    context.load_verify_file(options.ca_file, error);
    if (error) return cannot_read("--ssl-ca-certs", options.ca_file, "certificates in PEM form", error);
    SSL_CTX_set_client_CA_list(native, SSL_load_client_CA_file(options.ca_file.c_str()));
  }
  context.set_verify_mode(verify_mode(options.client_certificate), error);
  constexpr unsigned char kSessionContext[] = "quire";  // without one, sessions of verified clients cannot be resumed
  SSL_CTX_set_session_id_context(native, kSessionContext, sizeof kSessionContext - 1);
  return {};
}

}  // namespace quire
