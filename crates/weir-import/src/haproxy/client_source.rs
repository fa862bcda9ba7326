//! Rules that tell the address of the client behind a proxy: `tcp-request connection expect-proxy`
//! and `http-request set-src`. They become `proxy_protocol` and `trusted_proxies` of the listeners.

use weir_config::syntax::tree::Directive;

use super::conditions::{AclTest, NativeTest};
use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::sample::SampleExpression;
use super::sections::LineId;
use crate::native::NativeLine;

/// Every address.
const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The proxies in front of a frontend.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxiesInFront {
    /// Those whose connections begin with a PROXY header.
    pub(super) announcing: Vec<Directive>,
    /// Those whose header names the client.
    pub(super) naming: Option<Directive>,
}

impl HaproxyConverter<'_> {
    /// Converts `expect-proxy layer4`, for the clients of its condition.
    pub(super) fn expected_proxies(
        &mut self,
        line: LineId,
        words: &[LineWord],
        test: &AclTest,
    ) -> Result<(), String> {
        if words.get(1).is_none_or(|word| word.text != "layer4") {
            return Err("write `expect-proxy layer4`".to_owned());
        }
        let native = NativeLine::new("proxy_protocol", self.sections.span(line));
        let native = match peers(test).ok_or(PEERS)? {
            Peers::All => native.keyword("all"),
            Peers::Networks(networks) => {
                networks.iter().fold(native, |native, network| native.value(network))
            }
        };
        self.proxies_in_front.announcing.push(native.end());
        Ok(())
    }

    /// Converts `set-src req.hdr(NAME)`, from the clients of its condition.
    pub(super) fn named_client(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        test: &AclTest,
    ) -> Result<(), String> {
        let section = self.sections.get(self.sections.section_of(line));
        if section.kind == "backend" {
            return Err("the address is that of the whole request: write it in the frontend".into());
        }
        let [expression] = arguments else { return Err("write `set-src req.hdr(NAME)`".into()) };
        let header = header_of(&SampleExpression::parse(&expression.text)?)
            .ok_or("Weir takes the address from a header: write `set-src req.hdr(NAME)`")?;
        let is_there = |test: &AclTest| matches!(test, AclTest::Native(NativeTest { keyword: "header", values, .. }) if values.iter().all(|name| name.eq_ignore_ascii_case(&header)));
        // Without the header the client is the peer in any case.
        let test = match test {
            AclTest::All(tests) => {
                AclTest::all(tests.iter().filter(|test| !is_there(test)).cloned().collect())
            }
            test if is_there(test) => AclTest::Always(true),
            test => test.clone(),
        };
        if self.proxies_in_front.naming.is_some() {
            return Err(
                "there is a `set-src` before: Weir takes the address from one header".into()
            );
        }
        let native = NativeLine::new("trusted_proxies", self.sections.span(line));
        let native = match peers(&test).ok_or(PEERS)? {
            Peers::All => EVERYBODY.iter().fold(native, |native, network| native.value(network)),
            Peers::Networks(networks) => {
                networks.iter().fold(native, |native, network| native.value(network))
            }
        };
        let native = native.option("header", &header).option("recursive", "off");
        self.proxies_in_front.naming = Some(native.end());
        self.outcomes.differs(line, "the address holds for all rules, those before this one too");
        Ok(())
    }
}

const PEERS: &str = "its condition has no conversion: write `if { src NETWORK }`";

/// The clients of a condition.
enum Peers {
    All,
    Networks(Vec<String>),
}

fn peers(test: &AclTest) -> Option<Peers> {
    match test {
        AclTest::Always(true) => Some(Peers::All),
        AclTest::Native(NativeTest { keyword: "client", values, .. }) => {
            Some(Peers::Networks(values.to_vec()))
        }
        AclTest::Any(tests) => {
            let mut all = Vec::new();
            for test in tests {
                match peers(test)? {
                    Peers::All => return Some(Peers::All),
                    Peers::Networks(networks) => all.extend(networks),
                }
            }
            Some(Peers::Networks(all))
        }
        _ => None,
    }
}

/// Returns the header of which an expression is the last value.
fn header_of(expression: &SampleExpression) -> Option<String> {
    let is_header =
        matches!(expression.fetch.name.as_str(), "hdr" | "req.hdr" | "hdr_ip" | "req.hdr_ip");
    let name = match expression.fetch.arguments.as_slice() {
        [name] => name,
        [name, place] if place == "-1" => name,
        _ => return None,
    };
    (is_header && expression.converters.is_empty() && !name.is_empty()).then(|| name.clone())
}
