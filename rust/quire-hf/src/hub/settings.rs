//! What the environment says about the hub, in huggingface_hub's variables
//! (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables).

use std::path::PathBuf;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

#[derive(Debug)]
pub struct Settings {
    /// Without a slash at its end.
    pub endpoint: String,
    /// The folder with models--ORG--NAME folders.
    pub cache: PathBuf,
    pub token: Option<String>,
    /// Only the cache is asked.
    pub offline: bool,
}

impl Settings {
    /// `cache` and `token`, where they are not empty, go before the environment's, which `variable` reads.
    pub fn new(cache: &str, token: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let home = set("HF_HOME")
            .map(PathBuf::from)
            .or_else(|| set("XDG_CACHE_HOME").map(|folder| PathBuf::from(folder).join("huggingface")))
            .or_else(|| set("HOME").map(|folder| PathBuf::from(folder).join(".cache/huggingface")));
        let cache = match cache {
            "" => set("HF_HUB_CACHE").or_else(|| set("HUGGINGFACE_HUB_CACHE")).map(PathBuf::from),
            given => Some(PathBuf::from(given)),
        };
        let cache = cache
            .or_else(|| home.as_ref().map(|folder| folder.join("hub")))
            .ok_or("no folder for downloads: give one with --download-dir or HF_HOME")?;
        let token_file = set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| home.map(|folder| folder.join("token")));
        let saved_token = || token_file.and_then(|path| std::fs::read_to_string(path).ok());
        let token = match token.trim() {
            "" => set("HF_TOKEN").or_else(|| set("HUGGING_FACE_HUB_TOKEN")).or_else(saved_token),
            given => Some(given.to_string()),
        };
        Ok(Settings {
            endpoint: check_endpoint(set("HF_ENDPOINT").as_deref().unwrap_or(DEFAULT_ENDPOINT))?,
            cache,
            token: token.map(check_token).transpose()?.flatten(),
            offline: ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"].iter().any(|name| is_on(set(name))),
        })
    }
}

fn is_on(value: Option<String>) -> bool {
    value.is_some_and(|text| matches!(text.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
}

fn check_endpoint(endpoint: &str) -> Result<String, String> {
    let trimmed = endpoint.trim_end_matches('/');
    let uri = trimmed.parse::<ureq::http::Uri>().ok();
    let usable = uri.as_ref().is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none()
    });
    match usable {
        true => Ok(trimmed.to_string()),
        false => Err(format!("HF_ENDPOINT '{endpoint}' is no address such as {DEFAULT_ENDPOINT}")),
    }
}

/// None for a token of spaces; the text itself never stands in a message.
fn check_token(token: String) -> Result<Option<String>, String> {
    let token = token.trim();
    if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("the hub's token contains characters that no token has: check HF_TOKEN".to_string());
    }
    Ok((!token.is_empty()).then(|| token.to_string()))
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use std::path::Path;

    fn with(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Settings::new("", "", find)
    }

    #[test]
    fn folders_fall_back_one_after_the_other() {
        let cache = |variables| with(variables).unwrap().cache;
        assert_eq!(cache(&[("HOME", "/h")]), Path::new("/h/.cache/huggingface/hub"));
        assert_eq!(cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/f")]), Path::new("/f/hub"));
        assert_eq!(cache(&[("HF_HOME", "/f"), ("HF_HUB_CACHE", "/c")]), Path::new("/c"));
        assert!(with(&[]).is_err());
        assert_eq!(Settings::new("/d", "", |_| None).unwrap().cache, Path::new("/d"));
    }

    #[test]
    fn a_flag_goes_before_the_environment() {
        let find = |name: &str| (name == "HF_TOKEN").then(|| "from_environment".to_string());
        assert_eq!(Settings::new("/d", "from_flag", find).unwrap().token.as_deref(), Some("from_flag"));
        assert_eq!(Settings::new("/d", "", find).unwrap().token.as_deref(), Some("from_environment"));
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let secret = with(&[("HOME", "/h"), ("HF_TOKEN", "hf_ab\ncd")]).unwrap_err();
        assert!(!secret.contains("hf_ab"), "{secret}");
        assert!(with(&[("HOME", "/h"), ("HF_ENDPOINT", "ftp://x")]).is_err());
        assert!(with(&[("HOME", "/h"), ("HF_ENDPOINT", "not an address")]).is_err());
        assert_eq!(with(&[("HOME", "/h"), ("HF_ENDPOINT", "http://x/hub/")]).unwrap().endpoint, "http://x/hub");
    }

    #[test]
    fn offline_is_any_of_the_usual_words() {
        for (value, offline) in [("1", true), ("true", true), ("ON", true), ("0", false), ("", false)] {
            assert_eq!(with(&[("HOME", "/h"), ("HF_HUB_OFFLINE", value)]).unwrap().offline, offline);
        }
    }
}
