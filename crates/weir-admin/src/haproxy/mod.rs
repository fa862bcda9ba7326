//! HAProxy's command line on an admin socket, for existing tools: a line has commands separated by
//! `;`, each gets a reply and an empty line, and the connection ends; after `prompt` it continues
//! until `quit`. Commands without an equivalent in Weir are refused.

mod columns;
mod command;
mod errors;
mod info;
mod page;
mod servers;
mod sessions;
mod stat;
mod table;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use self::command::{CommandReply, execute};
pub(crate) use self::page::PAGES;
use super::context::AdminContext;
use crate::access::caller::{Caller, Visitor};
use crate::access::seats::AdminSeat;
use crate::stream::AdminStream;

/// The largest number of bytes of a command line.
const LINE_BYTES: usize = 16 * 1024;
/// The longest wait for the next command, unless `set timeout cli` changes it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers commands until the connection ends.
pub(crate) async fn serve<S>(
    mut stream: AdminStream<S>,
    context: &AdminContext,
    visitor: &Visitor,
    seat: &AdminSeat,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.set_patience(PATIENCE);
    // An error means that the client left or does not read; there is no one to report it to.
    let _ = if let Some(caller) = visitor.caller(None) {
        talk(&mut stream, context, &caller, seat).await
    } else {
        context.turned_away(visitor);
        stream.write_all(b"Permission denied\n\n").await
    };
    let _ = stream.shutdown().await;
}

/// The connection's behaviour after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    OneLine,
    Prompt,
}

async fn talk<S>(
    stream: &mut AdminStream<S>,
    context: &AdminContext,
    caller: &Caller,
    seat: &AdminSeat,
) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut mode = Mode::OneLine;
    let mut pending = Vec::new();
    loop {
        let Some(line) = next_line(stream, &mut pending).await? else { return Ok(()) };
        if seat.show(caller.standing).is_err() {
            return stream.write_all(b"Too many admin connections.\n\n").await;
        }
        seat.set_busy(true);
        for command in commands(&line) {
            let text = match execute(&command, context, caller).await {
                CommandReply::Text(text) => text,
                CommandReply::Quit => return Ok(()),
                CommandReply::Patience(patience) => {
                    stream.set_patience(patience);
                    String::new()
                }
                CommandReply::Prompt if mode == Mode::Prompt => {
                    return stream.write_all(b"\n").await;
                }
                CommandReply::Prompt => {
                    mode = Mode::Prompt;
                    String::new()
                }
            };
            stream.write_all(&ended(text, mode)).await?;
        }
        if mode == Mode::OneLine {
            return Ok(());
        }
        seat.set_busy(false);
    }
}

/// A reply with its newline, the empty line that ends it, and the prompt in prompt mode.
fn ended(mut text: String, mode: Mode) -> Vec<u8> {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push('\n');
    if mode == Mode::Prompt {
        text.push_str("> ");
    }
    text.into_bytes()
}

/// The next line without its end; the last line may lack the end. `None` at the end of the stream,
/// or if the line is too long.
async fn next_line<S>(
    stream: &mut AdminStream<S>,
    pending: &mut Vec<u8>,
) -> std::io::Result<Option<String>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\r').to_owned();
    loop {
        if let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            return Ok(Some(text(&line[..end])));
        }
        if pending.len() > LINE_BYTES {
            stream.write_all(b"This command line is too long.\n\n").await?;
            return Ok(None);
        }
        if stream.read_buf(pending).await? == 0 {
            let rest = std::mem::take(pending);
            return Ok((!rest.is_empty()).then(|| text(&rest)));
        }
    }
}

/// `show stat`, for the tests of other views.
#[cfg(test)]
pub(crate) fn stat_csv(status: &crate::status::Status) -> String {
    table::csv(&stat::rows(status, &stat::RowChoice::ALL))
}

/// Splits a line into commands at `;` and into words at blanks; a backslash escapes the next
/// character.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut list = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => word.get_or_insert_default().extend(letters.next()),
            ';' | ' ' | '\t' => {
                if let (Some(word), Some(command)) = (word.take(), list.last_mut()) {
                    command.push(word);
                }
                if letter == ';' {
                    list.push(Vec::new());
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let (Some(word), Some(command)) = (word, list.last_mut()) {
        command.push(word);
    }
    if list.len() > 1 && list.last().is_some_and(Vec::is_empty) {
        list.pop();
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let check =
            |line: &str, expected: &[&[&str]]| assert_eq!(commands(line), expected, "{line}");
        check("show info", &[&["show", "info"]]);
        check("  show\tinfo ; show stat;", &[&["show", "info"], &["show", "stat"]]);
        check("", &[&[]]);
        check(";help", &[&[], &["help"]]);
        check("get weight a\\ b/c\\;d", &[&["get", "weight", "a b/c;d"]]);
    }

    #[test]
    fn answers_end_in_an_empty_line() {
        let check = |text: &str, mode, expected: &str| {
            assert_eq!(String::from_utf8(ended(text.to_owned(), mode)).unwrap(), expected);
        };
        check("", Mode::OneLine, "\n");
        check("No such server.", Mode::OneLine, "No such server.\n\n");
        check("a\nb\n", Mode::Prompt, "a\nb\n\n> ");
    }
}
