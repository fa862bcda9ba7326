//! Checks `balance …` and the options of a server that the policy uses.

use weir_balance::{HashSettings, PeakEwmaSettings, PolicyKind};
use weir_stats::{Template, Variable};

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use super::limit::bits;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::model::{ClientPrefix, KeyHash, Policy, values};
use crate::words::{balance_factor, measured_time, weight_mode};

/// Words of nginx and HAProxy, with their equivalents.
const FOREIGN: [(&str, &str); 14] = [
    ("leasttime", "least_time"),
    ("leastconn", "least_conn"),
    ("roundrobin", "round_robin"),
    ("static-rr", "round_robin"),
    ("source", "hash $remote_addr"),
    ("ip_hash", "hash $remote_addr ipv4=24"),
    ("uri", "hash $request_uri"),
    ("url_param", "hash $arg_NAME"),
    ("hdr", "hash $http_NAME"),
    ("cookie", "hash $cookie_NAME"),
    ("consistent", "ring_hash KEY"),
    ("ketama", "ring_hash KEY"),
    ("rendezvous", "hash KEY"),
    ("p2c", "random2"),
];

impl<'a> Checker<'a> {
    pub(super) fn policy(
        &mut self,
        line: &Arguments<'a>,
        word: ArgumentValue<'a>,
    ) -> Option<Policy> {
        let kind = self.policy_kind(word)?;
        self.options_of(line, kind);
        let kind = match kind {
            PolicyKind::Fair(mut fair) => {
                fair.no_rr = line.flag("no_rr");
                self.set(line, "weight_mode", &mut fair.weight_mode, weight_mode::parse);
                PolicyKind::Fair(fair)
            }
            PolicyKind::Hash(_) => PolicyKind::Hash(self.hash_settings(line)),
            PolicyKind::RingHash(_) => PolicyKind::RingHash(self.hash_settings(line)),
            PolicyKind::Maglev(_) => PolicyKind::Maglev(self.hash_settings(line)),
            PolicyKind::LeastTime(measured) => {
                let word = line.word(1);
                let measured =
                    word.map_or(Some(measured), |word| self.value(word, measured_time::parse));
                PolicyKind::LeastTime(measured?)
            }
            PolicyKind::PeakEwma(PeakEwmaSettings { decay_us }) => {
                let decay = self.setting(line, "decay", values::wait);
                let decay_us = decay.map_or(decay_us, |decay| decay.as_micros() as u64);
                PolicyKind::PeakEwma(PeakEwmaSettings { decay_us })
            }
            other => other,
        };
        let key = self.key(line, kind)?;
        let policy = Policy::new(kind, key).by_network(self.key_prefix(line));
        if let Some(message) = policy.hash().and_then(KeyHash::objection) {
            let place = line.option("ipv4").or(line.option("ipv6"));
            let place = place.map_or(line.span(), |value| value.word.span);
            self.report(Diagnostic::error(place, message));
        }
        Some(policy)
    }

    fn policy_kind(&mut self, value: ArgumentValue<'a>) -> Option<PolicyKind> {
        let text = value.text();
        if let Ok(policy) = text.parse() {
            return Some(policy);
        }
        let names: Vec<&str> = PolicyKind::all().iter().map(|policy| policy.as_str()).collect();
        let error = Diagnostic::error(value.span(), format!("there is no policy `{text}`"));
        let bare = text.split('(').next().unwrap_or(text);
        let error = match FOREIGN.iter().find(|(name, _)| *name == bare) {
            Some((_, ours)) => error.label(format!("did you mean `{ours}`?")),
            None => error.suggest(text, names.iter().copied()),
        };
        self.report(error.help(format!("there is {}", names.join(", "))));
        None
    }

    /// Reports options that belong to another policy.
    fn options_of(&mut self, line: &Arguments<'a>, kind: PolicyKind) {
        let is_fair = matches!(kind, PolicyKind::Fair(_));
        let hashes = kind.hashes().is_some();
        let owners = [
            ("decay", matches!(kind, PolicyKind::PeakEwma(_)), "`peak_ewma`"),
            ("no_rr", is_fair, "`fair`"),
            ("weight_mode", is_fair, "`fair`"),
            ("balance_factor", hashes, "`hash`, `ring_hash` and `maglev`"),
            ("ipv4", hashes, "`hash`, `ring_hash` and `maglev`"),
            ("ipv6", hashes, "`hash`, `ring_hash` and `maglev`"),
        ];
        for (name, fits, owner) in owners {
            if let (false, Some(value)) = (fits, line.option(name)) {
                let message = format!("`{name}` has no effect with `{kind}`");
                let error = Diagnostic::error(value.word.span, message);
                self.report(error.help(format!("it belongs to {owner}")));
            }
        }
    }

    /// Returns the prefix lengths by which addresses are grouped, if one is given.
    fn key_prefix(&mut self, line: &Arguments<'a>) -> Option<ClientPrefix> {
        let ipv4 = self.setting(line, "ipv4", |text| bits(text, 32));
        let ipv6 = self.setting(line, "ipv6", |text| bits(text, 128));
        let is_given = ipv4.is_some() || ipv6.is_some();
        is_given.then(|| ClientPrefix { ipv4: ipv4.unwrap_or(32), ipv6: ipv6.unwrap_or(128) })
    }

    fn hash_settings(&mut self, line: &Arguments<'a>) -> HashSettings {
        HashSettings { balance_factor: self.setting(line, "balance_factor", balance_factor::parse) }
    }

    /// Returns the key of a policy that hashes one, and an empty template for the others.
    fn key(&mut self, line: &Arguments<'a>, kind: PolicyKind) -> Option<Template> {
        let hashes = kind.hashes().is_some();
        let takes_word = hashes || matches!(kind, PolicyKind::LeastTime(_));
        if let Some(extra) = line.word(if takes_word { 2 } else { 1 }) {
            let message = format!("`{}` is one word too many for `{kind}`", extra.text());
            let error = Diagnostic::error(extra.span(), message);
            self.report(match (hashes, extra.text()) {
                (true, "consistent") => error.help(
                    "every policy that hashes is consistent here; nginx's ring is `ring_hash KEY`",
                ),
                (true, _) => error.help("a key is one word: write `$a$b`, or quote it"),
                (false, _) => error.help(format!("`{kind}` takes no key; `hash` does")),
            });
            return None;
        }
        if !hashes {
            return Template::parse("").ok();
        }
        let Some(value) = line.word(1) else {
            let error = Diagnostic::error(line.span(), format!("`{kind}` needs a key"));
            let help =
                format!("to map each client to one server, write `balance {kind} $remote_addr;`");
            self.report(error.help(help));
            return None;
        };
        let key = self.template(value)?;
        if let Err(message) = values::sound_key(&key) {
            let error = Diagnostic::error(value.span(), message);
            let known = Variable::named(value.text()).filter(|_| key.constant().is_some());
            self.report(match known {
                Some(variable) => error.label(format!("did you mean `{variable}`?")),
                None => error.help("such as `$remote_addr`, `$request_uri`, `$http_NAME`, `$cookie_NAME`, `$arg_NAME`"),
            });
            return None;
        }
        Some(key)
    }

    pub(super) fn weight(&mut self, value: ArgumentValue<'a>) -> Option<u32> {
        if value.text() == "0" {
            let error =
                Diagnostic::error(value.span(), "a server of weight 0 would get no requests");
            self.report(error.help(OUT_OF_USE));
            return None;
        }
        let most = u64::from(defaults::MAX_WEIGHT);
        self.value(value, |text| values::whole(text, 1, most)).map(|weight| weight as u32)
    }

    pub(super) fn max_conn(&mut self, value: ArgumentValue<'a>) -> Option<u32> {
        if value.text() == "0" {
            let error = Diagnostic::error(value.span(), "`max_conn=0` would admit no requests");
            self.report(error.help(OUT_OF_USE));
            return None;
        }
        self.count(value, 1)
    }

    pub(super) fn priority(&mut self, line: &Arguments<'a>) -> u8 {
        let Some(value) = line.option("priority") else { return 0 };
        if line.flag("backup") {
            let message = "`backup` is a tier of its own, below every `priority=`";
            self.report(Diagnostic::error(value.word.span, message).help("write one of the two"));
        }
        let most = u64::from(defaults::MAX_PRIORITY);
        self.value(value, |text| values::whole(text, 0, most)).unwrap_or(0) as u8
    }
}

/// Help for taking a server out of use.
const OUT_OF_USE: &str =
    "to take a server out of use write `down`, or `drain` to keep the clients that are bound to it";
