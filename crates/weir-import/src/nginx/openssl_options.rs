//! The words of OpenSSL's command `Options`, in `ssl_conf_command` and its like for servers.

/// Options that change nothing that a client or a server of Weir can observe, on or off: kernel
/// TLS, workarounds, early data, and parts of versions and suites that Weir does not have.
const UNSEEN: [&str; 13] = [
    "ktls",
    "ktlstxzerocopysendfile",
    "bugs",
    "emptyfragments",
    "dhsingle",
    "ecdhsingle",
    "noresumptiononrenegotiation",
    "encryptthenmac",
    "antireplay",
    "middleboxcompat",
    "rxcertificatecompression",
    "txcertificatecompression",
    "prefernodhekex",
];

/// Options with the state that they have in Weir.
const FIXED: [(&str, bool); 7] = [
    ("sessionticket", true),
    ("norenegotiation", true),
    ("extendedmastersecret", true),
    ("compression", false),
    ("clientrenegotiation", false),
    ("unsafelegacyrenegotiation", false),
    ("unsafelegacyserverconnect", false),
];

/// Returns the difference that a list of options makes, if it makes one. Some hold only where the
/// proxy is the server of TLS.
pub(super) fn options_difference(list: &str, is_server: bool) -> Option<String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    let told = words
        .filter_map(|word| difference(word, is_server).map(|reason| format!("`{word}`: {reason}")));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn difference(word: &str, is_server: bool) -> Option<&'static str> {
    let (name, is_on) = match word.strip_prefix('-') {
        Some(name) => (name, false),
        None => (word.strip_prefix('+').unwrap_or(word), true),
    };
    let name = name.to_ascii_lowercase();
    let is_as_in_weir = FIXED.contains(&(name.as_str(), is_on));
    if is_as_in_weir || UNSEEN.contains(&name.as_str()) {
        return None;
    }
    match name.as_str() {
        "sessionticket" => Some("sessions are resumed with tickets in any case"),
        "serverpreference" if is_server && is_on => {
            Some("write `ssl_prefer_server_ciphers on`, which decides whose order holds")
        }
        "serverpreference" if is_server => {
            Some("write `ssl_prefer_server_ciphers off`, which decides whose order holds")
        }
        "prioritizechacha" if is_server && is_on => Some(
            "with `ssl_prefer_server_ciphers on` the order of the lists holds for all clients: \
             with `off` those that name ChaCha20 first get it",
        ),
        "serverpreference" | "prioritizechacha" => None,
        _ => Some("Weir does not use OpenSSL and has no such choice: remove it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_weir_does_not_follow_are_differences() {
        for list in ["KTLS", "-KTLS,+SessionTicket", "-PrioritizeChaCha", "norenegotiation", ""] {
            assert_eq!(options_difference(list, true), None, "{list}");
        }
        for (list, reason) in [
            ("-SessionTicket", "tickets"),
            ("KTLS,-sessionticket", "`-sessionticket`"),
            ("PrioritizeChaCha", "ChaCha20 first"),
            ("ServerPreference", "`ssl_prefer_server_ciphers on`"),
            ("UnsafeLegacyRenegotiation", "no such choice"),
            ("-ExtendedMasterSecret", "no such choice"),
            ("Frob", "no such choice"),
        ] {
            let found = options_difference(list, true).unwrap_or_default();
            assert!(found.contains(reason), "{list}: {found}");
        }
        // They are choices of servers.
        assert_eq!(options_difference("PrioritizeChaCha,ServerPreference", false), None);
        assert!(options_difference("-SessionTicket", false).is_some());
    }
}
