//! Sends files without blocking the worker: data in the kernel's page cache is read here, or sent
//! by the kernel directly where the transport permits that; everything else is read on the
//! runtime's blocking threads. `weir-files` interprets paths and conditional requests.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::task::{Poll, ready};

use tokio::task::yield_now;
use weir_config::model::{FileCandidate, Files};
use weir_files::{
    Answer, BodyProgress, FileAnswer, FileBody, FileKind, FileRequest, Pieces, Root,
    without_slashes,
};
use weir_stats::Cause;
use weir_stats::metrics::Yield;
use weir_wire::RequestHead;

use crate::exchange::client_side::ClientSide;
use crate::exchange::error_page;
use crate::exchange::facts::ExchangeOutcome;
use crate::exchange::internal_redirect::{follow, lead_to_path, redirect};
use crate::exchange::local_reply::{
    ResponsePiece, SentReply, Taking, send, send_piece, write_paced,
};
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::record;
use crate::exchange::rewrite::rewritten;
use crate::exchange::scope::Scope;
use crate::exchange::state::Exchange;
use crate::exchange::throttle::throttle;
use crate::http::internal::InternalRedirects;
use crate::http::local_reply::Reply;
use crate::http::path::percent::{PathBuffer, PathForm};
use crate::http::request_view::RequestView;
use crate::http::rewrites::{Rewrites, append_part};
use crate::limiting::bandwidth::{Throttle, Toward};
use crate::limits::{LARGE_BUFFER, SENDFILE_BYTES};
use crate::net::Net;
use crate::routing::route::{CompiledRoute, FileOptions};
use crate::time::deadline_timer;
use crate::time::instant::Instant;
use crate::time::turns::ByteTurn;

/// Answers a request from directory number `number` of the listener.
pub(crate) async fn serve<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    number: usize,
) -> Result<Next, Ended> {
    let scope = exchange.scope;
    let readable = matches!(exchange.request_view().method(), b"GET" | b"HEAD");
    let asks = looks_for_file(exchange.request_view().method());
    let options = route.file_options.as_deref();
    let found = options.and_then(|options| options.found.as_ref());
    if !asks && route.internal.is_none() && found.is_none() {
        return not_allowed(exchange).await;
    }
    let root = scope.listener.roots.get(number).ok_or(Cause::Internal)?;
    let below = options.and_then(|options| options.below.as_ref());
    let below = below.map(|below| record::with_entry(exchange, |entry| below.path(entry)));
    let below = below.map(|path| path.map(|path| Arc::new(root.below(&path))));
    let root = below.as_ref().map_or(Some(root), Option::as_ref);
    let files = scope.listener.router.files().get(number);
    let stripped = files.map(StrippedPrefix::of).unwrap_or_default();
    let candidates = files.map_or(&[][..], |files| &files.candidates);
    let candidates = &*with_paths(exchange, candidates, options);
    let form = PathForm::of(&scope.listener.path);
    if asks
        && found.is_none()
        && let Some(location) = with_slash(&exchange.request_view(), stripped, form)
    {
        let reply = Reply::of(301).with_location(&location);
        return send(exchange, reply, 301).await;
    }
    let mut changed = Vec::new();
    if let Some(rewrites) = &route.rewrites {
        rewritten(exchange, rewrites, &mut changed).map_err(Ended::Refused)?;
    }
    let view = exchange.request_view();
    let mut spelt = PathBuffer::new();
    let target = FileTarget::of(&view, stripped).changed(&changed).spelt(form, &mut spelt);
    if let (Some(to), Some(root)) = (found, root)
        && test(root, target, candidates).await.map_err(|_| Ended::from(Cause::Internal))?
    {
        return Err(follow(exchange, to));
    }
    let index = root.zip(files.filter(|files| asks && files.index_internal));
    if let Some((root, files)) = index
        && let Some(path) = Box::pin(index_path(root, target, files, candidates)).await?
    {
        return Err(lead_to_path(exchange, path));
    }
    let answer = match root {
        Some(root) if found.is_none() && candidates.is_empty() => find(root, &view, target).await,
        Some(root) if found.is_none() => {
            Box::pin(find_first(root, &view, target, candidates)).await
        }
        _ => Ok(Answer::status(404)),
    };
    let answer = answer.map_err(|_| Ended::from(Cause::Internal))?;
    match answer {
        Answer::Status(status) if status.code == 404 && route.internal.is_some() => {
            Err(redirect(exchange, route))
        }
        _ if !asks => not_allowed(exchange).await,
        Answer::Status(status) => {
            leads_nowhere(exchange, status.code)?;
            let reply = Reply::of(status.code).with_headers(&status.headers);
            send(exchange, reply, status.code).await
        }
        Answer::File(_) if !readable => not_allowed(exchange).await,
        Answer::File(file) => send_file(exchange, file).await,
    }
}

/// Returns true for a method whose requests get the status of a file that is not there. A POST for
/// one that is there gets 405, as in nginx.
pub(super) fn looks_for_file(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"POST")
}

async fn not_allowed<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<Next, Ended> {
    leads_nowhere(exchange, 405)?;
    send(exchange, Reply::of(405).with_allow("GET, HEAD"), 405).await
}

/// Fails if errors of this status have a target.
fn leads_nowhere<C: ClientSide>(exchange: &Exchange<'_, C>, status: u16) -> Result<(), Ended> {
    match error_page::target_for(exchange, status) {
        Some(_) => Err(Ended::Refused(Refusal { cause: Cause::Complete, status })),
        None => Ok(()),
    }
}

/// The redirect target for a request whose path is exactly the stripped prefix: `/static/*` also
/// matches `/static`, which is a directory without its slash.
pub(super) fn with_slash(
    view: &RequestView<'_>,
    stripped: StrippedPrefix<'_>,
    form: PathForm,
) -> Option<Vec<u8>> {
    let path = view.path();
    if stripped.replacement.is_some() {
        return None;
    }
    let prefix = stripped.prefix.filter(|prefix| !prefix.ends_with('/'))?;
    let mut buffer = PathBuffer::new();
    if form.seen(path, &mut buffer) != prefix.as_bytes() {
        return None;
    }
    let mut location = [b"/", without_slashes(path), b"/"].concat();
    view.append_query(&mut location);
    Some(location)
}

/// The prefix of the path that the route strips, and the text that stands in its place.
#[derive(Clone, Copy, Default)]
pub(super) struct StrippedPrefix<'a> {
    prefix: Option<&'a str>,
    replacement: Option<&'a str>,
}

impl<'a> StrippedPrefix<'a> {
    pub(super) fn of(files: &'a Files) -> Self {
        Self { prefix: files.strip.as_deref(), replacement: files.prefix.as_deref() }
    }

    /// Returns what remains of a path.
    fn below(self, path: &'a [u8]) -> Cow<'a, [u8]> {
        let rest = self.prefix.and_then(|prefix| path.strip_prefix(prefix.as_bytes()));
        match (rest, self.replacement) {
            (Some(rest), Some(replacement)) => Cow::Owned([replacement.as_bytes(), rest].concat()),
            (rest, _) => Cow::Borrowed(rest.unwrap_or(path)),
        }
    }

    fn owned(self) -> [Option<String>; 2] {
        [self.prefix, self.replacement].map(|text| text.map(str::to_owned))
    }

    fn borrowed(texts: &'a [Option<String>; 2]) -> Self {
        let [prefix, replacement] = texts.each_ref().map(Option::as_deref);
        Self { prefix, replacement }
    }
}

/// The target of a request for a file.
#[derive(Clone, Copy)]
pub(super) struct FileTarget<'a> {
    path: &'a [u8],
    whole: &'a [u8],
    stripped: StrippedPrefix<'a>,
    /// Set if only the existence of the file matters, or its head.
    head_only: bool,
    /// Set if the response gets another status, so that conditions and ranges do not count.
    is_whole: bool,
}

impl<'a> FileTarget<'a> {
    pub(super) fn of(view: &RequestView<'a>, stripped: StrippedPrefix<'a>) -> Self {
        let whole = match view.internal.map(InternalRedirects::whole_target) {
            None | Some(b"") => view.head.target.of(view.bytes),
            Some(target) => target,
        };
        let imposed = view.internal.is_some_and(|internal| internal.imposed_status().is_some());
        let is_whole = imposed || !matches!(view.method(), b"GET" | b"HEAD");
        Self { path: view.path(), whole, stripped, head_only: view.method() != b"GET", is_whole }
    }

    pub(super) fn path(&self) -> &'a [u8] {
        self.path
    }

    /// Spells the prefix that the route strips as the configuration does, however the client has
    /// written it: routes see the path decoded and without dot segments.
    pub(super) fn spelt<'b>(self, form: PathForm, buffer: &'b mut PathBuffer) -> FileTarget<'b>
    where
        'a: 'b,
    {
        let Some(prefix) = self.stripped.prefix.map(str::as_bytes) else { return self };
        let mut decoded = PathBuffer::new();
        let seen = form.seen(self.path, &mut decoded);
        let is_spelt_so = form == PathForm::Normal && self.path.starts_with(prefix);
        if is_spelt_so || seen == self.path || !seen.starts_with(prefix) {
            return self;
        }
        buffer.extend_from_slice(prefix);
        append_part(self.path, seen, prefix.len()..seen.len(), form, buffer);
        let path: &'b PathBuffer = buffer;
        FileTarget { path, ..self }
    }

    /// The path below the directory.
    pub(super) fn below(&self) -> Cow<'a, [u8]> {
        self.stripped.below(self.path)
    }

    /// Looks for another path, whose redirects are those of this one.
    pub(super) fn at<'b>(self, path: &'b [u8]) -> FileTarget<'b>
    where
        'a: 'b,
    {
        FileTarget { path, ..self }
    }

    /// Looks for another path; an empty one changes nothing.
    pub(super) fn changed(self, target: &'a [u8]) -> Self {
        match target.split(|&byte| byte == b'?').next() {
            None | Some(b"") => self,
            Some(path) => Self { path, whole: target, ..self },
        }
    }
}

/// The candidates of a request, those with variables as paths. One that would be ambiguous, or is
/// too long, is left out.
fn with_paths<'f, C: ClientSide>(
    exchange: &Exchange<'_, C>,
    candidates: &'f [FileCandidate],
    options: Option<&FileOptions>,
) -> Cow<'f, [FileCandidate]> {
    candidates_by(candidates, options, |rewrites, path| rewritten(exchange, rewrites, path).is_ok())
}

/// Does the same with a function that appends the path of a text, or returns false.
pub(super) fn candidates_by<'f>(
    candidates: &'f [FileCandidate],
    options: Option<&FileOptions>,
    mut rewrite: impl FnMut(&Rewrites, &mut Vec<u8>) -> bool,
) -> Cow<'f, [FileCandidate]> {
    let texts = options.map_or(&[][..], |options| &options.texts);
    if texts.is_empty() {
        return Cow::Borrowed(candidates);
    }
    let path_of = |(candidate, text): (&FileCandidate, &Option<Rewrites>)| {
        let Some(rewrites) = text else { return Some(candidate.clone()) };
        let mut path = Vec::new();
        rewrite(rewrites, &mut path).then(|| candidate.with_rewritten(&path)).flatten()
    };
    candidates.iter().zip(texts).filter_map(path_of).collect()
}

/// The path of the index file that a request for a directory is to be served again with. The
/// candidates before the directory count as ever.
async fn index_path(
    root: &Arc<Root>,
    target: FileTarget<'_>,
    files: &Files,
    candidates: &[FileCandidate],
) -> Result<Option<Vec<u8>>, Ended> {
    if !target.path.ends_with(b"/") {
        return Ok(None);
    }
    let missing = |_| Ended::from(Cause::Internal);
    let Some(before) = candidates_before_index(candidates) else { return Ok(None) };
    if !before.is_empty() && test(root, target, before).await.map_err(missing)? {
        return Ok(None);
    }
    for candidate in index_candidates(files) {
        if test(root, target, std::slice::from_ref(&candidate)).await.map_err(missing)? {
            return Ok(candidate.path(target.path));
        }
    }
    Ok(None)
}

/// The candidates that are looked for before the directory of a request; `None` if that is not
/// looked for.
pub(super) fn candidates_before_index(candidates: &[FileCandidate]) -> Option<&[FileCandidate]> {
    if candidates.is_empty() {
        return Some(candidates);
    }
    let is_directory = |one: &FileCandidate| one.directory && one.of_request;
    candidates.get(..candidates.iter().position(is_directory)?)
}

/// The index files of a request's directory.
pub(super) fn index_candidates(files: &Files) -> impl Iterator<Item = FileCandidate> {
    files.index.iter().map(|name| FileCandidate::in_directory(name))
}

/// Returns true if one of the candidates is there or, without candidates, whatever has this path.
async fn test(
    root: &Arc<Root>,
    target: FileTarget<'_>,
    candidates: &[FileCandidate],
) -> io::Result<bool> {
    match tested(|path| root.kind_cached(path), target, candidates) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        outcome => return outcome,
    }
    let (root, candidates) = (root.clone(), candidates.to_vec());
    let (path, stripped) = (target.path.to_vec(), target.stripped.owned());
    let waiting = tokio::task::spawn_blocking(move || {
        let stripped = StrippedPrefix::borrowed(&stripped);
        let (whole, head_only, is_whole) = (&[][..], true, true);
        let target = FileTarget { path: &path, whole, stripped, head_only, is_whole };
        tested(|path| root.kind(path), target, &candidates)
    });
    waiting.await.map_err(io::Error::other)?
}

/// Looks for each of the candidates, or for whatever has this path if there is none.
pub(super) fn tested(
    kind: impl Fn(&[u8]) -> io::Result<Option<FileKind>>,
    target: FileTarget<'_>,
    candidates: &[FileCandidate],
) -> io::Result<bool> {
    if candidates.is_empty() {
        return Ok(kind(&target.below())?.is_some());
    }
    for candidate in candidates {
        let Some(path) = candidate.path(target.path) else { continue };
        let expected = if candidate.directory { FileKind::Directory } else { FileKind::File };
        if kind(&target.at(&path).below())? == Some(expected) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Looks for each of the candidates in turn.
async fn find_first(
    root: &Arc<Root>,
    view: &RequestView<'_>,
    target: FileTarget<'_>,
    candidates: &[FileCandidate],
) -> io::Result<Answer> {
    for candidate in candidates {
        let Some(path) = candidate.path(target.path) else { continue };
        let answer = find(root, view, target.at(&path)).await?;
        if is_there(candidate, &path, &answer) {
            return Ok(answer);
        }
    }
    Ok(Answer::status(404))
}

/// Returns true if the answer is for a file, or for a directory if the candidate is one.
pub(super) fn is_there(candidate: &FileCandidate, path: &[u8], answer: &Answer) -> bool {
    let is_directory = path.ends_with(b"/");
    match answer {
        Answer::Status(status) if status.code == 404 => false,
        // A directory without its slash, or one without an index.
        Answer::Status(status) if matches!(status.code, 301 | 403) => candidate.directory,
        _ => is_directory == candidate.directory,
    }
}

async fn find(
    root: &Arc<Root>,
    view: &RequestView<'_>,
    target: FileTarget<'_>,
) -> io::Result<Answer> {
    let (head, bytes) = (view.head, view.bytes);
    match root.answer_cached(&question(head, bytes, target, &target.below())) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        answer => return answer,
    }
    // The blocking thread gets a copy of the request.
    let (root, head, stripped) = (root.clone(), head.clone(), target.stripped.owned());
    let (path, whole) = (target.path.to_vec(), target.whole.to_vec());
    let FileTarget { head_only, is_whole, .. } = target;
    let bytes = bytes.get(..head.head_bytes).unwrap_or_default().to_vec();
    let waiting = tokio::task::spawn_blocking(move || {
        let stripped = StrippedPrefix::borrowed(&stripped);
        let target = FileTarget { path: &path, whole: &whole, stripped, head_only, is_whole };
        root.answer(&question(&head, &bytes, target, &target.below()))
    });
    waiting.await.map_err(io::Error::other)?
}

pub(super) fn question<'a>(
    head: &RequestHead,
    bytes: &'a [u8],
    target: FileTarget<'a>,
    path: &'a [u8],
) -> FileRequest<'a> {
    let FileTarget { whole, head_only, is_whole, .. } = target;
    let value = |name| if is_whole { None } else { head.header(bytes, name) };
    FileRequest {
        path,
        target: whole,
        method_is_head: head_only,
        if_none_match: value("if-none-match"),
        if_match: value("if-match"),
        if_modified_since: value("if-modified-since"),
        if_unmodified_since: value("if-unmodified-since"),
        range: value("range"),
        if_range: value("if-range"),
    }
}

async fn send_file<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    file: FileAnswer,
) -> Result<Next, Ended> {
    let status = exchange.heads.internal.imposed_status().unwrap_or(file.status);
    let kept_type = exchange.heads.internal.take_kept_type();
    // The type of several parts has their boundary.
    let kept_type = kept_type.filter(|_| !file.content_type.starts_with("multipart/byteranges"));
    let content_type = kept_type.as_deref().unwrap_or(&file.content_type);
    let mut headers = vec![("ETag", file.etag)];
    // Of another status, what it was made of says nothing about the resource.
    if matches!(status, 200 | 206) {
        headers.push(("Accept-Ranges", "bytes".to_owned()));
        headers.extend(file.last_modified.map(|date| ("Last-Modified", date)));
    }
    headers.extend(file.content_range.map(|range| ("Content-Range", range)));
    let reply = Reply::of(status).with_headers(&headers);
    let throttle = throttle(exchange, Toward::Client);
    let reply = match &file.body {
        FileBody::Whole(body) if throttle.is_none() && body.len() as u64 == file.content_length => {
            reply.with_body(content_type, body)
        }
        // A streamed body follows the head, or, for HEAD, no body.
        _ => reply.with_streamed_body(content_type, file.content_length),
    };
    let is_all = throttle.is_none() && matches!(file.body, FileBody::Whole(_));
    let piece = if is_all { ResponsePiece::Last } else { ResponsePiece::Part };
    let SentReply { next, is_over } = send_piece(exchange, reply, status, piece).await?;
    if is_over {
        return Ok(next);
    }
    let outcome = match (file.body, throttle) {
        (FileBody::Pieces(pieces), throttle) => send_pieces(exchange, pieces, throttle).await,
        (FileBody::Whole(body), Some(throttle)) => send_throttled(exchange, &body, throttle).await,
        (FileBody::Whole(_), None) => return Ok(next),
    };
    exchange.outcome.times.data = Instant::now().span_since(exchange.arrival.head_end);
    outcome.map_err(Ended::Broken)?;
    Ok(next)
}

/// Waits until some of `wanted` bytes may be sent, and returns how many.
async fn allowance(throttle: &mut Option<Box<Throttle>>, wanted: usize) -> usize {
    match throttle {
        None => wanted,
        Some(throttle) => std::future::poll_fn(|context| throttle.poll(context, wanted)).await,
    }
}

/// Sends a body from memory at its limited rate.
async fn send_throttled<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    mut body: &[u8],
    throttle: Box<Throttle>,
) -> Result<(), Cause> {
    let scope = exchange.scope;
    let mut taking = Taking::new(scope.client_rate(false));
    let mut throttle = Some(throttle);
    while !body.is_empty() {
        let (now, later) = body.split_at(allowance(&mut throttle, body.len()).await);
        write_paced(scope, &mut exchange.client, now, ResponsePiece::Part, &mut taking).await?;
        note_sent(&mut throttle, now.len());
        count(&mut exchange.outcome, now.len());
        body = later;
    }
    write_paced(scope, &mut exchange.client, &[], ResponsePiece::Last, &mut taking).await
}

fn note_sent(throttle: &mut Option<Box<Throttle>>, bytes: usize) {
    if let Some(throttle) = throttle {
        throttle.sent(bytes);
    }
}

/// Sends a body piece by piece. If the file cannot be read to the promised end, the connection is
/// closed.
async fn send_pieces<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    mut pieces: Pieces,
    mut throttle: Option<Box<Throttle>>,
) -> Result<(), Cause> {
    let scope = exchange.scope;
    let mut turn = ByteTurn::new();
    let mut taking = Taking::new(scope.client_rate(false));
    loop {
        let before = exchange.outcome.bytes_sent;
        let most = allowance(&mut throttle, SENDFILE_BYTES).await;
        let progress;
        let sent = send_from_file(scope, &mut exchange.client, &pieces, most, &mut taking).await?;
        if let Some(sent) = sent {
            count(&mut exchange.outcome, sent);
            progress = pieces.skip(sent);
        } else {
            (progress, pieces) = read_and_send(exchange, pieces, most, &mut taking).await?;
        }
        if progress == BodyProgress::Done {
            let client = &mut exchange.client;
            return write_paced(scope, client, &[], ResponsePiece::Last, &mut taking).await;
        }
        let sent = usize::try_from(exchange.outcome.bytes_sent - before).unwrap_or(usize::MAX);
        note_sent(&mut throttle, sent);
        if turn.is_over_after(sent) {
            scope.worker.note_yield(Yield::Body);
            yield_now().await;
            turn = ByteTurn::new();
        }
    }
}

async fn read_and_send<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    mut pieces: Pieces,
    most: usize,
    taking: &mut Taking,
) -> Result<(BodyProgress, Pieces), Cause> {
    let scope = exchange.scope;
    let most = most.min(LARGE_BUFFER);
    let mut buffer = scope.worker.buffers.large();
    let progress = match pieces.read_cached(&mut buffer, most) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let read = tokio::task::spawn_blocking(move || {
                let progress = pieces.read(&mut buffer, most);
                (progress, pieces, buffer)
            });
            let progress;
            (progress, pieces, buffer) = read.await.map_err(|_| Cause::Internal)?;
            progress
        }
        progress => progress,
    };
    let progress = progress.map_err(|_| Cause::Internal)?;
    exchange.holds(buffer.capacity());
    write_paced(scope, &mut exchange.client, &buffer, ResponsePiece::Part, taking).await?;
    count(&mut exchange.outcome, buffer.len());
    scope.worker.buffers.give_back(buffer);
    Ok((progress, pieces))
}

fn count(outcome: &mut ExchangeOutcome, bytes: usize) {
    outcome.bytes_sent += bytes as u64;
    outcome.body_bytes_sent += bytes as u64;
}

/// Lets the kernel send the next bytes directly from the file, and returns the number of bytes
/// sent; `None` when the file has to be read.
async fn send_from_file<C: ClientSide>(
    scope: Scope<'_, C::Net>,
    client: &mut C,
    pieces: &Pieces,
    most: usize,
    taking: &mut Taking,
) -> Result<Option<usize>, Cause> {
    if client.bare_socket().is_none() {
        return Ok(None);
    }
    let Some(stretch) = pieces.next_stretch(most) else { return Ok(None) };
    let deadline = Instant::now() + scope.listener.timeouts.send;
    std::future::poll_fn(|context| {
        taking.look(scope, client, None)?;
        let Some(socket) = client.bare_socket() else { return Poll::Ready(Ok(None)) };
        let Some(step) = scope.worker.net.poll_send_file(socket, context, stretch) else {
            return Poll::Ready(Ok(None));
        };
        Poll::Ready(match step {
            // The file has become shorter than the length that its head promised.
            Poll::Ready(Ok(0)) => Err(Cause::Internal),
            Poll::Ready(Ok(sent)) => {
                taking.wrote(sent);
                Ok(Some(sent))
            }
            Poll::Ready(Err(_)) => Err(Cause::ClientGone),
            Poll::Pending => {
                let look = taking.look(scope, client, Some(Instant::now()))?;
                ready!(deadline_timer::poll_either(client.timer(), context, deadline, look));
                Err(Cause::ClientSendTimeout)
            }
        })
    })
    .await
}
