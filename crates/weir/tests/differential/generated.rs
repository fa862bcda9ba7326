//! Random sets of locations, some of them nested, and random paths: both programs must pick the
//! same location. A seed gives one server; `WEIR_SEEDS` is the number of seeds.

use std::fmt::Write as _;

use super::case::{Case, Request, Step};
use super::programs::Reference;
use super::run::{Outcome, run_case};

/// The number of servers in a file.
const SERVERS: u64 = 20;
const PATHS: usize = 20;

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }
}

fn random_path(random: &mut Random) -> String {
    let mut path = String::from("/");
    for _ in 0..random.below(5) {
        path += random.pick(&["a", "b", "ab", "B", "a.b", "a/", "b/", "/", "ab/"]);
    }
    path
}

const REGEXES: [&str; 12] = [
    "a$",
    "^/a/",
    "b/a",
    "^/b[^/]*$",
    "^/(a|ab)/b",
    "aa|bb",
    "\\.b$",
    "^/A",
    "/$",
    "^/ab?/",
    "b",
    "^/[ab]+$",
];

/// The locations of one server while they are written; each answers with its number.
struct LocationWriter<'r> {
    random: &'r mut Random,
    text: String,
    number: usize,
}

impl LocationWriter<'_> {
    /// Writes up to `most` locations inside one whose text is `around`, and returns the prefixes
    /// among them.
    fn level(&mut self, around: &str, in_regex: bool, most: usize, depth: usize) -> Vec<String> {
        let mut exact = Vec::new();
        let mut prefixes = Vec::new();
        for _ in 0..=self.random.below(most) {
            let modifiers: &[&str] =
                if in_regex { &["~", "~*"] } else { &["", "", "", "=", "^~", "~", "~*"] };
            let modifier = self.random.pick(modifiers);
            let is_regex = modifier.starts_with('~');
            let pattern = if is_regex {
                self.random.pick(&REGEXES).to_owned()
            } else {
                // nginx matches normal paths, in which slashes are merged.
                let end = random_path(self.random);
                let end = if around.is_empty() { &end } else { &end[1..] };
                let path = format!("{around}{end}").replace("//", "/").replace("//", "/");
                let names = if modifier == "=" { &mut exact } else { &mut prefixes };
                if names.contains(&path) {
                    continue;
                }
                names.push(path.clone());
                path
            };
            let _ = write!(self.text, "location {modifier} {pattern} {{ ");
            if depth < 3 && modifier != "=" && self.random.below(3) == 0 {
                let around = if is_regex { "" } else { pattern.as_str() };
                self.level(around, is_regex, 3, depth + 1);
            }
            self.number += 1;
            let _ = writeln!(self.text, "return 200 \"{}\"; }}", self.number);
        }
        prefixes
    }
}

/// Returns the locations of one server; each answers with its number.
fn random_locations(random: &mut Random) -> String {
    let mut writer = LocationWriter { random, text: String::new(), number: 0 };
    let prefixes = writer.level("", false, 9, 0);
    let mut text = writer.text;
    if !prefixes.iter().any(|path| path == "/") {
        text += "location / { return 200 \"rest\"; }\n";
    }
    text
}

/// Returns a case with the servers of these seeds.
fn case(seeds: std::ops::Range<u64>) -> Case {
    let mut text = String::from("server_names_hash_max_size 4096;\n");
    let mut requests = Vec::new();
    for seed in seeds.clone() {
        let mut random = Random(seed);
        let locations = random_locations(&mut random);
        let _ =
            writeln!(text, "server {{ listen {{listen}}; server_name s{seed}.test;\n{locations}}}");
        for _ in 0..PATHS {
            let mut path = random_path(&mut random);
            if random.below(8) == 0 {
                path = path.replacen('a', "%61", 1);
            }
            let send = format!("GET {path} HTTP/1.1\\r\\nHost: s{seed}.test\\r\\n\\r\\n");
            requests.push(Request {
                label: format!("GET {path} | Host: s{seed}.test"),
                steps: vec![Step::Send(send), Step::ReadFinal { head: false }],
                ..Request::default()
            });
        }
    }
    Case {
        name: format!("generated/seeds-{}-to-{}", seeds.start, seeds.end - 1),
        configuration: ("http".to_owned(), text),
        requests,
        ..Case::default()
    }
}

#[test]
fn the_location_that_nginx_picks_of_random_ones_is_picked() {
    let number = std::env::var("WEIR_SEEDS").ok().and_then(|text| text.parse().ok());
    let number: u64 = number.unwrap_or(60);
    let mut start = 0;
    while start < number {
        let case = case(start..(start + SERVERS).min(number));
        let outcome = run_case(&case, Reference::Nginx);
        assert!(
            matches!(outcome, Outcome::Same),
            "{}: {outcome:?}\n{}",
            case.name,
            case.configuration.1
        );
        println!("{}: {} requests agree", case.name, case.requests.len());
        start += SERVERS;
    }
}
