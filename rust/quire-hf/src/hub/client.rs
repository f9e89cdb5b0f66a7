//! Requests to the hub, with redirects followed here: the token goes to the endpoint's own origin and nowhere else.

use std::time::Duration;

use ureq::http::{header, HeaderMap, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use super::failure::Trouble;
use super::roots::root_certificates;
use crate::ffi::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for one response's body. A connection that stands still is seen by it; a file that needs longer goes on in
/// another request, from where it is.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_REDIRECTS: usize = 10;
/// Waits before the second try and those after it.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

pub struct Client {
    agent: Agent,
    endpoint: Uri,
    token: Option<String>,
}

/// What is asked for.
pub struct Request<'a> {
    pub url: &'a str,
    /// Headers alone, and not those of another host: the hub's own describe the file that it redirects to.
    pub metadata: bool,
    /// The first byte that is wanted.
    pub from: u64,
}

impl Client {
    pub fn new(endpoint: &str, token: Option<String>) -> Result<Self, String> {
        let roots = root_certificates(|name| std::env::var(name).ok())?;
        let agent = Agent::config_builder()
            .tls_config(ureq::tls::TlsConfig::builder().root_certs(roots).build())
            .user_agent(concat!("quire/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_send_request(Some(ANSWER_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_recv_body(Some(BODY_TIMEOUT))
            .build()
            .new_agent();
        let endpoint = endpoint.parse().map_err(|_| format!("'{endpoint}' is no address"))?;
        Ok(Client { agent, endpoint, token })
    }

    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The answer, whatever its status, but for what another try may mend.
    pub fn send(&self, request: &Request) -> Result<Response<Body>, Trouble> {
        let mut target = parse(request.url)?;
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(&target, request)?;
            let Some(next) = redirect_target(&target, &response)? else { return judge(&target, response) };
            if request.metadata && origin(&next) != origin(&target) {
                return Ok(response);
            }
            target = next;
        }
        Err(Trouble::invalid(format!("{} leads through more than {MAX_REDIRECTS} redirects", request.url)))
    }

    fn send_once(&self, target: &Uri, request: &Request) -> Result<Response<Body>, Trouble> {
        let mut builder = match request.metadata {
            true => self.agent.head(target),
            false => self.agent.get(target),
        };
        // Sizes and ranges are those of the file as it is stored.
        builder = builder.header(header::ACCEPT_ENCODING, "identity");
        if request.from > 0 {
            builder = builder.header(header::RANGE, format!("bytes={}-", request.from));
        }
        if let (Some(token), true) = (&self.token, origin(target) == origin(&self.endpoint)) {
            builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        builder.call().map_err(|error| connection_trouble(target, error))
    }
}

/// Calls `attempt` until it succeeds, fails for good, or has failed in passing five times with no progress between.
/// `attempt` says by its first result whether it has brought something. `pausing` is called ten times a second between.
pub fn with_retries<T>(
    pausing: &mut dyn FnMut() -> Result<(), Trouble>,
    mut attempt: impl FnMut(&mut dyn FnMut() -> Result<(), Trouble>) -> (bool, Result<T, Trouble>),
) -> Result<T, Trouble> {
    let mut failures = 0;
    loop {
        let (progress, result) = attempt(pausing);
        match result {
            Err(Trouble::Unreached(message) | Trouble::Passing(message)) => {
                failures = if progress { 0 } else { failures };
                let Some(pause) = PAUSES.get(failures) else {
                    let tries = PAUSES.len() + 1;
                    return Err(Trouble::Passing(format!("{message} (tried {tries} times)")));
                };
                failures += 1;
                let end = std::time::Instant::now() + *pause;
                while std::time::Instant::now() < end {
                    pausing()?;
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
            other => return other,
        }
    }
}

fn parse(url: &str) -> Result<Uri, Trouble> {
    url.parse().map_err(|_| Trouble::invalid(format!("'{}' is no address", url.escape_debug())))
}

/// Scheme, host and port.
fn origin(uri: &Uri) -> (String, String, u16) {
    let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    (scheme, uri.host().unwrap_or_default().to_ascii_lowercase(), port)
}

pub fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Where a redirect leads; None for every other answer.
fn redirect_target(from: &Uri, response: &Response<Body>) -> Result<Option<Uri>, Trouble> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = header_text(response.headers(), "location").unwrap_or_default();
    let next = join(from, location).ok_or_else(|| {
        Trouble::invalid(format!("{} redirects to '{}', which is no address", host(from), location.escape_debug()))
    })?;
    if from.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
        return Err(Trouble::invalid(format!("{} redirects to {}, which is not encrypted", host(from), host(&next))));
    }
    Ok(Some(next))
}

fn join(from: &Uri, location: &str) -> Option<Uri> {
    let scheme = from.scheme_str()?;
    let absolute = match location {
        _ if location.starts_with("http://") || location.starts_with("https://") => location.to_string(),
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{}{location}", from.authority()?),
        _ => return None,
    };
    absolute.parse().ok().filter(|uri: &Uri| uri.host().is_some())
}

fn host(uri: &Uri) -> String {
    format!("{}://{}", uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |authority| authority.as_str()))
}

/// Takes what a server says of its own state out of the answers.
fn judge(target: &Uri, response: Response<Body>) -> Result<Response<Body>, Trouble> {
    let status = response.status();
    match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::REQUEST_TIMEOUT {
        true => Err(Trouble::Passing(format!("{} answers {status}", host(target)))),
        false => Ok(response),
    }
}

/// Whether there was a connection.
fn is_broken(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, Interrupted, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | Interrupted | UnexpectedEof)
}

fn no_tls(host: &str, why: &str) -> String {
    format!("{host} has no TLS connection that can be trusted: {why}; SSL_CERT_FILE may name a file of certificates")
}

fn connection_trouble(target: &Uri, error: ureq::Error) -> Trouble {
    let host = host(target);
    let refused = |why: String| Trouble::Lasting(Failure::Unavailable(why));
    match error {
        ureq::Error::HostNotFound => Trouble::Unreached(format!("{host} is not found: is there a network?")),
        ureq::Error::Timeout(ureq::Timeout::Connect) => Trouble::Unreached(format!("{host} cannot be reached")),
        ureq::Error::Timeout(_) => Trouble::Passing(format!("{host} does not answer")),
        ureq::Error::Rustls(error) => refused(no_tls(&host, &error.to_string())),
        ureq::Error::Tls(error) => refused(no_tls(&host, error)),
        // What the handshake finds wrong.
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            refused(no_tls(&host, &error.to_string()))
        }
        ureq::Error::Io(error) if is_broken(&error) => Trouble::Passing(format!("{host} breaks off: {error}")),
        ureq::Error::Io(error) => Trouble::Unreached(format!("{host} cannot be reached: {error}")),
        error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_)) => Trouble::invalid(format!("{host}: {error}")),
        error => Trouble::Passing(format!("{host} cannot be reached: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{join, origin};
    use ureq::http::Uri;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(origin(&uri("https://Hub.example/a")), origin(&uri("https://hub.example:443/b")));
        for other in ["http://hub.example", "https://hub.example:8443", "https://cdn.hub.example"] {
            assert_ne!(origin(&uri("https://hub.example")), origin(&uri(other)), "{other}");
        }
    }

    #[test]
    fn redirects_are_resolved_against_their_address() {
        let from = uri("https://hub.example/a/b?c");
        assert_eq!(join(&from, "/d?e").unwrap(), uri("https://hub.example/d?e"));
        assert_eq!(join(&from, "//cdn.example/d").unwrap(), uri("https://cdn.example/d"));
        assert_eq!(join(&from, "https://cdn.example/d").unwrap(), uri("https://cdn.example/d"));
        for wrong in ["", "d", "file:///etc/passwd", "https://"] {
            assert!(join(&from, wrong).is_none(), "{wrong}");
        }
    }
}
