//! Cipher suites and key-exchange groups as OpenSSL writes them, for both programs.
//!
//! A list of suites for TLS 1.2 is a small language (`HIGH:!aNULL`, `EECDH+AESGCM`, `@STRENGTH`;
//! ciphers(1)). It is evaluated as OpenSSL does, over the suites that Weir has, and the others are
//! told.

use std::fmt::Write;

use crate::native::NativeLine;

/// The reason to refuse lists without a suite of Weir.
const NO_SUITE: &str = "Weir has none of these suites: it has those with ECDHE and AES-GCM or ChaCha20 in TLS 1.2, and those of TLS 1.3 but for CCM";

/// The versions of a `tls` line, the lowest and the highest.
pub(crate) type TlsRange = (&'static str, &'static str);

/// The lists of a listener or of servers; `None` where the file has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TlsLists {
    old_suites: Option<TlsList>,
    new_suites: Option<TlsList>,
    groups: Option<TlsList>,
    /// Set if the client's order of suites decides, and not that of the list.
    pub(crate) client_prefers: bool,
    /// Set if the order of the listener decides without a list too.
    pub(crate) server_prefers: bool,
}

/// The part of a list that Weir has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct TlsList {
    names: Vec<&'static str>,
    /// The words that select none of Weir's names.
    lacking: Vec<String>,
    /// Set if a word selects names beside Weir's.
    is_wide: bool,
}

/// A kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsListKind {
    /// The suites of TLS 1.2.
    OldSuites,
    /// Those of TLS 1.3.
    NewSuites,
    /// The key-exchange groups.
    Groups,
}

impl TlsLists {
    /// Takes a list; returns a remark on what of it Weir has not, or the reason why it is refused.
    pub(crate) fn take(&mut self, kind: TlsListKind, text: &str) -> Result<Option<String>, String> {
        let (list, place) = match kind {
            TlsListKind::OldSuites => (old_suites(text), &mut self.old_suites),
            TlsListKind::NewSuites => (named(text, &NEW_SUITES), &mut self.new_suites),
            TlsListKind::Groups => (named(text, &GROUPS), &mut self.groups),
        };
        let remark = list.remark(kind)?;
        *place = Some(list);
        Ok(remark)
    }

    /// Returns true if the file has no list, and leaves the order of suites to clients.
    pub(crate) fn is_default(&self) -> bool {
        let lists = [&self.old_suites, &self.new_suites, &self.groups];
        !self.server_prefers && lists.iter().all(|list| list.is_none())
    }

    /// Adds the versions and the lists to a `tls` line.
    pub(crate) fn options(&self, versions: TlsRange, line: NativeLine) -> NativeLine {
        let (min, max) = self.versions(versions).unwrap_or(versions);
        let mut line = line.option("min", min).option("max", max);
        let suites = self.suites(min, max);
        if !suites.is_empty() {
            line = line.option("ciphers", &suites.join(":"));
            if self.client_prefers {
                line = line.option("prefer", "client");
            }
        }
        match self.groups.as_ref().filter(|groups| !groups.names.is_empty()) {
            Some(groups) => line.option("curves", &groups.names.join(":")),
            None => line,
        }
    }

    /// Returns the suites of these versions, or nothing if they are those that Weir has by default.
    fn suites(&self, min: &str, max: &str) -> Vec<&'static str> {
        let listed = |list: &Option<TlsList>| list.as_ref().map(|list| list.names.clone());
        let [mut new, mut old] = [&self.new_suites, &self.old_suites].map(listed);
        let is_all =
            |list: &Option<Vec<_>>, all: usize| list.as_ref().is_none_or(|list| list.len() == all);
        let are_all = is_all(&new, NEW_SUITES.len()) && is_all(&old, OLD_SUITES.len());
        let is_unsaid = new.is_none() && old.is_none() && !self.server_prefers;
        if is_unsaid || self.client_prefers && are_all {
            return Vec::new();
        }
        if !self.client_prefers {
            // The order of the version without a list decides too.
            new.get_or_insert_with(|| {
                NEW_SUITES.iter().flat_map(|names| *names).copied().collect()
            });
            old.get_or_insert_with(|| OLD_SUITES.iter().map(|suite| suite.name).collect());
        }
        let new = new.filter(|_| max == "1.3").unwrap_or_default();
        new.into_iter().chain(old.filter(|_| min == "1.2").unwrap_or_default()).collect()
    }

    /// Returns the versions that have a suite.
    pub(crate) fn versions(&self, allowed: TlsRange) -> Result<TlsRange, String> {
        let (min, max) = allowed;
        let is_empty =
            |list: &Option<TlsList>| list.as_ref().is_some_and(|list| list.names.is_empty());
        match (
            min == "1.2" && !is_empty(&self.old_suites),
            max == "1.3" && !is_empty(&self.new_suites),
        ) {
            (true, true) => Ok(("1.2", "1.3")),
            (true, false) => Ok(("1.2", "1.2")),
            (false, true) => Ok(("1.3", "1.3")),
            (false, false) => Err(NO_SUITE.to_owned()),
        }
    }

    /// Returns the remarks on all lists.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let lists = [
            (TlsListKind::OldSuites, &self.old_suites),
            (TlsListKind::NewSuites, &self.new_suites),
            (TlsListKind::Groups, &self.groups),
        ];
        let remark =
            |(kind, list): (TlsListKind, &Option<TlsList>)| list.as_ref()?.remark(kind).ok()?;
        lists.into_iter().filter_map(remark).collect()
    }
}

impl TlsList {
    fn remark(&self, kind: TlsListKind) -> Result<Option<String>, String> {
        let version = match kind {
            TlsListKind::Groups if self.names.is_empty() => {
                return Err(format!(
                    "Weir has none of these groups: name one of {}",
                    GROUPS.map(|names| format!("`{}`", names.first().unwrap_or(&""))).join(", ")
                ));
            }
            TlsListKind::Groups | TlsListKind::OldSuites => "TLS 1.2",
            TlsListKind::NewSuites => "TLS 1.3",
        };
        if self.names.is_empty() {
            return Ok(Some(format!(
                "Weir has none of these suites, so that {version} is not offered"
            )));
        }
        if self.is_wide {
            return Ok(Some(
                "of the suites that it selects, Weir has those with ECDHE and AES-GCM or ChaCha20"
                    .to_owned(),
            ));
        }
        let Some((first, rest)) = self.lacking.split_first() else { return Ok(None) };
        let mut text = format!("Weir has no `{first}`");
        match rest {
            [] => {}
            [second] => write!(text, " and no `{second}`").unwrap_or_default(),
            [second, others @ ..] => {
                write!(text, ", `{second}` and {} more of it", others.len()).unwrap_or_default();
            }
        }
        Ok(Some(text))
    }
}

/// A suite of TLS 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OldSuite {
    name: &'static str,
    /// The name of the registry.
    iana: &'static str,
    /// The words of OpenSSL that select it, besides those that select every one.
    aliases: [&'static str; 4],
}

/// Those that Weir has, in OpenSSL's order of preference.
const OLD_SUITES: [OldSuite; 6] = [
    OldSuite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        aliases: ["aECDSA", "AES256", "AESGCM", "AES"],
    },
    OldSuite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        iana: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        aliases: ["aRSA", "AES256", "AESGCM", "AES"],
    },
    OldSuite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        aliases: ["aECDSA", "CHACHA20", "", ""],
    },
    OldSuite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        iana: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        aliases: ["aRSA", "CHACHA20", "", ""],
    },
    OldSuite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        aliases: ["aECDSA", "AES128", "AESGCM", "AES"],
    },
    OldSuite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        iana: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        aliases: ["aRSA", "AES128", "AESGCM", "AES"],
    },
];

/// The words that select every suite of Weir.
const EVERY: [&str; 9] =
    ["ALL", "DEFAULT", "HIGH", "TLSv1.2", "kECDHE", "kEECDH", "ECDHE", "EECDH", "ECDH"];
/// The words of a combination that leave nothing beside Weir's suites: one of each list.
const NARROW: [&[&str]; 2] =
    [&["kECDHE", "kEECDH", "ECDHE", "EECDH", "ECDH"], &["AESGCM", "CHACHA20"]];

/// The suites of TLS 1.3 in OpenSSL's order.
const NEW_SUITES: [&[&str]; 3] =
    [&["TLS_AES_256_GCM_SHA384"], &["TLS_CHACHA20_POLY1305_SHA256"], &["TLS_AES_128_GCM_SHA256"]];

/// The key-exchange groups, each with its names.
const GROUPS: [&[&str]; 7] = [
    &["X25519MLKEM768"],
    &["X25519"],
    &["P-256", "prime256v1", "secp256r1"],
    &["P-384", "secp384r1"],
    &["SecP256r1MLKEM768"],
    &["MLKEM768"],
    &["MLKEM1024"],
];

/// Reads a list of names.
fn named(text: &str, known: &[&'static [&'static str]]) -> TlsList {
    let mut list = TlsList::default();
    for word in text.split([':', ',', ' ', '/']).filter(|word| !word.is_empty()) {
        // OpenSSL 3.5: `?` for a group that may be unknown, `*` for one that is sent at once.
        let name = word.trim_start_matches(['?', '*']);
        let is_one = |names: &&&[&str]| names.iter().any(|one| one.eq_ignore_ascii_case(name));
        match known.iter().find(is_one).and_then(|names| names.first()) {
            Some(name) if !list.names.contains(name) => list.names.push(name),
            Some(_) => {}
            None => list.lacking.push(word.to_owned()),
        }
    }
    list
}

/// The state of OpenSSL's evaluation: selected suites in their order, and the others in the order
/// in which a word would select them.
struct SuiteSelection {
    selected: Vec<OldSuite>,
    others: Vec<OldSuite>,
}

impl SuiteSelection {
    fn apply(&mut self, operator: Option<char>, selects: impl Fn(&OldSuite) -> bool) {
        let part = |list: &mut Vec<OldSuite>| -> Vec<OldSuite> {
            list.extract_if(.., |suite| selects(suite)).collect()
        };
        match operator {
            Some('!') => drop((part(&mut self.selected), part(&mut self.others))),
            Some('-') => {
                let mut removed = part(&mut self.selected);
                removed.append(&mut self.others);
                self.others = removed;
            }
            Some(_) => {
                let moved = part(&mut self.selected);
                self.selected.extend(moved);
            }
            None => self.selected.extend(part(&mut self.others)),
        }
    }
}

/// The lists that stand for others at the beginning of a list: those of RFC 6460, and that of the
/// system on Red Hat's, which Weir does not read.
const WHOLE_LISTS: [(&str, &str); 5] = [
    ("SUITEB128ONLY", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("SUITEB128C2", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB128", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("SUITEB192", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("PROFILE=SYSTEM", "DEFAULT"),
];

/// Reads a list of suites of TLS 1.2.
fn old_suites(text: &str) -> TlsList {
    let whole = WHOLE_LISTS.iter().find(|(name, _)| text.starts_with(name));
    let mut rest = whole.map_or(text, |(_, list)| list);
    let mut list = TlsList::default();
    let mut selection = SuiteSelection { selected: Vec::new(), others: OLD_SUITES.to_vec() };
    while let Some(first) = rest.chars().next() {
        let operator = Some(first).filter(|first| matches!(first, '!' | '-' | '+' | '@'));
        let behind = if operator.is_some() { &rest[1..] } else { rest };
        let end = behind.find(|letter| !is_of_words(letter)).unwrap_or(behind.len());
        let (name, after) = behind.split_at(end);
        rest = if name.is_empty() {
            after.get(first_length(after)..).unwrap_or_default()
        } else {
            after
        };
        match operator {
            _ if name.is_empty() => {}
            Some('@') if name == "STRENGTH" => {
                selection.selected.sort_by_key(|suite| suite.aliases.contains(&"AES128"));
            }
            Some('@') => {}
            _ => {
                selection.apply(operator, |suite| is_selected(name, suite));
                list.note(name, operator);
            }
        }
    }
    list.names = selection.selected.iter().map(|suite| suite.name).collect();
    list
}

/// Returns true for the letters of words and of their combinations.
fn is_of_words(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '=' | '_' | '+')
}

fn first_length(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

impl TlsList {
    /// Notes what a word that adds suites selects besides those of Weir.
    fn note(&mut self, name: &str, operator: Option<char>) {
        // Names of TLS 1.3 have no effect here, in OpenSSL neither.
        if operator.is_some() || NEW_SUITES.iter().any(|names| names.contains(&name)) {
            return;
        }
        if OLD_SUITES.iter().any(|suite| is_selected(name, suite)) {
            self.is_wide |= is_wide(name);
        } else {
            self.lacking.push(name.to_owned());
        }
    }
}

/// Returns true if a name, or all words of a combination such as `EECDH+AESGCM`, select a suite.
fn is_selected(name: &str, suite: &OldSuite) -> bool {
    if name == suite.name || name == suite.iana {
        return true;
    }
    name.split('+').all(|word| {
        let word = if word == "ECDSA" { "aECDSA" } else { word };
        let is_fips = word == "FIPS" && suite.aliases.contains(&"AESGCM");
        !word.is_empty() && (EVERY.contains(&word) || suite.aliases.contains(&word)) || is_fips
    })
}

/// Returns true if a word selects suites that Weir has not, beside some that it has.
fn is_wide(name: &str) -> bool {
    let is_name = OLD_SUITES.iter().any(|suite| name == suite.name || name == suite.iana);
    let words: Vec<&str> = name.split('+').collect();
    let is_narrow = NARROW.iter().all(|narrow| words.iter().any(|word| narrow.contains(word)));
    !is_name && !is_narrow
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// Asks OpenSSL for the suites of a list, and returns those that Weir has.
    fn of_openssl(list: &str) -> Vec<String> {
        let output = Command::new("openssl").args(["ciphers", "-tls1_2", list]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let is_old = |name: &&str| OLD_SUITES.iter().any(|suite| suite.name == *name);
        text.trim().split(':').filter(is_old).map(str::to_owned).collect()
    }

    const WORDS: [&str; 27] = [
        "ALL",
        "HIGH",
        "ECDHE",
        "EECDH",
        "ECDSA",
        "aRSA",
        "RSA",
        "AES",
        "AES128",
        "AES256",
        "AESGCM",
        "CHACHA20",
        "TLSv1.2",
        "SHA256",
        "SHA384",
        "MEDIUM",
        "aNULL",
        "DHE",
        "FIPS",
        "EECDH+AESGCM",
        "ECDSA+AES256",
        "aRSA+CHACHA20",
        "kEECDH+aECDSA+AES128",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "DHE-RSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn lists_select_the_suites_of_openssl_in_its_order(
            words in prop::collection::vec(
                (
                    prop::sample::select(vec!["", ":", " ", ",", "; "]),
                    prop::sample::select(vec!["", "", "", "!", "-", "+"]),
                    prop::sample::select(WORDS.to_vec()),
                ),
                1..7,
            ),
            end in prop::sample::select(vec!["", "@STRENGTH", ":@STRENGTH", "@SECLEVEL=1", ":@SECLEVEL=2"]),
        ) {
            // A list that begins with `-` is an option of the program.
            let mut list = "MEDIUM".to_owned();
            for (separator, sign, word) in &words {
                // `!` ends a word, too.
                list.push_str(if *sign == "!" { separator } else { ":" });
                list.extend([*sign, *word]);
            }
            list.push_str(end);
            prop_assert_eq!(old_suites(&list).names, of_openssl(&list), "{}", list);
        }
    }

    #[test]
    fn lists_may_stand_for_others() {
        let all: Vec<_> = OLD_SUITES.iter().map(|suite| suite.name).collect();
        for list in ["DEFAULT@SECLEVEL=1", "PROFILE=SYSTEM", "ALL:!aNULL:@STRENGTH"] {
            assert_eq!(old_suites(list).names.len(), all.len(), "{list}");
        }
        let suite_b = ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"];
        assert_eq!(old_suites("SUITEB128").names, suite_b);
        assert_eq!(old_suites("SUITEB128ONLY").names, suite_b[..1]);
        assert_eq!(old_suites("SUITEB192").names, suite_b[1..]);
        let glued = "EECDH+ECDSA+AESGCM:EECDH+aRSA+AESGCM!RC4";
        assert_eq!(old_suites(glued).names, of_openssl(glued));
    }

    #[test]
    fn words_without_a_suite_are_told() {
        let remark = |kind, text: &str| TlsLists::default().take(kind, text);
        for (kind, list, expected) in [
            (TlsListKind::OldSuites, "ECDHE-RSA-AES128-GCM-SHA256:EECDH+AESGCM:!aNULL", Ok(None)),
            (TlsListKind::OldSuites, "TLS_AES_128_GCM_SHA256:ECDHE+CHACHA20", Ok(None)),
            (
                TlsListKind::OldSuites,
                "ECDHE+AESGCM:DHE-RSA-AES128-SHA",
                Ok(Some("no `DHE-RSA-AES128-SHA`")),
            ),
            (
                TlsListKind::OldSuites,
                "ECDHE+AESGCM:A:B:C:D",
                Ok(Some("no `A`, `B` and 2 more of it")),
            ),
            (TlsListKind::OldSuites, "HIGH:!aNULL:!MD5", Ok(Some("of the suites that it selects"))),
            (TlsListKind::OldSuites, "AES128-SHA", Ok(Some("TLS 1.2 is not offered"))),
            (
                TlsListKind::NewSuites,
                "TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256",
                Ok(Some("no `TLS_AES_128_CCM_SHA256`")),
            ),
            (TlsListKind::NewSuites, "TLS_AES_128_CCM_SHA256", Ok(Some("TLS 1.3 is not offered"))),
            (TlsListKind::Groups, "?X25519:secp384r1:prime256v1", Ok(None)),
            (TlsListKind::Groups, "X25519:secp521r1", Ok(Some("no `secp521r1`"))),
            (TlsListKind::Groups, "secp521r1", Err("none of these groups")),
        ] {
            match (remark(kind, list), expected) {
                (Ok(None), Ok(None)) => {}
                (Ok(Some(text)), Ok(Some(part))) | (Err(text), Err(part)) => {
                    assert!(text.contains(part), "{list}: {text}");
                }
                (got, _) => panic!("{list}: {got:?}"),
            }
        }
    }
}
