//! Conversations of checks: the lines of `tcp-check`, and those that HAProxy holds itself for
//! protocols such as SMTP.

use std::fmt::Write as _;

use weir_config::model::check::HexBytes;
use weir_config::pattern::ContentPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use crate::native::NativeLine;

/// A step of a conversation.
pub(super) enum CheckStep {
    Connect(CheckConnect),
    Send(String),
    SendBinary(HexBytes),
    Expect(CheckExpectation),
}

/// The connection of a step.
#[derive(Clone, Default)]
pub(super) struct CheckConnect {
    pub(super) port: Option<String>,
    pub(super) tls: bool,
    pub(super) send_proxy: bool,
}

/// The expectation of a step.
pub(super) struct CheckExpectation {
    /// A pattern of Weir's.
    pub(super) pattern: String,
    pub(super) absent: bool,
    pub(super) min_bytes: Option<u32>,
}

impl CheckExpectation {
    /// Returns true if the reply only has to contain the pattern at some time.
    pub(super) fn is_simple(&self) -> bool {
        !self.absent && self.min_bytes.is_none()
    }
}

impl CheckStep {
    pub(super) fn native(&self, span: SourceSpan) -> Directive {
        match self {
            Self::Connect(CheckConnect { port, tls, send_proxy }) => {
                let mut line = NativeLine::new("connect", span);
                if let Some(port) = port {
                    line = line.option("port", port);
                }
                if *tls {
                    line = line.option("tls", "on");
                }
                if *send_proxy { line.keyword("send_proxy").end() } else { line.end() }
            }
            Self::Send(text) => NativeLine::new("send", span).value(text).end(),
            Self::SendBinary(bytes) => {
                NativeLine::new("send", span).option("hex", &bytes.to_string()).end()
            }
            Self::Expect(CheckExpectation { pattern, absent, min_bytes }) => {
                let mut line = NativeLine::new("expect", span).value(pattern);
                if *absent {
                    line = line.keyword("absent");
                }
                if let Some(bytes) = min_bytes {
                    line = line.option("min_bytes", &bytes.to_string());
                }
                line.end()
            }
        }
    }

    fn send_hex(digits: &str) -> Result<Self, String> {
        digits.parse().map(Self::SendBinary)
    }

    fn expect(pattern: &str) -> Self {
        Self::Expect(CheckExpectation {
            pattern: pattern.to_owned(),
            absent: false,
            min_bytes: None,
        })
    }

    fn expect_from(min_bytes: u32, pattern: &str) -> Self {
        let min_bytes = Some(min_bytes);
        Self::Expect(CheckExpectation { pattern: pattern.to_owned(), absent: false, min_bytes })
    }
}

/// Reads the words of `tcp-check expect`.
pub(super) fn expectation(words: &[&str]) -> Result<CheckStep, String> {
    let mut expected: Option<(&str, &str, bool)> = None;
    let mut min_bytes = None;
    let mut rest = words;
    while let [word, after @ ..] = rest {
        let (inverted, kind, after) = match (*word, after) {
            ("!", [kind, after @ ..]) => (true, *kind, after),
            (word, after) => {
                word.strip_prefix('!').map_or((false, word, after), |kind| (true, kind, after))
            }
        };
        let [value, after @ ..] = after else {
            return Err(format!("write a value behind `{kind}`"));
        };
        match kind {
            // The words of the log are Weir's own.
            "comment" | "ok-status" | "error-status" | "tout-status" | "on-success"
            | "on-error" | "status-code" => {}
            "min-recv" => min_bytes = min_recv(value)?,
            _ if expected.is_some() => return Err("write one text".to_owned()),
            _ => expected = Some((kind, value, inverted)),
        }
        rest = after;
    }
    let Some((kind, text, absent)) = expected else {
        return Err("write what is expected".to_owned());
    };
    let pattern = match kind {
        "string" => literal(text),
        "rstring" => format!("~{}", crate::pcre::native(text)?),
        "binary" => bytes_pattern(text)?,
        "rbinary" => {
            return Err("a regex of hexadecimal digits has no conversion: write the bytes as `rstring`, with `\\xNN`".to_owned());
        }
        "string-lf" | "binary-lf" => {
            return Err(
                "a check expects the same bytes each time: write them as they are".to_owned()
            );
        }
        other => {
            return Err(format!(
                "`{other}` has no conversion: `string`, `rstring` and `binary` have one"
            ));
        }
    };
    pattern.parse::<ContentPattern>()?;
    // In HAProxy a reply that is shorter than the text decides nothing.
    let length = match kind {
        "string" => text.len(),
        "binary" => text.len() / 2,
        _ => 0,
    };
    let min_bytes = min_bytes.map(|bytes| bytes.max(u32::try_from(length).unwrap_or(u32::MAX)));
    Ok(CheckStep::Expect(CheckExpectation { pattern, absent, min_bytes }))
}

/// Reads the number of `min-recv`, of which -1 is none.
fn min_recv(value: &str) -> Result<Option<u32>, String> {
    match value.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(bytes @ 0..=65_536) => Ok(Some(u32::try_from(bytes.max(1)).unwrap_or(1))),
        _ => Err(format!("`{value}` is not a number of bytes: write -1 to 65536")),
    }
}

fn bytes_pattern(digits: &str) -> Result<String, String> {
    let bytes: HexBytes = digits.parse()?;
    let mut escaped = String::new();
    for byte in bytes.bytes() {
        let _ = write!(escaped, "\\x{byte:02x}");
    }
    Ok(format!("~(?-u:{escaped})"))
}

/// Returns a pattern for a text, which may begin like a regex of Weir's.
pub(super) fn literal(text: &str) -> String {
    if !text.starts_with('~') {
        return text.to_owned();
    }
    let mut pattern = String::from("~");
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Returns the conversation of an `option` that checks a protocol, with its first connection.
pub(super) fn of_protocol(
    option: &str,
    words: &[&str],
    first: CheckConnect,
) -> Result<Vec<CheckStep>, String> {
    let mut steps = vec![CheckStep::Connect(first)];
    steps.extend(match option {
        "option redis-check" => vec![
            CheckStep::Send("*1\r\n$4\r\nPING\r\n".to_owned()),
            CheckStep::expect_from(7, "+PONG\r\n"),
        ],
        "option smtpchk" => smtp(words),
        "option mysql-check" => mysql(words)?,
        "option pgsql-check" => postgresql(words)?,
        "option ldap-check" => vec![
            CheckStep::send_hex("300c020101600702010304008000")?,
            // A bind response whose code is 0; lengths of one, two and four bytes.
            CheckStep::expect(
                "~(?s-u:^\\x30(?:[\\x00-\\x7f]|\\x82..|\\x84....)\\x02\\x01\\x01\\x61(?:[\\x00-\\x7f]|\\x82..|\\x84....)\\x0a\\x01\\x00)",
            ),
        ],
        _ => vec![
            CheckStep::send_hex(&client_hello())?,
            CheckStep::expect_from(5, "~(?-u:^[\\x15\\x16])"),
        ],
    });
    Ok(steps)
}

fn smtp(words: &[&str]) -> Vec<CheckStep> {
    let hello = match words {
        [verb @ ("EHLO" | "HELO"), name, ..] => format!("{verb} {name}\r\n"),
        _ => "HELO localhost\r\n".to_owned(),
    };
    vec![
        CheckStep::expect_from(4, "~^[0-9]{3}[ \\r]"),
        CheckStep::expect_from(4, "~^2[0-9]{2}[ \\r]"),
        CheckStep::Send(hello),
        CheckStep::expect("~^(2[0-9]{2}-[^\\r]*\\r\\n)*2[0-9]{2}[ \\r]"),
        CheckStep::Send("QUIT\r\n".to_owned()),
        CheckStep::expect_from(4, "~^2[0-9]{2}[- \\r]"),
    ]
}

/// A packet of MySQL has its length in three bytes, then its number; a first byte of 0xff is an
/// error.
fn mysql(words: &[&str]) -> Result<Vec<CheckStep>, String> {
    let greeting = || CheckStep::expect_from(5, "~(?s-u:^.{3}\\x00[^\\xff])");
    let (user, protocol) = match words {
        [] => return Ok(vec![greeting()]),
        ["user", user] => (user, "post-41"),
        ["user", user, protocol, ..] => (user, *protocol),
        _ => return Err("write `option mysql-check user NAME`".to_owned()),
    };
    let user = user.as_bytes();
    let mut packet: Vec<u8> = match protocol {
        "pre-41" => vec![0, 0x80, 0, 0, 1],
        "post-41" => vec![0, 0x82, 0, 0, 0, 0x80, 0, 1, 0x21],
        "post-80" => vec![0, 0x82, 8, 0, 0, 0x80, 0, 1, 0x21],
        other => return Err(format!("`{other}` is not known: write `post-41` or `pre-41`")),
    };
    if protocol != "pre-41" {
        packet.extend([0; 23]);
    }
    packet.extend_from_slice(user);
    packet.extend([0, 0]);
    if protocol == "post-80" {
        packet.extend_from_slice(b"mysql_native_password\0");
    }
    let length = u32::try_from(packet.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = vec![length[0], length[1], length[2], 1];
    bytes.append(&mut packet);
    // COM_QUIT.
    bytes.extend([1, 0, 0, 0, 1]);
    Ok(vec![
        CheckStep::send_hex(&hex(&bytes))?,
        greeting(),
        // The second packet says OK, or asks for another way to authenticate.
        CheckStep::expect("~(?s-u:\\x00.\\x00\\x00\\x02[\\x00\\xfe])"),
    ])
}

fn postgresql(words: &[&str]) -> Result<Vec<CheckStep>, String> {
    let ["user", user] = words else {
        return Err("write `option pgsql-check user NAME`".to_owned());
    };
    let length = u32::try_from(15 + user.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend([0, 3, 0, 0]);
    bytes.extend_from_slice(b"user\0");
    bytes.extend_from_slice(user.as_bytes());
    bytes.extend([0, 0]);
    let error = CheckExpectation { pattern: "~^E".to_owned(), absent: true, min_bytes: Some(5) };
    Ok(vec![
        CheckStep::send_hex(&hex(&bytes))?,
        CheckStep::Expect(error),
        CheckStep::expect_from(
            9,
            "~(?s-u:^R\\x00\\x00\\x00.\\x00\\x00\\x00[\\x00\\x02-\\x07\\x09\\x0a])",
        ),
    ])
}

/// Returns the `ClientHello` of SSLv3 that HAProxy sends, with a time of 0.
fn client_hello() -> String {
    let mut bytes = vec![0x16, 3, 0, 0, 0x79, 1, 0, 0, 0x75, 3, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(b"HAPROXYSSLCHK\nHAPROXYSSLCHK\n");
    bytes.extend([0, 0, 0x4e]);
    bytes.extend((0x01..=0x1b).chain(0x2f..=0x3a).flat_map(|suite| [0, suite]));
    bytes.extend([1, 0]);
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn fewer_bytes_than_those_of_the_text_decide_nothing() {
    let least = |words: &[&str]| match expectation(words).unwrap() {
        CheckStep::Expect(expectation) => expectation.min_bytes,
        _ => None,
    };
    assert_eq!(least(&["min-recv", "1", "!", "binary", "455252"]), Some(3));
    assert_eq!(least(&["min-recv", "9", "binary", "4552"]), Some(9));
    assert_eq!(least(&["min-recv", "1", "string", "PONG"]), Some(4));
    assert_eq!(least(&["min-recv", "1", "rstring", "PO?NG"]), Some(1));
    assert_eq!(least(&["string", "PONG"]), None);
}

#[test]
fn the_lengths_of_packets_fit() {
    let hello = client_hello();
    // Five bytes of the record, and its content.
    assert_eq!(hello.len() / 2, 5 + 0x79);
    let steps = mysql(&["user", "haproxy", "pre-41"]).unwrap();
    let CheckStep::SendBinary(bytes) = &steps[0] else { panic!("it sends first") };
    assert_eq!(
        bytes.to_string(),
        "0e000001008000000168617072 6f787900000100000001".replace(' ', "")
    );
}
