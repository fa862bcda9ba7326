//! Inputs that the control plane reads from outside: hand-over messages of another process, lines
//! of HAProxy's command language, targets of requests to an admin address, and DNS answers.

use std::net::IpAddr;

use weir_admin::fuzzing as admin;
use weir_control::fuzzing;

/// A message that is accepted and encoded again is accepted with the same meaning; a truncated one
/// is not.
pub(crate) fn hand_over(data: &[u8]) {
    let Ok((again, connections)) = fuzzing::hand_over(data) else { return };
    let (third, same) = fuzzing::hand_over(&again).expect("an encoded message is accepted");
    assert_eq!((third, same), (again.clone(), connections));
    assert!(connections <= data.len(), "more connections than bytes");
    for length in [again.len() / 2, again.len().saturating_sub(1)] {
        assert!(fuzzing::hand_over(&again[..length]).is_err(), "a truncated message is accepted");
    }
}

/// No word is lost or made up: the words written with escapes parse to the same commands.
pub(crate) fn admin_commands(data: &[u8]) {
    let line = String::from_utf8_lossy(data);
    let commands = admin::command_line(&line);
    let letters = |text: &str| text.chars().filter(|letter| !"\\; \t".contains(*letter)).count();
    let words: usize = commands.iter().flatten().map(|word| letters(word)).sum();
    assert_eq!(words, letters(&line), "letters were lost or made up");
    let escaped =
        |word: &String| -> String { word.chars().flat_map(|letter| ['\\', letter]).collect() };
    let written: Vec<String> = commands
        .iter()
        .map(|words| words.iter().map(escaped).collect::<Vec<_>>().join(" "))
        .collect();
    let again = admin::command_line(&written.join(";"));
    // A backslash at the end of a line produces an empty word, which cannot be written.
    let without_empty = |commands: Vec<Vec<String>>| -> Vec<Vec<String>> {
        let words = |words: Vec<String>| -> Vec<String> {
            words.into_iter().filter(|word| !word.is_empty()).collect()
        };
        commands.into_iter().map(words).filter(|words| !words.is_empty()).collect()
    };
    assert_eq!(without_empty(again), without_empty(commands));
}

/// The parameters found for a path are bounded by it; a query has no more fields than its
/// separators allow.
pub(crate) fn admin_targets(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, ['\n', '?']);
    let (method, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let query = parts.next().unwrap_or_default();
    for method in [method, "GET", "POST", "PATCH", "DELETE"] {
        let (parameters, fields) = admin::admin_target(method, path, query);
        if let Some(parameters) = parameters {
            assert!(path.starts_with('/') && parameters.len() <= path.matches('/').count());
            let longest = parameters.iter().map(String::len).max().unwrap_or_default();
            assert!(longest <= 3 * path.len(), "a parameter longer than its path");
        }
        assert!(fields.len() <= 1 + query.matches('&').count());
    }
}

/// Addresses are usable, sorted and distinct; targets of services have a name and a port.
pub(crate) fn dns(data: &[u8]) {
    let Some(answer) = fuzzing::dns_answer(data) else { return };
    let (addresses, services) = (answer.addresses, answer.services);
    assert!(addresses.windows(2).all(|pair| pair[0] < pair[1]), "not sorted, or twice the same");
    for address in &addresses {
        assert!(!address.is_unspecified() && !address.is_multicast());
        assert_ne!(*address, IpAddr::from([255, 255, 255, 255]));
    }
    // An answer has a header of twelve bytes and records of at least eleven.
    assert!(addresses.len() + services.len() <= data.len() / 11);
    for (host, port) in services {
        assert!(!host.is_empty() && port != 0 && host.len() <= 1024 && host.is_ascii());
    }
}
