//! Certificates of clients: `ca-file`, `verify` and their like on `bind`, and the expressions that
//! read what a certificate says.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::expressions::{SampleText, SampleType};
use super::sample::{SampleCall, SampleExpression};
use crate::native::NativeLine;

/// The clients that a `bind` gives a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum BindDemand {
    /// All; none is asked for a certificate.
    #[default]
    Off,
    /// Those with a valid certificate, and those without one.
    Optional,
    /// Those with a valid certificate.
    Required,
}

/// The options of a `bind` about certificates of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct BindClients {
    demand: BindDemand,
    authorities: Option<String>,
    revoked: Option<String>,
    /// Set if errors of certificates of clients are ignored, and those of authorities.
    ignored: [bool; 2],
}

impl BindClients {
    /// Takes the option of this name; returns false if it is none of these.
    pub(super) fn take(&mut self, word: &str, value: &str) -> Result<bool, String> {
        match word {
            "verify" => {
                self.demand = match value {
                    "none" => BindDemand::Off,
                    "optional" => BindDemand::Optional,
                    "required" => BindDemand::Required,
                    _ => return Err("write `verify none`, `optional` or `required`".to_owned()),
                }
            }
            "ca-file" | "crl-file" if value.is_empty() || value.starts_with('@') => {
                return Err(format!("`{word}` needs the name of a file"));
            }
            "ca-file" => self.authorities = Some(value.to_owned()),
            "crl-file" => self.revoked = Some(value.to_owned()),
            "crt-ignore-err" | "ca-ignore-err" if value != "all" => {
                return Err(format!("`{word}`: Weir ignores all errors or none: write `all`"));
            }
            "crt-ignore-err" => self.ignored[0] = true,
            "ca-ignore-err" => self.ignored[1] = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns true if clients are asked for a certificate.
    pub(super) fn asks(&self) -> bool {
        self.demand != BindDemand::Off
    }

    /// Returns the reason why these options have no conversion, if there is one.
    pub(super) fn objection(&self) -> Option<&'static str> {
        match (self.demand, self.ignored) {
            (BindDemand::Off, _) => None,
            _ if self.authorities.is_none() => {
                Some("`verify` needs the authorities: write `ca-file FILE`")
            }
            (_, [true, false] | [false, true]) => Some(
                "Weir ignores the errors of a whole chain or none: write both `ca-ignore-err all` \
                 and `crt-ignore-err all`, and deny requests by `ssl_c_verify`",
            ),
            (BindDemand::Required, [true, true]) => Some(
                "where errors are ignored clients without a certificate get a connection too: \
                 write `verify optional`, and deny requests by `ssl_c_used`",
            ),
            _ => None,
        }
    }
}

impl HaproxyConverter<'_> {
    /// Returns the line of a listener about its clients' certificates.
    pub(super) fn client_authorities(
        &self,
        clients: &BindClients,
        span: SourceSpan,
    ) -> Option<Directive> {
        let file = clients.authorities.as_deref().filter(|_| clients.asks())?;
        let base = self.process.ca_base.as_deref();
        let verify = match (clients.demand, clients.ignored) {
            (_, [true, _]) => "request",
            (BindDemand::Required, _) => "required",
            _ => "optional",
        };
        let native = NativeLine::new("client_ca", span).value(&self.path(file, base));
        let native = native.option("verify", verify);
        Some(match &clients.revoked {
            Some(lists) => native.option("crl", &self.path(lists, base)).end(),
            None => native.end(),
        })
    }
}

/// The numbers that OpenSSL gives to errors, which `ssl_c_verify` has.
const ERRORS: [(&str, &str); 7] = [
    ("certificate signature failure", "7"),
    ("certificate is not yet valid", "9"),
    ("certificate has expired", "10"),
    ("CRL has expired", "12"),
    ("unable to verify the first certificate", "21"),
    ("certificate revoked", "23"),
    ("unsuitable certificate purpose", "26"),
];

/// Returns a fetch about the client's certificate, if it is one, and the number of the converters
/// after it that are in it.
pub(super) fn certificate_fetch(
    call: &SampleCall,
    converters: &[SampleCall],
) -> Result<Option<(SampleText, usize)>, String> {
    let name = call.name.as_str();
    let hexadecimal = || match converters.first() {
        Some(converter) if converter.name == "hex" => Ok(1),
        _ => Err(format!("`{name}` is not printable: write `{name},hex`")),
    };
    let verify = |kind| SampleText::new("${ssl_client_verify}", kind);
    Ok(Some(match name {
        "ssl_c_used" | "ssl_fc_has_crt" => {
            (verify(SampleType::Boolean).step(&["matches", "^(?:SUCCESS$|FAILED)"]), 0)
        }
        "ssl_c_verify" => (verify_number(verify(SampleType::Number)), 0),
        "ssl_c_serial" => (SampleText::text("${ssl_client_serial}"), hexadecimal()?),
        "ssl_c_sha1" => {
            let taken = hexadecimal()?;
            (SampleText::text("${ssl_client_fingerprint}").step(&["upper"]), taken)
        }
        "ssl_c_notbefore" => (short_time("${ssl_client_v_start}"), 0),
        "ssl_c_notafter" => (short_time("${ssl_client_v_end}"), 0),
        "ssl_c_s_dn" => (name_part("ssl_client_s_dn", call)?, 0),
        "ssl_c_i_dn" => (name_part("ssl_client_i_dn", call)?, 0),
        _ => return Ok(None),
    }))
}

/// Returns the reason why a condition on `ssl_c_verify` has no conversion, if there is one: OpenSSL
/// has several numbers where Weir knows one reason.
pub(super) fn unknown_error(
    expression: &SampleExpression,
    patterns: &[String],
) -> Option<&'static str> {
    let is_verify = expression.fetch.name == "ssl_c_verify";
    let is_known = |pattern: &String| pattern == "0";
    (is_verify && !patterns.iter().all(is_known))
        .then_some("the numbers of OpenSSL's errors are not all known here: compare with 0 alone")
}

/// Returns the number of the error of a verification, 0 without one.
fn verify_number(text: SampleText) -> SampleText {
    let found = ERRORS.iter().fold(text, |text, (reason, number)| {
        text.step(&["regsub", &format!("^FAILED:{reason}$"), number])
    });
    // Any other error is an unspecified one.
    found.step(&["regsub", "^FAILED.*", "1"]).step(&["regsub", "^(?:SUCCESS|NONE)?$", "0"])
}

/// Returns a time in the form of ASN.1's `UTCTime`, `261120191500Z`.
fn short_time(source: &str) -> SampleText {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let months = (1..).zip(MONTHS);
    let numbered = months.fold(SampleText::text(source), |text, (number, name)| {
        text.step(&["regsub", &format!("^{name} "), &format!("{number:02} ")])
    });
    let parts = r"^(\d\d) (\d\d) (\d\d):(\d\d):(\d\d) \d\d(\d\d) GMT$";
    numbered.step(&["regsub", r"^(\d\d)  ?(\d) ", r"\1 0\2 "]).step(&[
        "regsub",
        parts,
        r"\6\1\2\3\4\5Z",
    ])
}

/// Returns a part of the name of a subject or an issuer, or the whole name in one line.
fn name_part(source: &str, call: &SampleCall) -> Result<SampleText, String> {
    let name = call.name.as_str();
    let arguments: Vec<&str> = call.arguments.iter().map(String::as_str).collect();
    let part = match arguments.as_slice() {
        ["", "0", "rfc2253"] => return Ok(SampleText::text(&format!("${{{source}}}"))),
        // Characters beyond ASCII are written as numbers here, and such a name is not known.
        [] => {
            let text = SampleText::text(&format!("${{{source}_legacy}}"));
            return Ok(text.step(&["regsub", r"(?s)^.*\\x[0-9A-F]{2}.*$", ""]));
        }
        [part] | [part, "1"] if part.bytes().all(|byte| byte.is_ascii_alphabetic()) => *part,
        _ => "",
    };
    if part.is_empty() {
        return Err(format!(
            "write `{name}`, one part of the name as in `{name}(CN)`, or `{name}(,0,rfc2253)`"
        ));
    }
    // The text has the last part of the name first, where HAProxy takes the first one.
    let before = r"(?:(?:[^\\,+]|\\.)*[,+])*";
    let found = format!(r"(?s)^{before}(?i:{part})=((?:[^\\,+]|\\.)*)(?:[,+].*)?$");
    Ok(SampleText::text(&format!("${{{source}}}"))
        .step(&["regsub", &found, r"=\1"])
        .step(&["regsub", "(?s)^[^=].*$", ""])
        // Characters beyond ASCII are written as numbers, and such a value is not known.
        .step(&["regsub", r"(?s)^.*\\[0-9A-Fa-f]{2}.*$", ""])
        .step(&["regsub", r"(?s)\\(.)", r"\1", "g"])
        // Without the part there is no value.
        .step(&["field", "2", "=", "0"]))
}
