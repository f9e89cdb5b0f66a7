//! The certificates that a server's may be signed with: the system's, so that a company's own are among them, else those
//! that come with the program.

use ureq::tls::{parse_pem, PemItem, RootCerts};

/// Where distributions keep them, as one file each.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The variables of OpenSSL, requests and curl go before the system's; one that cannot be read is an error.
pub fn root_certificates(variable: impl Fn(&str) -> Option<String>) -> Result<RootCerts, String> {
    for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"] {
        let Some(path) = variable(name).filter(|value| !value.is_empty()) else { continue };
        return read(&path).ok_or(format!("{name}: '{path}' is no file of certificates (PEM)"));
    }
    Ok(BUNDLES.iter().find_map(|path| read(path)).unwrap_or(RootCerts::WebPki))
}

fn read(path: &str) -> Option<RootCerts> {
    let text = std::fs::read(path).ok()?;
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    (!certificates.is_empty()).then(|| RootCerts::new_with_certs(&certificates))
}
