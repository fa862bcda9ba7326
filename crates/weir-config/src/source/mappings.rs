//! Addresses and paths that stand for others on this machine: `--map-addr` and `--map-path`. They
//! let a file run on a machine that is not the one that it was written for. The readers of a file
//! apply them; here is what stands for what.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::SourceSpan;

/// The replacements of addresses and paths.
#[derive(Clone, Debug, Default)]
pub struct Mappings(Arc<MappingLists>);

#[derive(Debug, Default)]
struct MappingLists {
    addresses: Vec<Mapping>,
    paths: Vec<Mapping>,
    /// The words of the file that were replaced.
    replaced: Mutex<Vec<ReplacedWord>>,
}

/// One text that stands for another.
#[derive(Debug)]
struct Mapping {
    from: String,
    to: String,
    matched: AtomicBool,
}

/// A word of a file and the text in its place.
#[derive(Clone, Debug)]
pub struct ReplacedWord {
    /// The place of the word.
    pub span: SourceSpan,
    /// Its text.
    pub text: String,
    /// The text in its place.
    pub replacement: String,
}

impl Mapping {
    fn parse(option: &str, given: &str) -> Result<Self, String> {
        let wrong = || format!("{option} {given}: write FROM=TO");
        let (from, to) = given.split_once('=').ok_or_else(wrong)?;
        if from.is_empty() || to.is_empty() {
            return Err(wrong());
        }
        Ok(Self { from: from.into(), to: to.into(), matched: AtomicBool::new(false) })
    }

    fn matches(&self) -> &str {
        self.matched.store(true, Ordering::Relaxed);
        &self.to
    }
}

impl Mappings {
    /// Parses `FROM=TO` of addresses and of paths.
    pub fn parse(addresses: &[String], paths: &[String]) -> Result<Self, String> {
        let all = |option, given: &[String]| {
            given.iter().map(|given| Mapping::parse(option, given)).collect::<Result<Vec<_>, _>>()
        };
        let paths = all("--map-path", paths)?;
        if let Some(path) = paths.iter().find(|path| !path.from.starts_with('/')) {
            return Err(format!("--map-path {}: write an absolute path", path.from));
        }
        let addresses = all("--map-addr", addresses)?;
        Ok(Self(Arc::new(MappingLists { addresses, paths, replaced: Mutex::default() })))
    }

    /// Returns true if nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.0.addresses.is_empty() && self.0.paths.is_empty()
    }

    /// Returns the address in place of this one: by its whole text, or by its host, with the port
    /// kept. A path of a socket is replaced as a path.
    pub fn address(&self, text: &str) -> Option<String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let whole = self.0.addresses.iter().find(|one| one.from == text);
            let mapped = || self.path(Path::new(path)).map(|to| format!("unix:{}", to.display()));
            return whole.map(|one| one.matches().to_owned()).or_else(mapped);
        }
        let exact = self.0.addresses.iter().find(|one| same(&one.from, text));
        if let Some(exact) = exact {
            return Some(exact.matches().to_owned());
        }
        let (host, port) = text.rsplit_once(':')?;
        let by_host = self.0.addresses.iter().find(|one| one.from == host)?;
        Some(format!("{}:{port}", by_host.matches()))
    }

    /// Returns the path in place of this one: that of the longest beginning that is mapped.
    pub fn path(&self, path: &Path) -> Option<PathBuf> {
        let fits = self.0.paths.iter().filter(|one| path.starts_with(&one.from));
        let longest = fits.max_by_key(|one| one.from.len())?;
        let rest = path.strip_prefix(&longest.from).ok()?;
        let to = Path::new(longest.matches());
        Some(if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) })
    }

    /// Notes that another text stands in place of a word.
    pub(crate) fn note(&self, word: ReplacedWord) {
        self.0.replaced.lock().unwrap_or_else(PoisonError::into_inner).push(word);
    }

    /// Returns the words that were replaced so far.
    pub fn replaced(&self) -> Vec<ReplacedWord> {
        self.0.replaced.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a sentence if a mapping matched nothing: it is most likely misspelt.
    pub fn unmatched(&self) -> Option<String> {
        let of = |option: &str, list: &[Mapping]| {
            let unmatched = list.iter().filter(|one| !one.matched.load(Ordering::Relaxed));
            unmatched.map(|one| format!("{option} {}={}", one.from, one.to)).collect::<Vec<_>>()
        };
        let mut all = of("--map-addr", &self.0.addresses);
        all.extend(of("--map-path", &self.0.paths));
        (!all.is_empty()).then(|| format!("nothing in the file matches {}", all.join(" and ")))
    }
}

/// Compares addresses: `:80`, `*:80`, `0.0.0.0:80` and `80` are the same, and so are spellings of
/// one IP address.
fn same(from: &str, text: &str) -> bool {
    let plain = |text: &str| {
        let text = text.strip_prefix('*').unwrap_or(text);
        match text.parse::<std::net::SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => format!(":{}", address.port()),
            Ok(address) => address.to_string(),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{text}"),
            Err(_) => text.to_ascii_lowercase(),
        }
    };
    from == text || plain(from) == plain(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mappings(addresses: &[&str], paths: &[&str]) -> Mappings {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Mappings::parse(&texts(addresses), &texts(paths)).unwrap()
    }

    #[test]
    fn addresses_are_mapped_as_a_whole_or_by_host() {
        let all = mappings(
            &[
                "172.31.12.25:443=127.0.0.1:8443",
                "10.0.0.1=127.0.0.2",
                ":80=127.0.0.1:8080",
                "unix:/a=unix:/b",
            ],
            &["/run=/tmp/run"],
        );
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(all.address(text).as_deref(), expected, "{text}");
        };
        check("172.31.12.25:443", Some("127.0.0.1:8443"));
        check("172.31.12.25:80", None);
        check("10.0.0.1:9", Some("127.0.0.2:9"));
        check("*:80", Some("127.0.0.1:8080"));
        check("0.0.0.0:80", Some("127.0.0.1:8080"));
        check("unix:/a", Some("unix:/b"));
        assert_eq!(
            all.unmatched().unwrap(),
            "nothing in the file matches --map-path /run=/tmp/run"
        );
        check("unix:/run/x.sock", Some("unix:/tmp/run/x.sock"));
        assert_eq!(all.unmatched(), None);
    }

    #[test]
    fn the_longest_beginning_of_a_path_is_mapped() {
        let all = mappings(&[], &["/etc=/tmp/etc", "/etc/nginx=/tmp/n"]);
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(all.path(Path::new(text)).as_deref(), expected.map(Path::new), "{text}");
        };
        check("/etc/nginx/a", Some("/tmp/n/a"));
        check("/etc/nginx", Some("/tmp/n"));
        check("/etc/nginx2", Some("/tmp/etc/nginx2"));
        check("/var", None);
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        let refused = |addresses: &[&str], paths: &[&str]| {
            let texts =
                |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            Mappings::parse(&texts(addresses), &texts(paths)).unwrap_err()
        };
        assert!(refused(&["a:1"], &[]).contains("FROM=TO"));
        assert!(refused(&["=a:1"], &[]).contains("FROM=TO"));
        assert!(refused(&[], &["etc=/tmp"]).contains("absolute"));
    }
}
